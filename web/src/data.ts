// The payload of the page: the report's document in each language, the timeline, and the words of the page.

export type Lang = "en" | "ja";

export interface Evidence { ts_us: number; dur_us: number; lane: string; name: string }
export interface Finding {
  id: string; title: string; text: string; fix: string; confidence: string; good: boolean;
  cost_us_per_step: number | null; saving_us_per_step: number | null; share_ratio: number | null;
  saving_low_us_per_step: number | null; saving_high_us_per_step: number | null;
  evidence: Evidence[]; where: string | null; folded: string[];
}
export interface StepRow {
  name: string; index: number; wall_us: number; time_us: number; gpu_busy_us: number | null; gpu_ops: number; kernels: number;
  copies: number; memsets: number; launches: number; start_us: number;
}
export interface OpRow {
  name: string; cat: string; count: number; cpu_total_us: number; cpu_self_us: number; gpu_total_us: number; gpu_self_us: number;
}
export interface KernelRow {
  name: string; kind: string | null; label: string; count: number; total_us: number; mean_us: number; ops: string[];
}
export interface LimitRow {
  name: string; label: string; total_us: number; known_us: number | null; limit_us: number | null; bound: string | null;
  headroom_us_per_step: number | null; flops_per_s: number | null; bytes_per_s: number | null; share_ratio: number | null;
  source: string | null; remark: string | null;
}
export interface Report {
  generator: string; lang: Lang;
  trace: {
    path: string; format: string; events: number; skipped_events: number; repaired_events: number; truncated: boolean;
    span_us: number | null; ranks: number[]; world_size: number | null; file_bytes: number | null;
    devices: { index: number; name: string | null; sms: number | null }[]; capabilities: string[];
    warnings: { id: string; text: string }[]; versions: Record<string, string>;
  };
  coverage: { launches: number; launches_linked: number; gpu_ops: number; gpu_timing: string };
  gpu: { device: number; name: string | null; busy_us: number; idle_us: number | null; window_us: number | null; sum_us: number }[];
  step: {
    count: number; time_us: number | null; source: string | null; gpu_busy_us: number | null; profiled_time_us: number | null;
  };
  steps: StepRow[]; ops: OpRow[]; kernels: KernelRow[];
  verdict: { bound: string; text: string; numbers: { gpu_share_ratio: number | null } | null; evidence: Evidence[] };
  where: { cause: string; us: number; ratio: number }[];
  findings: Finding[];
  checks: { id: string; outcome: string; reason: string | null }[];
  roofline: {
    text: string; ceilings_text: string | null; hint: string | null;
    ceilings: { device: number; of: string; per_s: number; source: string }[];
    step: { gpu_us: number; known_us: number; limit_us: number } | null; kernels: LimitRow[];
  } | null;
}

export interface Level { width: number; cover: string; colour: string; begin?: number }
export interface Links { call: number[]; op: number[]; limit: number[]; bound: number[]; bytes: number[] }
export interface LanePart {
  label: string; kind: "gpu" | "marks" | "ops" | "modules" | "frames"; thread: number; device: number | null;
  stream: number | null; rows: number; total: number; start: number[]; dur: number[]; name: number[]; colour: number[];
  row: number[]; links: Links | null; levels: Level[]; number: number[] | null;
}
export interface Tile { begin: number; end: number; full: boolean; strings: string[]; lanes: LanePart[] }
export interface Timeline {
  base_ns: string; span: number; slices: number; kept: number; strings: string[]; lanes: LanePart[];
  steps: { index: number; start: number; end: number; gpu_end: number }[];
  view: [number, number]; full: [number, number][]; evidence: number[][]; verdict: number[];
}
export interface Payload {
  lang: Lang; reports: Record<string, Partial<Report>>; timeline: Timeline;
  kernels: [string, string | null, string[]][];
  rules: Record<string, Record<string, [string, string][]>>;
  texts: Record<string, Record<string, string>>; classes: string[];
}

/** One of the traces of a comparison. */
export interface DiffSide {
  name: string; step: number | null; reports: Payload["reports"]; timeline: Timeline; kernels: Payload["kernels"];
}
/** Cells of a row, the last of which says how the new trace differs: `less`, `more`, or anything else. */
export interface DiffTable { title: string; heads: string[]; rows: string[][]; note: string }
export interface DiffGroup {
  title: string; numbers: string; call: string; place: string | null; times: number;
  /** Count, label, recorded name and op. */
  base: [string, string, string, string][]; new: [string, string, string, string][];
}
export interface DiffFinding { id: string; text: string; title: string; tone: "good" | "bad" | ""; side: number }
export interface DiffPair {
  new: number; changed: boolean; headline: string; points: string[]; tiles: string[][]; conditions: [string, boolean][];
  compile: { title: string; text: string; facts: string[]; layers: DiffTable | null } | null;
  groups: DiffGroup[]; same: string; findings: DiffFinding[]; remarks: string[]; tables: DiffTable[]; needed: string[];
}
export interface Diff { generator: string; anyway: boolean; many: DiffTable | null; pairs: DiffPair[] }
export interface DiffPayload {
  lang: Lang; texts: Payload["texts"]; classes: string[]; sides: DiffSide[]; diffs: Record<string, Diff>;
  /** For each pair and change, groups first: places in the `evidence` of both timelines, -1 for none. */
  proofs: [number, number][][];
}

/** Unpack base64 text of zlib-compressed JSON. */
export async function unpack(text: string): Promise<Payload | DiffPayload> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The report in a language: what is the same in all languages is stored once. */
export function reportIn(payload: Payload, lang: Lang): Report {
  const first = Object.values(payload.reports)[0];
  return { ...first, ...payload.reports[lang] } as Report;
}
