"""Where the time of each step goes on each device: every moment is given to one cause, and the parts sum to the step.

Busy time goes to compute, then to communication that no compute hides, then to copies and memsets that nothing hides. An idle
gap ends with the op that runs next. Up to the launch of that op the CPU had not launched it yet, and what it was doing is the
cause; from the launch on, an idle GPU needs some microseconds to start, and what goes beyond that the op waited for something
else than the CPU: another stream, an event, another rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, gaps, intersection, overlap_with, union
from lanewise.model.trace import Trace

from .cpu_activity import activities
from .gpu_time import KINDS, gpu_op_times
from .launches import launches
from .steps import steps

__all__ = ["CAUSES", "Gap", "StepTime", "gap_at", "gap_table", "step_times"]

Array = npt.NDArray[Any]

# In the order in which a moment is given away: what the CPU was doing when several apply (compiling inside an op is compiling).
_CPU_CAUSES = ("profiler", "compile", "data", "allocation", "sync", "pageable_copy", "autograd", "dispatch", "python")
CAUSES = (
    "compute",
    "communication",
    "copy",
    *(f"idle_{cause}" for cause in _CPU_CAUSES),
    "idle_launch",
    "idle_wait",
    "idle_unknown",
)
# An idle GPU starts a kernel 4 to 12 us after its launch (under the profiler, PCIe cards); more than this is waiting.
START_NS = 20_000


@dataclass(frozen=True, slots=True)
class Gap:
    """An idle gap of a device: what ended it, and its parts by cause in ns.

    Attributes:
        begin, end: the gap in ns.
        row: row of `gpu_ops` that ended it, -1 for none.
        call: event of that op's launching call, -1 where not known.
        causes: ns by cause; they sum to the gap.
    """

    begin: int
    end: int
    row: int
    call: int
    causes: dict[str, int]


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step on one device.

    Attributes:
        step: place of the step.
        device: the GPU.
        begin, end: what the step adds to the run, in ns.
        causes: ns by each of `CAUSES`; they sum to end - begin.
    """

    step: int
    device: int
    begin: int
    end: int
    causes: dict[str, int]


def gap_table(trace: Trace, device: int, begin: int, end: int) -> list[Gap]:
    """Idle gaps of a device within a window, in order, each with its causes."""
    ops = trace.analysis(gpu_op_times)
    mine = np.flatnonzero(trace.column("gpu_ops", "device") == device)
    mine = mine[np.argsort(ops.ts[mine], kind="stable")]
    idle = gaps(union(ops.ts[mine], ops.end[mine]), begin, end)
    parts = _causes(trace, idle, mine)
    row_of, call_of = _enders(trace, idle, mine)
    return [
        Gap(int(a), int(b), int(row_of[i]), int(call_of[i]), {c: int(parts[c][i]) for c in parts if parts[c][i]})
        for i, (a, b) in enumerate(zip(*idle, strict=True))
    ]


def gap_at(trace: Trace, device: int, moment: int) -> Gap | None:
    """The idle gap of a device around a moment; None while it is busy or outside the trace."""
    span = trace.span
    if span is None or not span[0] <= moment <= span[1]:
        return None
    return next((g for g in gap_table(trace, device, *span) if g.begin <= moment < g.end), None)


def step_times(trace: Trace) -> list[StepTime]:
    """Causes of every step on every device."""
    found = trace.analysis(steps)
    if not len(found):
        return []
    # What a step adds begins where what the steps before it added ends: together they cover a stretch of time without holes.
    ends = np.maximum.accumulate(found.end)
    begins = ends - found.time_ns
    out = []
    for device in np.unique(trace.column("gpu_ops", "device")):
        causes = _causes_by_step(trace, int(device), begins, ends)
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            out.append(StepTime(i, int(device), begin, end, {c: int(ns[i]) for c, ns in causes.items()}))
    return out


