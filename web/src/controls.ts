// How the mouse and keys move a timeline.

import { h } from "./dom";
import { GUTTER, MARKS, places, ROW, RULER } from "./draw";
import { duration } from "./format";
import { STRIP } from "./overview";
import type { TimelineView } from "./timeline";

export function listen(view: TimelineView): void {
  const { canvas, strip } = view;
  canvas.addEventListener("wheel", (e) => wheel(view, e), { passive: false });
  canvas.addEventListener("pointerdown", (e) => press(view, e));
  canvas.addEventListener("pointermove", (e) => point(view, e));
  canvas.addEventListener("pointerleave", () => { view.hover = view.mouse = -1; view.tip.hidden = true; view.redraw(); });
  const move = (e: PointerEvent) => {
    const middle = ((e.offsetX - GUTTER) / (view.width - GUTTER)) * view.model.span;
    const half = (view.end - view.begin) / 2;
    view.show(middle - half, middle + half, false);
  };
  strip.addEventListener("pointerdown", (e) => { strip.setPointerCapture(e.pointerId); move(e); });
  strip.addEventListener("pointermove", (e) => { if (e.buttons) move(e); });
  strip.addEventListener("dblclick", () => view.all());
}

function wheel(view: TimelineView, e: WheelEvent): void {
  if (e.ctrlKey || e.metaKey) {
    e.preventDefault();
    return view.zoom(Math.exp(e.deltaY * 0.002), view.time(e.offsetX));
  }
  const sideways = e.shiftKey ? e.deltaY : e.deltaX;
  if (Math.abs(sideways) > Math.abs(e.shiftKey ? 0 : e.deltaY)) {
    e.preventDefault();
    return view.pan(sideways / (view.width - GUTTER));
  }
  const before = view.scroll;
  view.scrollTo(view.scroll + e.deltaY);
  if (view.scroll !== before) e.preventDefault();
  view.redraw();
}

function press(view: TimelineView, e: PointerEvent): void {
  const { canvas } = view;
  canvas.focus({ preventScroll: true });
  const [x0, y0, begin, end, scroll] = [e.offsetX, e.offsetY, view.begin, view.end, view.scroll];
  const panning = e.shiftKey || e.button === 1;
  let moved = false;
  canvas.setPointerCapture(e.pointerId);
  const drag = (m: PointerEvent) => {
    if (!moved && Math.abs(m.offsetX - x0) < 4 && Math.abs(m.offsetY - y0) < 4) return;
    moved = true;
    if (panning) {
      const by = ((m.offsetX - x0) / (view.width - GUTTER)) * (end - begin);
      view.scrollTo(scroll - (m.offsetY - y0));
      return view.show(begin - by, end - by, false);
    }
    const times = [view.time(x0), view.time(m.offsetX)].sort((a, b) => a - b);
    view.range = [times[0], times[1]];
    view.redraw();
  };
  const done = (m: PointerEvent) => {
    canvas.removeEventListener("pointermove", drag);
    if (moved) return;
    view.range = null;
    click(view, m.offsetX, m.offsetY);
  };
  canvas.addEventListener("pointermove", drag);
  canvas.addEventListener("pointerup", done, { once: true });
}

function click(view: TimelineView, x: number, y: number): void {
  if (y >= RULER && y < RULER + MARKS) return clickMark(view, x);
  if (x < GUTTER) {
    const depth = y - RULER - MARKS + view.scroll;
    const place = places(view.model).find((p) => depth >= p.top && depth < p.top + p.height);
    if (place && place.lane.rows.length > 1) { place.lane.open = !place.lane.open; view.scrollTo(view.scroll); view.resize(); }
    return;
  }
  view.select(view.sliceAt(x, y));
}

function clickMark(view: TimelineView, x: number): void {
  const near = (view.end - view.begin) / (view.width - GUTTER) * 9;
  const mark = view.marks().find((m) => Math.abs(m.time - view.time(x)) < near);
  if (mark) view.showProof(mark.number - 1);
}

function point(view: TimelineView, e: PointerEvent): void {
  view.mouse = e.offsetX;
  if (e.buttons) return;
  const slice = view.sliceAt(e.offsetX, e.offsetY);
  view.canvas.style.cursor = slice >= 0 || e.offsetX < GUTTER ? "pointer" : "default";
  view.tip.hidden = slice < 0;
  if (slice >= 0) {
    view.tip.replaceChildren(h("b", {}, view.label(slice)), h("span", {}, duration(view.model.duration(slice))));
    const left = Math.min(e.offsetX + 14, view.width - view.tip.offsetWidth - 8);
    view.tip.style.transform = `translate(${left}px, ${e.offsetY + STRIP + 20}px)`;
  }
  if (slice !== view.hover) { view.hover = slice; view.redraw(); }
}

/** What keys mean that another page than the report's may give another meaning. */
export interface Jumps { step(by: number): void; reset(): void; proof(by: number): void }

/** Whether a key was one of the timeline's. */
export function pressed(view: TimelineView, e: KeyboardEvent, jumps?: Jumps): boolean {
  if (e.ctrlKey || e.metaKey || e.altKey) return false;
  const go = jumps ?? { step: (by) => view.step(by), reset: () => view.reset(), proof: (by) => view.nextProof(by) };
  const keys: Record<string, () => void> = {
    w: () => view.zoom(0.7, view.pointer()), s: () => view.zoom(1 / 0.7, view.pointer()),
    a: () => view.pan(-0.15), d: () => view.pan(0.15), f: () => view.focus(), ".": () => view.along(1), ",": () => view.along(-1),
    "]": () => go.step(1), "[": () => go.step(-1), "1": () => go.reset(), "0": () => view.all(), escape: () => view.clear(),
    n: () => go.proof(1), p: () => go.proof(-1),
  };
  const arrows: Record<string, () => void> = {
    arrowleft: keys.a, arrowright: keys.d, "+": keys.w, "-": keys.s, enter: keys.f,
    arrowup: () => { view.scrollTo(view.scroll - ROW * 2); view.redraw(); },
    arrowdown: () => { view.scrollTo(view.scroll + ROW * 2); view.redraw(); },
  };
  const key = e.key.toLowerCase();
  const act = keys[key] ?? (document.activeElement === view.canvas ? arrows[key] : undefined);
  act?.();
  return act !== undefined;
}
