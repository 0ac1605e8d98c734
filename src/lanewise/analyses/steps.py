"""The steps of a trace: what marks them, what each launched, and what each costs.

A step costs what it adds to the run: from the end of the step before to its own end, where an end is the later of the end of
its annotation on the CPU and the end of the last GPU op that it launched. The annotation alone says little: with asynchronous
work the CPU leaves a step long before the GPU does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import length, union
from lanewise.model.nesting import nest
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.step_marks import step_marks, step_number
from lanewise.model.trace import Trace

from .gpu_time import gpu_op_times
from .launches import launches

__all__ = ["Steps", "steps"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in order of their start; times in ns.

    Attributes:
        marks: ``ProfilerStep``, ``annotation`` or None when there are none.
        event: int32 (steps,): the marking annotation.
        index: int64 (steps,): its number, by name or else by place.
        start: int64 (steps,): start of the annotation.
        wall_ns: int64 (steps,): length of the annotation.
        end: int64 (steps,): the later of the annotation's end and the end of its last GPU op.
        time_ns: int64 (steps,): what the step adds to the run.
        launch_step: int32 (launches,): step during which each launch was made, -1 for none.
        gpu_step: int32 (gpu ops,): step that launched each GPU op, -1 for none.
        launches: int64 (steps,): launches made.
        kernels, copies, memsets: int64 (steps,): GPU ops of the step by category.
        gpu_busy_ns: int64 (steps,): union of the step's GPU ops; -1 where it launched work and none of it was recorded.
    """

    marks: str | None
    event: Array
    index: Array
    start: Array
    wall_ns: Array
    end: Array
    time_ns: Array
    launch_step: Array
    gpu_step: Array
    launches: Array
    kernels: Array
    copies: Array
    memsets: Array
    gpu_busy_ns: Array

    def __len__(self) -> int:
        return len(self.event)

    @property
    def gpu_ops(self) -> Array:
        """int64 (steps,): all GPU ops of each step."""
        total: Array = self.kernels + self.copies + self.memsets
        return total


def steps(trace: Trace) -> Steps:
    """Find the steps and give each its GPU work: a GPU op belongs to the step that launched it."""
    marks, event = _marks(trace)
    links, ops = trace.analysis(launches), trace.analysis(gpu_op_times)
    start = trace.ts[event]
    launch_step = _within(trace.ts[links.call], start, trace.end[event])
    gpu_step = np.full(len(links.launch), -1, dtype=np.int32)
    known = links.launch >= 0
    gpu_step[known] = launch_step[links.launch[known]]

    n = len(event)
    end = trace.end[event].copy()
    mine = np.flatnonzero(gpu_step >= 0)
    np.maximum.at(end, gpu_step[mine], ops.end[mine])
    category = trace.category[trace.column("gpu_ops", "event")]
    counts = [_per_step(gpu_step[category == CATEGORY_CODES[c]], n) for c in ("kernel", "gpu_memcpy", "gpu_memset")]
    n_launches = _per_step(launch_step, n)
    busy = _busy(ops.ts, ops.end, gpu_step, n)
    busy[(sum(counts) == 0) & (n_launches > 0)] = -1
    return Steps(
        marks=marks,
        event=event.astype(np.int32),
        index=_indexes(trace, event),
        start=start,
        wall_ns=trace.dur[event],
        end=end,
        time_ns=_times(trace, start, trace.end[event], end),
        launch_step=launch_step,
        gpu_step=gpu_step,
        launches=n_launches,
        kernels=counts[0],
        copies=counts[1],
        memsets=counts[2],
        gpu_busy_ns=busy,
    )


def _marks(trace: Trace) -> tuple[str | None, Array]:
    """What marks steps, and the marking events in order."""
    rows = trace.rows("user_annotation", "cpu_op")
    annotation = trace.category[rows] == CATEGORY_CODES["user_annotation"]
    marks, found = step_marks(trace.strings, trace.name[rows], trace.ts[rows], trace.end[rows], trace.lane[rows], annotation)
    return marks, rows[found]


