"""What bounds the step, in a sentence and in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lanewise import report as doc
from lanewise import units
from lanewise.analyses.coverage import coverage, idle_ns, idle_window
from lanewise.analyses.gpu_time import device_times
from lanewise.analyses.idle import StepTime, gap_table, step_times
from lanewise.analyses.limits import limits
from lanewise.analyses.queue import queue
from lanewise.analyses.unprofiled import unprofiled_step
from lanewise.model.schema import CATEGORY_CODES, OTHER_CATEGORY
from lanewise.model.trace import Trace
from lanewise.report import us
from lanewise.rules.context import Context
from lanewise.rules.data_starvation import unrecorded_wait
from lanewise.translations import Catalog

__all__ = ["Where", "verdict", "where_time_goes"]

_TEXTS = Catalog(
    "verdict",
    {
        "no-gpu-records": "The GPU's work was not recorded, so what bounds this run cannot be told.",
        "no-gpu-work": "No GPU work in this trace: the CPU report is complete.",
        "no-gpu-work-known": "No GPU work that lanewise can read: there are events of kinds that it does not know.",
        "no-gpu-work-read": "No GPU work in what could be read of this trace.",
        "foreign": "No event of PyTorch's profiler is in this file: another program wrote this trace.",
        "no-events": "There is nothing in this trace.",
        "partial": "GPU work is only partly recorded, so idle time, and with it what bounds this run, is not known.",
        "no-steps": "The GPU was busy for {busy} of {window}; without step marks, what bounds a step is not told.",
        "gpu": "GPU-bound: the GPU works {gpu} of the {step} step ({share}).",
        "gpu-compute": "GPU-bound, by arithmetic: the GPU works {gpu} of the {step} step ({share}).",
        "gpu-memory": "GPU-bound, by memory traffic: the GPU works {gpu} of the {step} step ({share}).",
        "communication": "Bound by communication: {part} of the {step} step is communication that no compute hides ({share}).",
        "copy": "Bound by copies: {part} of the {step} step is copying that nothing hides ({share}).",
        "data": "Bound by data: the GPU waits {part} of the {step} step for the next batch ({share}) and works {gpu}.",
        "compile": "Bound by compilation: {part} of the {step} step is torch.compile at work ({share}).",
        "host-sync": "Bound by synchronisation: the CPU waits for the GPU, then the GPU waits for the CPU; it works {gpu} of the {step} step.",
        "launch": "Launch-bound: the GPU works {gpu} of the {step} step and waits for launches the rest. {growth}",
        "cpu": "CPU-bound: the GPU works {gpu} of the {step} step and waits for Python and allocation most of the rest. {growth}",
        "host-made-tensor": "CPU-bound: the CPU computes tensors for {part} of the {step} step ({share}), and the GPU, which works {gpu}, "
        "waits for them.",
        "unknown": "The GPU works {gpu} of the {step} step; what it waits for is not known for most of the rest.",
        "no-work": "There is next to no GPU work in it.",
        "growth": "Its work would have to grow {times} times before the CPU stops being the limit.",
    },
)

# The cause of a step's time, by what bounds it.
_BOUNDS: dict[str, tuple[str, ...]] = {
    "gpu": ("compute",),
    "communication": ("communication",),
    "copy": ("copy",),
    "data": ("idle_data",),
    "compile": ("idle_compile",),
    "host-sync": ("idle_sync", "idle_pageable_copy"),
    "launch": ("idle_dispatch", "idle_autograd", "idle_launch"),
    "cpu": ("idle_python", "idle_allocation"),
    "unknown": ("idle_wait", "idle_unknown", "idle_profiler"),
}
# Time that the profiler inflates: what the CPU does event by event. Waiting for data or for a compiler it leaves alone.
_INFLATED = ("idle_dispatch", "idle_autograd", "idle_python", "idle_launch", "idle_sync", "idle_pageable_copy")
# A finding that would save this share of the step names what bounds it where the idle time alone only shows a busy CPU.
_NAMING_SHARE = 0.25
_BOUND_BY_FINDING = {
    "host-sync": "host-sync",
    "expert-loop": "host-sync",
    "data-starvation": "data",
    "pageable-copy": "copy",
    "recompilation": "compile",
    "host-made-tensor": "cpu",
}
# From this share of compute on, the GPU's own work is what a step is made of; below it, what keeps the GPU from computing for
# more than a quarter of the step is the first thing to mend.
_GPU_SHARE = 0.75
# A larger factor says no more than "next to no GPU work".
_MOST_GROWTH = 1_000
_ARITHMETIC = frozenset({"gemm", "conv", "attention", "moe", "rnn"})


@dataclass(frozen=True, slots=True)
class Where:
    """Where a usual step's time goes on the busiest device, in ns by cause; the parts sum to `step_ns`.

    In the step's real time where the trace carries it: the GPU's work stays as recorded, and the idle time that the profiler
    inflates shrinks to what remains. `recorded` are the causes before they were fitted to the step's time.
    """

    step_ns: float
    causes: dict[str, float]
    device: int
    recorded: dict[str, float]


def where_time_goes(context: Context) -> Where | None:
    """Mean over the usual steps, fitted to the time that the report gives a step; None without steps, or where idle time
    is not known.
    """
    trace = context.trace
    if not len(context.steps) or context.coverage.gpu_timing != "ok":
        return None
    table = trace.analysis(step_times)
    if not table:
        return None
    busiest = max(trace.analysis(device_times), key=lambda d: d.busy_ns).device
    numbers = context.replay.step_numbers if context.replay is not None else context.step_numbers.tolist()
    mine = [s for s in table if s.device == busiest and s.step in set(numbers)]
    if not mine:
        return None
    causes = {c: float(np.mean([s.causes[c] for s in mine])) for c in mine[0].causes}
    if context.replay is None:
        timed = trace.analysis(unprofiled_step)
        step = float(np.median(context.steps.time_ns)) if timed is None else float(timed["median"]) * 1000
        return Where(step, _fitted(causes, step) if timed is None else _real(causes, step), busiest, causes)
    step = context.replay.real_ns
    if context.replay.real:
        # What workers keep the step waiting for outside the recorded window.
        causes["idle_data"] += context.answer(unrecorded_wait)
        causes = _real(causes, step)
        return Where(step, causes, busiest, causes)
    return Where(step, _fitted(causes, step), busiest, causes)


def _fitted(causes: dict[str, float], step_ns: float) -> dict[str, float]:
    """The usual steps are not all steps, and their mean is not quite the median of all: the GPU's work stays, idle time gives."""
    whole = sum(causes.values())
    busy = sum(v for c, v in causes.items() if not c.startswith("idle_"))
    idle, room = whole - busy, step_ns - busy
    if idle > 0 and room >= 0:
        return {c: v * room / idle if c.startswith("idle_") else v for c, v in causes.items()}
    return {c: v * step_ns / whole for c, v in causes.items()} if whole else causes


