// Draws the lanes. Work is bounded by pixels, not by slices: within a row, what shares a pixel is skipped by search.

import { duration } from "./format";
import type { Lane, Model } from "./model";
import type { Palette } from "./palette";

export const GUTTER = 172, ROW = 17, RULER = 26, MARKS = 18, GAP = 7;
const MOST_SEARCHED = 4000;

export interface Scene {
  begin: number; end: number; origin: number; scroll: number; width: number; height: number; selected: number; hover: number;
  /** Slices that stand out, the others are dimmed; null where nothing stands out. */
  bright: Set<number> | null;
  marks: { time: number; number: number; good: boolean; on: boolean }[];
  range: [number, number] | null; lines: { time: number; label: string }[];
  label: (slice: number) => string; laneLabel: (lane: Lane) => [string, string];
}

export interface Place { lane: Lane; top: number; height: number }

/** Where each lane lies below the ruler, from the top of all lanes. */
export function places(model: Model): Place[] {
  let top = 0;
  return model.lanes.map((lane) => {
    const height = (lane.open ? lane.rows.length : 1) * ROW;
    const place = { lane, top, height };
    top += height + GAP;
    return place;
  });
}

export function contentHeight(model: Model): number {
  const last = places(model).at(-1);
  return last ? last.top + last.height + GAP : 0;
}

export class Painter {
  private letter = 6;
  /** Class of the colour that is set, within a row. */
  private last = -1;

  constructor(private readonly model: Model, private readonly g: CanvasRenderingContext2D, private colours: Palette) {
    this.dress(colours);
  }

  dress(colours: Palette): void {
    this.colours = colours;
    this.g.font = `11px ${colours.font}`;
    this.letter = this.g.measureText("abcdefghijklmnop_0123").width / 21;
  }

  paint(scene: Scene): void {
    const { g, colours } = this;
    g.fillStyle = colours.ground;
    g.fillRect(0, 0, scene.width, scene.height);
    g.font = `11px ${colours.font}`;
    g.textBaseline = "middle";
    this.steps(scene);
    g.save();
    g.beginPath();
    g.rect(0, RULER + MARKS, scene.width, scene.height - RULER - MARKS);
    g.clip();
    for (const place of places(this.model)) {
      const top = RULER + MARKS + place.top - scene.scroll;
      if (top + place.height < RULER + MARKS || top > scene.height) continue;
      this.lane(scene, place.lane, top, place.height);
    }
    this.arrows(scene);
    g.restore();
    this.ruler(scene);
    this.marks(scene);
    this.range(scene);
    this.lines(scene);
  }

  private x(scene: Scene, time: number): number {
    return GUTTER + ((time - scene.begin) / (scene.end - scene.begin)) * (scene.width - GUTTER);
  }

  private steps(scene: Scene): void {
    const { g, colours } = this;
    this.model.payload.timeline.steps.forEach((step, i) => {
      const left = Math.max(this.x(scene, step.start), GUTTER), right = Math.min(this.x(scene, step.end), scene.width);
      if (right <= left) return;
      if (i % 2 === 0) {
        g.fillStyle = colours.band;
        g.fillRect(left, RULER, right - left, scene.height);
      }
    });
  }

  private lane(scene: Scene, lane: Lane, top: number, height: number): void {
    const { g, colours } = this;
    g.save();
    g.beginPath();
    g.rect(GUTTER, top, scene.width - GUTTER, height);
    g.clip();
    if (lane.levels.length && !this.model.isFull(scene.begin, scene.end)) this.shade(scene, lane, top, height);
    const rows = lane.open ? lane.rows : lane.rows.slice(0, 1);
    rows.forEach((row, i) => this.row(scene, row, top + i * ROW));
    g.restore();
    const [name, layer] = scene.laneLabel(lane);
    g.fillStyle = colours.ink;
    g.fillText(this.measured(name, GUTTER - 24), 18, top + ROW / 2);
    if (height > ROW || !name) {
      g.fillStyle = colours.soft;
      g.fillText(this.measured(layer, GUTTER - 24), 18, name ? top + ROW * 1.5 : top + ROW / 2);
    }
    if (lane.rows.length > 1) this.triangle(7, top + ROW / 2, lane.open);
    g.fillStyle = colours.line;
    g.fillRect(0, Math.round(top + height + GAP / 2), scene.width, 1);
  }

