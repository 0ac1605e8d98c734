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
    order = np.lexsort((np.arange(len(ts)), rank, -end, ts))
    left = order if _any_misfit(ts, end, rank) else order[:0]
    number = 0
    while len(left):
        left = left[_misfits(ts[left].tolist(), end[left].tolist())]
        number += 1
        lane[left] = number
    return lane


def _any_misfit(ts: Array, end: Array, rank: Array) -> bool:
    """Whether any two overlap without one enclosing the other; on most lanes none do."""
    tree = nest(np.arange(len(ts)), ts, end, np.zeros(len(ts), dtype=np.int32), rank)
    for level in tree.levels():
        events = np.sort(tree.events[level])
        # Instants hide nothing: any number of them may share a moment.
        events = events[end[events] > ts[events]]
        if not fitting(ts[events], end[events]).all():
            return True
    return False


def _misfits(ts: list[int], end: list[int]) -> list[int]:
    """Places of those that do not fit into what is open when they start.

    Which slices stay depends on each that stayed before, so this goes through them one by one: the lanes with such slices
    only, half a second for a million.
    """
    open_ends: list[int] = []
    out = []
    for place, (begin, stop) in enumerate(zip(ts, end, strict=True)):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and stop > open_ends[-1]:
            out.append(place)
        else:
            open_ends.append(stop)
    return out