def _real(causes: dict[str, float], real_ns: float) -> dict[str, float]:
    busy = sum(v for c, v in causes.items() if not c.startswith("idle_"))
    idle = sum(causes.values()) - busy
    room = max(real_ns - busy, 0.0)
    inflated = sum(causes[c] for c in _INFLATED)
    fixed = idle - inflated
    shrink = min(max((room - fixed) / inflated, 0.0), 1.0) if inflated else 1.0
    # Waiting for data that is made on this thread is inflated too: where it alone is too long, it shrinks as well.
    rest = min(room / fixed, 1.0) if fixed > room else 1.0
    out = {c: v if not c.startswith("idle_") else v * (shrink if c in _INFLATED else rest) for c, v in causes.items()}
    total = sum(out.values())
    # What still differs (steps vary from run to run) is spread over all causes alike.
    return {c: v * real_ns / total for c, v in out.items()} if total else out


def verdict(context: Context, findings: list[doc.Finding], lang: str) -> doc.Verdict:
    """Judge a trace; the numbers behind the sentence come with it."""
    trace = context.trace
    early = _not_judged(trace)
    if early is not None:
        return doc.Verdict("unknown", _TEXTS(early, lang))
    where = where_time_goes(context)
    if where is None:
        return doc.Verdict("unknown", _no_steps(trace, lang))
    bound, named = _bound(context, where, findings)
    key = ""
    if bound == "gpu":
        bound, known = _gpu_bound(context)
        key = bound if known else "gpu"
    if named is not None and named.id == "host-made-tensor":
        key = named.id
    part = sum(where.causes[c] for c in _BOUNDS.get(bound, _BOUNDS["gpu"]))
    if named is not None:  # the idle time alone shows a busy CPU; the finding knows what it was busy with
        part = max(part if key != named.id else 0.0, 1000 * (named.saving_us_per_step or 0.0))
    gpu = sum(v for c, v in where.causes.items() if not c.startswith("idle_"))
    numbers = _numbers(context, where, gpu)
    share_of = gpu if bound.startswith("gpu") else part
    text = _TEXTS(
        key or bound,
        lang,
        gpu=units.duration(gpu, lang),
        step=units.duration(where.step_ns, lang),
        part=units.duration(part, lang),
        share=units.percent(share_of / where.step_ns if where.step_ns else None, lang),
        growth=_growth(numbers, lang),
    ).strip()
    return doc.Verdict(bound, text, _evidence(context, where, bound), numbers)


def _not_judged(trace: Trace) -> str | None:
    c = trace.analysis(coverage)
    if not len(trace):
        return "no-events"
    if c.gpu_timing == "none":
        if c.launches:
            return "no-gpu-records"
        other = trace.category == CATEGORY_CODES[OTHER_CATEGORY]
        if bool(other.all()):
            return "foreign"
        # Lanes on which nothing else is are those of a device that lanewise does not know.
        if len(np.setdiff1d(trace.lane[other], trace.lane[~other])):
            return "no-gpu-work-known"
        return "no-gpu-work-read" if trace.truncated or trace.skipped_events else "no-gpu-work"
    return "partial" if c.gpu_timing == "partial" else None


