// The timeline: what is shown, selected and searched, and how keys and mouse change it.

import { h } from "./dom";
import { contentHeight, GUTTER, MARKS, Painter, places, ROW, RULER, type Scene } from "./draw";
import { duration } from "./format";
import type { Model } from "./model";
import { paintStrip, paintWindow, STRIP } from "./overview";
import { palette, type Palette } from "./palette";
import type { State } from "./state";

const LEAST_SPAN = 200, MOST_HEIGHT = 560, LEAST_HEIGHT = 180;

export interface Listener {
  selected(slice: number): void;
  finding(number: number): void;
  moved(full: boolean): void;
}

export class TimelineView {
  begin: number; end: number; scroll = 0; selected = -1; finding = -1; hits: number[] = []; hit = -1;
  readonly element: HTMLElement;
  readonly frames: number[] = [];
  private readonly canvas = h("canvas", { class: "lanes", tabindex: "0", role: "application" });
  private readonly strip = h("canvas", { class: "strip", tabindex: "-1", role: "img" });
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  private hover = -1; private range: [number, number] | null = null; private bright: Set<number> | null = null;
  private painter: Painter | null = null; private colours!: Palette; private stripImage: HTMLCanvasElement | null = null;
  private queued = false; private mouse = -1; private width = 0; private height = 0; private moving = 0;

  constructor(readonly model: Model, readonly state: State, private readonly listener: Listener) {
    [this.begin, this.end] = model.payload.timeline.view;
    if (this.end <= this.begin) [this.begin, this.end] = [0, model.span];
    this.element = h("div", { class: "canvases" }, this.strip, this.canvas, this.tip);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  // ---- drawing
  resize(atOnce = false): void {
    this.width = this.element.clientWidth;
    if (!this.width) return;
    this.colours = palette(this.element, this.state.payload.classes.length);
    const wanted = contentHeight(this.model) + RULER + MARKS;
    this.height = Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, wanted));
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
      begin: this.begin, end: this.end, scroll: this.scroll, width: this.width, height: this.height, selected: this.selected,
      hover: this.hover, bright: this.bright, range: this.range, marks: this.marks(),
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

  private marks(): Scene["marks"] {
    return this.state.payload.timeline.evidence.flatMap((slices, i) => {
      const good = this.state.report.findings[i]?.good ?? false;
      return slices.filter((s) => s >= 0).map((s) => ({ time: this.model.start[s], number: i + 1, good, on: i === this.finding }));
    });
  }

