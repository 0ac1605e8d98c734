// Elements. Text is only ever set as text: names in a trace are untrusted.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;
const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; properties that begin with "on" are listeners, "class" and "data-", "aria-" and others attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return dress(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag: string, props: Props = {}, ...children: Child[]): SVGElement {
  return dress(document.createElementNS(SVG, tag) as SVGElement, props, children);
}

function dress<E extends Element>(element: E, props: Props, children: Child[]): E {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on") && typeof value === "function") element.addEventListener(key.slice(2), value as EventListener);
    else if (key === "style") for (const [k, v] of Object.entries(value as object)) (element as unknown as HTMLElement).style.setProperty(k, v);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
  return element;
}

/** A number and its unit stay on one line. */
const NUMBER = /(\d) (?=(?:ns|µs|ms|s|%|B|[KMGT]iB|[GT]B\/s|[GT]FLOP\/s)(?![A-Za-z]))/g;

/** Text with `code` in backticks set as code; the rest stays text. */
export function prose(text: string): DocumentFragment {
  const out = document.createDocumentFragment();
  text.split("`").forEach((part, i) => out.append(i % 2 ? h("code", {}, part) : part.replace(NUMBER, "$1\u00a0")));
  return out;
}

/** Paragraphs and fenced code of a rule's page. */
export function markdown(text: string): DocumentFragment {
  const out = document.createDocumentFragment();
  for (const block of text.split("\n\n")) {
    const fence = /^```\w*\n([\s\S]*?)\n?```$/.exec(block);
    out.append(fence ? h("pre", {}, fence[1]) : h("p", {}, prose(block)));
  }
  return out;
}