def _no_steps(trace: Trace, lang: str) -> str:
    window = trace.analysis(idle_window)
    length = window[1] - window[0] if window else 0
    idle = [idle_ns(trace, d.device) or 0 for d in trace.analysis(device_times)]
    share = 1 - float(np.mean(idle)) / length if length else None
    return _TEXTS("no-steps", lang, busy=units.percent(share, lang), window=units.duration(length, lang))


def _bound(context: Context, where: Where, findings: list[doc.Finding]) -> tuple[str, doc.Finding | None]:
    """What takes the largest part of the step, and the finding that names it where that is a busy CPU."""
    parts = {bound: sum(where.recorded[c] for c in causes) for bound, causes in _BOUNDS.items()}
    # Launching and Python are one side: which of the two it is matters only once the CPU is the limit.
    cpu = parts["launch"] + parts["cpu"] + parts["host-sync"]
    device_copies = parts["copy"] * (1 - _host_share(context))
    parts["gpu"] += device_copies  # copies within the GPU's memory are its own work
    parts["copy"] -= device_copies
    best = max(("communication", "copy", "data", "compile", "unknown"), key=lambda b: parts[b])
    if parts["gpu"] >= _GPU_SHARE * sum(where.recorded.values()):
        best = "gpu"
    elif cpu > parts[best]:
        best = max(("launch", "cpu", "host-sync"), key=lambda b: parts[b])
        named = next((f for f in findings if f.id in _BOUND_BY_FINDING and (f.share_ratio or 0) >= _NAMING_SHARE), None)
        if named is not None:
            return _BOUND_BY_FINDING[named.id], named
    return best, None


def _host_share(context: Context) -> float:
    """The part of the time in copies and memsets that goes to copies from and to the host."""
    rows = context.rows[context.is_kind("copy", "memset")[context.rows]]
    host = np.isin(context.kinds[rows], ("memcpy-htod", "memcpy-dtoh"))
    total = float(context.gpu_ns[rows].sum())
    return float(context.gpu_ns[rows[host]].sum()) / total if total else 0.0


def _gpu_bound(context: Context) -> tuple[str, bool]:
    """(bound, known): whether arithmetic or memory traffic takes most of the GPU's time.

    Each op counts for what would take it longer at the card's rates. Products and convolutions of which the sizes are not known
    count as arithmetic, everything else as traffic; where the first are most of the time, the answer is only likely.
    """
    rows = context.rows
    found, ns = context.trace.analysis(limits), context.gpu_ns[rows].astype(np.float64)
    arithmetic, memory = found.arithmetic_ns[rows], found.memory_ns[rows]
    heavy = np.isin(context.kinds[rows], list(_ARITHMETIC))
    unknown = heavy & (np.isnan(arithmetic) | np.isnan(memory))
    by_arithmetic = np.where(unknown, True, heavy & (np.nan_to_num(arithmetic) >= np.nan_to_num(memory)))
    most = "gpu-compute" if ns[by_arithmetic].sum() >= ns[~by_arithmetic].sum() else "gpu-memory"
    return most, most == "gpu-memory" or ns[unknown].sum() < 0.5 * ns[by_arithmetic].sum()


def _numbers(context: Context, where: Where, gpu_ns: float) -> doc.BoundNumbers:
    replay = context.replay
    cpu = replay.cpu_ns() if replay is not None else None
    slowdown = None
    if replay is not None and replay.real and cpu:
        slowdown = round(replay.recorded_cpu_ns() / cpu, 3)
    return doc.BoundNumbers(
        gpu_share_ratio=round(gpu_ns / where.step_ns, 4) if where.step_ns else None,
        gpu_us_per_step=us(gpu_ns),
        cpu_us_per_step=us(cpu),
        growth_ratio=round(cpu / gpu_ns, 3) if cpu and gpu_ns else None,
        queue_depth_median=context.trace.analysis(queue).median_depth(),
        profiler_slowdown_ratio=slowdown,
    )


def _growth(numbers: doc.BoundNumbers, lang: str) -> str:
    ratio = numbers.growth_ratio
    if ratio is None or ratio <= 1:
        return ""
    return _TEXTS("growth", lang, times=f"{ratio:.1f}") if ratio <= _MOST_GROWTH else _TEXTS("no-work", lang)


def _evidence(context: Context, where: Where, bound: str) -> list[doc.Evidence]:
    """The longest idle gaps of a usual step (the call that ended each), or its longest GPU ops."""
    from lanewise.engine import evidence_of

    trace = context.trace
    if bound.startswith("gpu") or bound in ("communication", "copy"):
        rows = context.rows[np.argsort(-context.gpu_ns[context.rows], kind="stable")][:6]
        return evidence_of(trace, context.gpu_event[rows])
    numbers = context.replay.step_numbers if context.replay is not None else context.step_numbers.tolist()
    usual: list[StepTime] = [s for s in trace.analysis(step_times) if s.device == where.device and s.step in set(numbers)]
    if not usual:
        return []
    gaps: list[Any] = gap_table(trace, where.device, usual[0].begin, usual[0].end)
    gaps.sort(key=lambda g: g.begin - g.end)
    return evidence_of(trace, [g.call for g in gaps[:6] if g.call >= 0])
