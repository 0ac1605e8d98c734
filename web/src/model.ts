// The timeline in memory: slices of all lanes under one numbering, with rows that can be searched by time.

import type { LanePart, Level, Links, Payload, Tile } from "./data";

export interface Lane {
  part: LanePart; kind: LanePart["kind"]; thread: number; count: number; rows: Int32Array[]; levels: Level[]; open: boolean;
  /** Finer bins of the stretch that came last. */
  fine: Level | null;
}

const NONE: Links = { call: [], op: [], limit: [], bound: [], bytes: [] };

export class Model {
  readonly lanes: Lane[] = [];
  start: Float64Array; end: Float64Array; name: Int32Array; colour: Uint8Array; row: Int16Array; laneOf: Int16Array;
  readonly strings: string[]; readonly span: number;
  /** Stretches of which every slice is here. */
  full: [number, number][];
  count = 0;
  private readonly links = { op: new Map<number, number>(), limit: new Map<number, number>(), bound: new Map<number, number>(), bytes: new Map<number, number>() };
  private readonly codes = new Map<string, number>();
  /** Number among all slices of the trace to number here, and the number there of each GPU slice's call. */
  private readonly here = new Map<number, number>();
  private readonly numbers: number[] = [];
  private readonly calls = new Map<number, number>();
  private readonly byCall = new Map<number, number[]>();

  constructor(readonly payload: Payload) {
    const { lanes, strings, span, full } = payload.timeline;
    const total = lanes.reduce((n, lane) => n + lane.start.length, 0);
    this.start = new Float64Array(total);
    this.end = new Float64Array(total);
    this.name = new Int32Array(total);
    this.colour = new Uint8Array(total);
    this.row = new Int16Array(total);
    this.laneOf = new Int16Array(total);
    this.strings = [...strings];
    this.strings.forEach((text, i) => this.codes.set(text, i));
    this.span = Math.max(span, 1);
    this.full = full;
    for (const part of lanes) {
      const rows = Array.from({ length: part.rows }, () => new Int32Array(0));
      this.lanes.push({ part, kind: part.kind, thread: part.thread, count: 0, rows, levels: part.levels, open: part.kind !== "frames", fine: null });
      this.take(this.lanes.length - 1, part, null);
    }
  }

  /** Add what a stretch of the trace has that is not here yet. */
  add(tile: Tile): void {
    const names = tile.strings.map((text) => {
      let code = this.codes.get(text);
      if (code === undefined) {
        code = this.strings.push(text) - 1;
        this.codes.set(text, code);
      }
      return code;
    });
    this.grow(this.count + tile.lanes.reduce((n, lane) => n + lane.start.length, 0));
    tile.lanes.forEach((part, i) => {
      this.take(i, part, names);
      this.lanes[i].fine = part.levels[0] ?? null;
    });
    if (tile.full) this.full = joined([...this.full, [tile.begin, tile.end]]);
  }

  private grow(total: number): void {
    if (total <= this.start.length) return;
    const length = Math.max(total, this.start.length * 2);
    const wider = <A extends { set(from: A): void }>(from: A, to: A): A => { to.set(from); return to; };
    this.start = wider(this.start, new Float64Array(length));
    this.end = wider(this.end, new Float64Array(length));
    this.name = wider(this.name, new Int32Array(length));
    this.colour = wider(this.colour, new Uint8Array(length));
    this.row = wider(this.row, new Int16Array(length));
    this.laneOf = wider(this.laneOf, new Int16Array(length));
  }

  private take(place: number, part: LanePart, names: number[] | null): void {
    const fresh: number[][] = Array.from({ length: part.rows }, () => []);
    const links = part.links ?? NONE;
    let at = 0;
    for (let i = 0; i < part.start.length; i++) {
      at += part.start[i];
      const number = part.number ? part.number[i] : this.count;
      if (this.here.has(number)) continue;
      const slice = this.count++;
      this.here.set(number, slice);
      this.numbers.push(number);
      this.start[slice] = at;
      this.end[slice] = at + part.dur[i];
      this.name[slice] = names ? names[part.name[i]] : part.name[i];
      this.colour[slice] = part.colour[i];
      this.row[slice] = part.row[i];
      this.laneOf[slice] = place;
      fresh[part.row[i]].push(slice);
      if (part.links) this.link(slice, links, i, names);
    }
    this.lanes[place].count += part.start.length;
    this.lanes[place].rows = this.lanes[place].rows.map((row, i) => merged(row, fresh[i] ?? [], this.start));
  }

  private link(slice: number, links: Links, i: number, names: number[] | null): void {
    const op = links.op[i] - 1;
    if (op >= 0) this.links.op.set(slice, names ? names[op] : op);
    for (const column of ["limit", "bound", "bytes"] as const) if (links[column][i] >= 0) this.links[column].set(slice, links[column][i]);
    const call = links.call[i] - 1;
    if (call < 0) return;
    this.calls.set(slice, call);
    const started = this.byCall.get(call);
    if (started) started.push(slice);
    else this.byCall.set(call, [slice]);
  }

  /** The launching call of a GPU slice, -1 where it is not known or not here. */
  call(slice: number): number { return this.here.get(this.calls.get(slice) ?? -1) ?? -1; }

  /** A column of what is known about a GPU slice, -1 where it is not. */
  known(slice: number, column: "op" | "limit" | "bound" | "bytes"): number { return this.links[column].get(slice) ?? -1; }

  nameOf(slice: number): string { return this.strings[this.name[slice]]; }
  lane(slice: number): Lane { return this.lanes[this.laneOf[slice]]; }
  duration(slice: number): number { return this.end[slice] - this.start[slice]; }

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

  private startedBy(call: number): number[] | undefined {
    return this.byCall.size ? this.byCall.get(this.numbers[call]) : undefined;
  }

  /** GPU slices that a CPU slice started, itself or within. */
  started(slice: number): number[] {
    const direct = this.startedBy(slice);
    if (direct) return direct;
    const lane = this.lane(slice);
    const out: number[] = [];
    for (const ops of this.lanes) {
      if (ops.thread !== lane.thread || ops.kind !== "ops") continue;
      for (const row of ops.rows) {
        for (let i = this.firstEndingAfter(row, this.start[slice]); i < row.length; i++) {
          const inner = row[i];
          if (this.start[inner] >= this.end[slice]) break;
          const started = this.start[inner] >= this.start[slice] ? this.startedBy(inner) : undefined;
          if (started) out.push(...started);
        }
      }
    }
    return out;
  }

  /** Whether every slice of a stretch of time is here. */
  isFull(begin: number, end: number): boolean {
    return this.full.some(([b, e]) => b <= Math.max(begin, 0) && e >= Math.min(end, this.span));
  }

  /** Step whose time holds a moment: for GPU slices that of its call. */
  stepOf(slice: number): number | null {
    const call = this.call(slice);
    const time = this.start[call >= 0 ? call : slice];
    const step = this.payload.timeline.steps.find((s) => s.start <= time && time < s.end);
    return step ? step.index : null;
  }
}

/** A row with more slices, by start. */
function merged(row: Int32Array, fresh: number[], start: Float64Array): Int32Array {
  if (!fresh.length) return row;
  const out = new Int32Array(row.length + fresh.length);
  out.set(row);
  out.set(fresh, row.length);
  return row.length ? out.sort((a, b) => start[a] - start[b]) : out;
}

/** Stretches by begin, those that touch joined. */
function joined(windows: [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [begin, end] of windows.sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([begin, end]);
  }
  return out;
}
