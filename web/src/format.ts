// Numbers as text: the same as lanewise/units.py writes them (a test compares both).

const commas = (value: string) => value.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

function threeDigits(value: number): string {
  const size = Math.abs(value);
  return size >= 100 ? commas(value.toFixed(0)) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1_000) return ns ? `${ns.toFixed(0)} ns` : "0 µs";
  if (size < 999_500) return `${threeDigits(ns / 1e3)} µs`;
  if (size < 999_500_000) return `${threeDigits(ns / 1e6)} ms`;
  return `${threeDigits(ns / 1e9)} s`;
}

export function percent(ratio: number): string {
  const value = ratio * 100;
  if (value === 0) return "0 %";
  if (Math.abs(value) < 0.05) return "< 0.1 %";
  return Math.abs(value) < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

export const count = (n: number): string => commas(String(n));

export function size(bytes: number): string {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1023.5) return unit === "B" ? `${value.toFixed(0)} B` : `${threeDigits(value)} ${unit}`;
    value /= 1024;
  }
  return `${threeDigits(value)} TiB`;
}

export function bandwidth(perSecond: number): string {
  const value = perSecond / 1e9;
  return value >= 999.5 ? `${threeDigits(value / 1e3)} TB/s` : `${threeDigits(value)} GB/s`;
}

export function flopsRate(perSecond: number): string {
  const value = perSecond / 1e12;
  return value >= 0.9995 ? `${threeDigits(value)} TFLOP/s` : `${threeDigits(value * 1e3)} GFLOP/s`;
}