  private triangle(x: number, y: number, open: boolean): void {
    const { g } = this;
    g.fillStyle = this.colours.soft;
    g.beginPath();
    if (open) { g.moveTo(x - 3.5, y - 2); g.lineTo(x + 3.5, y - 2); g.lineTo(x, y + 3); }
    else { g.moveTo(x - 2, y - 3.5); g.lineTo(x - 2, y + 3.5); g.lineTo(x + 3, y); }
    g.fill();
  }

  /** Bins of the level that suits the zoom: where slices are not kept one by one. */
  private shade(scene: Scene, lane: Lane, top: number, height: number): void {
    const { g, colours } = this;
    const perPixel = (scene.end - scene.begin) / (scene.width - GUTTER);
    const { fine } = lane;
    const holds = fine && fine.begin! <= Math.max(scene.begin, 0) && fine.begin! + fine.width * fine.cover.length >= Math.min(scene.end, this.model.span);
    const level = holds ? fine : [...lane.levels].reverse().find((l) => l.width >= perPixel * 0.7) ?? lane.levels[0];
    const origin = level.begin ?? 0;
    const first = Math.max(0, Math.floor((scene.begin - origin) / level.width));
    const last = Math.min(level.cover.length - 1, Math.floor((scene.end - origin) / level.width));
    for (let i = first; i <= last; ) {
      const cover = level.cover.charCodeAt(i) - 48, colour = level.colour.charCodeAt(i);
      let next = i + 1;
      while (next <= last && level.cover.charCodeAt(next) - 48 === cover && level.colour.charCodeAt(next) === colour) next++;
      const left = this.x(scene, origin + i * level.width), right = this.x(scene, origin + next * level.width);
      i = next;
      if (!cover) continue;
      g.globalAlpha = (scene.bright ? 0.5 : 1) * (0.12 + (cover / 9) * (lane.kind === "gpu" ? 0.55 : 0.2));
      g.fillStyle = colours.classes[colour - 97];
      g.fillRect(left, top, Math.max(right - left, 1), height - 1);
    }
    g.globalAlpha = 1;
  }

  private row(scene: Scene, row: Int32Array, top: number): void {
    const { model } = this;
    const perPixel = (scene.end - scene.begin) / (scene.width - GUTTER);
    let i = model.firstEndingAfter(row, scene.begin - perPixel);
    this.last = -1;
    // Slices below a pixel that follow each other in one colour are one rectangle.
    let from = 0, to = -2, like = -1;
    const flush = () => { if (like >= 0) this.slice(scene, like, from, to - from, top, false); like = -1; };
    while (i < row.length) {
      const slice = row[i];
      if (model.start[slice] > scene.end) break;
      const left = this.x(scene, model.start[slice]), right = this.x(scene, model.end[slice]);
      if (right - left >= 1) {
        flush();
        this.slice(scene, slice, left, right - left, top);
        i++;
        continue;
      }
      const alike = like >= 0 && left <= to + 0.6 && !scene.bright && model.colour[like] === model.colour[slice]
        && slice !== scene.selected && slice !== scene.hover && like !== scene.selected && like !== scene.hover;
      if (!alike) { flush(); from = left; like = slice; }
      to = left + 1;
      // Go on behind this pixel; slices that stand out within it are drawn all the same.
      const next = model.firstEndingAfter(row, model.start[slice] + perPixel);
      if (scene.bright) {
        flush();
        for (let k = i + 1; k < next && k < i + MOST_SEARCHED; k++) {
          if (scene.bright.has(row[k])) this.slice(scene, row[k], left, 1.5, top);
        }
      }
      i = Math.max(next, i + 1);
    }
    flush();
  }

