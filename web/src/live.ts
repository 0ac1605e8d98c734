// In the viewer: asks for the stretches of the trace that the page does not have, and loads it again when the file has changed.

import type { Tile } from "./data";
import type { Model } from "./model";

const POLL_MS = 1500, WAIT_MS = 90, MOST_WITHOUT = 50_000;

export const isLive = (): boolean => document.documentElement.dataset.mode?.startsWith("view") ?? false;

export class Live {
  private timer = 0; private asked = ""; private busy = false;
  /** ms that the last stretch took to come. */
  took = -1;

  constructor(private readonly model: Model, private readonly changed: () => void) {
    const version = document.documentElement.dataset.mode!.split("-")[1];
    setInterval(async () => {
      if (document.hidden) return;
      const now = await fetch("version").then((r) => (r.ok ? r.text() : version), () => version);
      if (now !== version) location.reload();
    }, POLL_MS);
  }

  /** Ask for what is shown, with as much again on both sides, once moving has paused. */
  want(begin: number, end: number): void {
    clearTimeout(this.timer);
    // What is nearly the whole trace is as good with the longest events, which the page has.
    if ((end - begin) * 4 > this.model.span && this.model.count > MOST_WITHOUT) return;
    if (this.model.isFull(begin, end)) return;
    this.timer = window.setTimeout(() => this.ask(begin, end), WAIT_MS);
  }

  private async ask(begin: number, end: number): Promise<void> {
    const around = (end - begin) / 2;
    const query = `tile?begin=${Math.floor(begin - around)}&end=${Math.ceil(end + around)}`;
    if (this.busy) return this.want(begin, end);
    if (query === this.asked) return;
    this.asked = query;
    this.busy = true;
    const begun = performance.now();
    try {
      const answer = await fetch(query);
      if (answer.ok) this.model.add((await answer.json()) as Tile);
    } finally {
      this.busy = false;
      this.took = performance.now() - begun;
    }
    this.changed();
  }
}
