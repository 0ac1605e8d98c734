"""How much of the GPU's work the trace shows, and so whether idle time can be known at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanewise.model.intervals import clipped, length
from lanewise.model.notes import Note
from lanewise.model.trace import Trace
from lanewise.units import duration

from .gpu_time import device_times, gpu_op_times
from .graph_replays import short_replays
from .launches import LAUNCH_KINDS, launches
from .steps import steps

__all__ = ["Coverage", "coverage", "coverage_notes", "idle_ns", "idle_window"]

# A few launches start nothing that is recorded (a copy of 0 bytes, a launch that failed); more than this share is a gap.
_MISSING_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is recorded of the GPU's work.

    Attributes:
        launches: calls that start GPU work.
        linked: launches with a GPU op.
        gpu_ops: GPU ops.
        gpu_ops_linked: GPU ops whose launch is in the trace.
        ambiguous: GPU ops whose correlation id identifies nothing or several calls.
        launched_before: GPU ops with a sound id whose launch is not in the trace.
        gpu_timing: ``ok``, ``partial`` (idle is not known) or ``none``.
        graph_launches: launches of CUDA or HIP graphs.
        graphs_missing: those of them without a GPU op.
        graphs_short: those with fewer GPU ops than other replays of the same graph.
        steps_missing: steps that launched work and show none of it.
        early: GPU ops that start before their launch.
        skew_ns: the most by which one does.
        overhead_ns, overhead_events: what the profiler recorded of its own time.
    """

    launches: int
    linked: int
    gpu_ops: int
    gpu_ops_linked: int
    ambiguous: int
    launched_before: int
    gpu_timing: str
    graph_launches: int
    graphs_missing: int
    graphs_short: int
    steps_missing: int
    early: int
    skew_ns: int
    overhead_ns: int
    overhead_events: int


def coverage(trace: Trace) -> Coverage:
    """Compare launches with GPU records."""
    links, found = trace.analysis(launches), trace.analysis(steps)
    linked = links.linked
    graph = links.kind == LAUNCH_KINDS.index("graph")
    graphs_missing = int((graph & ~linked).sum())
    short = trace.analysis(short_replays)
    steps_missing = int((found.gpu_busy_ns == -1).sum())
    n, missing, gpu_ops = len(linked), int((~linked).sum()), len(links.launch)
    if gpu_ops == 0:
        timing = "none"
    elif missing > _MISSING_RATIO * n or graphs_missing or short or steps_missing:
        timing = "partial"
    else:
        timing = "ok"
    known = np.flatnonzero(links.launch >= 0)
    lead = trace.ts[links.call[links.launch[known]]] - trace.ts[trace.column("gpu_ops", "event")[known]]
    overhead = trace.rows("overhead")
    return Coverage(
        launches=n,
        linked=n - missing,
        gpu_ops=gpu_ops,
        gpu_ops_linked=len(known),
        ambiguous=int(links.ambiguous.sum()),
        launched_before=gpu_ops - len(known) - int(links.ambiguous.sum()),
        gpu_timing=timing,
        graph_launches=int(graph.sum()),
        graphs_missing=graphs_missing,
        graphs_short=0 if short is None else short.count,
        steps_missing=steps_missing,
        early=int((lead > 0).sum()),
        skew_ns=max(int(lead.max(initial=0)), 0),
        overhead_ns=int(trace.dur[overhead].sum()),
        overhead_events=len(overhead),
    )


def coverage_notes(trace: Trace) -> list[Note]:
    """What coverage, steps and impossible durations make a reader need to know."""
    c, found = trace.analysis(coverage), trace.analysis(steps)
    notes: list[Note] = []

    def note(when: object, key: str, **slots: object) -> None:
        if when:
            notes.append(Note(key, slots))

    missing = c.launches - c.linked
    note(c.launches and not c.gpu_ops, "no-gpu-records", launches=c.launches)
    partial = c.gpu_timing == "partial"
    note(
        partial and c.graphs_missing,
        "graph-records-missing",
        missing=c.graphs_missing,
        launches=c.graph_launches,
    )
    short = trace.analysis(short_replays)
    if short is not None:
        note(True, "graph-records-fewer", count=short.count, fewest=short.fewest, most=short.most)
    note(
        partial and missing - c.graphs_missing > _MISSING_RATIO * c.launches,
        "partial-gpu-records",
        missing=missing,
        launches=c.launches,
    )
    note(partial and c.steps_missing, "steps-without-gpu", count=c.steps_missing, steps=len(found))
    note(c.ambiguous, "ambiguous-ids", count=c.ambiguous)
    note(c.launched_before, "launched-before", count=c.launched_before)
    ops = trace.analysis(gpu_op_times)
    if len(ops.impossible):
        claimed = int(trace.dur[trace.column("gpu_ops", "event")[ops.impossible]].max())
        note(True, "impossible-duration", count=len(ops.impossible), claimed=duration(claimed))
    note(c.early, "lane-skew", count=c.early, skew=duration(c.skew_ns))
    note(c.overhead_events, "profiler-overhead", count=c.overhead_events, overhead=duration(c.overhead_ns))
    if len(trace):
        note(found.marks is None, "no-steps")
    if found.marks == "annotation":
        note(True, "steps-from-annotations", count=len(found), name=trace.name_of(int(found.event[0])))
    return notes


def idle_window(trace: Trace) -> tuple[int, int] | None:
    """The time within which idle time is asked for, in ns.

    The steps where there are steps, from the start of the first to the end of the last; else from the first launch or GPU op
    to the end of the last GPU op. None without GPU ops.
    """
    found, ops = trace.analysis(steps), trace.analysis(gpu_op_times)
    if not len(ops.ts):
        return None
    if len(found):
        return int(found.start[0]), int(found.end.max())
    call = trace.analysis(launches).call
    first = int(ops.ts.min())
    return (min(first, int(trace.ts[call].min())) if len(call) else first), int(ops.end.max())


def idle_ns(trace: Trace, device: int) -> int | None:
    """Time in the window during which a device ran nothing; None unless coverage is good."""
    window = trace.analysis(idle_window)
    if window is None or trace.analysis(coverage).gpu_timing != "ok":
        return None
    mine = next((d for d in trace.analysis(device_times) if d.device == device), None)
    if mine is None:
        return None
    return window[1] - window[0] - length(clipped(mine.busy, *window))
