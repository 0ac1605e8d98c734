"""Which event of a lane encloses which: parents and depths for all events at once, without a loop over events.

An event is inside another of its lane when it starts no earlier, ends no later, and starts before the other's end. Of two that
cover the same time, the one with the lower rank is outside, then the one earlier in the file. An event that begins inside
another and ends after it is inside whatever encloses both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Nesting", "nest"]

Array = npt.NDArray[Any]


class Nesting:
    """Parents of some events.

    Attributes:
        events: int32 (n,): event numbers, by lane, start, longest first: every parent comes before its children.
        parent: int32 (n,): position in `events` of the enclosing event, -1 for none.
        depth: int32 (n,): number of events around it.
    """

    def __init__(self, events: Array, parent: Array, depth: Array) -> None:
        self.events = events
        self.parent = parent
        self.depth = depth

    def levels(self) -> list[Array]:
        """Positions by depth, the outermost first."""
        order = np.argsort(self.depth, kind="stable")
        bounds = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=0)) + 2))
        return [order[a:b] for a, b in pairwise(bounds)]

    def totals(self, values: Array) -> Array:
        """Sum of `values` (n,) over each event and all that it encloses, at any depth."""
        out = values.copy()
        for level in reversed(self.levels()[1:]):
            np.add.at(out, self.parent[level], out[level])
        return out

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
    ts, end, lane = ts[order], end[order], lane[order]
    n = len(order)
    parent = np.arange(-1, n - 1, dtype=np.int32)
    todo = np.arange(n, dtype=np.int32)
    while True:
        p = parent[todo]
        # -1 would index the last row: such rows are done and were taken out, but for the very first round.
        known = p >= 0
        todo, p = todo[known], p[known]
        inside = (lane[p] == lane[todo]) & (end[p] >= end[todo]) & (ts[todo] < end[p])
        todo, p = todo[~inside], p[~inside]
        if not len(todo):
            break
        # No event between the candidate and this one encloses this one, and what the candidate was found not to be inside
        # of cannot enclose this one either: jump to the candidate's own candidate.
        other_lane = lane[p] != lane[todo]
        parent[todo[other_lane]] = -1
        todo, p = todo[~other_lane], p[~other_lane]
        parent[todo] = parent[p]
    return Nesting(events[order].astype(np.int32), parent, _depths(parent))


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
