"""The report for a terminal: the verdict and where the time goes at a glance, then findings, tables and what is not known.

Pure functions of a Report: they format, and compute nothing. Plain text has the same words and bars as coloured text.
"""

from __future__ import annotations

import shlex

from rich.cells import cell_len
from rich.text import Text

from lanewise import units
from lanewise.report import BoundNumbers, GpuRow, Report, StreamRow, usual_step

from .findings import check_lines, evidence_lines, finding_lines
from .layout import Part, bar, marks, printed, shortened_path
from .page import LegendRow, Page, us_text
from .report_tables import kernel_lines, op_lines
from .roofline import roofline_lines
from .texts import TEXTS, cause_text

__all__ = ["coverage_text", "machine_facts", "render", "step_texts"]

# Colour and fill of each cause: GPU work solid, idle time light, so that the bar can be read without colours.
_CAUSES: dict[str, tuple[str, str]] = {
    "compute": ("█", "green"),
    "communication": ("▓", "magenta"),
    "copy": ("▒", "cyan"),
}
_IDLE_STYLES = ("yellow", "red", "blue", "bright_yellow", "bright_red", "bright_blue")
_IDLE_MARKS = "░·:-'~"
# Parts of a step below this share are in the bar but not in its legend, unless everything is wanted.
_LEGEND_SHARE = 0.005
_MOST_STREAMS = 4


def render(report: Report, *, width: int = 80, color: bool = False, verbose: bool = False, limit: int = 8) -> str:
    """The report as text.

    Args:
        report: the report; its language is the text's.
        width: cells of a line.
        color: whether escape codes for colours may be in it.
        verbose: all evidence, all rows of all tables.
        limit: rows of the tables of ops and kernels, unless `verbose`; 0 for all.
    """
    page = Page(report.lang, width, verbose=verbose, limit=limit)
    _head(page, report)
    page.blank()
    page.paragraph(report.verdict.text, style="bold")
    _verdict_proof(page, report)
    _where(page, report)
    _steps(page, report)
    finding_lines(page, report)
    _gpus(page, report)
    op_lines(page, report)
    kernel_lines(page, report)
    roofline_lines(page, report)
    check_lines(page, report)
    _notes(page, report)
    _next(page, report)
    return printed(page.lines, color=color)


def _head(page: Page, report: Report) -> None:
    """Two or three lines: what was read, on what it ran, how much of the GPU's work is in it."""
    trace, lang = report.trace, page.lang
    facts = [] if trace.file_bytes is None else [units.size(trace.file_bytes, lang)]
    facts.append(TEXTS("events", lang, events=units.count(trace.events, lang)))
    if trace.span_us is not None:
        facts.append(TEXTS("spans", lang, span=us_text(trace.span_us, lang)))
    tail = " · ".join(facts)
    room = page.width - cell_len(tail) - 2
    name = shortened_path(trace.path, max(room, 20))
    page.add(Text.assemble((name, "bold"), "  ", (tail, "dim")))
    facts = machine_facts(report)
    if facts:
        page.paragraph(" · ".join(facts))
    if trace.events:
        page.paragraph(coverage_text(report), style=_COVERAGE_STYLES.get(report.coverage.gpu_timing, ""))


_COVERAGE_STYLES = {"partial": "yellow"}


def machine_facts(report: Report) -> list[str]:
    """GPU, software, rank, what was recorded."""
    trace, lang = report.trace, report.lang
    used = {row.device for row in report.gpu}
    names = [d.name for d in trace.devices if d.name and (d.index in used or not used)]
    out = []
    for name in dict.fromkeys(names):
        n = names.count(name)
        out.append(TEXTS("gpus-of", lang, count=n, name=name) if n > 1 and len(used) != 1 else name)
    out += [f"{name} {version}" for name, version in trace.versions.items() if name != "CUDA driver"]
    for rank in trace.ranks:
        world = trace.world_size
        out.append(TEXTS("rank", lang, rank=rank) if world is None else TEXTS("rank-of", lang, rank=rank, world=world))
    things = [TEXTS(f"has-{c}", lang) if f"has-{c}" in TEXTS.english else c for c in trace.capabilities]
    if things:
        out.append(TEXTS("recorded", lang, things=", ".join(things)))
    return out