def _causes_by_step(trace: Trace, device: int, begins: Array, ends: Array) -> dict[str, Array]:
    """ns of each step by cause, for steps that follow one another without holes."""
    ops = trace.analysis(gpu_op_times)
    mine = np.flatnonzero(trace.column("gpu_ops", "device") == device)
    mine = mine[np.argsort(ops.ts[mine], kind="stable")]
    kinds = {k: mine[ops.kind[mine] == c] for c, k in enumerate(KINDS)}
    unions = {k: union(ops.ts[rows], ops.end[rows]) for k, rows in kinds.items()}
    causes = {c: np.zeros(len(ends), dtype=np.int64) for c in CAUSES}
    taken = unions["compute"]
    causes["compute"] = overlap_with(begins, ends, taken)
    for kind, cause in (("communication", "communication"), ("copy", "copy"), ("memset", "copy")):
        part = unions[kind]
        causes[cause] += overlap_with(begins, ends, part) - overlap_with(begins, ends, intersection(part, taken))
        taken = union(np.r_[taken[0], part[0]], np.r_[taken[1], part[1]])
    idle = _cut_at(gaps(taken, int(begins[0]), int(ends[-1])), ends[:-1])
    step = np.searchsorted(ends, idle[0], side="right")
    for cause, ns in _causes(trace, idle, mine).items():
        np.add.at(causes[cause], step, ns)
    return causes


def _cut_at(intervals: Intervals, moments: Array) -> Intervals:
    """Disjoint ascending intervals, cut in two at each of some ascending moments within them."""
    starts, ends = intervals
    moments = np.unique(moments)
    place = np.searchsorted(starts, moments, side="left") - 1
    inside = (place >= 0) & (moments < ends[np.maximum(place, 0)]) if len(starts) else np.zeros(len(moments), dtype=np.bool_)
    return np.sort(np.r_[starts, moments[inside]]), np.sort(np.r_[ends, moments[inside]])


def _enders(trace: Trace, idle: Intervals, mine: Array) -> tuple[Array, Array]:
    """(row, launching call) of the op that ends each gap; -1 for none or not known."""
    ops, links = trace.analysis(gpu_op_times), trace.analysis(launches)
    row = np.full(len(idle[0]), -1, dtype=np.int64)
    call = np.full(len(idle[0]), -1, dtype=np.int64)
    if not len(mine) or not len(idle[0]):
        return row, call
    place = np.searchsorted(ops.ts[mine], idle[1], side="left")
    there = place < len(mine)
    row[there] = mine[place[there]]
    launch = np.where(row >= 0, links.launch[np.maximum(row, 0)], -1)
    known = launch >= 0
    call[known] = links.call[launch[known]]
    return row, call


def _causes(trace: Trace, idle: Intervals, mine: Array) -> dict[str, Array]:
    """ns of each gap by cause."""
    begin, end = idle
    n = len(begin)
    out = {c: np.zeros(n, dtype=np.int64) for c in CAUSES if c.startswith("idle_")}
    if not n:
        return out
    row, call = _enders(trace, idle, mine)
    known = call >= 0
    # Gaps at the end of a step are ended by nothing, or by an op of which nothing is known: the CPU is judged all the same
    # where nothing follows, since nothing was launched.
    nothing = row < 0
    launched = np.where(known, np.clip(trace.end[np.maximum(call, 0)], begin, end), np.where(nothing, end, begin))
    started = np.where(known, np.minimum(launched + START_NS, end), launched)
    out["idle_launch"] = np.where(known, started - launched, 0)
    out["idle_wait"] = np.where(known, end - started, 0)
    out["idle_unknown"] = np.where(known | nothing, 0, end - begin)
    cpu_end = np.where(known | nothing, launched, begin)
    for cause, ns in _cpu_causes(trace, begin, cpu_end).items():
        out[f"idle_{cause}"] += ns
    return out


def _cpu_causes(trace: Trace, begin: Array, end: Array) -> dict[str, Array]:
    """What the CPU was doing from `begin` to `end` of each gap, ns by cause; they sum to the gap's CPU part."""
    out: dict[str, Array] = {}
    before = np.zeros(len(begin), dtype=np.int64)
    covered: Intervals = (before[:0], before[:0])
    for cause, covering in trace.analysis(_cpu_covers):
        now = before if covering is covered else overlap_with(begin, end, covering)
        covered = covering
        out[cause] = now - before
        before = now
    out["python"] = (end - begin) - before
    return out


def _cpu_covers(trace: Trace) -> list[tuple[str, Intervals]]:
    """For each CPU cause but the last, the time that it or one before it takes."""
    doing = trace.analysis(activities).by_name
    taken: Intervals = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    covers = []
    for cause in _CPU_CAUSES[:-1]:
        found = doing.get(cause)
        if found is not None and len(found[0]):
            taken = union(np.r_[taken[0], found[0]], np.r_[taken[1], found[1]])
        covers.append((cause, taken))
    return covers
