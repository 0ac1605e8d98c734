// Tables that can be sorted and filtered.

import { h } from "./dom";
import { count, duration, percent } from "./format";
import type { State } from "./state";

interface Column<R> { head: string; value: (row: R) => number | string | null; cell: (row: R) => string | Node; numeric?: boolean }
const FIRST_ROWS = 20;

function table<R>(state: State, id: string, title: string, rows: R[], columns: Column<R>[], text: (row: R) => string, sort: number): HTMLElement {
  const t = state.t.bind(state);
  let [by, down, all, filter] = [sort, true, false, ""];
  const body = h("tbody");
  const shown = h("span", { class: "soft", role: "status" });
  const more = h("button", { type: "button", onclick: () => { all = true; fill(); } }, t("more"));
  const heads = columns.map((column, i) => h("th", { scope: "col", class: column.numeric && "num" },
    h("button", { type: "button", class: "sort", onclick: () => { down = by === i ? !down : column.numeric ?? false; by = i; fill(); } }, column.head)));
  const input = h("input", { type: "search", placeholder: t("filter"), "aria-label": `${t("filter")}: ${title}`,
    oninput: () => { filter = input.value.trim().toLowerCase(); fill(); } });
  const fill = () => {
    const kept = rows.filter((row) => !filter || text(row).toLowerCase().includes(filter));
    const of = columns[by].value;
    kept.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
      const order = typeof x === "string" || typeof y === "string" ? String(x).localeCompare(String(y)) : x - y;
      return down ? -order : order;
    });
    const part = all ? kept : kept.slice(0, FIRST_ROWS);
    body.replaceChildren(...part.map((row) => h("tr", {}, ...columns.map((c) => h("td", { class: c.numeric && "num" }, c.cell(row))))));
    shown.textContent = t("rows-shown", { shown: count(part.length), count: count(kept.length) });
    more.hidden = part.length === kept.length;
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === by ? (down ? "descending" : "ascending") : "none"));
  };
  fill();
  return h("section", { id, class: "wide" }, h("div", { class: "table-head" }, h("h2", {}, title), input, shown),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body)), more);
}

const us = (value: number | null) => (value === null ? "" : duration(value * 1e3));

export function kernels(state: State, find: (name: string) => void): HTMLElement | false {
  const { report } = state;
  if (!report.kernels.length) return false;
  const t = state.t.bind(state);
  const limits = new Map(report.roofline?.kernels.map((row) => [row.name, row]));
  const total = report.kernels.reduce((sum, row) => sum + row.total_us, 0) || 1;
  type R = (typeof report.kernels)[0];
  const limit = (row: R) => limits.get(row.name);
  const columns: Column<R>[] = [
    { head: t("col-kernel"), value: (r) => r.label, cell: (r) => h("button", { type: "button", class: "link name", title: r.name, onclick: () => find(r.name) }, r.label) },
    { head: t("col-kind"), value: (r) => state.kindOf(r.kind), cell: (r) => state.kindOf(r.kind) },
    { head: t("col-count"), value: (r) => r.count, cell: (r) => count(r.count), numeric: true },
    { head: t("col-total"), value: (r) => r.total_us, cell: (r) => us(r.total_us), numeric: true },
    { head: t("col-share"), value: (r) => r.total_us, cell: (r) => h("span", { class: "share", style: { "--part": String(r.total_us / total) } }, percent(r.total_us / total)), numeric: true },
    { head: t("col-mean"), value: (r) => r.mean_us, cell: (r) => us(r.mean_us), numeric: true },
    { head: t("col-limit"), value: (r) => limit(r)?.share_ratio ?? null, cell: (r) => { const x = limit(r)?.share_ratio; return x === null || x === undefined ? "" : percent(x); }, numeric: true },
    { head: t("col-bound"), value: (r) => limit(r)?.bound ?? "", cell: (r) => { const b = limit(r)?.bound; return b ? t(`bound-${b}`) : ""; } },
    { head: t("col-headroom"), value: (r) => limit(r)?.headroom_us_per_step ?? null, cell: (r) => us(limit(r)?.headroom_us_per_step ?? null), numeric: true },
    { head: t("col-by"), value: (r) => r.ops.join(", "), cell: (r) => h("span", { class: "name" }, r.ops.slice(0, 3).join(", ")) },
  ];
  return table(state, "kernels", t("kernels"), report.kernels, columns, (r) => `${r.label} ${r.name} ${r.kind ?? ""} ${state.kindOf(r.kind)} ${r.ops.join(" ")}`, 3);
}

export function ops(state: State, find: (name: string) => void): HTMLElement | false {
  const { report } = state;
  if (!report.ops.length) return false;
  const t = state.t.bind(state);
  type R = (typeof report.ops)[0];
  const times: [string, keyof R & ("cpu_total_us" | "cpu_self_us" | "gpu_total_us" | "gpu_self_us")][] = [
    ["col-cpu-self", "cpu_self_us"], ["col-cpu-total", "cpu_total_us"], ["col-gpu-self", "gpu_self_us"], ["col-gpu-total", "gpu_total_us"],
  ];
  const columns: Column<R>[] = [
    { head: t("col-name"), value: (r) => r.name, cell: (r) => h("button", { type: "button", class: "link name", onclick: () => find(r.name) }, r.name) },
    { head: t("col-kind"), value: (r) => r.cat, cell: (r) => t(`class-${r.cat}`) },
    { head: t("col-count"), value: (r) => r.count, cell: (r) => count(r.count), numeric: true },
    ...times.map(([head, key]): Column<R> => ({ head: t(head), value: (r) => r[key], cell: (r) => us(r[key]), numeric: true })),
  ];
  return table(state, "ops", t("ops"), report.ops, columns, (r) => r.name, 3);
}
