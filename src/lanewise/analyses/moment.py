"""What a GPU was doing at one moment: the op that ran, or why it was idle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanewise.model.trace import Trace

from .gpu_time import gpu_op_times
from .idle import Gap, gap_at
from .launches import launches

__all__ = ["Moment", "moments"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A device at a moment.

    Attributes:
        device: the GPU.
        moment_ns: the moment, counted from the trace's start.
        running: (name of the op, its stream, ns since its start, ns to its end, name of the launching op) of each op that ran.
        gap: the idle gap around the moment, None when the device was busy.
        gap_begin_ns: start of the gap, counted from the trace's start.
        ender: name of the op that ended the gap, None for none.
        ender_op: name of the op that launched it.
        call: name of its launching call.
        call_ns: when the call began, counted from the trace's start.
        activity: names of the events that the launching thread was in at the moment, the outermost first.
    """

    device: int
    moment_ns: int
    running: tuple[tuple[str, int, int, int, str | None], ...]
    gap: Gap | None
    gap_begin_ns: int | None
    ender: str | None
    ender_op: str | None
    call: str | None
    call_ns: int | None
    activity: tuple[str, ...]


def moments(trace: Trace, moment: int) -> list[Moment]:
    """Every device at a moment (ns, as in the trace)."""
    devices = np.unique(trace.column("gpu_ops", "device"))
    return [_moment(trace, int(d), moment) for d in devices]


def _moment(trace: Trace, device: int, moment: int) -> Moment:
    start = trace.span[0] if trace.span else 0
    gap = gap_at(trace, device, moment)
    running = () if gap is not None else _running(trace, device, moment)
    ender = None if gap is None or gap.row < 0 else int(trace.column("gpu_ops", "event")[gap.row])
    call = None if gap is None or gap.call < 0 else gap.call
    return Moment(
        device=device,
        moment_ns=moment - start,
        running=running,
        gap=gap,
        gap_begin_ns=None if gap is None else gap.begin - start,
        ender=None if ender is None else trace.name_of(ender),
        ender_op=None if gap is None or gap.row < 0 else _owner(trace, gap.row),
        call=None if call is None else trace.name_of(call),
        call_ns=None if call is None else int(trace.ts[call]) - start,
        activity=() if call is None else _around(trace, int(trace.lane[call]), moment),
    )


def _running(trace: Trace, device: int, moment: int) -> tuple[tuple[str, int, int, int, str | None], ...]:
    ops = trace.analysis(gpu_op_times)
    mine = (trace.column("gpu_ops", "device") == device) & (ops.ts <= moment) & (moment < ops.end)
    stream, event = trace.column("gpu_ops", "stream"), trace.column("gpu_ops", "event")
    return tuple(
        (trace.name_of(int(event[r])), int(stream[r]), moment - int(ops.ts[r]), int(ops.end[r]) - moment, _owner(trace, int(r)))
        for r in np.flatnonzero(mine)
    )


def _owner(trace: Trace, row: int) -> str | None:
    owner = int(trace.analysis(launches).gpu_owner[row])
    return None if owner < 0 else trace.name_of(owner)


def _around(trace: Trace, lane: int, moment: int) -> tuple[str, ...]:
    """Events of a CPU lane around a moment, the outermost first."""
    before = np.searchsorted(trace.ts, moment, side="right")
    mine = np.flatnonzero((trace.lane[:before] == lane) & (trace.end[:before] > moment))
    order = np.argsort(trace.dur[mine], kind="stable")[::-1]
    return tuple(trace.name_of(int(e)) for e in mine[order])
