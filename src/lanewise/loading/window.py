"""A part of a trace: some steps, or the time from one moment to another.

Events lie in a file in no order of time, so a part is found in two passes: a survey of what a window is measured by (span, step
marks, calls, GPU ops), then a second reading that keeps what belongs to it.

What belongs to a window: all that happened on the CPU during it, also what began before or ended after it; the GPU ops that
calls within it started, whenever they ran; and the GPU ops of earlier calls that still ran then, since without them the GPU
would seem idle. Step marks that the window cuts are left out, for they would pass for whole steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.errors import UsageError
from lanewise.model.notes import Note
from lanewise.model.schema import CATEGORY_CODES, GPU_CATEGORIES
from lanewise.model.step_marks import is_mark_name, step_marks, step_number
from lanewise.units import duration

from .assembly import Assembly, _not_stray
from .columns import ChunkColumns
from .exact import ns_of_text
from .texts import TEXTS

__all__ = [
    "Moment",
    "Selection",
    "Survey",
    "Window",
    "WindowAssembly",
    "window_note",
    "window_of",
]

Array = npt.NDArray[Any]

_UNITS = {"": 1, "ns": 1e-3, "us": 1, "µs": 1, "μs": 1, "ms": 1e3, "s": 1e6}
_MOMENT = re.compile(r"\s*(@?)\s*(\d+(?:\.\d+)?)\s*([a-zµμ]*)\s*\Z")
_STEPS = re.compile(r"\s*(\d+)(?:\s*(?:-|\.\.|:)\s*(\d+))?\s*\Z")

_GPU_CODES = np.array([CATEGORY_CODES[c] for c in GPU_CATEGORIES])
_CALL_CODES = np.array([CATEGORY_CODES[c] for c in ("cuda_runtime", "cuda_driver")])
_ANNOTATION = CATEGORY_CODES["user_annotation"]
_GPU_ANNOTATION = CATEGORY_CODES["gpu_user_annotation"]
_SURVEYED = np.r_[_GPU_CODES, _CALL_CODES]
_SURVEY_COLUMNS = {
    "events": ("ts", "dur", "category", "name", "lane"),
    "calls": ("event", "correlation"),
    "gpu_ops": ("event", "correlation", "device", "stream"),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in ns: counted from the trace's first event, or absolute as the file counts."""

    ns: int
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What part of a trace is wanted.

    Attributes:
        steps: first and last step, by their numbers.
        begin: where the window begins; None is the trace's start.
        end: where it ends; None is the trace's end.
        earlier: whether GPU ops of calls before the window that still ran in it belong to it.
    """

    steps: tuple[int, int] | None = None
    begin: Moment | None = None
    end: Moment | None = None
    earlier: bool = True


def window_of(steps: str | None = None, begin: str | None = None, end: str | None = None) -> Window | None:
    """A window from the texts of ``--steps``, ``--from`` and ``--to``; None when there are none.

    Args:
        steps: ``3`` or ``3-5``.
        begin, end: microseconds from the trace's first event, or with a unit (``12.5ms``), or absolute with ``@`` in front.

    Raises:
        UsageError: a text cannot be read, or steps and times are mixed, or the window is empty.
    """
    if steps is None and begin is None and end is None:
        return None
    if steps is not None:
        if begin is not None or end is not None:
            raise UsageError("--steps", TEXTS.message("steps-and-times"), TEXTS.message("steps-and-times-next"))
        match = _STEPS.match(steps)
        if match is None:
            raise UsageError("--steps", TEXTS.message("steps-form", text=steps), TEXTS.message("steps-form-next"))
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise UsageError(
                "--steps",
                TEXTS.message("steps-backward", text=steps),
                TEXTS.message("steps-backward-next", first=first, last=last),
            )
        return Window(steps=(first, last))
    return Window(begin=_moment("--from", begin), end=_moment("--to", end))


def _moment(option: str, text: str | None) -> Moment | None:
    if text is None:
        return None
    match = _MOMENT.match(text)
    scale = _UNITS.get(match.group(3)) if match else None
    ns = ns_of_text(match.group(2).encode()) if match else None
    if match is None or scale is None or ns is None:
        raise UsageError(option, TEXTS.message("time-form", text=text), TEXTS.message("time-form-next"))
    return Moment(ns if scale == 1 else round(ns * scale), match.group(1) == "@")


class Survey(Assembly):
    """A first reading of a trace: its span, its step marks, its calls and its GPU ops, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._zero_end: int | None = None
        self._span: tuple[int, int] | None = None

    def add(self, chunk: ChunkColumns) -> None:
        """Take in the next chunk."""
        events = chunk.tables.get("events")
        if events is None or not len(events["ts"]):
            return
        self._measure(events["ts"], events["ts"] + events["dur"])
        marks = np.array([is_mark_name(s) for s in chunk.strings], dtype=np.bool_)[events["name"]]
        keep = np.isin(events["category"], _SURVEYED) | marks
        self.n_seen += int((~keep).sum())
        kept = part_of(chunk, keep)
        kept.tables = {
            table: {name: kept.tables[table][name] for name in columns}
            for table, columns in _SURVEY_COLUMNS.items()
            if table in kept.tables
        }
        super().add(kept)

    def _measure(self, ts: Array, end: Array) -> None:
        zero = ts == 0
        if zero.any():
            self._zero_end = max(int(end[zero].max()), self._zero_end or 0)
            ts, end = ts[~zero], end[~zero]
        if len(ts):
            first, last = int(ts.min()), int(end.max())
            self._span = (first, last) if self._span is None else (min(first, self._span[0]), max(last, self._span[1]))

    @property
    def span(self) -> tuple[int, int] | None:
        """Start of the first event and end of the last, in ns, without strays at timestamp 0."""
        if self._span is None or self._zero_end is None:
            return self._span or (None if self._zero_end is None else (0, self._zero_end))
        begin, end = self._span
        if not _not_stray(np.array([0, begin]), np.array([self._zero_end, end - begin]))[0]:
            return self._span
        return 0, max(end, self._zero_end)

    def selection(self, window: Window, subject: str) -> Selection:
        """What belongs to a window.

        Args:
            window: the window.
            subject: the file's name, for messages.

        Raises:
            UsageError: the trace has no such steps, or the window lies outside it.
        """
        tables, strings, span = self.tables(), self.strings, self.span
        if span is None:
            raise UsageError(subject, TEXTS.message("part-of-nothing"))
        steps = _steps(tables.get("events"), strings)
        if window.steps is None:
            begin, end = _times_of(window, span, subject)
            marks = [s for s in steps if s[1] >= begin and s[2] <= end]
        else:
            marks = _wanted(steps, window.steps, subject)
            begin, end = marks[0][1], max(s[2] for s in marks)
        foreign = [s for s in steps if s not in marks]
        return _selection(tables, Selection(begin, end, span, marks, foreign, earlier=window.earlier))


