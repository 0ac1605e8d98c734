// The strip of the whole trace: how busy each GPU and the main thread are, the findings, and the window shown below.

import { GUTTER } from "./draw";
import type { Lane, Model } from "./model";
import type { Palette } from "./palette";

export const STRIP = 46;

/** A column for each pixel: how much is covered, and by which class. */
function columns(model: Model, lane: Lane, pixels: number): { cover: Float32Array; colour: Uint8Array } {
  const cover = new Float32Array(pixels), colour = new Uint8Array(pixels);
  const scale = pixels / model.span;
  const level = lane.levels[0];
  if (level) {
    for (let x = 0; x < pixels; x++) {
      const bin = Math.min(Math.floor(((x + 0.5) / pixels) * level.cover.length), level.cover.length - 1);
      cover[x] = (level.cover.charCodeAt(bin) - 48) / 9;
      colour[x] = level.colour.charCodeAt(bin) - 97;
    }
    return { cover, colour };
  }
  for (const slice of lane.rows[0] ?? []) {
    const from = model.start[slice] * scale, to = model.end[slice] * scale;
    for (let x = Math.floor(from); x <= Math.min(Math.floor(to), pixels - 1); x++) {
      const part = Math.min(to, x + 1) - Math.max(from, x);
      if (part >= cover[x] / 2 || !cover[x]) colour[x] = model.colour[slice];
      cover[x] = Math.min(cover[x] + part, 1);
    }
  }
  return { cover, colour };
}

/** Draw the strip, without the window, once for a size and theme. */
export function paintStrip(model: Model, g: CanvasRenderingContext2D, width: number, c: Palette): void {
  const pixels = Math.max(Math.floor(width - GUTTER), 1);
  g.fillStyle = c.ground;
  g.fillRect(0, 0, width, STRIP);
  model.payload.timeline.steps.forEach((step, i) => {
    if (i % 2) return;
    g.fillStyle = c.band;
    g.fillRect(GUTTER + (step.start / model.span) * pixels, 0, ((step.end - step.start) / model.span) * pixels, STRIP);
  });
  const gpu = model.lanes.filter((l) => l.kind === "gpu").sort((a, b) => b.part.total - a.part.total).slice(0, 4);
  const shown = gpu.length ? gpu : model.lanes.filter((l) => l.kind === "ops").slice(0, 2);
  const each = (STRIP - 6) / Math.max(shown.length, 1);
  shown.forEach((lane, i) => {
    const { cover, colour } = columns(model, lane, pixels);
    for (let x = 0; x < pixels; x++) {
      if (!cover[x]) continue;
      const height = Math.max(cover[x] * (each - 3), 1);
      g.fillStyle = c.classes[colour[x]];
      g.fillRect(GUTTER + x, 3 + (i + 1) * each - height, 1, height);
    }
  });
}

export function paintWindow(g: CanvasRenderingContext2D, width: number, begin: number, end: number, span: number, c: Palette): void {
  const pixels = width - GUTTER;
  const inside = (time: number) => GUTTER + Math.min(Math.max(time / span, 0), 1) * pixels;
  const left = inside(begin), right = inside(end);
  g.globalAlpha = 0.62;
  g.fillStyle = c.ground;
  g.fillRect(GUTTER, 0, left - GUTTER, STRIP);
  g.fillRect(right, 0, width - right, STRIP);
  g.globalAlpha = 1;
  g.strokeStyle = c.accent;
  g.lineWidth = 1.5;
  g.strokeRect(left, 0.75, Math.max(right - left, 2), STRIP - 1.5);
}
