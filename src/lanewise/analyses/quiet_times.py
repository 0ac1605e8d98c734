"""Stretches of a step in which the CPU launches nothing: between one launch or wait and the next, across launching threads.

Within a stretch, a *hole* is time in which no op, annotation or call was recorded: Python, or waiting for something that the
profiler does not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, gaps, intersection, union
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .call_tree import op_tree
from .called_ops import called_ops
from .copies import host_copies
from .cpu_activity import blocking_calls, launching_lanes
from .id_sets import among, distinct
from .launches import launches
from .steps import steps

__all__ = ["QuietTimes", "quiet_times", "recorded_holes"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """Stretches within the steps, in order; times in ns.

    Attributes:
        begin, end: int64 (stretches,): from the end of the op that launched or waited last (or the start of the step) to the
            start of the op that launches or waits next (or the end of the step).
        step: int64 (stretches,): place of the step.
        first: bool (stretches,): whether the step had launched nothing before it.
        to_copy: bool (stretches,): whether it ends with a copy from host to GPU.
        next_call: int64 (stretches,): event of the call that ends it, -1 for the end of the step.
    """

    begin: Array
    end: Array
    step: Array
    first: Array
    to_copy: Array
    next_call: Array

    @property
    def ns(self) -> Array:
        """int64 (stretches,): their lengths."""
        result: Array = self.end - self.begin
        return result


def quiet_times(trace: Trace) -> QuietTimes:
    """All stretches of all steps."""
    found, links, called = trace.analysis(steps), trace.analysis(launches), trace.analysis(called_ops)
    calls = distinct(np.r_[links.call, trace.analysis(blocking_calls)])
    calls = calls[among(trace.lane[calls], trace.analysis(launching_lanes))]
    op = called.of_event[calls]
    outer = np.where(op >= 0, called.event[np.maximum(op, 0)] if len(called) else calls, calls)
    start, stop = trace.ts[outer], np.maximum(trace.end[outer], trace.end[calls])
    step = np.searchsorted(found.start, start, side="right") - 1
    inside = (step >= 0) & (start < (found.start + found.wall_ns)[np.maximum(step, 0)])
    calls, start, stop, step = calls[inside], start[inside], stop[inside], step[inside]
    n = len(found)
    # Marks at both ends of every step, so that its first and last stretches are like the others.
    at = np.r_[start, found.start, found.start + found.wall_ns]
    until = np.r_[stop, found.start, found.start + found.wall_ns]
    event = np.r_[calls, np.full(2 * n, -1)]
    of = np.r_[step, np.arange(n), np.arange(n)]
    side = np.r_[np.ones(len(calls)), np.zeros(n), np.full(n, 2)]
    order = np.lexsort((at, side, of))
    at, until, event, of, side = at[order], until[order], event[order], of[order], side[order]
    reach = np.maximum.accumulate(until)
    same = of[1:] == of[:-1]
    begin, end = reach[:-1][same], np.maximum(at[1:][same], reach[:-1][same])
    nxt = event[1:][same]
    copies = trace.analysis(host_copies)
    return QuietTimes(
        begin=begin,
        end=end,
        step=of[1:][same],
        first=side[:-1][same] == 0,
        to_copy=among(nxt, distinct(copies.call[copies.to_gpu & (copies.call >= 0)])) & (nxt >= 0),
        next_call=nxt,
    )


def recorded_holes(trace: Trace, within: Intervals) -> Intervals:
    """The parts of some disjoint intervals in which launching threads were in no op, no annotation of the program's own work
    and no call. Annotations that hold other events (a step, a phase of it) are looked through."""
    tree = trace.analysis(op_tree)
    mine = among(trace.lane[tree.events], trace.analysis(launching_lanes))
    leaf = np.ones(len(tree.events), dtype=np.bool_)
    leaf[tree.parent[tree.parent >= 0]] = False
    annotation = trace.category[tree.events] == CATEGORY_CODES["user_annotation"]
    steps_found = trace.analysis(steps)
    marks = among(tree.events, distinct(steps_found.event))
    chosen = tree.events[mine & ~marks & (~annotation | leaf)]
    busy = union(trace.ts[chosen], trace.end[chosen])
    if not len(within[0]):
        return within
    return intersection(gaps(busy, int(within[0][0]), int(within[1][-1])), within)