  private slice(scene: Scene, slice: number, left: number, width: number, top: number, named = true): void {
    const { g, colours, model } = this;
    const bright = !scene.bright || scene.bright.has(slice);
    const from = Math.max(left, GUTTER - 2), to = Math.min(left + width, scene.width + 2);
    const shown = Math.max(to - from - (to - from > 3 ? 0.6 : 0), 0.8);
    const dim = !bright && slice !== scene.selected;
    if (dim) g.globalAlpha = 0.22;
    // Setting a colour costs more than drawing a rectangle.
    const colour = model.colour[slice];
    if (colour !== this.last) g.fillStyle = colours.classes[colour];
    this.last = colour;
    g.fillRect(from, top, shown, ROW - 1);
    if (named && shown > 22) {
      g.fillStyle = bright ? colours.onSlice : colours.ink;
      if (!bright) g.globalAlpha = 0.5;
      g.fillText(this.fit(scene.label(slice), shown - 7), from + 4, top + ROW / 2);
      this.last = -1;
    }
    if (dim) g.globalAlpha = 1;
    const marked = slice === scene.selected || slice === scene.hover || (scene.bright !== null && bright);
    if (!marked) return;
    g.strokeStyle = slice === scene.hover && slice !== scene.selected ? colours.ink : colours.accent;
    g.lineWidth = slice === scene.selected ? 2.5 : 1.5;
    g.strokeRect(from + 0.5, top + 0.5, Math.max(shown - 1, 1), ROW - 2);
  }

  private fit(text: string, width: number): string {
    const room = Math.floor(width / this.letter);
    if (room < 2) return "";
    // Characters of East Asian text are about twice as wide.
    const wide = /[\u3000-\u9fff\uff00-\uffef]/.test(text) ? Math.floor(room * 0.62) : room;
    return text.length <= wide ? text : text.slice(0, Math.max(wide - 1, 1)) + "…";
  }

  /** The same by measuring, for the few labels of lanes: both ends are kept, since threads differ in their numbers. */
  private measured(text: string, width: number): string {
    if (this.g.measureText(text).width <= width) return text;
    let keep = text.length - 1;
    const cut = () => text.slice(0, Math.ceil(keep * 0.6)) + "…" + text.slice(text.length - Math.floor(keep * 0.4));
    while (keep > 2 && this.g.measureText(cut()).width > width) keep--;
    return cut();
  }

  /** From the launching call to the GPU work: of the selected slice, in both directions. */
  private arrows(scene: Scene): void {
    const { model } = this;
    if (scene.selected < 0) return;
    const at = new Map(places(model).map((p) => [p.lane, p]));
    const y = (slice: number): number => {
      const place = at.get(model.lane(slice))!;
      return RULER + MARKS + place.top - scene.scroll + (place.lane.open ? model.row[slice] * ROW : 0);
    };
    const call = model.call(scene.selected);
    const pairs = call >= 0 ? [[call, scene.selected]] : model.started(scene.selected).slice(0, 300).map((s) => [model.call(s), s]);
    for (const [from, to] of pairs) {
      const up = y(to) < y(from);
      this.arrow(this.x(scene, model.start[from]), y(from) + (up ? 0 : ROW), this.x(scene, model.start[to]), y(to) + (up ? ROW - 1 : 0));
    }
  }

  private arrow(x0: number, y0: number, x1: number, y1: number): void {
    const { g, colours } = this;
    if (Math.max(x0, x1) < GUTTER) return;
    g.save();
    g.beginPath();
    g.rect(GUTTER, 0, 1e5, 1e5);
    g.clip();
    g.strokeStyle = g.fillStyle = colours.accent;
    g.lineWidth = 1.3;
    g.globalAlpha = 0.85;
    const middle = (y0 + y1) / 2;
    g.beginPath();
    g.moveTo(x0, y0);
    g.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    g.stroke();
    const tip = y1 < y0 ? 5 : -5;
    g.beginPath();
    g.moveTo(x1, y1);
    g.lineTo(x1 - 3, y1 + tip);
    g.lineTo(x1 + 3, y1 + tip);
    g.fill();
    g.restore();
  }

