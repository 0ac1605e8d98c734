// Findings with their price, fix, evidence and the rule's page; and the outcome of every check.

import type { Finding } from "./data";
import { h, markdown, prose } from "./dom";
import { duration, percent } from "./format";
import type { State } from "./state";
import type { TimelineView } from "./timeline";

export function findings(state: State, view: TimelineView, toTimeline: () => void): HTMLElement {
  const t = state.t.bind(state);
  const all = state.report.findings;
  const show = (i: number, slice = -1) => {
    view.showProof(i);
    if (slice >= 0) view.select(slice, true);
    toTimeline();
  };
  const bad = all.filter((f) => !f.good);
  const section = h("section", { id: "findings", tabindex: "-1" }, h("h2", {}, t("findings")));
  if (!bad.length) section.append(h("p", { class: "soft" }, t("findings-none")));
  else if (!state.report.step.count) section.append(h("p", { class: "soft" }, t("whole-trace")));
  all.forEach((f, i) => section.append(card(state, f, i, show)));
  const checks = state.report.checks;
  section.append(h("details", { class: "checks" }, h("summary", {}, t("checks")), h("table", {}, h("tbody", {}, ...checks.map((c) =>
    h("tr", { class: `outcome-${c.outcome}` }, h("th", { scope: "row" }, h("code", {}, c.id)), h("td", {}, t(`check-${c.outcome}`)), h("td", {}, c.reason ?? "")))))));
  return section;
}

function card(state: State, f: Finding, i: number, show: (i: number, slice?: number) => void): HTMLElement {
  const t = state.t.bind(state);
  const pages = state.payload.rules[state.lang]?.[f.id] ?? [];
  const price = f.good ? h("span", { class: "price good" }, t("good"))
    : f.saving_us_per_step === null ? h("span", { class: "price" })
    : h("span", { class: "price" }, h("b", {}, f.share_ratio === null ? duration(f.saving_us_per_step * 1e3) : percent(f.share_ratio)),
      h("span", { class: "soft" }, ` ${t("saves")} ${duration(f.saving_us_per_step * 1e3)}`));
  const slices = state.payload.timeline.evidence[i] ?? [];
  const short = (name: string) => state.kernel(name)?.label ?? name;
  const open = i < 2 && !f.good;
  return h("details", { class: `finding${f.good ? " is-good" : ""}`, id: `finding-${i + 1}`, "data-rule": f.id, open },
    h("summary", {}, h("span", { class: "number" }, String(i + 1)), h("span", { class: "title" }, prose(f.title)), price),
    h("div", { class: "body" },
      h("p", {}, prose(f.text)),
      f.fix ? h("div", { class: "fix" }, h("h4", {}, t("fix")), markdown(f.fix)) : false,
      f.where ? h("p", {}, h("span", { class: "soft" }, `${t("place")}: `), h("code", {}, f.where)) : false,
      h("p", { class: "meta soft" }, `${f.id} · ${t("confidence")}: ${t(`confidence-${f.confidence}`)}`,
        f.folded.length ? ` · ${t("folded", { ids: f.folded.join(", ") })}` : ""),
      f.evidence.length ? h("div", { class: "evidence" },
        h("div", { class: "evidence-head" }, h("h4", {}, t("evidence")),
          slices.some((x) => x >= 0) ? h("button", { type: "button", class: "primary show", onclick: () => show(i) }, t("show")) : false),
        h("table", {}, h("thead", {}, h("tr", {}, ...[t("col-name"), t("duration"), t("lane")].map((x, k) => h("th", { scope: "col", class: k === 1 && "num" }, x)))),
          h("tbody", {}, ...f.evidence.map((e, k) => h("tr", {},
            h("td", {}, slices[k] >= 0 ? h("button", { type: "button", class: "link name", title: e.name, onclick: () => show(i, slices[k]) }, short(e.name)) : h("span", { class: "name", title: e.name }, short(e.name))),
            h("td", { class: "num" }, duration(e.dur_us * 1e3)), h("td", {}, e.lane)))))) : false,
      pages.length ? h("details", { class: "rule" }, h("summary", {}, t("about-rule")),
        ...pages.map(([heading, text]) => h("div", {}, h("h4", {}, heading), markdown(text)))) : false,
    ));
}
