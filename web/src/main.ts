// Starts the page: unpacks the payload, builds the sections, and keeps what was chosen when the language changes.

import { byKind, byModule, roofline } from "./charts";
import { unpack, type Lang } from "./data";
import { details } from "./details";
import { h, prose } from "./dom";
import { findings } from "./findings";
import { count } from "./format";
import { isLive, Live } from "./live";
import { Model } from "./model";
import { State } from "./state";
import { kernels, ops } from "./tables";
import { TimelineView } from "./timeline";
import { environment, steps, verdict, where } from "./top";

const app = document.getElementById("app")!;

class Page {
  private readonly view: TimelineView;
  private readonly panel = h("div", { class: "panel", "aria-live": "polite" });
  private readonly note = h("p", { class: "soft note" });
  private readonly chip = h("div", { class: "chip" });
  private readonly found = h("span", { class: "soft hits", role: "status" });
  private search!: HTMLInputElement;
  private live: Live | null = null;
  private readonly help = h("dialog", { class: "help" });

  constructor(private readonly state: State, private readonly model: Model) {
    this.view = new TimelineView(model, state, {
      selected: (slice) => this.panel.replaceChildren(details(state, model, this.view, slice)),
      finding: (number) => this.showChip(number),
      moved: (full) => { this.tell(full); this.live?.want(this.view.begin, this.view.end); },
    });
    if (isLive()) this.live = new Live(model, () => { this.tell(model.isFull(this.view.begin, this.view.end)); this.view.refresh(); });
    document.addEventListener("keydown", (e) => this.key(e));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view.resize());
    this.preparePrint();
    this.render();
  }

  private render(): void {
    const { state, view, model } = this;
    const t = state.t.bind(state);
    const opened = new Set([...document.querySelectorAll("details[open][id]")].map((d) => d.id));
    const first = !app.childElementCount;
    const find = (name: string) => { this.search.value = name; this.lookFor(name); view.next(1); this.toTimeline(); };
    const go = (index: number) => { this.toStep(index); this.toTimeline(); };
    app.replaceChildren(
      h("a", { class: "skip", href: "#findings" }, t("skip")),
      this.bar(),
      h("main", {},
        verdict(state),
        h("div", { class: "pair" }, where(state), steps(state, go)),
        this.timelineSection(),
        findings(state, view, () => this.toTimeline()),
        h("div", { class: "pair" }, byKind(state), byModule(state, model)),
        kernels(state, find), ops(state, find), roofline(state), environment(state)),
      this.help,
    );
    if (!first) for (const d of document.querySelectorAll<HTMLDetailsElement>("details[id]")) d.open = opened.has(d.id);
    this.fillHelp();
    this.panel.replaceChildren(details(state, model, view, view.selected));
    this.showChip(view.finding);
    this.tell(model.isFull(view.begin, view.end));
    view.resize();
  }

  private bar(): HTMLElement {
    const { state } = this;
    const t = state.t.bind(state);
    const language = h("select", { "aria-label": t("language"), id: "language", onchange: () => { state.speak(language.value as Lang); this.render(); } },
      ...state.languages.map((code) => h("option", { value: code, selected: code === state.lang }, code === "ja" ? "日本語" : "English")));
    const theme = h("select", { "aria-label": t("theme"), id: "theme", onchange: () => {
      state.theme = theme.value as State["theme"];
      document.documentElement.dataset.theme = state.theme;
      this.view.resize();
    } }, ...(["auto", "light", "dark"] as const).map((code) => h("option", { value: code, selected: code === state.theme }, t(`theme-${code}`))));
    const file = state.report.trace.path.split(/[\\/]/).at(-1) ?? "";
    return h("header", { class: "bar" }, h("strong", {}, "lanewise"), h("span", { class: "file" }, file),
      h("nav", {}, ...["timeline", "findings", "kernels", "ops", "roofline", "environment"].map((id) => h("a", { href: `#${id}` }, t(id)))),
      language, theme, h("button", { type: "button", onclick: () => print() }, t("print")));
  }

  private timelineSection(): HTMLElement {
    const { state, view, model } = this;
    const t = state.t.bind(state);
    const tool = (text: string, title: string, onclick: () => void) => h("button", { type: "button", title, "aria-label": title, onclick }, text);
    const text = this.search?.value ?? "";
    this.search = h("input", { type: "search", id: "search", placeholder: `${t("search")}  /`, "aria-label": t("search"), value: text,
      oninput: () => this.lookFor(this.search.value),
      onkeydown: (e: KeyboardEvent) => {
        if (e.key === "Enter") { view.next(e.shiftKey ? -1 : 1); this.tellHits(); }
        if (e.key === "Escape") { this.search.value = ""; this.lookFor(""); this.search.blur(); }
        e.stopPropagation();
      } });
    const used = [...new Set(model.colour.subarray(0, model.count))].sort((a, b) => a - b);
    return h("section", { id: "timeline", class: "wide" },
      h("div", { class: "tools" }, h("h2", {}, t("timeline")),
        h("button", { type: "button", onclick: () => view.reset() }, t("view-step")),
        h("button", { type: "button", onclick: () => view.all() }, t("view-all")),
        tool("‹", `${t("step-before")} [`, () => view.step(-1)), tool("›", `${t("step-after")} ]`, () => view.step(1)),
        tool("+", `${t("zoom-in")} W`, () => view.zoom(0.6)), tool("−", `${t("zoom-out")} S`, () => view.zoom(1 / 0.6)),
        this.search, this.found, this.chip,
        h("button", { type: "button", class: "end", onclick: () => this.help.showModal() }, `${t("keys")} ?`)),
      view.element,
      h("ul", { class: "legend classes" }, ...used.map((i) => h("li", {}, h("i", { style: { background: `var(--class-${i})` } }), t(`class-${state.payload.classes[i]}`)))),
      this.note, this.panel);
  }

  private toTimeline(): void {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    document.getElementById("timeline")!.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
  }

  private toStep(index: number): void {
    const step = this.model.payload.timeline.steps.find((s) => s.index === index);
    if (step) this.view.show(step.start, step.gpu_end);
  }

  private lookFor(text: string): void { this.view.search(text); this.tellHits(); }

  private tellHits(): void {
    const { hits, hit } = this.view;
    const empty = !this.search.value.trim();
    this.found.textContent = empty ? "" : hits.length ? this.state.t("search-count", { number: hit < 0 ? "–" : count(hit + 1), count: count(hits.length) }) : this.state.t("search-none");
  }

  private showChip(number: number): void {
    const finding = this.state.report.findings[number];
    this.chip.replaceChildren(...(finding ? [
      h("a", { href: `#finding-${number + 1}`, onclick: () => { (document.getElementById(`finding-${number + 1}`) as HTMLDetailsElement).open = true; } },
        this.state.t("finding-shown", { number: number + 1, title: finding.title })),
      h("button", { type: "button", "aria-label": this.state.t("clear"), onclick: () => this.view.clear() }, "×")] : []));
  }

  private tell(full: boolean): void {
    const { kept, slices } = this.model.payload.timeline;
    const t = this.state.t.bind(this.state);
    const text = this.live ? (full ? "" : t("live-more")) : kept >= slices ? "" : full ? t("partial", { kept: count(kept), slices: count(slices) }) : `${t("partial-here")} ${t("partial", { kept: count(kept), slices: count(slices) })}`;
    this.note.replaceChildren(...(text ? [prose(text)] : []));
  }

  /** Paper is light and has no lid to open. */
  private preparePrint(): void {
    const root = document.documentElement;
    let theme: string | undefined, closed: HTMLDetailsElement[] = [];
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      closed = [...document.querySelectorAll<HTMLDetailsElement>(".finding:not([open])")];
      for (const d of closed) d.open = true;
      this.view.resize(true);
    });
    addEventListener("afterprint", () => {
      if (theme === undefined) delete root.dataset.theme;
      else root.dataset.theme = theme;
      for (const d of closed) d.open = false;
      this.view.resize();
    });
  }

  private key(e: KeyboardEvent): void {
    const target = e.target as HTMLElement;
    if (this.help.open || target.closest("input, select, textarea")) return;
    if (e.key === "/") { e.preventDefault(); this.search.focus(); this.search.select(); return; }
    if (e.key === "?") { this.help.showModal(); return; }
    if (target.closest("button, a, summary") && e.key === "Enter") return;
    if (this.view.key(e)) e.preventDefault();
  }

  private fillHelp(): void {
    const t = this.state.t.bind(this.state);
    const rows: [string, string][] = [
      ["W S", "key-zoom"], ["A D", "key-pan"], ["/", "key-search"], ["F", "key-focus"], [". ,", "key-next"], ["] [", "key-step"],
      ["P N", "key-finding"], ["1 0", "key-reset"], ["Esc", "key-escape"], [t("key-wheel"), "key-wheel-text"], [t("key-drag"), "key-drag-text"], ["?", "key-help"],
    ];
    this.help.replaceChildren(h("h2", {}, t("keys-title")),
      h("dl", {}, ...rows.flatMap(([keys, text]) => [h("dt", {}, ...keys.split(" ").map((k) => (k.length < 4 ? h("kbd", {}, k) : `${k} `))), h("dd", {}, t(text))])),
      h("form", { method: "dialog" }, h("button", {}, t("close"))));
  }

  /** For tests and for the curious: what is shown. */
  get probe() {
    const { view, model } = this;
    const live = () => this.live;
    return {
      get tile() { return live()?.took ?? -1; }, full: () => model.isFull(view.begin, view.end), show: (b: number, e: number) => view.show(b, e, false),
      get begin() { return view.begin; }, get end() { return view.end; }, get selected() { return view.selected; }, get frames() { return view.frames; },
      get highlighted() { return view.highlighted; }, get hits() { return view.hits.length; }, name: (slice: number) => model.nameOf(slice),
      start: (slice: number) => model.start[slice], stop: (slice: number) => model.end[slice], select: (slice: number) => view.select(slice, true),
      get slices() { return model.count; },
    };
  }
}

async function open(): Promise<void> {
  if (typeof DecompressionStream === "undefined") {
    app.textContent = "This browser is too old for this report: it needs DecompressionStream (2023 or later).";
    return;
  }
  const payload = await unpack(document.getElementById("payload")!.textContent!);
  const page = new Page(new State(payload), new Model(payload));
  Object.assign(globalThis, { lanewise: page.probe });
  document.documentElement.dataset.ready = "yes";
}

void open();
