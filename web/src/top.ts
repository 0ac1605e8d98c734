// The head of the report: the verdict with its figures, where a step goes, step times, and what was read.

import { h, prose, s } from "./dom";
import { count, duration, percent, size } from "./format";
import type { State } from "./state";

/** A step this many times the median is named; as far as that noise does not go. */
const OUTLIER = 1.25;

// What is known of less than half of a step's GPU time is no figure of the step.
const MOST_KNOWN = 0.5;

export function verdict(state: State): HTMLElement {
  const { report } = state;
  const t = state.t.bind(state);
  const { step } = report;
  const tiles: (HTMLElement | false)[] = [];
  tiles.push(tile(t("bound"), t(`bound-${report.verdict.bound}`), ""));
  if (step.time_us !== null) {
    const slots = { profiled: step.profiled_time_us === null ? "" : duration(step.profiled_time_us * 1e3), count: step.count };
    tiles.push(tile(t("step-time"), duration(step.time_us * 1e3), t(step.source !== "unprofiled" && step.count === 1 ? "step-time-one" : `step-time-${step.source ?? "profiled"}`, slots)));
  }
  const share = report.verdict.numbers?.gpu_share_ratio;
  if (share !== null && share !== undefined) {
    const busy = step.gpu_busy_us === null ? "" : t("gpu-busy-of", { time: duration(step.gpu_busy_us * 1e3) });
    tiles.push(tile(t("gpu-busy"), percent(share), busy));
  }
  const best = Math.max(0, ...report.findings.map((f) => f.share_ratio ?? 0));
  if (best > 0) tiles.push(tile(t("could-save"), percent(best), t("could-save-note")));
  const limit = report.roofline?.step;
  const known = limit && limit.gpu_us > 0 ? limit.known_us / limit.gpu_us : 0;
  if (limit && known >= MOST_KNOWN) tiles.push(tile(t("of-limit"), percent(limit.limit_us / limit.known_us), t("of-limit-note", { share: percent(known) })));
  return h("section", { class: "verdict", id: "verdict" }, h("h1", {}, prose(report.verdict.text)), h("div", { class: "tiles" }, ...tiles));
}

export const tile = (label: string, value: string, note: string, look = ""): HTMLElement =>
  h("div", { class: "tile" }, h("span", { class: "label" }, label), h("span", { class: "value" }, value), note ? h("span", { class: `note ${look}` }, note) : false);

const CAUSES = ["compute", "communication", "copy"];

export function where(state: State, title = state.t("where"), id = "where"): HTMLElement | false {
  const { report } = state;
  if (!report.where.length) return false;
  const t = state.t.bind(state);
  const colour = (cause: string, i: number) => (CAUSES.includes(cause) ? `var(--cause-${cause})` : `var(--idle-${i % 5})`);
  let idle = 0;
  const parts = report.where.map((row) => ({
    ...row, label: t(`cause-${row.cause}`), colour: colour(row.cause, CAUSES.includes(row.cause) ? 0 : idle++),
  }));
  return h("section", { id },
    h("h2", {}, title),
    h("div", { class: "stack", "aria-hidden": "true" }, ...parts.map((p) =>
      h("span", { style: { "flex-grow": String(Math.max(p.ratio, 0.002)), background: p.colour }, title: `${p.label} ${percent(p.ratio)}` }))),
    h("ul", { class: "legend" }, ...parts.map((p) => h("li", {},
      h("i", { style: { background: p.colour } }), h("span", {}, p.label), h("b", {}, duration(p.us * 1e3)), h("span", { class: "soft" }, percent(p.ratio))))),
  );
}

export function steps(state: State, go: (index: number) => void): HTMLElement {
  const t = state.t.bind(state);
  const rows = state.report.steps;
  const section = h("section", { id: "steps" }, h("h2", {}, t("steps")));
  if (!rows.length) {
    section.append(h("p", { class: "soft" }, t("steps-none")));
    return section;
  }
  const sorted = rows.map((r) => r.time_us).sort((a, b) => a - b);
  const usual = median(sorted)!;
  const most = sorted[sorted.length - 1];
  const width = 560, height = 92, pad = 14, base = height - 18;
  const y = (time: number) => base - (time / Math.max(most, 1e-9)) * (base - pad);
  const each = (width - 2 * pad) / Math.max(rows.length, 1);
  const text = t("steps-text", { median: duration(usual * 1e3), shortest: duration(sorted[0] * 1e3), longest: duration(most * 1e3) });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, class: "marks" });
  svg.append(s("line", { x1: pad, x2: width - pad, y1: base, y2: base, class: "axis" }));
  svg.append(s("line", { x1: pad, x2: width - pad, y1: y(usual), y2: y(usual), class: "median" }));
  const far = rows.filter((r) => r.time_us > usual * OUTLIER && rows.length > 2);
  rows.forEach((row, i) => {
    const x = pad + (i + 0.5) * each;
    const mark = s("circle", { cx: x, cy: y(row.time_us), r: Math.min(4.5, Math.max(each / 3, 1.8)), class: far.includes(row) ? "far" : "" });
    mark.append(s("title", {}, `${row.name}: ${duration(row.time_us * 1e3)}`));
    mark.addEventListener("click", () => go(row.index));
    svg.append(mark);
  });
  svg.append(s("text", { x: pad, y: height - 4 }, String(rows[0].index)));
  if (rows.length > 1) svg.append(s("text", { x: width - pad, y: height - 4, "text-anchor": "end" }, String(rows[rows.length - 1].index)));
  section.append(svg, h("p", { class: "soft" }, text));
  const named = [...far].sort((a, b) => b.time_us - a.time_us).slice(0, 4);
  if (named.length) {
    section.append(h("ul", { class: "outliers" }, ...named.map((row) => h("li", {}, h("button", { type: "button", class: "link", onclick: () => go(row.index) },
      t("steps-outlier", { index: row.index, time: duration(row.time_us * 1e3), times: (row.time_us / usual).toFixed(1) }))))));
  }
  return section;
}

