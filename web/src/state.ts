// What the page shows now: language, theme, words.

import type { Lang, Payload, Report } from "./data";
import { reportIn } from "./data";

export interface KernelWords { kind: string | null; label: string; sentence: string }

export class State {
  lang: Lang;
  theme: "auto" | "light" | "dark" = "auto";
  report: Report;
  private words = new Map<string, KernelWords>();

  constructor(readonly payload: Payload) {
    this.lang = payload.lang;
    this.report = reportIn(payload, this.lang);
    this.speak(this.lang);
  }

  speak(lang: Lang): void {
    this.lang = lang;
    this.report = reportIn(this.payload, lang);
    const place = Object.keys(this.payload.texts).indexOf(lang) * 2;
    this.words = new Map(this.payload.kernels.map(([name, kind, w]) => [name, { kind, label: w[place], sentence: w[place + 1] }]));
    document.documentElement.lang = lang;
  }

  /** A text of the page with its slots filled. */
  t(key: string, slots: Record<string, string | number> = {}): string {
    const text = this.payload.texts[this.lang]?.[key] ?? key;
    return text.replace(/\{(\w+)\}/g, (_, slot: string) => String(slots[slot] ?? ""));
  }

  /** A kind of kernels in words; one that is not known as it is. */
  kindOf(kind: string | null): string {
    const key = `kind-${kind}`, text = this.t(key);
    return kind === null ? this.t("unknown") : text === key ? kind : text;
  }

  kernel(name: string): KernelWords | undefined { return this.words.get(name); }
  get languages(): Lang[] { return Object.keys(this.payload.texts) as Lang[]; }
}
