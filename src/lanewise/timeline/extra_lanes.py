"""Which slices of a lane a viewer that knows nesting only would hide, and on how many more lanes all of them are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.nesting import nest

from .rows import fitting

__all__ = ["extra_lanes"]

Array = npt.NDArray[Any]


def extra_lanes(ts: Array, end: Array, rank: Array) -> Array:
    """int32 (n,): 0 for slices that stay, else the number of the extra lane that a slice goes to.

    Slices of a lane may enclose one another; two that overlap otherwise cannot share it: the later one goes to the first extra
    lane that has room. What stays is what a viewer shows that takes slices by start and drops those that do not fit into what
    is open. Nothing changes its time.

    Args:
        ts: int64 (n,): starts, ascending.
        end: int64 (n,): ends.
        rank: int (n,): which of two slices that cover the same time is outside: the lower one.
    """
    lane = np.zeros(len(ts), dtype=np.int32)
    left = np.arange(len(ts))
    number = 0
    while len(left):
        moved = _not_fitting(ts[left], end[left], rank[left])
        left = left[moved]
        number += 1
        lane[left] = number
    return lane


def _not_fitting(ts: Array, end: Array, rank: Array) -> Array:
    """bool (n,): those that cannot stay on one lane."""
    out = np.zeros(len(ts), dtype=np.bool_)
    while True:
        stay = np.flatnonzero(~out)
        moved = _outermost_misfits(ts[stay], end[stay], rank[stay])
        if not len(moved):
            return out
        out[stay[moved]] = True


def _outermost_misfits(ts: Array, end: Array, rank: Array) -> Array:
    """Those of the lowest depth that has any. What they enclose may fit once they are gone, or not: that is seen afterwards."""
    tree = nest(np.arange(len(ts)), ts, end, np.zeros(len(ts), dtype=np.int32), rank)
    for level in tree.levels():
        events = np.sort(tree.events[level])
        # Instants hide nothing: any number of them may share a moment.
        events = events[end[events] > ts[events]]
        moved = events[~fitting(ts[events], end[events])]
        if len(moved):
            return moved
    return np.empty(0, dtype=np.int64)