def _within(moments: Array, start: Array, end: Array) -> Array:
    """Number of the interval that holds each moment, -1 for none; intervals are in order of their start.

    Of intervals that overlap it is the last begun.
    """
    place = np.searchsorted(start, moments, side="right").astype(np.int32) - 1
    over = np.flatnonzero((place >= 0) & (moments >= end[place])) if len(start) else np.empty(0, dtype=np.int64)
    if not len(over):
        return place
    rows = np.arange(len(start))
    tree = nest(rows, start, end, np.zeros_like(rows), rows)
    longer = np.full(len(start) + 1, -1, dtype=np.int32)  # the last one begun before each that ends no earlier
    inner = tree.parent >= 0
    longer[tree.events[inner]] = tree.events[tree.parent[inner]]
    while len(over):
        place[over] = longer[place[over]]
        over = over[place[over] >= 0]
        over = over[moments[over] >= end[place[over]]]
    return place


def _per_step(step: Array, n: int) -> Array:
    return np.bincount(step[step >= 0], minlength=n).astype(np.int64)


def _busy(ts: Array, end: Array, step: Array, n: int) -> Array:
    """Union of each step's GPU ops, all steps at once: steps are laid far apart so that none touches another."""
    out = np.zeros(n, dtype=np.int64)
    mine = np.flatnonzero(step >= 0)
    if not len(mine):
        return out
    base = ts[mine].min()
    stride = int((end[mine] - base).max()) + 1
    if stride * n >= 2**62:  # too long to lay apart: one after the other
        for i in range(n):
            rows = np.flatnonzero(step == i)
            out[i] = length(union(ts[rows], end[rows]))
        return out
    shift = step[mine].astype(np.int64) * stride - base
    starts, ends = union(ts[mine] + shift, end[mine] + shift)
    np.add.at(out, starts // stride, ends - starts)
    return out


def _indexes(trace: Trace, event: Array) -> Array:
    return np.array([step_number(trace.name_of(int(e)), place) for place, e in enumerate(event)], dtype=np.int64)


def _times(trace: Trace, start: Array, cpu_end: Array, end: Array) -> Array:
    """What each step adds to the run.

    The first counts from its own start, or from the end of the GPU work launched before it where that is later.
    """
    if not len(start):
        return np.empty(0, dtype=np.int64)
    ops, links = trace.analysis(gpu_op_times), trace.analysis(launches)
    called = np.full(len(links.launch), np.iinfo(np.int64).min, dtype=np.int64)
    known = links.launch >= 0
    called[known] = trace.ts[links.call[links.launch[known]]]
    # Work whose call is not in the trace was launched before the window, as long as it began while steps were launched; with an
    # id that identifies nothing or several calls, all that is known is that it was not launched after it ran. A stream runs in
    # order: what follows work of the steps there was launched later, by a call whose record was lost.
    limit = np.where(links.ambiguous, start[0], cpu_end.max())
    unknown = np.flatnonzero(~known)
    if len(unknown):
        limit[unknown] = np.minimum(limit[unknown], _first_on_stream(trace, ops.ts, called >= start[0])[unknown])
    before = np.where(known, called < start[0], ops.ts < limit)
    begin = max(int(start[0]), int(ops.end[before].max())) if before.any() else int(start[0])
    reach = np.maximum.accumulate(end)
    return np.diff(np.r_[np.int64(min(begin, int(reach[0]))), reach])


def _first_on_stream(trace: Trace, ts: Array, chosen: Array) -> Array:
    """int64 (gpu ops,): start of the first of some GPU ops on the stream of each; the far future where there is none."""
    device, stream = trace.column("gpu_ops", "device"), trace.column("gpu_ops", "stream")
    streams, key = np.unique(stream, return_inverse=True)
    key = key + np.unique(device, return_inverse=True)[1] * len(streams)
    first = np.full(int(key.max(initial=0)) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, key[chosen], ts[chosen])
    return first[key]
