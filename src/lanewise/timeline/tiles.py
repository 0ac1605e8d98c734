"""Stretches of a whole trace, in milliseconds, for the page of the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.trace import Trace

from .colours import colours
from .density import spread, text
from .document import Level, Tile
from .drawing import Columns, all_numbers, used_names
from .parts import Part, parts

__all__ = ["MOST_SLICES", "Tiles"]

Array = npt.NDArray[Any]

MOST_SLICES = 30_000
"""Slices of a tile: more than twice what a screen can tell apart, and still written and read in some tens of milliseconds."""

_BINS = 2048  # of a stretch: about a bin for each pixel of a wide window


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a part: places in it, starts and ends, all ascending, since no slice of a row overlaps another."""

    places: Array
    ts: Array
    end: Array

    @staticmethod
    def of(trace: Trace, part: Part, places: Array) -> Row:
        """A row of its places."""
        events = part.events[places]
        # The last row of a lane that is deeper than any screen holds slices that overlap: those that ended are found all the
        # same, with some too many.
        return Row(places, trace.ts[events], np.maximum.accumulate(trace.end[events]))

    def longer(self, trace: Trace, part: Part, least: int) -> Row:
        """The same without slices shorter than `least` ns."""
        keep = trace.dur[part.events[self.places]] >= least
        return Row(self.places[keep], self.ts[keep], self.end[keep])

    def within(self, lo: int, hi: int) -> Array:
        """Places of the slices that touch a window."""
        return self.places[np.searchsorted(self.end, lo) : np.searchsorted(self.ts, hi, side="right")]


class Tiles:
    """The whole of a trace, ready to be asked for stretches."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._base, last = trace.span or (0, 0)
        self._span = last - self._base
        self._parts = trace.analysis(parts)
        self._rows = [[Row.of(trace, part, places) for places in _rows(part)] for part in self._parts]
        # A stretch that is most of the trace needs a look at the longest only.
        most = min(4 * MOST_SLICES, len(trace))
        least = int(np.partition(trace.dur, -most)[-most]) if most else 0
        self._long_rows = [
            [row.longer(trace, p, least) for row in rows] for p, rows in zip(self._parts, self._rows, strict=True)
        ]
        trace.analysis(all_numbers)
        trace.analysis(colours)

    def tile(self, begin: int, end: int) -> Tile:
        """What there is from `begin` to `end`, in ns since the start of the trace."""
        begin, end = max(begin, 0), min(max(end, begin + 1), max(self._span, 1))
        lo, hi = begin + self._base, end + self._base
        inside = self._inside(self._long_rows, lo, hi) if 4 * (end - begin) > self._span else []
        if sum(len(i) for i in inside) <= MOST_SLICES:
            inside = self._inside(self._rows, lo, hi)
        kept, full = self._longest(inside)
        events = np.concatenate([p.events[k] for p, k in zip(self._parts, kept, strict=True)] or [np.empty(0, dtype=np.int64)])
        used = used_names(self._trace, events)
        columns = Columns(self._trace, self._base, self._trace.analysis(all_numbers), used, numbered=True)
        lanes = [
            columns.slices(part, part.events[k], part.row[k], [] if full else self._level(part, all_of, begin, end))
            for part, k, all_of in zip(self._parts, kept, inside, strict=True)
        ]
        return Tile(begin, end, full, [self._trace.strings[i] for i in used], lanes)

    def _inside(self, rows: list[list[Row]], lo: int, hi: int) -> list[Array]:
        """For each part, places of the slices that touch a window, by start."""
        return [np.sort(np.concatenate([row.within(lo, hi) for row in of_part]), kind="stable") for of_part in rows]

    def _longest(self, inside: list[Array]) -> tuple[list[Array], bool]:
        """As many as a tile may have, the longest of all lanes."""
        if sum(len(i) for i in inside) <= MOST_SLICES:
            return inside, True
        durations = [self._trace.dur[p.events[i]] for p, i in zip(self._parts, inside, strict=True)]
        least = np.partition(np.concatenate(durations), -MOST_SLICES)[-MOST_SLICES]
        return [i[d > least] for i, d in zip(inside, durations, strict=True)], False

    def _level(self, part: Part, places: Array, begin: int, end: int) -> list[Level]:
        events = part.events[places]
        # The page has levels of the whole trace; bins of a stretch that is nearly all of it would be no finer.
        if not len(events) or end - begin > self._span // 8:
            return []
        ts, width = self._trace.ts[events] - self._base, (end - begin) / _BINS
        cover, colour = spread(
            ts, ts + self._trace.dur[events], self._trace.analysis(colours)[events], float(begin), width, _BINS
        )
        return [Level(width, *text(cover, colour), begin=float(begin))]


def _rows(part: Part) -> list[Array]:
    """Places in a part of each row's slices, by start."""
    order = np.argsort(part.row, kind="stable")
    bounds = np.searchsorted(part.row[order], np.arange(int(part.row.max(initial=0)) + 2))
    return [order[a:b] for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
