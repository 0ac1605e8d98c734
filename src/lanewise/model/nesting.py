"""Which event of a lane encloses which: parents and depths for all events at once, without a loop over events.

An event is inside another of its lane when it starts no earlier, ends no later, and starts before the other's end. Of two that
cover the same time, the one with the lower rank is outside, then the one earlier in the file. An event that begins inside
another and ends after it is inside whatever encloses both.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Nesting", "nest"]

Array = npt.NDArray[Any]


class Nesting:
    """Parents of some events.

    Attributes:
        events: int32 (n,): event numbers, by lane, start, longest first: every parent comes before its children, and what an
            event encloses follows it without a hole.
        parent: int32 (n,): position in `events` of the enclosing event, -1 for none.
    """

    def __init__(self, events: Array, parent: Array) -> None:
        self.events = events
        self.parent = parent

    @cached_property
    def depth(self) -> Array:
        """int32 (n,): number of events around each."""
        return _depths(self.parent)

    @cached_property
    def _levels(self) -> list[Array]:
        deepest = int(self.depth.max(initial=0))
        # A radix sort for 16 bits.
        order = np.argsort(self.depth.astype(np.uint16) if deepest < 65536 else self.depth, kind="stable")
        bounds = np.searchsorted(self.depth[order], np.arange(deepest + 2))
        return [order[a:b] for a, b in pairwise(bounds)]

    def levels(self) -> list[Array]:
        """Positions by depth, the outermost first."""
        return self._levels

    @cached_property
    def last(self) -> Array:
        """int64 (n,): position of the last event that each encloses, at any depth; its own where it encloses none."""
        last = np.arange(len(self.parent))
        for level in reversed(self.levels()[1:]):
            last[self.parent[level]] = last[level]  # of several children the last one counts: they are in order
        return last

    def totals(self, values: Array) -> Array:
        """int64 (n,): sum of `values` (n, int) over each event and all that it encloses, at any depth."""
        before = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=before[1:])
        total: Array = before[self.last + 1] - before[:-1]
        return total

    def nearest(self, chosen: Array) -> Array:
        """Position of the nearest enclosing event for which `chosen` (n, bool) holds, -1 for none."""
        up = self.parent.copy()
        while True:
            wrong = np.flatnonzero(up >= 0)
            wrong = wrong[~chosen[up[wrong]]]
            if not len(wrong):
                return up
            up[wrong] = self.parent[up[wrong]]


def nest(events: Array, ts: Array, end: Array, lane: Array, rank: Array) -> Nesting:
    """Nest some events.

    Args:
        events: int (n,): event numbers, ascending by start.
        ts: int64 (n,): their starts.
        end: int64 (n,): their ends.
        lane: int (n,): their lanes.
        rank: int (n,): which of two events that cover the same time is outside: the lower one.
    """
    order = _outermost_first(ts, end, lane, rank)
    return Nesting(events[order].astype(np.int32), _parents(ts[order], end[order], lane[order]))


def _parents(ts: Array, end: Array, lane: Array) -> Array:
    """int32 (n,): the nearest earlier event of the lane that ends no earlier, and later than this one starts; -1 for none.

    Events are in the order of `Nesting.events`.
    """
    n = len(ts)
    reach, least = _reaches(ts, end, lane)
    parent = np.arange(-1, n, dtype=np.int32)
    parent[n:] = -1  # so that -1 leads to -1, whose reach ends every search
    todo = np.flatnonzero(reach[: max(n - 1, 0)] < least[1:]) + 1
    wanted = least[todo]
    while len(todo):
        # Between a candidate and its own candidate nothing reaches further than the candidate does: jump over all of it.
        candidate = parent[parent[todo]]
        parent[todo] = candidate
        beyond = reach[candidate] < wanted
        todo, wanted = todo[beyond], wanted[beyond]
    return parent[:n]


def _reaches(ts: Array, end: Array, lane: Array) -> tuple[Array, Array]:
    """How far each event reaches, with no end for the position -1, and how far another has to reach to be around it.

    Numbers of a lane lie above those of all lanes before it, so that no event of another lane ever reaches far enough. They
    are doubled ends: around an event without duration must be one that ends later.
    """
    instant = end == ts
    begin = int(ts.min()) if len(ts) else 0
    span = (int(end.max()) if len(ts) else 0) - begin + 1
    row = np.zeros(len(ts), dtype=np.int64)
    np.cumsum(lane[1:] != lane[:-1], out=row[1:])
    if span * (int(row.max(initial=0)) + 1) >= 2**62:  # too long to lay apart: the ranks of the ends do as well
        ends = np.unique(end)
        end, begin, span = np.searchsorted(ends, end), 0, len(ends)
    reach = np.full(len(ts) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    reach[:-1] = 2 * (end - begin + row * span)
    return reach, reach[:-1] + instant


def _outermost_first(ts: Array, end: Array, lane: Array, rank: Array) -> Array:
    """Order by lane, start, longest first, rank, file order; `ts` is ascending."""
    small = lane.astype(np.uint16) if len(lane) and lane.max() < 65536 and lane.min() >= 0 else lane
    order = np.argsort(small, kind="stable")  # a radix sort for 16 bits
    same = (np.diff(ts[order]) == 0) & (np.diff(lane[order]) == 0)
    if same.any():
        tied = np.zeros(len(order), dtype=np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        rows = order[places]
        order[places] = rows[np.lexsort((rows, rank[rows], -end[rows], ts[rows], lane[rows]))]
    return order


def _depths(parent: Array) -> Array:
    """Depth of each node, by doubling: O(n log depth)."""
    depth = (parent >= 0).astype(np.int32)
    up = parent.copy()
    rows = np.flatnonzero(up >= 0)
    while len(rows):
        above = up[rows]
        depth[rows] += depth[above]
        up[rows] = up[above]
        rows = rows[up[rows] >= 0]
    return depth
