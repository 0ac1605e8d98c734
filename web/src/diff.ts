// The page of a comparison: two timelines on one scale, and the changes, each shown on both.

import { changes, figures, tone, type Part } from "./changes";
import { pressed, type Jumps } from "./controls";
import type { Diff, DiffPair, DiffPayload, Payload } from "./data";
import { details } from "./details";
import { h, prose } from "./dom";
import { count } from "./format";
import { bar, classes, fillHelp, listenKeys, place, preparePrint, scrollToTimeline, searchField, tool } from "./frame";
import { Model } from "./model";
import { State } from "./state";
import { TimelineView } from "./timeline";
import { bothEnvironments, spread, tile, where } from "./top";

const MOST_HEIGHT = 300;

interface Side extends Part { model: Model; view: TimelineView; head: HTMLElement; note: string }

export class DiffPage {
  private readonly sides: Side[];
  private pair = 0;
  /** Steps from the one that is shown first. */
  private offset = 0;
  private active: Side;
  private readonly panel = h("div", { class: "panel", "aria-live": "polite" });
  private readonly note = h("p", { class: "soft note" });
  private readonly chip = h("div", { class: "chip" });
  private readonly found = h("span", { class: "soft hits", role: "status" });
  private readonly help = h("dialog", { class: "help" });
  private search!: HTMLInputElement;
  private readonly jumps: Jumps = { step: (by) => this.step(by), reset: () => this.align(0), proof: (by) => this.next(by) };

