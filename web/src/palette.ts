// Colours of the canvas, read from the style sheet so that a theme is written once.

export interface Palette {
  classes: string[]; ink: string; soft: string; faint: string; line: string; ground: string; band: string; accent: string;
  onSlice: string; mark: string; font: string;
}

export function palette(element: Element, classes: number): Palette {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    classes: Array.from({ length: classes }, (_, i) => of(`--class-${i}`)),
    ink: of("--ink"), soft: of("--soft"), faint: of("--faint"), line: of("--line"), ground: of("--ground"), band: of("--band"),
    accent: of("--accent"), onSlice: of("--on-slice"), mark: of("--mark"), font: of("--font"),
  };
}
