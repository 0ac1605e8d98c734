// What all pages have around their sections: the bar with language and theme, help, printing, keys.

import type { Lang } from "./data";
import { h } from "./dom";
import type { State } from "./state";

/** The bar on top; `changed` is called when the language has changed, `dressed` when the colours have. */
export function bar(state: State, file: string, sections: string[], changed: (lang: Lang) => void, dressed: () => void): HTMLElement {
  const t = state.t.bind(state);
  const language = h("select", { "aria-label": t("language"), id: "language", onchange: () => changed(language.value as Lang) },
    ...state.languages.map((code) => h("option", { value: code, selected: code === state.lang }, code === "ja" ? "日本語" : "English")));
  const theme = h("select", { "aria-label": t("theme"), id: "theme", onchange: () => {
    state.theme = theme.value as State["theme"];
    document.documentElement.dataset.theme = state.theme;
    dressed();
  } }, ...(["auto", "light", "dark"] as const).map((code) => h("option", { value: code, selected: code === state.theme }, t(`theme-${code}`))));
  return h("header", { class: "bar" }, h("strong", {}, "lanewise"), h("span", { class: "file" }, file),
    h("nav", {}, ...sections.map((id) => h("a", { href: `#${id}` }, t(id)))),
    language, theme, h("button", { type: "button", onclick: () => print() }, t("print")));
}

/** Put new sections in place; what was opened stays open. */
export function place(app: HTMLElement, ...parts: HTMLElement[]): void {
  const opened = new Set([...document.querySelectorAll("details[open][id]")].map((d) => d.id));
  const first = !app.childElementCount;
  app.replaceChildren(...parts);
  for (const link of app.querySelectorAll<HTMLAnchorElement>(".bar nav a")) link.hidden = !document.querySelector(link.hash);
  if (!first) for (const d of document.querySelectorAll<HTMLDetailsElement>("details[id]")) d.open = opened.has(d.id);
}

/** Paper is light and has no lid to open. */
export function preparePrint(resize: (atOnce: boolean) => void): void {
  const root = document.documentElement;
  let theme: string | undefined, closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    closed = [...document.querySelectorAll<HTMLDetailsElement>(".finding:not([open])")];
    for (const d of closed) d.open = true;
    resize(true);
  });
  addEventListener("afterprint", () => {
    if (theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = theme;
    for (const d of closed) d.open = false;
    resize(false);
  });
}

/** Keys of the whole page: search, help, and what `pressed` takes. */
export function listenKeys(help: HTMLDialogElement, search: () => HTMLInputElement, pressed: (e: KeyboardEvent) => boolean): void {
  document.addEventListener("keydown", (e) => {
    const target = e.target as HTMLElement;
    if (help.open || target.closest("input, select, textarea")) return;
    if (e.key === "/") { e.preventDefault(); search().focus(); search().select(); return; }
    if (e.key === "?") { help.showModal(); return; }
    if (target.closest("button, a, summary") && e.key === "Enter") return;
    if (pressed(e)) e.preventDefault();
  });
}

/** The list of keys; `proof` is the text for going from one mark to the next. */
export function fillHelp(help: HTMLDialogElement, state: State, proof: string): void {
  const t = state.t.bind(state);
  const rows: [string, string][] = [
    ["W S", "key-zoom"], ["A D", "key-pan"], ["/", "key-search"], ["F", "key-focus"], [". ,", "key-next"], ["] [", "key-step"],
    ["P N", proof], ["1 0", "key-reset"], ["Esc", "key-escape"], [t("key-wheel"), "key-wheel-text"], [t("key-drag"), "key-drag-text"], ["?", "key-help"],
  ];
  help.replaceChildren(h("h2", {}, t("keys-title")),
    h("dl", {}, ...rows.flatMap(([keys, text]) => [h("dt", {}, ...keys.split(" ").map((k) => (k.length < 4 ? h("kbd", {}, k) : `${k} `))), h("dd", {}, t(text))])),
    h("form", { method: "dialog" }, h("button", {}, t("close"))));
}

/** The field that searches names: `look` for each letter, `next` for Enter. */
export function searchField(state: State, text: string, look: (text: string) => void, next: (by: number) => void): HTMLInputElement {
  const field = h("input", { type: "search", id: "search", placeholder: `${state.t("search")}  /`, "aria-label": state.t("search"), value: text,
    oninput: () => look(field.value),
    onkeydown: (e: KeyboardEvent) => {
      if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
      if (e.key === "Escape") { field.value = ""; look(""); field.blur(); }
      e.stopPropagation();
    } });
  return field;
}

export function scrollToTimeline(): void {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById("timeline")!.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}

/** A small button of the timeline's tools, with its meaning as a tip. */
export const tool = (text: string, title: string, onclick: () => void): HTMLElement =>
  h("button", { type: "button", title, "aria-label": title, onclick }, text);

/** The classes that slices have here, with their colours. */
export function classes(state: State, used: Iterable<number>): HTMLElement {
  const sorted = [...new Set(used)].sort((a, b) => a - b);
  return h("ul", { class: "legend classes" }, ...sorted.map((i) =>
    h("li", {}, h("i", { style: { background: `var(--class-${i})` } }), state.t(`class-${state.payload.classes[i]}`))));
}
