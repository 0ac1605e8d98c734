"""In which row of its lane each slice is drawn: none covers another, whatever the file says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_ROWS", "fitting", "slice_rows"]

Array = npt.NDArray[Any]

MOST_ROWS = 120
"""Rows of a lane: deeper stacks would not fit any screen; what is deeper shares the last row."""


def slice_rows(ts: Array, end: Array) -> Array:
    """int16 (n,): row of each slice of one lane, 0 on top.

    Nested slices get a row each below what encloses them. Slices that overlap without one enclosing the other (streams with
    programmatic launches, calls that outlive their op) go to the next row that is free, at their own time.

    Args:
        ts: int64 (n,): starts, ascending; of slices that start together the outermost first.
        end: int64 (n,): ends.
    """
    row = np.zeros(len(ts), dtype=np.int16)
    left = np.arange(len(ts))
    for number in range(MOST_ROWS):
        if not len(left):
            break
        row[left] = number
        left = left[~fitting(ts[left], end[left])]
    return row


def fitting(ts: Array, end: Array) -> Array:
    """bool (n,): the slices that one row holds when each that comes first takes its place."""
    if not len(ts):
        return np.empty(0, dtype=np.bool_)
    reach = np.maximum.accumulate(end)
    head = np.ones(len(ts), dtype=np.bool_)
    # Slices without duration take no place, but two of them at one moment would hide each other.
    head[1:] = (ts[1:] >= reach[:-1]) & (ts[1:] > ts[:-1])
    first = np.flatnonzero(head)
    stop = np.r_[first[1:], len(ts)]
    # Where the first of a group ends after all others of it, none of them fits. Elsewhere the row goes on from slice to slice.
    chained = np.flatnonzero(reach[stop - 1] > end[first])
    if len(chained):
        mine = np.zeros(len(ts) + 1, dtype=np.int32)
        np.add.at(mine, first[chained], 1)
        np.add.at(mine, stop[chained], -1)
        places = np.flatnonzero(np.cumsum(mine[:-1]))
        head[places] = _chain(ts[places], end[places], head[places])
    return head


def _chain(ts: Array, end: Array, head: Array) -> Array:
    """bool (n,): slices met by going from each head to the first slice that starts when the one before has ended.

    By pointer doubling: no loop over slices. A chain never leaves its group for the middle of another: the first slice of a
    group starts after all before it have ended.
    """
    n = len(ts)
    following = np.r_[np.maximum(np.searchsorted(ts, end), np.searchsorted(ts, ts, side="right")), n]
    met = np.r_[head, False]
    while True:
        met[following[np.flatnonzero(met)]] = True
        if (following == n).all():
            return met[:n]
        following = following[following]
