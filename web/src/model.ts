// The timeline in memory: slices of all lanes under one numbering, with rows that can be searched by time.

import type { LanePart, Links, Level, Payload } from "./data";

export interface Lane {
  part: LanePart; kind: LanePart["kind"]; thread: number;
  /** Number of the lane's first slice. */
  first: number;
  count: number; rows: Int32Array[]; levels: Level[]; open: boolean; links: Links | null;
}

export class Model {
  readonly lanes: Lane[] = [];
  readonly start: Float64Array; readonly end: Float64Array; readonly name: Int32Array; readonly colour: Uint8Array;
  readonly row: Int16Array; readonly laneOf: Int16Array;
  readonly strings: string[]; readonly span: number;
  /** Launching call of each GPU slice, -1 where not known; and the GPU slices by their call. */
  readonly call: Int32Array;
  private readonly byCall = new Map<number, number[]>();

  constructor(readonly payload: Payload) {
    const { lanes, strings, span } = payload.timeline;
    const total = lanes.reduce((n, lane) => n + lane.start.length, 0);
    this.start = new Float64Array(total);
    this.end = new Float64Array(total);
    this.name = new Int32Array(total);
    this.colour = new Uint8Array(total);
    this.row = new Int16Array(total);
    this.laneOf = new Int16Array(total);
    this.call = new Int32Array(total).fill(-1);
    this.strings = strings;
    this.span = Math.max(span, 1);
    let first = 0;
    for (const part of lanes) first = this.take(part, first);
  }

  private take(part: LanePart, first: number): number {
    const count = part.start.length;
    const rows: number[][] = Array.from({ length: part.rows }, () => []);
    let at = 0;
    for (let i = 0; i < count; i++) {
      const slice = first + i;
      at += part.start[i];
      this.start[slice] = at;
      this.end[slice] = at + part.dur[i];
      this.name[slice] = part.name[i];
      this.colour[slice] = part.colour[i];
      this.row[slice] = part.row[i];
      this.laneOf[slice] = this.lanes.length;
      rows[part.row[i]].push(slice);
      const call = part.links ? part.links.call[i] - 1 : -1;
      if (call < 0) continue;
      this.call[slice] = call;
      const started = this.byCall.get(call);
      if (started) started.push(slice);
      else this.byCall.set(call, [slice]);
    }
    const open = part.kind !== "frames";
    const packed = rows.map((row) => Int32Array.from(row));
    this.lanes.push({
      part, kind: part.kind, thread: part.thread, first, count, rows: packed, levels: part.levels, open, links: part.links,
    });
    return first + count;
  }

  nameOf(slice: number): string { return this.strings[this.name[slice]]; }
  lane(slice: number): Lane { return this.lanes[this.laneOf[slice]]; }
  duration(slice: number): number { return this.end[slice] - this.start[slice]; }

  link(slice: number, column: keyof Links): number {
    const lane = this.lane(slice);
    return lane.links ? lane.links[column][slice - lane.first] : -1;
  }

  /** Place in a row of the first slice that ends after a moment. */
  firstEndingAfter(row: Int32Array, time: number): number {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[row[middle]] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The slice of a row at a moment, or -1; instants count for `near` ns. */
  at(row: Int32Array, time: number, near = 0): number {
    for (let i = this.firstEndingAfter(row, time - near); i < row.length; i++) {
      const slice = row[i];
      if (this.start[slice] > time + near) return -1;
      return slice;
    }
    return -1;
  }

  /** The slices of one layer of a thread around a slice, the outermost first. */
  around(slice: number, kind: LanePart["kind"]): number[] {
    const thread = this.lane(slice).thread;
    const out: number[] = [];
    for (const lane of this.lanes) {
      if (lane.thread !== thread || lane.kind !== kind) continue;
      for (const row of lane.rows) {
        const found = this.at(row, this.start[slice]);
        if (found < 0 || found === slice) continue;
        if (this.start[found] <= this.start[slice] && this.end[found] >= this.end[slice]) out.push(found);
      }
    }
    return out;
  }

  /** GPU slices that a CPU slice started, itself or within. */
  started(slice: number): number[] {
    const direct = this.byCall.get(slice);
    if (direct) return direct;
    const lane = this.lane(slice);
    const out: number[] = [];
    for (const ops of this.lanes) {
      if (ops.thread !== lane.thread || ops.kind !== "ops") continue;
      for (const row of ops.rows) {
        for (let i = this.firstEndingAfter(row, this.start[slice]); i < row.length; i++) {
          const inner = row[i];
          if (this.start[inner] >= this.end[slice]) break;
          const started = this.start[inner] >= this.start[slice] ? this.byCall.get(inner) : undefined;
          if (started) out.push(...started);
        }
      }
    }
    return out;
  }

  /** Whether every slice of a stretch of time is here. */
  isFull(begin: number, end: number): boolean {
    return this.payload.timeline.full.some(([b, e]) => b <= Math.max(begin, 0) && e >= Math.min(end, this.span));
  }

  /** Step whose time holds a moment: for GPU slices that of its call. */
  stepOf(slice: number): number | null {
    const time = this.start[this.call[slice] >= 0 ? this.call[slice] : slice];
    const step = this.payload.timeline.steps.find((s) => s.start <= time && time < s.end);
    return step ? step.index : null;
  }
}
