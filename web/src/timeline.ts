// The timeline: what is shown, selected and searched. Keys and the mouse are in controls.ts.

import { listen } from "./controls";
import { h } from "./dom";
import { contentHeight, GUTTER, MARKS, Painter, places, ROW, RULER, type Scene } from "./draw";
import type { Model } from "./model";
import { paintStrip, paintWindow, STRIP } from "./overview";
import { palette, type Palette } from "./palette";
import type { State } from "./state";

const LEAST_SPAN = 200, MOST_HEIGHT = 560, LEAST_HEIGHT = 180;

export interface Listener {
  selected(slice: number): void;
  proof(number: number): void;
  moved(full: boolean): void;
}

/** What is marked on the timeline: the evidence of a finding, or of a change. */
export interface Proof { slices: number[]; good: boolean; title: () => string }

export class TimelineView {
  begin: number; end: number; scroll = 0; selected = -1; proof = -1; hits: number[] = []; hit = -1;
  /** What the axis calls zero. */
  origin = 0;
  /** Moments that are pointed out, with what they are. */
  lines: { time: number; label: string }[] = [];
  /** Another timeline that shows the same stretch, each counted from its own origin. */
  peer: TimelineView | null = null;
  range: [number, number] | null = null; hover = -1; mouse = -1; width = 0;
  readonly element: HTMLElement;
  readonly frames: number[] = [];
  readonly canvas = h("canvas", { class: "lanes", tabindex: "0", role: "application" });
  readonly strip = h("canvas", { class: "strip", tabindex: "-1", role: "img" });
  readonly tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  private bright: Set<number> | null = null;
  private painter: Painter | null = null; private colours!: Palette; private stripImage: HTMLCanvasElement | null = null;
  private queued = false; private height = 0; private moving = 0;

