// The head of the report: the verdict with its figures, where a step goes, step times, and what was read.

import { h, prose, s } from "./dom";
import { count, duration, percent, size } from "./format";
import type { State } from "./state";

/** A step this many times the median is named; as far as that noise does not go. */
const OUTLIER = 1.25;

export function verdict(state: State): HTMLElement {
  const { report } = state;
  const t = state.t.bind(state);
  const { step } = report;
  const tiles: (HTMLElement | false)[] = [];
  tiles.push(tile(t("bound"), t(`bound-${report.verdict.bound}`), ""));
  if (step.time_us !== null) {
    const slots = { profiled: step.profiled_time_us === null ? "" : duration(step.profiled_time_us * 1e3), count: step.count };
    tiles.push(tile(t("step-time"), duration(step.time_us * 1e3), t(`step-time-${step.source ?? "profiled"}`, slots)));
  }
  const share = report.verdict.numbers?.gpu_share_ratio;
  if (share !== null && share !== undefined) {
    const busy = step.gpu_busy_us === null ? "" : t("gpu-busy-of", { time: duration(step.gpu_busy_us * 1e3) });
    tiles.push(tile(t("gpu-busy"), percent(share), busy));
  }
  const best = Math.max(0, ...report.findings.map((f) => f.share_ratio ?? 0));
  if (best > 0) tiles.push(tile(t("could-save"), percent(best), t("could-save-note")));
  const limit = report.roofline?.step;
  if (limit && limit.known_us > 0 && limit.gpu_us > 0) {
    const note = t("of-limit-note", { share: percent(limit.known_us / limit.gpu_us) });
    tiles.push(tile(t("of-limit"), percent(limit.limit_us / limit.known_us), note));
  }
  return h("section", { class: "verdict", id: "verdict" }, h("h1", {}, prose(report.verdict.text)), h("div", { class: "tiles" }, ...tiles));
}

const tile = (label: string, value: string, note: string) =>
  h("div", { class: "tile" }, h("span", { class: "label" }, label), h("span", { class: "value" }, value), note ? h("span", { class: "note" }, note) : false);

const CAUSES = ["compute", "communication", "copy"];

export function where(state: State): HTMLElement | false {
  const { report } = state;
  if (!report.where.length) return false;
  const t = state.t.bind(state);
  const colour = (cause: string, i: number) => (CAUSES.includes(cause) ? `var(--cause-${cause})` : `var(--idle-${i % 5})`);
  let idle = 0;
  const parts = report.where.map((row) => ({
    ...row, label: t(`cause-${row.cause}`), colour: colour(row.cause, CAUSES.includes(row.cause) ? 0 : idle++),
  }));
  return h("section", { id: "where" },
    h("h2", {}, t("where")),
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
  const times = rows.map((r) => r.time_us);
  const sorted = [...times].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const most = sorted[sorted.length - 1];
  const width = 560, height = 92, pad = 14, base = height - 18;
  const y = (time: number) => base - (time / Math.max(most, 1e-9)) * (base - pad);
  const each = (width - 2 * pad) / Math.max(rows.length, 1);
  const text = t("steps-text", { median: duration(median * 1e3), shortest: duration(sorted[0] * 1e3), longest: duration(most * 1e3) });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, class: "marks" });
  svg.append(s("line", { x1: pad, x2: width - pad, y1: base, y2: base, class: "axis" }));
  svg.append(s("line", { x1: pad, x2: width - pad, y1: y(median), y2: y(median), class: "median" }));
  const far = rows.filter((r) => r.time_us > median * OUTLIER && rows.length > 2);
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
      t("steps-outlier", { index: row.index, time: duration(row.time_us * 1e3), times: (row.time_us / median).toFixed(1) }))))));
  }
  return section;
}

export function environment(state: State): HTMLElement {
  const { trace, coverage, generator } = state.report;
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
  return h("section", { id: "environment" },
    h("h2", {}, t("environment")),
    h("dl", {}, ...rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    ...(trace.warnings.length ? [h("h3", {}, t("notes")), h("ul", { class: "notes" }, ...trace.warnings.map((w) => h("li", {}, prose(w.text))))] : []),
    h("p", { class: "soft" }, t("made-by", { generator })),
  );
}
