// GPU time by kind and by module as bars, and kernels on the card's roofline.

import { h, prose, s } from "./dom";
import { bandwidth, count, duration, flopsRate, percent } from "./format";
import type { Model } from "./model";
import type { State } from "./state";

const MOST_BARS = 12;

function bars(title: string, rows: [string, number, string?][], id: string): HTMLElement | false {
  if (!rows.length) return false;
  const sorted = [...rows].sort((a, b) => b[1] - a[1]);
  const total = sorted.reduce((sum, [, ns]) => sum + ns, 0) || 1;
  const most = sorted[0][1] || 1;
  return h("section", { id }, h("h2", {}, title), h("table", { class: "bars" }, h("tbody", {}, ...sorted.slice(0, MOST_BARS).map(([label, ns, colour]) =>
    h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "gauge" }, h("i", { style: { width: `${(ns / most) * 100}%`, background: colour ?? "var(--accent)" } })),
      h("td", { class: "num" }, duration(ns)), h("td", { class: "num soft" }, percent(ns / total)))))));
}

export function byKind(state: State): HTMLElement | false {
  const sums = new Map<string, number>();
  for (const row of state.report.kernels) {
    const kind = state.kindOf(row.kind);
    sums.set(kind, (sums.get(kind) ?? 0) + row.total_us * 1e3);
  }
  return bars(state.t("by-kind"), [...sums], "by-kind");
}

/** GPU time of the slices here by the innermost module around their launch. */
export function byModule(state: State, model: Model): HTMLElement | false {
  if (!model.lanes.some((lane) => lane.kind === "modules")) return false;
  const sums = new Map<string, number>();
  for (const lane of model.lanes) {
    if (lane.kind !== "gpu") continue;
    for (const slice of lane.rows.flatMap((row) => [...row])) {
      const call = model.call(slice);
      const module = call >= 0 ? model.around(call, "modules").at(-1) : undefined;
      if (module === undefined) continue;
      const name = model.nameOf(module).replace(/^nn\.Module: /, "");
      sums.set(name, (sums.get(name) ?? 0) + model.duration(slice));
    }
  }
  return bars(state.t("by-module"), [...sums], "by-module");
}

export function roofline(state: State): HTMLElement | false {
  const found = state.report.roofline;
  if (!found?.step) return false;
  const t = state.t.bind(state);
  const section = h("section", { id: "roofline" }, h("h2", {}, t("roofline")), h("p", {}, prose(found.text)));
  if (found.ceilings_text) section.append(h("p", { class: "soft" }, prose(found.ceilings_text)));
  if (found.hint) section.append(h("p", { class: "soft" }, prose(found.hint)));
  const memory = found.ceilings.find((c) => c.of === "memory");
  const rates = found.ceilings.filter((c) => c.of !== "memory" && c.device === memory?.device);
  const dots = found.kernels.flatMap((k) => (k.flops_per_s && k.bytes_per_s ? [{ k, x: k.flops_per_s / k.bytes_per_s, y: k.flops_per_s }] : []));
  if (memory && rates.length && dots.length) section.append(plot(state, memory.per_s, rates, dots));
  return section;
}

type Dot = { k: { label: string; name: string; total_us: number; bound: string | null; share_ratio: number | null }; x: number; y: number };

function plot(state: State, memory: number, rates: { of: string; per_s: number }[], dots: Dot[]): SVGElement {
  const t = state.t.bind(state);
  const [width, height, left, bottom, pad] = [620, 330, 66, 36, 24];
  const top = Math.max(...rates.map((r) => r.per_s));
  const x0 = Math.floor(Math.log10(Math.min(...dots.map((d) => d.x), 0.1))), x1 = Math.ceil(Math.log10(Math.max(...dots.map((d) => d.x), (top / memory) * 10)));
  const y0 = Math.floor(Math.log10(Math.min(...dots.map((d) => d.y), memory * 10 ** x0))), y1 = Math.ceil(Math.log10(top * 1.5));
  const x = (v: number) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (width - left - pad);
  const y = (v: number) => height - bottom - ((Math.log10(v) - y0) / (y1 - y0)) * (height - bottom - pad);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "roofline", role: "img", "aria-label": t("roofline-label") });
  for (let e = x0; e <= x1; e++) svg.append(s("line", { class: "grid", x1: x(10 ** e), x2: x(10 ** e), y1: pad, y2: height - bottom }), s("text", { x: x(10 ** e), y: height - bottom + 14, "text-anchor": "middle" }, e >= 0 && e < 6 ? count(10 ** e) : e > -3 && e < 0 ? (10 ** e).toFixed(-e) : `1e${e}`));
  for (let e = y0; e <= y1; e += Math.ceil((y1 - y0) / 6)) svg.append(s("line", { class: "grid", x1: left, x2: width - pad, y1: y(10 ** e), y2: y(10 ** e) }), s("text", { x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end" }, flopsRate(10 ** e).replace("FLOP/s", "")));
  svg.append(s("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, t("axis-intensity")));
  svg.append(s("text", { x: 12, y: height / 2, transform: `rotate(-90 12 ${height / 2})`, "text-anchor": "middle" }, t("axis-rate")));
  svg.append(s("line", { class: "roof", x1: x(10 ** x0), y1: y(memory * 10 ** x0), x2: x(top / memory), y2: y(top) }));
  svg.append(s("text", { class: "roof-label", x: x(10 ** (x0 + 0.3)), y: y(memory * 10 ** (x0 + 0.3)) + 18 }, bandwidth(memory)));
  const placed: number[] = [];
  for (const rate of [...rates].sort((a, b) => b.per_s - a.per_s)) {
    svg.append(s("line", { class: "roof", x1: x(rate.per_s / memory), x2: width - pad, y1: y(rate.per_s), y2: y(rate.per_s) }));
    if (placed.some((p) => Math.abs(p - y(rate.per_s)) < 12)) continue;
    placed.push(y(rate.per_s));
    svg.append(s("text", { class: "roof-label", x: width - pad, y: y(rate.per_s) - 4, "text-anchor": "end" }, `${rate.of} ${flopsRate(rate.per_s)}`));
  }
  const most = Math.max(...dots.map((d) => d.k.total_us));
  for (const { k, x: i, y: f } of [...dots].sort((a, b) => b.k.total_us - a.k.total_us)) {
    const dot = s("circle", { cx: x(i), cy: y(f), r: 2.5 + 8 * Math.sqrt(k.total_us / most), class: `dot bound-${k.bound ?? "unknown"}` });
    dot.append(s("title", {}, `${k.label}: ${flopsRate(f)}, ${duration(k.total_us * 1e3)}${k.share_ratio === null ? "" : `, ${percent(k.share_ratio)}`}`));
    svg.append(dot);
  }
  return svg;
}