def coverage_text(report: Report) -> str:
    """How much of the GPU's work is in the trace, in a sentence."""
    c, lang = report.coverage, report.lang
    launches, linked = units.count(c.launches, lang), units.count(c.launches_linked, lang)
    if c.gpu_timing == "none":
        if c.launches:
            return TEXTS("coverage-none", lang, launches=launches)
        whole = not (report.trace.truncated or report.trace.skipped_events)
        return TEXTS("coverage-cpu" if whole else "coverage-cpu-read", lang)
    if c.gpu_timing == "partial":
        return TEXTS("coverage-partial", lang, launches=launches, linked=linked)
    key = "coverage-ok" if c.launches == c.launches_linked else "coverage-most"
    return TEXTS(key, lang, launches=launches, linked=linked)


def _verdict_proof(page: Page, report: Report) -> None:
    """The numbers and events behind the verdict, where everything is wanted."""
    verdict, lang = report.verdict, page.lang
    if not page.verbose or not (verdict.numbers or verdict.evidence):
        return
    page.heading(TEXTS("evidence", lang))
    real = report.step.source == "unprofiled"
    for text in _bound_numbers(verdict.numbers, lang, real=real) if verdict.numbers else []:
        page.item(text)
    page.lines += evidence_lines(page, report, verdict.evidence, 2)


def _bound_numbers(n: BoundNumbers, lang: str, *, real: bool) -> list[str]:
    out = []
    if n.gpu_share_ratio is not None:
        share = units.percent(n.gpu_share_ratio, lang)
        out.append(TEXTS("bound-gpu", lang, share=share, time=us_text(n.gpu_us_per_step, lang)))
    if n.cpu_us_per_step is not None:
        out.append(TEXTS("bound-cpu-real" if real else "bound-cpu", lang, time=us_text(n.cpu_us_per_step, lang)))
    if n.growth_ratio is not None:
        out.append(TEXTS("bound-growth", lang, times=f"{n.growth_ratio:.1f}"))
    if n.queue_depth_median is not None:
        out.append(TEXTS("bound-queue", lang, depth=f"{n.queue_depth_median:.0f}"))
    if n.profiler_slowdown_ratio is not None:
        out.append(TEXTS("bound-slowdown", lang, times=f"{n.profiler_slowdown_ratio:.1f}"))
    return out


def _where(page: Page, report: Report) -> None:
    """The bar of a step and its legend, in two columns."""
    rows, lang = report.where, page.lang
    if not rows:
        return
    page.heading(TEXTS("where", lang), TEXTS("step-on-gpu", lang, step=us_text(sum(r.us for r in rows), lang)))
    idle = [r.cause for r in rows if r.cause not in _CAUSES]
    looks = dict(_CAUSES)
    for i, cause in enumerate(sorted(idle, key=lambda c: -next(r.ratio for r in rows if r.cause == c))):
        looks[cause] = (_IDLE_MARKS[min(i, len(_IDLE_MARKS) - 1)], _IDLE_STYLES[i % len(_IDLE_STYLES)])
    line = Text("  ")
    line.append_text(bar([Part(r.ratio, *looks[r.cause]) for r in rows], page.width - 4))
    page.add(line)
    shown = [r for r in sorted(rows, key=lambda r: -r.ratio) if page.verbose or r.ratio >= _LEGEND_SHARE]
    legend: list[LegendRow] = [
        (*looks[r.cause], cause_text(r.cause, lang), us_text(r.us, lang), units.percent(r.ratio, lang)) for r in shown
    ]
    page.legend(legend)


def _steps(page: Page, report: Report) -> None:
    step, lang = report.step, page.lang
    page.heading(TEXTS("steps", lang), units.count(step.count, lang) if step.count else "")
    time, *spread = step_texts(report)
    page.paragraph(time, indent=2)
    if spread:
        line = Text("  ").append(marks([s.time_us for s in report.steps], page.width - 50), style="cyan")
        page.add(line.append("  " + spread[0]))


def step_texts(report: Report) -> list[str]:
    """What a step costs, in a sentence; then how far the steps are apart, where there are several."""
    step, lang = report.step, report.lang
    if not step.count:
        return [TEXTS("no-steps", lang)]
    key = "step-gpu-one" if step.count == 1 else "step-gpu"
    busy = "" if step.gpu_busy_us is None or not report.gpu else TEXTS(key, lang, busy=us_text(step.gpu_busy_us, lang))
    # Japanese sentences follow one another without a space.
    out = [(" " if lang == "en" else "").join(filter(None, (_step_time(report), busy)))]
    if step.count > 1:
        longest = max(report.steps, key=lambda s: s.time_us)
        low, high = min(s.time_us for s in report.steps), longest.time_us
        out.append(TEXTS("step-range", lang, low=us_text(low, lang), high=us_text(high, lang), name=longest.name))
    return out


