"""How each GPU spent its time: busy, by kind, by stream, and communication that nothing hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.kernels import gpu_kind
from lanewise.model.intervals import Intervals, intersection, length, union
from lanewise.model.orders import stable_order
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .id_sets import distinct

__all__ = ["KINDS", "DeviceTime", "GpuOps", "StreamTime", "device_times", "gpu_op_times", "true_span"]

Array = npt.NDArray[Any]

KINDS = ("compute", "communication", "copy", "memset")
# A stream runs in order, so an op that wholly contains later ops of its stream has a wrong duration. Short ones are left
# alone: records of one stream may overlap by microseconds (programmatic dependent launch, clock conversion).
_IMPOSSIBLE_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class GpuOps:
    """Times and kinds of the rows of `gpu_ops`.

    Attributes:
        ts: int64 (gpu ops,): start.
        end: int64 (gpu ops,): end; of an impossible op, the start of the next op of its stream.
        kind: int8 (gpu ops,): place in KINDS.
        impossible: rows whose duration cannot be.
    """

    ts: Array
    end: Array
    kind: Array
    impossible: Array


@dataclass(frozen=True, slots=True)
class StreamTime:
    """A stream: its number, its ops and its busy time in ns."""

    stream: int
    ops: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """A GPU's time over the whole trace, in ns.

    Attributes:
        device: its number, as recorded.
        ops: GPU ops on it.
        busy: disjoint intervals in which anything ran.
        sum_ns: plain sum of all ops.
        by_kind: union of the ops of each of KINDS.
        exposed_communication_ns: communication during which no compute ran.
        streams: its streams, the busiest first.
    """

    device: int
    ops: int
    busy: Intervals
    sum_ns: int
    by_kind: dict[str, int]
    exposed_communication_ns: int
    streams: tuple[StreamTime, ...]

    @property
    def busy_ns(self) -> int:
        """Length of the union over all streams."""
        return length(self.busy)


def gpu_op_times(trace: Trace) -> GpuOps:
    """Times and kinds of the GPU ops, impossible durations cut."""
    events = trace.column("gpu_ops", "event")
    ts, end = trace.ts[events], trace.end[events].copy()
    impossible, cut = _impossible(trace, ts, end)
    end[impossible] = cut
    return GpuOps(ts, end, _kinds(trace, events), impossible)


def true_span(trace: Trace) -> tuple[int, int] | None:
    """(start of the first event, end of the last) in ns, impossible durations cut; None for a trace without events."""
    ops = trace.analysis(gpu_op_times)
    if not len(ops.impossible):
        return trace.span
    end = trace.end.copy()
    end[trace.column("gpu_ops", "event")] = ops.end
    return int(trace.ts[0]), int(end.max())


def _kinds(trace: Trace, events: Array) -> Array:
    """Kind of each op: by category for copies and memsets, by name for kernels."""
    kernel = trace.category[events] == CATEGORY_CODES["kernel"]
    out = np.full(len(events), KINDS.index("compute"), dtype=np.int8)
    for category, kind in (("gpu_memcpy", "copy"), ("gpu_memset", "memset")):
        out[trace.category[events] == CATEGORY_CODES[category]] = KINDS.index(kind)
    names = trace.name[events][kernel]
    seen = distinct(names)
    table = np.zeros(len(trace.strings) or 1, dtype=np.int8)
    for code in seen:
        table[code] = KINDS.index(gpu_kind(trace.strings[code], "kernel"))
    out[kernel] = table[names]
    return out


def _impossible(trace: Trace, ts: Array, end: Array) -> tuple[Array, Array]:
    """Rows of long ops that wholly contain a later op of their stream, and the start of the next later op of each."""
    long = np.flatnonzero(end - ts > _IMPOSSIBLE_NS)
    if not len(long):
        return long, ts[long]
    device, stream = trace.column("gpu_ops", "device"), trace.column("gpu_ops", "stream")
    order = np.lexsort((ts, stream, device))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(device[order]) != 0) | (np.diff(stream[order]) != 0)
    stream_end = _next_true(new)[place[long]]
    new[1:] |= np.diff(ts[order]) != 0
    later = _next_true(new)[place[long]]  # ops that start at the same time are not later
    # Earliest end of the later ops of each; a range that begins where it ends would give its first value.
    ends = np.r_[end[order], np.iinfo(np.int64).max]
    bounds = np.stack((np.minimum(later, stream_end), stream_end), axis=1)
    earliest = np.minimum.reduceat(ends, bounds.ravel())[::2]
    found = np.flatnonzero((later < stream_end) & (earliest <= end[long]))
    return long[found], ts[order[later[found]]]


def _next_true(marks: Array) -> Array:
    """int64 (n,): for each place the next one behind it that is marked, n where there is none; the first place is marked."""
    return np.r_[np.flatnonzero(marks)[1:], len(marks)][np.cumsum(marks) - 1]


def device_times(trace: Trace) -> tuple[DeviceTime, ...]:
    """Times of each GPU that has ops, by its number."""
    ops, device = trace.analysis(gpu_op_times), trace.column("gpu_ops", "device")
    return tuple(_device_time(trace, ops, rows) for rows in _groups(device, np.arange(len(device))))


def _groups(keys: Array, rows: Array) -> list[Array]:
    """Some rows by their key, keys ascending."""
    ordered = rows[stable_order(keys[rows])]
    return np.split(ordered, np.flatnonzero(np.diff(keys[ordered])) + 1) if len(rows) else []


def _device_time(trace: Trace, ops: GpuOps, rows: Array) -> DeviceTime:
    ts, end, kind = ops.ts[rows], ops.end[rows], ops.kind[rows]
    unions = {name: union(ts[kind == code], end[kind == code]) for code, name in enumerate(KINDS)}
    communication = unions["communication"]
    hidden = length(intersection(communication, unions["compute"]))
    stream = trace.column("gpu_ops", "stream")
    streams = [StreamTime(int(stream[g[0]]), len(g), length(union(ops.ts[g], ops.end[g]))) for g in _groups(stream, rows)]
    return DeviceTime(
        device=int(trace.column("gpu_ops", "device")[rows[0]]),
        ops=len(rows),
        busy=union(ts, end),
        sum_ns=int((end - ts).sum()),
        by_kind={name: length(u) for name, u in unions.items()},
        exposed_communication_ns=length(communication) - hidden,
        streams=tuple(sorted(streams, key=lambda s: (-s.busy_ns, s.stream))),
    )