Step = tuple[int, int, int, str]  # number, start, end, name of the mark


def _steps(events: dict[str, Array] | None, strings: list[str]) -> list[Step]:
    if events is None:
        return []
    rows = np.flatnonzero(~np.isin(events["category"], np.r_[_SURVEYED, _GPU_ANNOTATION]))
    name, ts = events["name"][rows], events["ts"][rows]
    end = ts + events["dur"][rows]
    _, found = step_marks(strings, name, ts, end, events["lane"][rows], events["category"][rows] == _ANNOTATION)
    texts = [strings[name[i]].strip() for i in found]
    return [(step_number(t, k), int(ts[i]), int(end[i]), t) for k, (i, t) in enumerate(zip(found, texts, strict=True))]


def _wanted(steps: list[Step], wanted: tuple[int, int], subject: str) -> list[Step]:
    """The marks of the steps from one number to another."""
    first, last = wanted
    have = {s[0] for s in steps}
    option = f"--steps {first}" if first == last else f"--steps {first}-{last}"
    if not steps:
        raise UsageError(option, TEXTS.message("no-marks", name=subject), TEXTS.message("no-marks-next"))
    if first not in have or last not in have:
        steps_text = _ranges(sorted(have))
        raise UsageError(
            option, TEXTS.message("no-such-steps", name=subject), TEXTS.message("no-such-steps-next", steps=steps_text)
        )
    return [s for s in steps if first <= s[0] <= last]


def _ranges(numbers: list[int]) -> str:
    """``3``, ``3-8``, ``3-8, 12``."""
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1]
    runs = [numbers[a:b] for a, b in pairwise([0, *breaks, len(numbers)])]
    texts = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    return ", ".join(texts[:8]) + (" ..." if len(texts) > 8 else "")


def _times_of(window: Window, span: tuple[int, int], subject: str) -> tuple[int, int]:
    """The window's begin and end in the file's time."""

    def moment(m: Moment | None, otherwise: int) -> int:
        return otherwise if m is None else m.ns if m.absolute else span[0] + m.ns

    begin, end = moment(window.begin, span[0]), moment(window.end, span[1])
    if begin >= span[1] or end <= span[0]:
        length, first, last = (f"{ns / 1000:.3f}" for ns in (span[1] - span[0], *span))
        fact, next_step = (
            TEXTS.message("outside", name=subject),
            TEXTS.message("outside-next", length=length, begin=first, end=last),
        )
        raise UsageError("--from, --to", fact, next_step)
    if end <= begin:
        raise UsageError("--from, --to", TEXTS.message("backward"), TEXTS.message("backward-next"))
    return begin, end


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


def _selection(tables: dict[str, dict[str, Array]], found: Selection) -> Selection:
    """Fill in the calls and the GPU work of a window."""
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
    times = " - ".join(duration(t - selection.span[0]) for t in (selection.begin, selection.end))
    if not selection.marks:
        return Note("window", {"window": times})
    first, last = selection.marks[0][3], selection.marks[-1][3]
    return Note("window", {"window": f"{first if len(selection.marks) == 1 else f'{first} - {last}'}, {times}"})


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
    return ChunkColumns(
        tables, chunk.strings, chunk.lanes, chunk.inputs, chunk.metadata, chunk.counts, chunk.unknown_categories
    )
