// What is known about the selected slice: in words, with the way from module to op to call to kernel.

import { h } from "./dom";
import { bandwidth, count, duration, percent, size } from "./format";
import type { Model } from "./model";
import type { State } from "./state";
import type { TimelineView } from "./timeline";

const BOUNDS = ["memory", "compute", "latency"];
const MOST_STARTED = 12;

export function details(state: State, model: Model, view: TimelineView, slice: number): HTMLElement {
  const t = state.t.bind(state);
  if (slice < 0) return h("p", { class: "hint" }, t("select-hint"));
  const name = model.nameOf(slice);
  const lane = model.lane(slice);
  const words = lane.kind === "gpu" ? state.kernel(name) : undefined;
  const rows: [string, Node | string][] = [
    [t("duration"), duration(model.duration(slice))],
    [t("start"), duration(model.start[slice])],
    [t("category"), t(`class-${state.payload.classes[model.colour[slice]]}`)],
  ];
  const step = model.stepOf(slice);
  if (step !== null) rows.push([t("step"), String(step)]);
  rows.push([t("lane"), lane.kind === "gpu" ? t("lane-gpu", { device: lane.part.device ?? 0, stream: lane.part.stream ?? 0 }) : lane.part.label]);
  if (lane.kind === "gpu") rows.push(...gpuRows(state, model, view, slice));
  else rows.push(...startedRows(state, model, view, slice));
  const proofs = view.proofs.flatMap((proof, i) => (proof.slices.includes(slice) ? [i] : []));
  if (proofs.length) {
    rows.push([t("evidence-of"), h("span", {}, ...proofs.map((i) => button(view.proofs[i].title(), () => view.showProof(i))))]);
  }
  return h("div", { class: "details" },
    h("h3", {}, words?.label ?? name),
    words && h("p", { class: "sentence" }, words.sentence),
    h("dl", {}, ...rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    chain(state, model, view, slice),
    words && words.label !== name && h("p", { class: "raw" }, h("span", {}, t("raw-name")), h("code", {}, name)),
  );
}

const button = (text: string, onclick: () => void) => h("button", { type: "button", class: "link", onclick }, text);

function gpuRows(state: State, model: Model, view: TimelineView, slice: number): [string, Node | string][] {
  const t = state.t.bind(state);
  const call = model.call(slice);
  const op = model.known(slice, "op");
  const length = model.duration(slice);
  const rows: [string, Node | string][] = [];
  const owner = call >= 0 ? model.around(call, "ops").at(-1) : undefined;
  const opName = op >= 0 ? model.strings[op] : t("unknown");
  rows.push([t("launched-by"), owner !== undefined ? button(opName, () => view.select(owner, true)) : opName]);
  const modules = call >= 0 ? model.around(call, "modules") : [];
  if (modules.length) {
    const inner = modules.at(-1)!;
    rows.push([t("module"), button(view.label(inner), () => view.select(inner, true))]);
  }
  if (call >= 0) {
    rows.push([t("call"), button(model.nameOf(call), () => view.select(call, true))]);
    rows.push([t("delay"), duration(model.start[slice] - model.start[call])]);
  }
  const bytes = model.known(slice, "bytes");
  if (bytes >= 0) rows.push([t("bytes"), `${size(bytes)}${length ? `, ${bandwidth((bytes / length) * 1e9)}` : ""}`]);
  const limit = model.known(slice, "limit"), bound = BOUNDS[model.known(slice, "bound")];
  if (limit > 0) {
    rows.push([t("at-limit"), duration(limit)]);
    rows.push([t("reached"), `${percent(limit / Math.max(length, 1))}${bound ? ` (${t(`bound-${bound}`)})` : ""}`]);
  } else rows.push([t("at-limit"), t("unknown")]);
  return rows;
}

function startedRows(state: State, model: Model, view: TimelineView, slice: number): [string, Node | string][] {
  const started = model.started(slice);
  if (!started.length) return [];
  const time = started.reduce((sum, s) => sum + model.duration(s), 0);
  const first = started.slice(0, MOST_STARTED).map((s) => button(view.label(s), () => view.select(s, true)));
  return [[state.t("started"), h("span", {}, state.t("started-of", { count: count(started.length), time: duration(time) }), ...first)]];
}

/** Annotations, modules, ops, the call and the GPU op, each a way to it. */
function chain(state: State, model: Model, view: TimelineView, slice: number): HTMLElement | false {
  const cpu = model.call(slice) >= 0 ? model.call(slice) : model.lane(slice).kind === "gpu" ? -1 : slice;
  if (cpu < 0) return false;
  const around = [...model.around(cpu, "modules"), ...model.around(cpu, "ops")];
  around.sort((a, b) => model.start[a] - model.start[b] || model.end[b] - model.end[a]);
  const links = [...around, cpu, ...(cpu === slice ? [] : [slice])];
  return h("nav", { class: "chain", "aria-label": state.t("chain") },
    h("span", {}, state.t("chain")),
    h("ol", {}, ...links.map((s) => h("li", { "aria-current": s === slice && "true" }, button(view.label(s), () => view.select(s, true))))),
  );
}
