"""What a replay runs through: the launches, the waits and the ends of some steps in order, with the CPU time between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, union
from lanewise.model.trace import Trace

from .cpu_activity import allocation_calls, blocking_calls, launching_lanes
from .gpu_time import gpu_op_times
from .id_sets import among, distinct
from .launches import launches
from .steps import Steps

__all__ = ["Chain", "Pipeline", "chain_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Chain:
    """The items of some steps in order: launches, blocking calls, and the end of each step.

    Attributes:
        work: int64 (items,): CPU time before each item since the one before; waits are not in it.
        begin, stop: int64 (items,): that time as recorded.
        events: float (items,): events recorded in it.
        driver: time in which the driver takes or gives back memory, which the profiler does not slow.
        blocks: bool (items,): whether the item waits for the GPU.
        event: int64 (items,): the call; -1 for the end of a step.
        step_of: int64 (items,): step during which the work was done.
        gpu_item: int64 (ops,): item that launched each GPU op.
        gpu_row: int64 (ops,): its row in `gpu_ops`.
        gpu_ns: int64 (ops,): time that it adds to the device's busy time.
    """

    work: Array
    begin: Array
    stop: Array
    events: Array
    driver: Intervals
    blocks: Array
    event: Array
    step_of: Array
    gpu_item: Array
    gpu_row: Array
    gpu_ns: Array


def chain_of(trace: Trace, found: Steps, chosen: list[int]) -> Chain | None:
    """The chain of some steps.

    Args:
        trace: the trace.
        found: its steps.
        chosen: places of those that are wanted, ascending.

    Returns:
        The chain; None where nothing is launched and nothing waits in these steps.
    """
    windows = _windows(found, chosen)
    event, at, window = _items(trace, windows)
    if len(event) == len(windows):
        return None
    blocks = among(event, trace.analysis(blocking_calls)) & (event >= 0)
    if chosen[-1] == len(found) - 1:
        at[-1] += _usual_gap(found)
    # The work before an item ends where the call begins; a launch's own time is work before the next item, a blocking
    # call's time is its wait.
    done = np.maximum.accumulate(np.where(blocks, trace.end[np.maximum(event, 0)], at))
    firsts = np.r_[True, np.diff(window) != 0]
    begins = np.array([begin for begin, _ in windows], dtype=np.int64)
    starts = np.where(firsts, begins[window], np.r_[np.int64(0), done[:-1]])
    stops = np.maximum(at, starts)
    item, rows = _gpu_work(trace, event)
    ops = trace.analysis(gpu_op_times)
    return Chain(
        work=stops - starts,
        begin=starts,
        stop=stops,
        events=_recorded_between(trace, starts, stops),
        driver=_driver_time(trace),
        blocks=blocks,
        event=event,
        step_of=window,
        gpu_item=item,
        gpu_row=rows,
        gpu_ns=_added_time(ops.ts[rows], ops.end[rows]),
    )


def _windows(found: Steps, chosen: list[int]) -> list[tuple[int, int]]:
    """The CPU time of each chosen step: up to the start of the next step, or to its own end for the last."""
    out = []
    for i in chosen:
        stop = int(found.start[i] + found.wall_ns[i])
        out.append((int(found.start[i]), max(stop, int(found.start[i + 1])) if i + 1 < len(found) else stop))
    return out


def _usual_gap(found: Steps) -> int:
    """CPU time between the end of a step and the start of the next, which the last step of a trace does not show."""
    between = found.start[1:] - (found.start + found.wall_ns)[:-1]
    return max(int(np.median(between)), 0) if len(between) else 0


def _items(trace: Trace, windows: list[tuple[int, int]]) -> tuple[Array, Array, Array]:
    """int64 (items,), three: call, -1 for the end of a window; when it begins; place of its window. In order."""
    calls = distinct(np.r_[trace.analysis(launches).call, trace.analysis(blocking_calls)])
    ts = trace.ts[calls]
    begins, ends = (np.array(x, dtype=np.int64) for x in zip(*windows, strict=True))
    window = np.searchsorted(begins, ts, side="right") - 1
    inside = (window >= 0) & (ts < ends[np.maximum(window, 0)])
    n = len(windows)
    event = np.r_[calls[inside], np.full(n, -1, dtype=np.int64)]
    at, window = np.r_[ts[inside], ends], np.r_[window[inside], np.arange(n)]
    order = np.lexsort((event < 0, at, window))
    return event[order], at[order], window[order]


def _gpu_work(trace: Trace, event: Array) -> tuple[Array, Array]:
    """int64 (ops,), two: the item that launched each GPU op, and its row in `gpu_ops`; by item, then by start."""
    links = trace.analysis(launches)
    item_of = np.full(len(trace), -1, dtype=np.int64)
    item_of[event[event >= 0]] = np.flatnonzero(event >= 0)
    known = np.flatnonzero(links.launch >= 0)
    item = item_of[links.call[links.launch[known]]]
    rows, item = known[item >= 0], item[item >= 0]
    order = np.lexsort((trace.analysis(gpu_op_times).ts[rows], item))
    return item[order], rows[order]


def _recorded_between(trace: Trace, starts: Array, stops: Array) -> Array:
    """Events that the profiler recorded on the launching threads in each of some intervals."""
    rows = trace.rows("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function")
    at = np.sort(trace.ts[rows[np.isin(trace.lane[rows], trace.analysis(launching_lanes))]])
    return np.maximum(np.searchsorted(at, stops) - np.searchsorted(at, starts), 0).astype(np.float64)


def _driver_time(trace: Trace) -> Intervals:
    calls = allocation_calls(trace)
    calls = calls[np.isin(trace.lane[calls], trace.analysis(launching_lanes)) & ~among(calls, trace.analysis(blocking_calls))]
    return union(trace.ts[calls], trace.end[calls])


def _added_time(ts: Array, end: Array) -> Array:
    """What each op adds to the union of all that began before it."""
    order = np.argsort(ts, kind="stable")
    reach = np.r_[np.iinfo(np.int64).min, np.maximum.accumulate(end[order])[:-1]]
    out = np.empty(len(ts), dtype=np.int64)
    out[order] = np.maximum(end[order] - np.maximum(ts[order], reach), 0)
    return out


class Pipeline:
    """One pass over the items: a loop over blocking calls only, everything between two of them at once."""

    def __init__(self, work: Array, blocks: Array, gpu_item: Array, gpu: Array, latency: float, back: float) -> None:
        self.moment = np.cumsum(work)  # CPU clock at each item if nothing ever blocked
        self.back = back
        self.stops = np.flatnonzero(blocks)
        self.gpu_moment = self.moment[gpu_item] + latency
        self.gpu_item = gpu_item
        self.done = np.r_[0.0, np.cumsum(gpu)]
        # End of op i = done[i + 1] + max over k <= i of (launch of k - done[k]), as long as nothing blocks in between.
        self.slack = self.gpu_moment - self.done[:-1]
        # A blocking call that is itself a copy waits for that copy too.
        self.bounds = np.searchsorted(gpu_item, self.stops, side="right")

    def run(self, cpu: float, ready: float) -> tuple[float, float]:
        """(CPU clock, GPU free) after a pass that begins with these."""
        delay, first = cpu, 0
        for stop, bound in zip(self.stops.tolist(), self.bounds.tolist(), strict=True):
            ready = self._advance(first, bound, delay, ready)
            first = bound
            delay += max(ready - self.moment[stop] - delay, 0.0) + self.back
        ready = self._advance(first, len(self.gpu_item), delay, ready)
        return float(self.moment[-1] + delay), ready

    def _advance(self, first: int, last: int, delay: float, ready: float) -> float:
        """When the GPU is free after ops first to last, launched with this delay."""
        if first == last:
            return ready
        late = max(float(self.slack[first:last].max()) + delay, ready - self.done[first])
        return float(self.done[last]) + late