  constructor(readonly model: Model, readonly state: State, readonly listener: Listener, public proofs: Proof[], private readonly most = MOST_HEIGHT) {
    [this.begin, this.end] = model.payload.timeline.view;
    if (this.end <= this.begin) [this.begin, this.end] = [0, model.span];
    this.element = h("div", { class: "canvases" }, this.strip, this.canvas, this.tip);
    listen(this);
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  // ---- drawing
  resize(atOnce = false): void {
    this.width = this.element.clientWidth;
    if (!this.width) return;
    this.colours = palette(this.element, this.state.payload.classes.length);
    const wanted = contentHeight(this.model) + RULER + MARKS;
    this.height = Math.max(Math.min(LEAST_HEIGHT, wanted), Math.min(this.most, wanted));
    const g = size(this.canvas, this.width, this.height);
    this.painter = new Painter(this.model, g, this.colours);
    this.stripImage = document.createElement("canvas");
    paintStrip(this.model, size(this.stripImage, this.width, STRIP), this.width, this.colours);
    size(this.strip, this.width, STRIP);
    this.canvas.setAttribute("aria-label", this.state.t("timeline-label", {
      file: this.state.report.trace.path, slices: this.model.payload.timeline.slices, lanes: this.model.lanes.length,
    }));
    this.strip.setAttribute("aria-label", this.state.t("overview-label"));
    if (atOnce) this.draw();
    else this.redraw();
  }

  redraw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.draw(); });
  }

  /** More slices have come: search again, and draw. */
  refresh(): void {
    this.redraw();
    if (this.selected >= 0) this.listener.selected(this.selected);
  }

  private draw(): void {
    if (!this.painter || !this.stripImage) return;
    const begun = performance.now();
    this.painter.paint(this.scene());
    const g = this.strip.getContext("2d")!;
    g.drawImage(this.stripImage, 0, 0, this.width, STRIP);
    paintWindow(g, this.width, this.begin, this.end, this.model.span, this.colours);
    this.frames.push(performance.now() - begun);
    if (this.frames.length > 300) this.frames.shift();
  }

  private scene(): Scene {
    return {
      begin: this.begin, end: this.end, origin: this.origin, scroll: this.scroll, width: this.width, height: this.height,
      selected: this.selected, hover: this.hover, bright: this.bright, range: this.range, marks: this.marks(), lines: this.lines,
      label: (slice) => this.label(slice),
      laneLabel: (lane) => {
        const { part } = lane;
        if (part.kind === "gpu") return [this.state.t("lane-gpu", { device: part.device ?? 0, stream: part.stream ?? 0 }), ""];
        const layer = this.state.t(`lane-${part.kind}`);
        const first = this.model.lanes.find((l) => l.thread === lane.thread) === lane;
        return first && part.kind !== "marks" ? [part.label, layer] : ["", layer];
      },
    };
  }

  label(slice: number): string {
    const name = this.model.nameOf(slice);
    const kind = this.model.lane(slice).kind;
    return kind === "gpu" ? this.state.kernel(name)?.label ?? name : name.replace(/^nn\.Module: /, "");
  }

  marks(): Scene["marks"] {
    return this.proofs.flatMap(({ slices, good }, i) =>
      slices.filter((s) => s >= 0).map((s) => ({ time: this.model.start[s], number: i + 1, good, on: i === this.proof })));
  }

  // ---- moving
  /** How far one can go: a little beyond the trace, or beyond the longer of two. */
  private limits(margin = 0.02): [number, number] {
    const own = (v: TimelineView): [number, number] => [-margin * v.model.span - v.origin, (1 + margin) * v.model.span - v.origin];
    const all = [own(this), ...(this.peer ? [own(this.peer)] : [])];
    return [Math.min(...all.map((x) => x[0])) + this.origin, Math.max(...all.map((x) => x[1])) + this.origin];
  }

  show(begin: number, end: number, animated = true): void {
    const [low, high] = this.limits();
    const span = Math.min(Math.max(end - begin, LEAST_SPAN), high - low);
    const from = Math.min(Math.max((begin + end) / 2 - span / 2, low), high - span);
    this.go(from, from + span, animated && !matchMedia("(prefers-reduced-motion: reduce)").matches);
  }

  private go(begin: number, end: number, animated: boolean): void {
    const turn = ++this.moving;
    const [b0, e0] = [this.begin, this.end];
    const begun = performance.now();
    const step = () => {
      if (turn !== this.moving) return;
      const part = animated ? Math.min((performance.now() - begun) / 160, 1) : 1;
      const eased = 1 - (1 - part) ** 3;
      this.begin = b0 + (begin - b0) * eased;
      this.end = e0 + (end - e0) * eased;
      this.draw();
      this.peer?.follow(this.begin - this.origin, this.end - this.origin);
      if (part < 1) requestAnimationFrame(step);
      else for (const view of [this, this.peer]) view?.listener.moved(view.model.isFull(view.begin, view.end));
    };
    step();
  }

  /** Show what the peer shows, counted from the origin. */
  private follow(begin: number, end: number): void {
    this.moving++;
    this.begin = begin + this.origin;
    this.end = end + this.origin;
    this.draw();
  }

  zoom(factor: number, at = (this.begin + this.end) / 2): void {
    const span = this.end - this.begin;
    const [low, high] = this.limits();
    const next = Math.min(Math.max(span * factor, LEAST_SPAN), high - low);
    const share = (at - this.begin) / span;
    this.show(at - share * next, at + (1 - share) * next, false);
  }

  pan(share: number): void {
    const by = (this.end - this.begin) * share;
    this.show(this.begin + by, this.end + by, false);
  }

  step(by: number): void {
    const { steps } = this.model.payload.timeline;
    if (!steps.length) return;
    const middle = (this.begin + this.end) / 2;
    let at = steps.findIndex((s) => s.start <= middle && middle < s.end);
    if (at < 0) at = Math.max(steps.findIndex((s) => s.start > middle) - 1, 0);
    const step = steps[Math.min(Math.max(at + by, 0), steps.length - 1)];
    const pad = (step.gpu_end - step.start) / 50;
    this.show(step.start - pad, step.gpu_end + pad);
  }

  reset(): void { this.show(...this.model.payload.timeline.view); }
  all(): void { this.show(...this.limits(0)); }

  // ---- selecting
  select(slice: number, bring = false): void {
    this.selected = slice;
    if (slice >= 0 && bring) this.bring(slice);
    this.listener.selected(slice);
    this.redraw();
  }

  /** Bring a slice into view: its lane opened and scrolled to, and so much time around it that it can be read. */
  bring(slice: number): void {
    this.reveal(slice);
    const length = Math.max(this.model.duration(slice), 1000);
    const span = this.end - this.begin;
    const [start, end] = [this.model.start[slice], this.model.end[slice]];
    if (start < this.begin || end > this.end || length < span / 60) {
      const room = Math.max(length * 12, Math.min(span, length * 60));
      this.show((start + end) / 2 - room / 2, (start + end) / 2 + room / 2);
    }
  }

  private reveal(slice: number): void {
    const lane = this.model.lane(slice);
    if (!lane.open && this.model.row[slice] > 0) { lane.open = true; this.resize(); }
    const place = places(this.model).find((p) => p.lane === lane);
    if (!place) return;
    const y = place.top + (lane.open ? this.model.row[slice] * ROW : 0);
    const room = this.height - RULER - MARKS;
    if (y < this.scroll || y + ROW > this.scroll + room) this.scrollTo(y - room / 3);
  }

  scrollTo(y: number): void {
    const most = contentHeight(this.model) + RULER + MARKS - this.height;
    this.scroll = Math.min(Math.max(y, 0), Math.max(most, 0));
  }

  /** Let the evidence of a finding or change stand out and bring it into view; -1 clears. */
  showProof(number: number): void {
    const slices = this.brighten(number);
    if (slices.length) this.show(...this.extent(slices));
    this.listener.proof(number);
  }

  /** The same where the view is moved by others. */
  brighten(number: number): number[] {
    this.proof = number;
    const slices = (this.proofs[number]?.slices ?? []).filter((s) => s >= 0);
    this.bright = slices.length ? new Set(slices) : null;
    this.range = null;
    this.hits = [];
    this.selected = -1;
    this.listener.selected(-1);
    if (slices.length) this.reveal(slices[0]);
    this.redraw();
    return slices;
  }

  /** The stretch that shows all of some slices where they can be made out in it, else what is around the first. */
  extent(slices: number[]): [number, number] {
    const { model } = this;
    const begin = Math.min(...slices.map((s) => model.start[s])), end = Math.max(...slices.map((s) => model.end[s]));
    const [from, to] = [model.start[slices[0]], model.end[slices[0]]];
    const length = Math.max(to - from, 1000);
    const visible = slices.reduce((sum, s) => sum + Math.max(model.duration(s), 1000), 0) / (end - begin) > 0.004;
    const [b, e] = visible ? [begin, end] : [from - length * 8, to + length * 8];
    const pad = (e - b) * 0.08;
    return [b - pad, e + pad];
  }

  get highlighted(): number[] { return this.bright ? [...this.bright] : []; }

  // ---- searching
  search(text: string): number {
    const wanted = text.trim().toLowerCase();
    this.hits = [];
    this.hit = -1;
    if (this.proof >= 0) {
      this.proof = -1;
      this.listener.proof(-1);
    }
    if (wanted) {
      const match = this.model.strings.map((name) => {
        const words = this.state.kernel(name);
        return name.toLowerCase().includes(wanted) || (words?.label.toLowerCase().includes(wanted) ?? false);
      });
      for (let i = 0; i < this.model.count; i++) if (match[this.model.name[i]]) this.hits.push(i);
      this.hits.sort((a, b) => this.model.start[a] - this.model.start[b]);
    }
    this.bright = this.hits.length ? new Set(this.hits) : null;
    this.redraw();
    return this.hits.length;
  }

  next(by: number): void {
    if (!this.hits.length) return;
    if (this.hit < 0) {
      const at = this.hits.findIndex((s) => this.model.start[s] >= this.begin);
      this.hit = at < 0 ? 0 : at;
    } else this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    this.select(this.hits[this.hit], true);
  }

  clear(): void {
    this.brighten(-1);
    this.listener.proof(-1);
  }

  /** The next slice of the selected one's row. */
  along(by: number): void {
    if (this.selected < 0) return;
    const row = this.model.lane(this.selected).rows[this.model.row[this.selected]];
    const next = row[row.indexOf(this.selected) + by];
    if (next !== undefined) this.select(next, true);
  }

  focus(): void {
    if (this.range) return this.show(...this.range);
    if (this.selected < 0) return;
    const length = Math.max(this.model.duration(this.selected), 100);
    this.show(this.model.start[this.selected] - length * 0.2, this.model.end[this.selected] + length * 0.2);
  }

  nextProof(by: number): void {
    const n = this.proofs.length;
    if (n) this.showProof((this.proof + by + (this.proof < 0 && by < 0 ? 1 : 0) + n) % n);
  }

  // ---- places on the screen
  time(x: number): number {
    return this.begin + ((x - GUTTER) / (this.width - GUTTER)) * (this.end - this.begin);
  }

  sliceAt(x: number, y: number): number {
    if (x < GUTTER || y < RULER + MARKS) return -1;
    const depth = y - RULER - MARKS + this.scroll;
    const place = places(this.model).find((p) => depth >= p.top && depth < p.top + p.height);
    if (!place) return -1;
    const row = place.lane.rows[Math.floor((depth - place.top) / ROW)];
    return row ? this.model.at(row, this.time(x), (this.end - this.begin) / (this.width - GUTTER)) : -1;
  }

  /** Where zooming holds on: the time under the mouse, else the middle. */
  pointer(): number {
    return this.mouse > GUTTER ? this.time(this.mouse) : (this.begin + this.end) / 2;
  }
}

/** Give a canvas its size in device pixels; the context draws in CSS pixels. */
function size(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d")!;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}