  // ---- moving
  show(begin: number, end: number, animated = true): void {
    const span = Math.min(Math.max(end - begin, LEAST_SPAN), this.model.span * 1.04);
    const middle = (begin + end) / 2;
    const low = -0.02 * this.model.span, high = this.model.span * 1.02 - span;
    const from = Math.min(Math.max(middle - span / 2, low), Math.max(high, low));
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
      if (part < 1) requestAnimationFrame(step);
      else this.listener.moved(this.model.isFull(this.begin, this.end));
    };
    step();
  }

  zoom(factor: number, at = (this.begin + this.end) / 2): void {
    const span = this.end - this.begin;
    const next = Math.min(Math.max(span * factor, LEAST_SPAN), this.model.span * 1.04);
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
    let at = steps.findIndex((s) => middle < s.gpu_end);
    if (at < 0) at = steps.length - 1;
    const step = steps[Math.min(Math.max(at + by, 0), steps.length - 1)];
    const pad = (step.gpu_end - step.start) / 50;
    this.show(step.start - pad, step.gpu_end + pad);
  }

  reset(): void { this.show(...this.model.payload.timeline.view); }
  all(): void { this.show(0, this.model.span); }

  // ---- selecting
  select(slice: number, bring = false): void {
    this.selected = slice;
    if (slice >= 0 && bring) this.bring(slice);
    this.listener.selected(slice);
    this.redraw();
  }

  /** Bring a slice into view: its lane opened and scrolled to, and so much time around it that it can be read. */
  bring(slice: number): void {
    const lane = this.model.lane(slice);
    if (!lane.open && this.model.row[slice] > 0) { lane.open = true; this.resize(); }
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
    const place = places(this.model).find((p) => p.lane === this.model.lane(slice));
    if (!place) return;
    const y = place.top + (place.lane.open ? this.model.row[slice] * ROW : 0);
    const room = this.height - RULER - MARKS;
    if (y < this.scroll || y + ROW > this.scroll + room) this.scrollTo(y - room / 3);
  }

  private scrollTo(y: number): void {
    const most = contentHeight(this.model) + RULER + MARKS - this.height;
    this.scroll = Math.min(Math.max(y, 0), Math.max(most, 0));
  }

  /** Bring the evidence of a finding into view and let it stand out; -1 clears. */
  showFinding(number: number): void {
    this.finding = number;
    const slices = number < 0 ? [] : this.state.payload.timeline.evidence[number].filter((s) => s >= 0);
    this.showSlices(slices);
    this.listener.finding(number);
  }

  showSlices(slices: number[]): void {
    this.bright = slices.length ? new Set(slices) : null;
    this.range = null;
    this.hits = [];
    this.selected = -1;
    this.listener.selected(-1);
    if (slices.length) {
      const first = slices[0];
      const lane = this.model.lane(first);
      if (!lane.open && this.model.row[first] > 0) { lane.open = true; this.resize(); }
      this.reveal(first);
      this.fit(slices);
    }
    this.redraw();
  }

  /** All of the evidence where it can be told apart, else the stretch around the most telling event. */
  private fit(slices: number[]): void {
    const { model } = this;
    const begin = Math.min(...slices.map((s) => model.start[s])), end = Math.max(...slices.map((s) => model.end[s]));
    const [from, to] = [model.start[slices[0]], model.end[slices[0]]];
    const length = Math.max(to - from, 1000);
    const visible = length / (end - begin) > 0.004;
    const [b, e] = visible ? [begin, end] : [from - length * 8, to + length * 8];
    const pad = (e - b) * 0.08;
    this.show(b - pad, e + pad);
  }

  get highlighted(): number[] { return this.bright ? [...this.bright] : []; }

  // ---- searching
  search(text: string): number {
    const wanted = text.trim().toLowerCase();
    this.hits = [];
    this.hit = -1;
    this.finding = -1;
    this.listener.finding(-1);
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
    this.bright = null;
    this.range = null;
    this.hits = [];
    this.finding = -1;
    this.listener.finding(-1);
    this.select(-1);
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

  // ---- mouse
  private time(x: number): number {
    return this.begin + ((x - GUTTER) / (this.width - GUTTER)) * (this.end - this.begin);
  }

  private sliceAt(x: number, y: number): number {
    if (x < GUTTER || y < RULER + MARKS) return -1;
    const depth = y - RULER - MARKS + this.scroll;
    const place = places(this.model).find((p) => depth >= p.top && depth < p.top + p.height);
    if (!place) return -1;
    const row = place.lane.rows[Math.floor((depth - place.top) / ROW)];
    return row ? this.model.at(row, this.time(x), (this.end - this.begin) / (this.width - GUTTER)) : -1;
  }

  private listen(): void {
    const { canvas, strip } = this;
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("pointerdown", (e) => this.press(e));
    canvas.addEventListener("pointermove", (e) => this.point(e));
    canvas.addEventListener("pointerleave", () => { this.hover = this.mouse = -1; this.tip.hidden = true; this.redraw(); });
    const move = (e: PointerEvent) => {
      const middle = ((e.offsetX - GUTTER) / (this.width - GUTTER)) * this.model.span;
      const half = (this.end - this.begin) / 2;
      this.show(middle - half, middle + half, false);
    };
    strip.addEventListener("pointerdown", (e) => { strip.setPointerCapture(e.pointerId); move(e); });
    strip.addEventListener("pointermove", (e) => { if (e.buttons) move(e); });
    strip.addEventListener("dblclick", () => this.all());
  }

  private wheel(e: WheelEvent): void {
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      return this.zoom(Math.exp(e.deltaY * 0.002), this.time(e.offsetX));
    }
    const sideways = e.shiftKey ? e.deltaY : e.deltaX;
    if (Math.abs(sideways) > Math.abs(e.shiftKey ? 0 : e.deltaY)) {
      e.preventDefault();
      return this.pan(sideways / (this.width - GUTTER));
    }
    const before = this.scroll;
    this.scrollTo(this.scroll + e.deltaY);
    if (this.scroll !== before) e.preventDefault();
    this.redraw();
  }

  private press(e: PointerEvent): void {
    const { canvas } = this;
    canvas.focus({ preventScroll: true });
    const [x0, y0, begin, end, scroll] = [e.offsetX, e.offsetY, this.begin, this.end, this.scroll];
    const panning = e.shiftKey || e.button === 1;
    let moved = false;
    canvas.setPointerCapture(e.pointerId);
    const drag = (m: PointerEvent) => {
      if (!moved && Math.abs(m.offsetX - x0) < 4 && Math.abs(m.offsetY - y0) < 4) return;
      moved = true;
      if (panning) {
        const by = ((m.offsetX - x0) / (this.width - GUTTER)) * (end - begin);
        this.scrollTo(scroll - (m.offsetY - y0));
        return this.show(begin - by, end - by, false);
      }
      const times = [this.time(x0), this.time(m.offsetX)].sort((a, b) => a - b);
      this.range = [times[0], times[1]];
      this.redraw();
    };
    const done = (m: PointerEvent) => {
      canvas.removeEventListener("pointermove", drag);
      if (moved) return;
      this.range = null;
      this.click(m.offsetX, m.offsetY);
    };
    canvas.addEventListener("pointermove", drag);
    canvas.addEventListener("pointerup", done, { once: true });
  }

  private click(x: number, y: number): void {
    if (y >= RULER && y < RULER + MARKS) return this.clickMark(x);
    if (x < GUTTER) {
      const depth = y - RULER - MARKS + this.scroll;
      const place = places(this.model).find((p) => depth >= p.top && depth < p.top + p.height);
      if (place && place.lane.rows.length > 1) { place.lane.open = !place.lane.open; this.scrollTo(this.scroll); this.resize(); }
      return;
    }
    this.select(this.sliceAt(x, y));
  }

  private clickMark(x: number): void {
    const near = (this.end - this.begin) / (this.width - GUTTER) * 9;
    const mark = this.marks().find((m) => Math.abs(m.time - this.time(x)) < near);
    if (mark) this.showFinding(mark.number - 1);
  }

  private point(e: PointerEvent): void {
    this.mouse = e.offsetX;
    if (e.buttons) return;
    const slice = this.sliceAt(e.offsetX, e.offsetY);
    this.canvas.style.cursor = slice >= 0 || e.offsetX < GUTTER ? "pointer" : "default";
    this.tip.hidden = slice < 0;
    if (slice >= 0) {
      this.tip.replaceChildren(h("b", {}, this.label(slice)), h("span", {}, duration(this.model.duration(slice))));
      const left = Math.min(e.offsetX + 14, this.width - this.tip.offsetWidth - 8);
      this.tip.style.transform = `translate(${left}px, ${e.offsetY + STRIP + 20}px)`;
    }
    if (slice !== this.hover) { this.hover = slice; this.redraw(); }
  }

  /** Whether a key was one of the timeline's. */
  key(e: KeyboardEvent): boolean {
    if (e.ctrlKey || e.metaKey || e.altKey) return false;
    const keys: Record<string, () => void> = {
      w: () => this.zoom(0.7, this.pointer()), s: () => this.zoom(1 / 0.7, this.pointer()),
      a: () => this.pan(-0.15), d: () => this.pan(0.15), f: () => this.focus(), ".": () => this.along(1), ",": () => this.along(-1),
      "]": () => this.step(1), "[": () => this.step(-1), "1": () => this.reset(), "0": () => this.all(), escape: () => this.clear(),
      n: () => this.nextFinding(1), p: () => this.nextFinding(-1),
    };
    const arrows: Record<string, () => void> = {
      arrowleft: keys.a, arrowright: keys.d, "+": keys.w, "-": keys.s, enter: keys.f,
      arrowup: () => { this.scrollTo(this.scroll - ROW * 2); this.redraw(); },
      arrowdown: () => { this.scrollTo(this.scroll + ROW * 2); this.redraw(); },
    };
    const key = e.key.toLowerCase();
    const act = keys[key] ?? (document.activeElement === this.canvas ? arrows[key] : undefined);
    act?.();
    return act !== undefined;
  }

  private nextFinding(by: number): void {
    const n = this.state.report.findings.length;
    if (n) this.showFinding((this.finding + by + (this.finding < 0 && by < 0 ? 1 : 0) + n) % n);
  }

  /** Where zooming holds on: the time under the mouse, else the middle. */
  private pointer(): number {
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
