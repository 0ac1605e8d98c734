"""The first of the two readings that a window takes: what it is measured by, and which steps and moments it stands for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.errors import UsageError
from lanewise.model.schema import CATEGORY_CODES, GPU_CATEGORIES
from lanewise.model.step_marks import is_mark_name, step_marks, step_number
from lanewise.units import duration

from .assembly import Assembly, not_stray
from .columns import ChunkColumns
from .selection import Selection, Step, filled, part_of
from .texts import TEXTS
from .window import Moment, Window

__all__ = ["Survey"]

Array = npt.NDArray[Any]

_GPU_CODES = np.array([CATEGORY_CODES[c] for c in GPU_CATEGORIES])
_CALL_CODES = np.array([CATEGORY_CODES[c] for c in ("cuda_runtime", "cuda_driver")])
_ANNOTATION = CATEGORY_CODES["user_annotation"]
_GPU_ANNOTATION = CATEGORY_CODES["gpu_user_annotation"]
_SURVEYED = np.r_[_GPU_CODES, _CALL_CODES]
_SURVEY_COLUMNS = {
    "events": ("ts", "dur", "category", "name", "lane"),
    "calls": ("event", "correlation"),
    "gpu_ops": ("event", "correlation", "device", "stream"),
    "halves": ("ts", "lane", "name", "spelling", "begin"),
}


class Survey(Assembly):
    """A first reading of a trace: its span, its step marks, its calls and its GPU ops, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._zero_end: int | None = None
        self._span: tuple[int, int] | None = None
        self._pairs: ChunkColumns | None = None

    def add(self, chunk: ChunkColumns) -> None:
        """Take in the next chunk."""
        events = chunk.tables.get("events")
        kept = chunk
        if events is not None and len(events["ts"]):
            self._measure(events["ts"], events["ts"] + events["dur"])
            marks = np.array([is_mark_name(s) for s in chunk.strings], dtype=np.bool_)[events["name"]]
            keep = np.isin(events["category"], _SURVEYED) | marks
            self.n_seen += int((~keep).sum())
            kept = part_of(chunk, keep)
        elif "halves" not in chunk.tables:
            return
        kept.tables = {
            table: {name: kept.tables[table][name] for name in columns}
            for table, columns in _SURVEY_COLUMNS.items()
            if table in kept.tables
        }
        super().add(kept)

    def add_pairs(self, events: ChunkColumns) -> None:
        """Take in the events of all pairs."""
        if "events" in events.tables:
            self._pairs = replace(events, tables=dict(events.tables))
        self.add(events)

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
        if not not_stray(np.array([0, begin]), np.array([self._zero_end, end - begin]))[0]:
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
        found = filled(Selection(begin, end, span, marks, foreign, earlier=window.earlier), tables)
        if self._pairs is not None:
            pairs = self._pairs.tables["events"]
            kept = found.kept(self._pairs)
            found.begins, found.ends = pairs["ts"][kept], (pairs["ts"] + pairs["dur"])[kept]
            found.n_pairs = len(kept)
        return found


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
    if window.begin is not None and window.end is not None and end <= begin:
        raise UsageError("--from, --to", TEXTS.message("backward"), TEXTS.message("backward-next"))
    if begin >= span[1] or end <= span[0]:
        length, first, last = duration(span[1] - span[0]), *(f"{ns / 1000:.3f}" for ns in span)
        fact, next_step = (
            TEXTS.message("outside", name=subject),
            TEXTS.message("outside-next", length=length, begin=first, end=last),
        )
        raise UsageError("--from, --to", fact, next_step)
    return begin, end