  private ruler(scene: Scene): void {
    const { g, colours } = this;
    g.fillStyle = colours.ground;
    g.fillRect(0, 0, scene.width, RULER);
    const span = scene.end - scene.begin;
    const raw = (span / (scene.width - GUTTER)) * 110;
    const power = 10 ** Math.floor(Math.log10(raw));
    const tick = power * ([1, 2, 5, 10].find((k) => k * power >= raw) ?? 10);
    g.fillStyle = colours.soft;
    for (let t = Math.ceil((scene.begin - scene.origin) / tick) * tick; t <= scene.end - scene.origin; t += tick) {
      const x = this.x(scene, t + scene.origin);
      g.fillRect(Math.round(x), RULER - 7, 1, 7);
      g.fillText(axisTime(t, tick), x + 4, RULER / 2 - 1);
    }
    g.fillText(duration(span), 18, RULER / 2 - 1);
    g.fillStyle = colours.line;
    g.fillRect(0, RULER - 1, scene.width, 1);
    g.fillRect(GUTTER - 1, 0, 1, scene.height);
  }

  private marks(scene: Scene): void {
    const { g, colours } = this;
    g.fillStyle = colours.line;
    g.fillRect(0, RULER + MARKS - 1, scene.width, 1);
    const taken: number[] = [];
    g.textAlign = "center";
    for (const mark of [...scene.marks].sort((a, b) => Number(b.on) - Number(a.on) || a.time - b.time)) {
      const x = this.x(scene, mark.time);
      if (x < GUTTER || x > scene.width) continue;
      if (taken.some((at) => Math.abs(x - at) < 15)) continue;
      taken.push(x);
      g.fillStyle = mark.on ? colours.accent : mark.good ? colours.soft : colours.mark;
      g.beginPath();
      g.roundRect(x - 7, RULER + 2, 14, 13, 3);
      g.fill();
      g.fillStyle = colours.ground;
      g.font = `600 10px ${colours.font}`;
      g.fillText(String(mark.number), x, RULER + 9);
    }
    g.textAlign = "left";
    g.font = `11px ${colours.font}`;
  }

  private lines(scene: Scene): void {
    const { g, colours } = this;
    g.fillStyle = g.strokeStyle = colours.accent;
    g.lineWidth = 1;
    for (const { time, label } of scene.lines) {
      const x = this.x(scene, time);
      if (x < GUTTER || x > scene.width) continue;
      g.setLineDash([4, 3]);
      g.beginPath();
      g.moveTo(x, RULER + MARKS);
      g.lineTo(x, scene.height);
      g.stroke();
      g.setLineDash([]);
      const right = x + 8 + g.measureText(label).width < scene.width;
      g.textAlign = right ? "left" : "right";
      g.fillText(label, right ? x + 5 : x - 5, scene.height - 9);
    }
    g.textAlign = "left";
  }

  private range(scene: Scene): void {
    if (!scene.range) return;
    const { g, colours } = this;
    const left = Math.max(this.x(scene, scene.range[0]), GUTTER), right = Math.min(this.x(scene, scene.range[1]), scene.width);
    g.globalAlpha = 0.14;
    g.fillStyle = colours.accent;
    g.fillRect(left, RULER, right - left, scene.height);
    g.globalAlpha = 1;
    g.fillRect(left, RULER, 1, scene.height);
    g.fillRect(right, RULER, 1, scene.height);
    g.fillText(duration(scene.range[1] - scene.range[0]), Math.max(left + 4, GUTTER + 4), scene.height - 10);
  }
}

/** A moment on the axis, with as many decimals as the distance of the ticks needs. */
export function axisTime(t: number, tick: number): string {
  const [unit, word] = tick >= 1e8 ? [1e9, "s"] : tick >= 1e5 ? [1e6, "ms"] : tick >= 100 ? [1e3, "µs"] : [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(unit / tick) - 1e-9));
  return `${(t / unit).toFixed(decimals).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ",")} ${word}`;
}
