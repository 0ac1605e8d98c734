// The changes of a comparison: groups of GPU ops and findings, each with what proves it in both traces; and the tables of figures.

import type { DiffGroup, DiffPair, DiffTable } from "./data";
import { h, markdown, prose } from "./dom";
import { duration, percent } from "./format";
import type { State } from "./state";

export interface Part { name: string; state: State }
export type Show = (change: number) => void;

/** What a call does to a colour: a time that is seen to be less is good. */
export const tone = (call: string): string => (call === "less" ? "good" : call === "more" ? "bad" : "");

export function changes(state: State, pair: DiffPair, sides: [Part, Part], shown: (change: number) => boolean, show: Show): HTMLElement {
  const t = state.t.bind(state);
  const section = h("section", { id: "changes", tabindex: "-1" }, h("h2", {}, t("changes")));
  if (!pair.groups.length && !pair.findings.length) section.append(h("p", { class: "soft" }, t(pair.changed ? "changes-counts" : "changes-none")));
  pair.groups.forEach((group, i) => section.append(card(state, i, group.title, group.numbers, tone(group.call), "", groupBody(state, group, sides), shown(i), show)));
  pair.findings.forEach((change, k) => {
    const i = pair.groups.length + k;
    section.append(card(state, i, change.title, change.text, change.tone, change.id, findingBody(state, change.id, sides[change.side ? 1 : 0]), shown(i), show));
  });
  for (const text of [pair.same, ...pair.remarks]) if (text) section.append(h("p", { class: "soft" }, prose(text)));
  return section;
}

function card(state: State, i: number, title: string, numbers: string, look: string, id: string, body: HTMLElement, proof: boolean, show: Show): HTMLElement {
  return h("details", { class: `finding change${look ? ` is-${look}` : ""}`, id: `change-${i + 1}`, "data-finding": id || false },
    h("summary", {}, h("span", { class: "number" }, String(i + 1)), h("span", { class: "title" }, prose(title)),
      h("span", { class: `price ${look}` }, numbers),
      proof ? h("button", { type: "button", class: "show", onclick: (e: Event) => { e.preventDefault(); show(i); } }, state.t("show-short")) : false),
    body);
}

/** Which kernels, by which op, in which trace. */
function groupBody(state: State, group: DiffGroup, sides: [Part, Part]): HTMLElement {
  const t = state.t.bind(state);
  const rows = ([["base", group.base], ["new", group.new]] as const).flatMap(([key, parts], place) => parts.map(([count, label, name, op], i) =>
    h("tr", {}, h("th", { scope: "row" }, i ? "" : `${t(`col-${key}`)}: ${sides[place].name}`), h("td", { class: "num" }, count),
      h("td", {}, label, h("div", { class: "name soft" }, label === name ? "" : name)), h("td", { class: "name" }, op))));
  return h("div", { class: "body" },
    group.place ? h("p", {}, h("span", { class: "soft" }, `${t("place")}: `), h("code", {}, group.place)) : false,
    h("div", { class: "scroll" }, h("table", { class: "parts" },
      h("thead", {}, h("tr", {}, ...["trace", "col-count", "col-kernel", "col-by"].map((key, i) => h("th", { scope: "col", class: i === 1 && "num" }, t(key))))),
      h("tbody", {}, ...rows))),
    group.times > 1 ? h("p", { class: "soft" }, t("times-a-step", { count: group.times })) : false);
}

/** The finding as the report of its trace has it. */
function findingBody(state: State, id: string, side: Part): HTMLElement {
  const t = state.t.bind(state);
  const found = side.state.report.findings.filter((f) => f.id === id && !f.good);
  const finding = found.sort((a, b) => (b.share_ratio ?? 0) - (a.share_ratio ?? 0))[0];
  if (!finding) return h("div", { class: "body" });
  const price = finding.saving_us_per_step === null ? ""
    : ` · ${t("saves")} ${duration(finding.saving_us_per_step * 1e3)}${finding.share_ratio === null ? "" : ` (${percent(finding.share_ratio)})`}`;
  return h("div", { class: "body" },
    h("p", {}, prose(finding.text)),
    finding.fix ? h("div", { class: "fix" }, h("h4", {}, t("fix")), markdown(finding.fix)) : false,
    h("p", { class: "meta soft" }, `${side.name} · ${id}${price}`));
}

/** A table of texts; the last cell of a row says how its figure differs. */
export function figures(table: DiffTable, id: string): HTMLElement {
  const width = table.heads.length;
  return h("section", { id, class: "figures" }, h("h2", {}, table.title),
    table.rows.length ? h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ...table.heads.map((head, i) => h("th", { scope: "col", class: i && "num" }, head)))),
      h("tbody", {}, ...table.rows.map((row) => h("tr", {}, ...row.slice(0, width).map((cell, i) =>
        i ? h("td", { class: `num ${i === width - 1 ? tone(row[width] ?? "") : ""}` }, cell) : h("th", { scope: "row" }, cell))))))) : false,
    table.note ? h("p", { class: "soft" }, prose(table.note)) : false);
}
