"""Which events of a trace belong to a window, by what a survey found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.notes import Note
from lanewise.model.schema import CATEGORY_CODES
from lanewise.units import duration

from .assembly import Assembly
from .columns import ChunkColumns

__all__ = ["Selection", "Step", "WindowAssembly", "filled", "part_of", "window_note"]

Array = npt.NDArray[Any]

Step = tuple[int, int, int, str]  # number, start, end, name of the mark

_GPU_ANNOTATION = CATEGORY_CODES["gpu_user_annotation"]


def _no_ids() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Selection:
    """Which events belong to a window; times in ns.

    Attributes:
        begin, end: the window on the CPU.
        span: start and end of the whole trace.
        marks: number, start, end and name of its steps.
        foreign: the same of the trace's other steps.
        earlier: whether GPU ops of earlier calls that still ran belong to it.
        calls: int64: correlation ids of the calls within it, ascending.
        later: int64: ids of calls after it, ascending.
        before: int64: ids of calls before its first step whose GPU ops belong to it, ascending: they tell when the GPU came
            to the step's own work.
        outside: int64: starts of the calls that belong to it and began before it, ascending.
        gpu: first start and last end of the GPU ops that its calls started; the window itself when there are none.
        started: int64: starts of the GPU ops that belong to it, ascending.
        begins, ends: int64: starts and ends of what belongs to it and stands in the file as a begin and an end.
        n_pairs: how many such pairs the file has.
    """

    begin: int
    end: int
    span: tuple[int, int]
    marks: list[Step]
    foreign: list[Step]
    earlier: bool
    calls: Array = field(default_factory=_no_ids)
    later: Array = field(default_factory=_no_ids)
    before: Array = field(default_factory=_no_ids)
    outside: Array = field(default_factory=_no_ids)
    gpu: tuple[int, int] = (0, 0)
    started: Array = field(default_factory=_no_ids)
    begins: Array = field(default_factory=_no_ids)
    ends: Array = field(default_factory=_no_ids)
    n_pairs: int = 0

    def on_cpu(self, ts: Array, end: Array) -> Array:
        """bool (n,): what happened during the window."""
        inside: Array = (ts < self.end) & ((end > self.begin) | (ts >= self.begin))
        return inside

    def on_gpu(self, ts: Array, end: Array, correlation: Array) -> Array:
        """bool (n,): GPU ops that belong to it."""
        known = correlation > 0
        own: Array = known & np.isin(correlation, self.calls)
        if not self.earlier:
            return own if len(self.calls) else own | (~known & self.on_cpu(ts, end))
        # Work of earlier calls, and work whose call is not recorded, is there as far as it runs in the window's time.
        until = np.where(known, max(self.end, self.gpu[1]), self.end)
        return own | ((end > self.begin) & (ts < until) & ~(known & np.isin(correlation, self.later)))

    def holds_end(self, ts: Array) -> Array:
        """bool (n,): ends of arrows at what belongs to it, by their moments."""
        inside: Array = self.on_cpu(ts, ts) | np.isin(ts, self.started) | np.isin(ts, self.outside)
        return inside

    def in_gpu_time(self, ts: Array, end: Array) -> Array:
        """bool (n,): what lies in the time of its GPU ops: annotations on GPU lanes."""
        inside: Array = (ts < self.gpu[1]) & (end > self.gpu[0])
        return inside

    def foreign_marks(self, names: list[str], name: Array, ts: Array) -> Array:
        """bool (n,): marks of other steps, by name and start; `name` is the place in `names`."""
        own, others = {m[3] for m in self.marks}, {m[3] for m in self.foreign}
        texts = [s.strip() for s in names]
        named = np.array([s in others for s in texts], dtype=np.bool_)[name]
        never = np.array([s in others and s not in own for s in texts], dtype=np.bool_)[name]
        starts = np.array([m[1] for m in self.foreign], dtype=np.int64)
        found: Array = never | (named & np.isin(ts, starts))
        return found

    def kept(self, chunk: ChunkColumns) -> Array:
        """bool (events of the chunk,): what belongs to it."""
        events = chunk.tables["events"]
        ts, category = events["ts"], events["category"]
        end = ts + events["dur"]
        keep = self.on_cpu(ts, end)
        gpu = chunk.tables.get("gpu_ops")
        if gpu is not None:
            rows = gpu["event"]
            keep[rows] = self.on_gpu(ts[rows], end[rows], gpu["correlation"])
        calls = chunk.tables.get("calls")
        if calls is not None and len(self.before):
            rows = calls["event"]
            keep[rows] |= np.isin(calls["correlation"], self.before)
        rows = np.flatnonzero(category == _GPU_ANNOTATION)
        keep[rows] = self.in_gpu_time(ts[rows], end[rows])
        if self.foreign:
            keep &= ~self.foreign_marks(chunk.strings, events["name"], ts)
        return keep


def filled(found: Selection, tables: dict[str, dict[str, Array]]) -> Selection:
    """A selection with the calls and the GPU work of its window, from the tables of a survey."""
    found.gpu = (found.begin, found.end)
    events, calls, gpu = tables.get("events"), tables.get("calls"), tables.get("gpu_ops")
    if events is None:
        return found
    if calls is not None:
        ids, ts = calls["correlation"], events["ts"][calls["event"]]
        during = found.on_cpu(ts, ts + events["dur"][calls["event"]])
        found.calls = np.unique(ids[during & (ids > 0)])
        found.later = np.setdiff1d(ids[(ts >= found.end) & (ids > 0)], found.calls)
    if gpu is not None:
        ids, ts = gpu["correlation"], events["ts"][gpu["event"]]
        end = ts + events["dur"][gpu["event"]]
        own = (ids > 0) & np.isin(ids, found.calls)
        if own.any():
            found.gpu = int(ts[own].min()), int(end[own].max())
        kept = found.on_gpu(ts, end, ids)
        found.started = np.unique(ts[kept])
        if found.marks:
            found.before = np.setdiff1d(ids[kept & (ids > 0)], found.calls)
    if calls is not None:
        ids, ts = calls["correlation"], events["ts"][calls["event"]]
        mine = np.isin(ids, found.calls) | np.isin(ids, found.before)
        found.outside = np.unique(ts[mine & (ts < found.begin)])
    return found


def window_note(selection: Selection) -> Note:
    """What part of the trace was read, as a note."""
    times = " – ".join(duration(t - selection.span[0]) for t in (selection.begin, selection.end))
    if not selection.marks:
        return Note("window", {"window": times})
    first, last = selection.marks[0][3], selection.marks[-1][3]
    return Note("window", {"window": f"{first if len(selection.marks) == 1 else f'{first} – {last}'}, {times}"})


class WindowAssembly(Assembly):
    """An assembly that takes in only what belongs to a window."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self.selection = selection

    def add(self, chunk: ChunkColumns) -> None:
        """Take in the next chunk."""
        events = chunk.tables.get("events")
        if events is not None and len(events["ts"]):
            keep = self.selection.kept(chunk)
            self.n_seen += int((~keep).sum())
            chunk = part_of(chunk, keep)
        for table in ("memory", "flows"):
            columns = chunk.tables.get(table)
            if columns is not None:
                ts = columns["ts"]
                inside = self.selection.holds_end(ts) if table == "flows" else self.selection.on_cpu(ts, ts)
                chunk.tables[table] = {name: values[inside] for name, values in columns.items()}
        super().add(chunk)

    def tables(self) -> dict[str, dict[str, Array]]:
        """The tables, without those of which nothing is left."""
        return {name: columns for name, columns in super().tables().items() if len(next(iter(columns.values())))}


def part_of(chunk: ChunkColumns, keep: Array) -> ChunkColumns:
    """Some events of a chunk with their rows in all tables; tables of other things stay whole."""
    place = np.cumsum(keep) - 1
    tables: dict[str, dict[str, Array]] = {}
    for table, columns in chunk.tables.items():
        if table == "events":
            tables[table] = {name: values[keep] for name, values in columns.items()}
        elif "event" in columns:
            rows = keep[columns["event"]]
            tables[table] = {name: place[values[rows]] if name == "event" else values[rows] for name, values in columns.items()}
        else:
            tables[table] = columns
    return replace(chunk, tables=tables)