  constructor(private readonly app: HTMLElement, private readonly data: DiffPayload) {
    this.sides = data.sides.map((_, i) => this.side(i));
    this.active = this.sides[0];
    listenKeys(this.help, () => this.search, (e) => pressed(this.active.view, e, this.jumps));
    const resize = (atOnce = false) => this.both.forEach((side) => side.view.resize(atOnce));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => resize());
    preparePrint(resize);
    this.compare(0);
  }

  private side(i: number): Side {
    const { lang, texts, classes, sides } = this.data;
    const { name, reports, timeline, kernels } = sides[i];
    const payload: Payload = { lang, texts, classes, reports, timeline, kernels, rules: {} };
    const state = new State(payload), model = new Model(payload);
    const view: TimelineView = new TimelineView(model, state, {
      selected: (slice) => { if (slice >= 0) this.select(i, slice); },
      proof: (number) => { if (number < 0) this.clear(); else this.showChange(number); },
      moved: (full) => this.tell(i, full),
    }, [], MOST_HEIGHT);
    view.element.addEventListener("pointerdown", () => { this.active = this.sides[i]; });
    view.element.addEventListener("focusin", () => { this.active = this.sides[i]; });
    return { name, state, model, view, head: h("p", { class: "side" }), note: "" };
  }

  private get state(): State { return this.sides[0].state; }
  private get diff(): Diff { return this.data.diffs[this.state.lang]; }
  private get shown(): DiffPair { return this.diff.pairs[this.pair]; }
  private get both(): [Side, Side] { return [this.sides[0], this.sides[this.shown.new]]; }

  /** Show one of several pairs. */
  private compare(pair: number): void {
    this.pair = pair;
    this.active = this.sides[0];
    const [base, other] = this.both;
    base.view.peer = other.view;
    other.view.peer = base.view;
    this.both.forEach(({ view, model }, place) => {
      const { evidence } = model.payload.timeline;
      view.proofs = this.data.proofs[pair].map((places, i) => ({
        slices: evidence[places[place]] ?? [], good: this.toneOf(i) === "good", title: () => this.titleOf(i),
      }));
      view.brighten(-1);
    });
    this.render();
    this.align(0);
  }

  private titleOf(change: number): string {
    const { groups, findings } = this.shown;
    return groups[change]?.title ?? findings[change - groups.length]?.title ?? "";
  }

  private toneOf(change: number): string {
    const { groups, findings } = this.shown;
    return change < groups.length ? tone(groups[change].call) : findings[change - groups.length].tone;
  }

  // ---- sections
  private render(): void {
    const { state, shown: pair, diff } = this;
    const t = state.t.bind(state);
    const [base, other] = this.both;
    const shows = (change: number) => this.both.some((side) => side.view.proofs[change].slices.some((s) => s >= 0));
    const tables = pair.tables.map((table, i) => figures(table, `figures-${i + 1}`));
    place(this.app,
      h("a", { class: "skip", href: "#changes" }, t("skip-changes")),
      bar(state, `${base.name} → ${other.name}`, ["timeline", "changes", "environment"], (lang) => this.speak(lang), () => this.both.forEach((s) => s.view.resize())),
      h("main", {},
        this.verdict(pair), this.many(),
        pair.compile ? h("section", { id: "compile" }, h("h2", {}, pair.compile.title), h("p", {}, h("strong", {}, prose(pair.compile.text))),
          h("ul", { class: "notes" }, ...pair.compile.facts.map((fact) => h("li", {}, prose(fact))))) : false,
        this.conditions(pair),
        this.timelines(),
        changes(state, pair, [base, other], shows, (change) => { this.showChange(change); scrollToTimeline(); }),
        h("div", { class: "masonry" }, ...tables, pair.compile?.layers ? figures(pair.compile.layers, "layers") : false),
        spread(state, [base, other]),
        h("div", { class: "pair" }, ...[base, other].map((side, i) => where(side.state, `${t("where")}: ${side.name}`, `where-${i}`))),
        pair.needed.length ? h("section", { id: "needed" }, h("h2", {}, t("h-needed")), h("ul", { class: "notes" }, ...pair.needed.map((text) => h("li", {}, prose(text))))) : false,
        bothEnvironments([base, other], diff.generator)),
      this.help,
    );
    fillHelp(this.help, state, "key-change");
    this.showChip();
    if (this.active.view.selected >= 0) this.select(this.sides.indexOf(this.active), this.active.view.selected);
    else this.panel.replaceChildren(h("p", { class: "hint" }, t("select-hint")));
    this.both.forEach((side) => side.view.resize());
    this.heads();
  }

  private speak(lang: Payload["lang"]): void {
    for (const side of this.sides) side.state.speak(lang);
    this.render();
    this.both.forEach((side, i) => this.tell(i, side.model.isFull(side.view.begin, side.view.end)));
  }

  private verdict(pair: DiffPair): HTMLElement {
    return h("section", { class: "verdict", id: "verdict" }, h("h1", {}, prose(pair.headline)),
      ...pair.points.map((text) => h("p", { class: "point" }, prose(text))),
      h("div", { class: "tiles" }, ...pair.tiles.map(([label, base, other, change, call]) => tile(label, `${base} → ${other}`, change, tone(call)))));
  }

  /** The table of several traces, each a way to its comparison. */
  private many(): HTMLElement | false {
    const { many, pairs } = this.diff;
    if (!many) return false;
    const at = (row: number) => pairs.findIndex((pair) => pair.new === row);
    return h("section", { id: "many" }, h("h2", {}, many.title), h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ...many.heads.map((head, i) => h("th", { scope: "col", class: i && "num" }, head)))),
      h("tbody", {}, ...many.rows.map((row, r) => h("tr", { "aria-current": at(r) === this.pair && "true" }, ...row.map((cell, i) => i ? h("td", { class: "num" }, cell)
        : h("th", { scope: "row" }, r ? h("button", { type: "button", class: "link", onclick: () => this.compare(at(r)) }, cell) : cell))))))),
      many.note ? h("p", { class: "soft" }, many.note) : false);
  }

  private conditions(pair: DiffPair): HTMLElement | false {
    if (!pair.conditions.length) return false;
    const { state, diff } = this;
    const spoiled = pair.conditions.some(([, spoils]) => spoils);
    return h("section", { id: "conditions" }, h("h2", {}, state.t("h-conditions")),
      h("ul", { class: "notes" }, ...pair.conditions.map(([text, spoils]) => h("li", { class: spoils && "spoils" }, prose(text)))),
      spoiled ? h("p", { class: "soft" }, prose(state.t(diff.anyway ? "anyway" : "withheld-hint"))) : false);
  }

  private timelines(): HTMLElement {
    const { state } = this;
    const t = state.t.bind(state);
    const [base, other] = this.both;
    const zoom = (factor: number) => base.view.zoom(factor);
    this.search = searchField(state, this.search?.value ?? "", (text) => this.lookFor(text), (by) => this.active.view.next(by));
    const used = [base, other].flatMap(({ model }) => [...new Set(model.colour.subarray(0, model.count))]);
    return h("section", { id: "timeline", class: "wide" },
      h("div", { class: "tools" }, h("h2", {}, t("timeline")),
        h("button", { type: "button", onclick: () => this.align(0) }, t("view-step")),
        h("button", { type: "button", onclick: () => base.view.all() }, t("view-all")),
        tool("‹", `${t("step-before")} [`, () => this.step(-1)), tool("›", `${t("step-after")} ]`, () => this.step(1)),
        tool("+", `${t("zoom-in")} W`, () => zoom(0.6)), tool("−", `${t("zoom-out")} S`, () => zoom(1 / 0.6)),
        this.search, this.found, this.chip,
        h("button", { type: "button", class: "end", onclick: () => this.help.showModal() }, `${t("keys")} ?`)),
      base.head, base.view.element, other.head, other.view.element,
      h("p", { class: "soft" }, t("one-scale")), classes(state, used), this.note, this.panel);
  }

  /** Above each timeline: which trace and which of its steps. */
  private heads(): void {
    this.both.forEach((side, place) => {
      const step = this.stepOf(side);
      const t = side.state.t.bind(side.state);
      side.head.replaceChildren(h("b", {}, t(place ? "col-new" : "col-base")), h("span", {}, side.name),
        step ? h("span", { class: "soft" }, t("step-shown", { index: step.index })) : "");
    });
  }

  // ---- moving
  /** The step of a side that is shown, undefined without steps. */
  private stepOf(side: Side) {
    const { steps } = side.model.payload.timeline;
    const usual = this.data.sides[this.sides.indexOf(side)].step;
    const at = Math.max(steps.findIndex((s) => s.index === usual), 0);
    return steps[Math.min(Math.max(at + this.offset, 0), steps.length - 1)];
  }

  private step(by: number): void {
    const before = this.both.map((side) => this.stepOf(side));
    const offset = this.offset;
    this.offset += by;
    if (this.both.every((side, i) => this.stepOf(side) === before[i])) this.offset = offset;
    this.align(this.offset);
  }

  /** Both from the start of a step on. */
  private align(offset: number): void {
    this.offset = offset;
    const steps = this.both.map((side) => this.stepOf(side));
    this.both.forEach((side, i) => {
      side.view.origin = steps[i]?.start ?? 0;
      const other = steps[1 - i];
      const { name } = this.both[1 - i], { state } = side;
      side.view.lines = other && steps[i] ? [{
        time: side.view.origin + other.gpu_end - other.start, get label() { return state.t("step-ends", { name }); },
      }] : [];
    });
    this.heads();
    const [{ view }] = this.both;
    const length = Math.max(...steps.map((s, i) => (s ? s.gpu_end - s.start : this.both[i].model.span)));
    view.show(view.origin - length / 50, view.origin + length * 1.02);
  }

  private next(by: number): void {
    const n = this.data.proofs[this.pair].length, at = this.both[0].view.proof;
    if (n) this.showChange((at + by + (at < 0 && by < 0 ? 1 : 0) + n) % n);
  }

  /** A change on both timelines, from its first event on where both have one. */
  private showChange(change: number): void {
    const slices = this.both.map((side) => side.view.brighten(change));
    const steps = this.both.map((side) => this.stepOf(side));
    const matched = slices.every((s) => s.length);
    this.both.forEach((side, i) => {
      side.view.origin = matched ? Math.min(...slices[i].map((s) => side.model.start[s])) : steps[i]?.start ?? 0;
      side.view.lines = [];
    });
    const seen = this.both.flatMap((side, i) => (slices[i].length ? [side.view.extent(slices[i]).map((time) => time - side.view.origin)] : []));
    const [{ view }] = this.both;
    if (seen.length) view.show(Math.min(...seen.map((s) => s[0])) + view.origin, Math.max(...seen.map((s) => s[1])) + view.origin);
    this.showChip();
  }

  private clear(): void {
    this.both.forEach((side) => side.view.brighten(-1));
    this.showChip();
    this.panel.replaceChildren(h("p", { class: "hint" }, this.state.t("select-hint")));
  }

  private select(place: number, slice: number): void {
    const side = this.sides[place];
    this.active = side;
    this.panel.replaceChildren(h("p", { class: "soft" }, side.name), details(side.state, side.model, side.view, slice));
  }

  private lookFor(text: string): void {
    const [base, other] = this.both.map((side) => side.view.search(text));
    this.found.textContent = text.trim() ? this.state.t("search-both", { base: count(base), new: count(other) }) : "";
  }

  private showChip(): void {
    const number = this.both[0].view.proof;
    const id = `change-${number + 1}`;
    this.chip.replaceChildren(...(number < 0 ? [] : [
      h("a", { href: `#${id}`, onclick: () => { (document.getElementById(id) as HTMLDetailsElement).open = true; } },
        this.state.t("change-shown", { number: number + 1, title: this.titleOf(number) })),
      h("button", { type: "button", "aria-label": this.state.t("clear"), onclick: () => this.clear() }, "×")]));
  }

  private tell(place: number, full: boolean): void {
    const { kept, slices } = this.sides[place].model.payload.timeline;
    const t = this.state.t.bind(this.state);
    const part = t("partial", { kept: count(kept), slices: count(slices) });
    this.sides[place].note = kept >= slices ? "" : `${this.sides[place].name}: ${full ? "" : `${t("partial-here")} `}${part}`;
    this.note.replaceChildren(...this.both.filter((side) => side.note).map((side) => h("span", { class: "line" }, prose(side.note))));
  }

  /** For tests and for the curious: what is shown. */
  get probe() {
    const views = () => this.both.map((side) => side.view);
    const of = (place: number) => this.both[place];
    const steps = () => this.both.map((side) => this.stepOf(side)?.index ?? null);
    return {
      get slices() { return views().reduce((n, view) => n + view.model.count, 0); },
      get windows() { return views().map((view) => [view.begin - view.origin, view.end - view.origin]); },
      get highlighted() { return views().map((view) => view.highlighted.map((s) => view.model.nameOf(s))); },
      /** Where the highlighted slices begin, from the origin. */
      get starts() { return views().map((view) => view.highlighted.map((s) => view.model.start[s] - view.origin)); },
      get selected() { return views().map((view) => view.selected); }, get hits() { return views().map((view) => view.hits.length); },
      /** What is said at the dashed lines. */
      get labels() { return views().map((view) => view.lines.map((line) => line.label)); },
      get frames() { return views()[0].frames; }, get steps() { return steps(); },
      show: (b: number, e: number) => { const { view } = of(0); view.show(b + view.origin, e + view.origin, false); },
      /** The first kernel of each. */
      get kernels() { return views().map((view) => view.model.lanes.find((lane) => lane.kind === "gpu")?.rows[0]?.[0] ?? -1); },
      select: (place: number, slice: number) => of(place).view.select(slice, true),
    };
  }
}