def _step_time(report: Report) -> str:
    step, lang = report.step, report.lang
    time, profiled = us_text(step.time_us, lang), us_text(step.profiled_time_us, lang)
    if step.source == "unprofiled":
        if step.unprofiled_steps is None:
            return TEXTS("step-unprofiled-bare", lang, time=time, profiled=profiled)
        count = units.count(step.unprofiled_steps, lang)
        return TEXTS("step-unprofiled", lang, time=time, profiled=profiled, count=count)
    if step.count == 1:
        return TEXTS("step-one", lang, time=time)
    return TEXTS("step-profiled", lang, time=time, count=units.count(step.count, lang))


def _gpus(page: Page, report: Report) -> None:
    """One line a device and how its time divides by kind and stream."""
    if report.gpu:
        page.heading(TEXTS("gpus", page.lang))
    for row in report.gpu:
        page.add(_gpu_line(row, page.lang))
        page.paragraph(" · ".join(_kinds(row, page.lang)), indent=9, style="dim")
        if len(row.streams) > 1:
            page.paragraph(" · ".join(_streams(page, row.streams)), indent=9, style="dim")


def _gpu_line(row: GpuRow, lang: str) -> Text:
    ops, busy = units.count(row.ops, lang), us_text(row.busy_us, lang)
    line = Text("  ").append(f"GPU {row.device}  ", style="bold")
    if row.idle_us is None or not row.window_us:
        return line.append(TEXTS("gpu-line-no-idle", lang, ops=ops, busy=busy))
    share = 1 - row.idle_us / row.window_us
    line.append_text(bar([Part(share, "█", "green"), Part(1 - share, "░", "yellow")], 20))
    window = us_text(row.window_us, lang)
    return line.append("  " + TEXTS("gpu-line", lang, ops=ops, window=window, share=units.percent(share, lang)))


def _kinds(row: GpuRow, lang: str) -> list[str]:
    kinds = [TEXTS("kind-compute", lang, time=us_text(row.compute_us, lang))]
    if row.communication_us:
        exposed = us_text(row.exposed_communication_us, lang)
        kinds.append(TEXTS("kind-communication", lang, time=us_text(row.communication_us, lang), exposed=exposed))
    if row.copy_us:
        kinds.append(TEXTS("kind-copy", lang, time=us_text(row.copy_us, lang)))
    if row.memset_us:
        kinds.append(TEXTS("kind-memset", lang, time=us_text(row.memset_us, lang)))
    return kinds


def _streams(page: Page, streams: list[StreamRow]) -> list[str]:
    lang = page.lang
    shown = streams if page.verbose else streams[:_MOST_STREAMS]
    texts = [TEXTS("stream", lang, stream=s.stream, ops=units.count(s.ops, lang), busy=us_text(s.busy_us, lang)) for s in shown]
    hidden = len(streams) - len(shown)
    return [*texts, TEXTS("more-streams", lang, count=hidden)] if hidden else texts


def _notes(page: Page, report: Report) -> None:
    if report.trace.warnings:
        page.heading(TEXTS("notes", page.lang))
        for warning in report.trace.warnings:
            page.item(warning.text)


def _next(page: Page, report: Report) -> None:
    """The next command to type."""
    lang = page.lang
    path = shlex.quote(report.trace.path)
    on_gpu = bool(report.coverage.launches or report.gpu)
    if report.trace.path == "<stdin>" or not (on_gpu or report.ops):
        return
    page.blank()
    if on_gpu:
        step = ""
        if len(report.steps) > 1:
            step = f" --step {report.steps[usual_step([s.launches for s in report.steps])].index}"
        command, what = f"lanewise tree {path}{step}", TEXTS("next-tree" if step else "next-tree-all", lang)
    else:
        command, what = f"lanewise ops {path}", TEXTS("next-ops", lang)
    # Never cut: it is there to be copied.
    line = Text.assemble((TEXTS("next", lang), "bold"), f" {command}")
    comment = f"  # {what}"
    if line.cell_len + cell_len(comment) <= page.width:
        line.append(comment, style="dim")
    page.lines.append(line)