/** The step times of several traces on one axis: each step a mark, a line at the median. */
export function spread(state: State, sides: { name: string; state: State }[]): HTMLElement | false {
  const t = state.t.bind(state);
  const times = sides.map((side) => side.state.report.steps.map((row) => row.time_us));
  const most = Math.max(...times.flat());
  if (!(most > 0)) return false;
  const width = 900, left = 210, pad = 14, row = 34, height = row * sides.length + 22;
  const x = (time: number) => left + (time / most) * (width - left - pad);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("spread-label"), class: "marks spread" });
  const texts = sides.map((side, i) => {
    const y = row * i + row / 2;
    const middle = median(times[i]);
    svg.append(s("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, side.name.length > 30 ? `…${side.name.slice(-29)}` : side.name));
    svg.append(s("line", { x1: left, x2: width - pad, y1: y, y2: y, class: "axis" }));
    for (const time of times[i]) svg.append(s("circle", { cx: x(time), cy: y, r: 4, class: time > (middle ?? 0) * OUTLIER ? "far" : "" }));
    if (middle === null) return `${side.name}: ${t("steps-none")}`;
    svg.append(s("line", { x1: x(middle), x2: x(middle), y1: y - 11, y2: y + 11, class: "middle" }));
    const sorted = [...times[i]].sort((a, b) => a - b);
    return `${side.name}: ${t("steps-text", { median: duration(middle * 1e3), shortest: duration(sorted[0] * 1e3), longest: duration(sorted[sorted.length - 1] * 1e3) })}`;
  });
  svg.append(s("text", { x: left, y: height - 5 }, "0"), s("text", { x: width - pad, y: height - 5, "text-anchor": "end" }, duration(most * 1e3)));
  return h("section", { id: "steps", class: "wide" }, h("h2", {}, t("spread")), svg, ...texts.map((text) => h("p", { class: "soft" }, text)));
}

function median(values: number[]): number | null {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** What was read, and on what it ran: term and value. */
function environmentRows(state: State): [string, string][] {
  const { trace, coverage } = state.report;
  const t = state.t.bind(state);
  const names = new Map<string, number>();
  for (const d of trace.devices) if (d.name) names.set(d.name, (names.get(d.name) ?? 0) + 1);
  const gpus = [...names].map(([name, n]) => (n > 1 ? `${n} × ${name}` : name)).join(", ");
  const odd = [trace.repaired_events && `${count(trace.repaired_events)} ${t("events-repaired")}`, trace.skipped_events && `${count(trace.skipped_events)} ${t("events-skipped")}`];
  const rows: [string, string][] = [[t("file"), trace.path]];
  if (trace.file_bytes !== null) rows.push([t("file-size"), size(trace.file_bytes)]);
  if (trace.span_us !== null) rows.push([t("span"), duration(trace.span_us * 1e3)]);
  rows.push([t("events"), [count(trace.events), ...odd.filter(Boolean)].join(", ")]);
  rows.push([t("gpu"), gpus || t("no-gpu")]);
  if (trace.ranks.length) {
    rows.push([t("rank"), trace.world_size ? t("rank-of", { rank: trace.ranks.join(", "), world: trace.world_size }) : trace.ranks.join(", ")]);
  }
  if (coverage.launches) rows.push([t("coverage"), t("coverage-of", { linked: count(coverage.launches_linked), launches: count(coverage.launches) })]);
  rows.push([t("recorded"), trace.capabilities.map((c) => t(`has-${c}`)).join(", ")]);
  for (const [name, version] of Object.entries(trace.versions)) rows.push([name, version]);
  return rows;
}

/** The same of several traces beside each other. */
export function bothEnvironments(sides: { name: string; state: State }[], generator: string): HTMLElement {
  const { state } = sides[0];
  const columns = sides.map((side) => new Map(environmentRows(side.state)));
  const terms = [...new Set(columns.flatMap((column) => [...column.keys()]))];
  const notes = sides.flatMap((side) => side.state.report.trace.warnings.map((w) => h("li", {}, h("b", {}, `${side.name}: `), prose(w.text))));
  return h("section", { id: "environment" }, h("h2", {}, state.t("environment")),
    h("div", { class: "scroll" }, h("table", { class: "sides" },
      h("thead", {}, h("tr", {}, h("td", {}), ...sides.map((side) => h("th", { scope: "col" }, side.name)))),
      h("tbody", {}, ...terms.map((term) => h("tr", {}, h("th", { scope: "row" }, term), ...columns.map((column) => h("td", {}, column.get(term) ?? ""))))))),
    ...(notes.length ? [h("h3", {}, state.t("notes")), h("ul", { class: "notes" }, ...notes)] : []),
    h("p", { class: "soft" }, state.t("made-by", { generator })));
}

export function environment(state: State): HTMLElement {
  const { trace, generator } = state.report;
  const t = state.t.bind(state);
  return h("section", { id: "environment" },
    h("h2", {}, t("environment")),
    h("dl", {}, ...environmentRows(state).flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    ...(trace.warnings.length ? [h("h3", {}, t("notes")), h("ul", { class: "notes" }, ...trace.warnings.map((w) => h("li", {}, prose(w.text))))] : []),
    h("p", { class: "soft" }, t("made-by", { generator })),
  );
}
