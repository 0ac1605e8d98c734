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

    Slices of a lane may enclose one another; two that overlap otherwise cannot share it. The later one moves, with all that it
    encloses, to the first extra lane that has room. Nothing changes its time.

    Args:
        ts: int64 (n,): starts, ascending.
        end: int64 (n,): ends.
        rank: int (n,): which of two slices that cover the same time is outside: the lower one.
    """
    lane = np.zeros(len(ts), dtype=np.int32)
    left = np.arange(len(ts))
    number = 0
    while True:
        moved = _moved(ts[left], end[left], rank[left])
        if not moved.any():
            return lane
        number += 1
        left = left[moved]
        lane[left] = number


def _moved(ts: Array, end: Array, rank: Array) -> Array:
    """bool (n,): those that cannot stay on one lane, and all within them."""
    tree = nest(np.arange(len(ts)), ts, end, np.zeros(len(ts), dtype=np.int32), rank)
    moved = np.zeros(len(ts), dtype=np.bool_)
    # Slices of one depth either have the same parent or lie within different ones.
    for level in tree.levels():
        events = tree.events[level]
        # Instants hide nothing: any number of them may share a moment.
        long = end[events] > ts[events]
        moved[level[long]] = ~fitting(ts[events[long]], end[events[long]])
        inside = tree.parent[level] >= 0
        moved[level[inside]] |= moved[tree.parent[level[inside]]]
    out = np.zeros(len(ts), dtype=np.bool_)
    out[tree.events[moved]] = True
    return out
