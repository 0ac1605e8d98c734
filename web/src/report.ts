// The page of one trace: its sections, and what was chosen is kept when the language changes.

import { byKind, byModule, roofline } from "./charts";
import { pressed } from "./controls";
import { details } from "./details";
import { h, prose } from "./dom";
import { findings } from "./findings";
import { count } from "./format";
import { bar, classes, fillHelp, listenKeys, place, preparePrint, scrollToTimeline, searchField, tool } from "./frame";
import { isLive, Live } from "./live";
import { Model } from "./model";
import { State } from "./state";
import { kernels, ops } from "./tables";
import { TimelineView } from "./timeline";
import { environment, steps, verdict, where } from "./top";

const SECTIONS = ["timeline", "findings", "kernels", "ops", "roofline", "environment"];

export class Page {
  private readonly view: TimelineView;
  private readonly panel = h("div", { class: "panel", "aria-live": "polite" });
  private readonly note = h("p", { class: "soft note" });
  private readonly chip = h("div", { class: "chip" });
  private readonly found = h("span", { class: "soft hits", role: "status" });
  private search!: HTMLInputElement;
  private live: Live | null = null;
  private readonly help = h("dialog", { class: "help" });

  constructor(private readonly app: HTMLElement, private readonly state: State, private readonly model: Model) {
    const proofs = model.payload.timeline.evidence.map((slices, i) => ({
      slices, good: state.report.findings[i].good, title: () => state.report.findings[i].title,
    }));
    this.view = new TimelineView(model, state, {
      selected: (slice) => this.panel.replaceChildren(details(state, model, this.view, slice)),
      proof: (number) => this.showChip(number),
      moved: (full) => { this.tell(full); this.live?.want(this.view.begin, this.view.end); },
    }, proofs);
    if (isLive()) this.live = new Live(model, () => { this.tell(model.isFull(this.view.begin, this.view.end)); this.view.refresh(); });
    listenKeys(this.help, () => this.search, (e) => pressed(this.view, e));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view.resize());
    preparePrint((atOnce) => this.view.resize(atOnce));
    this.render();
  }

  private render(): void {
    const { state, view, model } = this;
    const find = (name: string) => { this.search.value = name; this.lookFor(name); view.next(1); scrollToTimeline(); };
    const go = (index: number) => { this.toStep(index); scrollToTimeline(); };
    const file = state.report.trace.path.split(/[\\/]/).at(-1) ?? "";
    place(this.app,
      h("a", { class: "skip", href: "#findings" }, state.t("skip")),
      bar(state, file, SECTIONS, (lang) => { state.speak(lang); this.render(); }, () => view.resize()),
      h("main", {},
        verdict(state),
        h("div", { class: "pair" }, where(state), steps(state, go)),
        this.timelineSection(),
        findings(state, view, scrollToTimeline),
        h("div", { class: "pair" }, byKind(state), byModule(state, model)),
        kernels(state, find), ops(state, find), roofline(state), environment(state)),
      this.help,
    );
    fillHelp(this.help, state, "key-finding");
    this.panel.replaceChildren(details(state, model, view, view.selected));
    this.showChip(view.proof);
    this.tell(model.isFull(view.begin, view.end));
    view.resize();
  }

  private timelineSection(): HTMLElement {
    const { state, view, model } = this;
    const t = state.t.bind(state);
    this.search = searchField(state, this.search?.value ?? "", (text) => this.lookFor(text), (by) => { view.next(by); this.tellHits(); });
    return h("section", { id: "timeline", class: "wide" },
      h("div", { class: "tools" }, h("h2", {}, t("timeline")),
        h("button", { type: "button", onclick: () => view.reset() }, t("view-step")),
        h("button", { type: "button", onclick: () => view.all() }, t("view-all")),
        tool("‹", `${t("step-before")} [`, () => view.step(-1)), tool("›", `${t("step-after")} ]`, () => view.step(1)),
        tool("+", `${t("zoom-in")} W`, () => view.zoom(0.6)), tool("−", `${t("zoom-out")} S`, () => view.zoom(1 / 0.6)),
        this.search, this.found, this.chip,
        h("button", { type: "button", class: "end", onclick: () => this.help.showModal() }, `${t("keys")} ?`)),
      view.element, classes(state, model.colour.subarray(0, model.count)), this.note, this.panel);
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
