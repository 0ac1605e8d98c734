"""Sets of time intervals as pairs of int64 arrays (starts, ends), in ns; vectorised throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .orders import stable_order

__all__ = ["Intervals", "clipped", "gaps", "intersection", "length", "overlap_with", "union"]

Array = npt.NDArray[Any]
Intervals = tuple[Array, Array]


def union(starts: Array, ends: Array) -> Intervals:
    """Disjoint intervals, ascending, that cover the same time; empty intervals vanish, touching ones are joined."""
    some = ends > starts
    if not some.all():
        starts, ends = starts[some], ends[some]
    if not len(starts):
        return starts.astype(np.int64), ends.astype(np.int64)
    if (starts[1:] < starts[:-1]).any():
        order = stable_order(starts)
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    begins = np.ones(len(starts), dtype=np.bool_)
    begins[1:] = starts[1:] > reach[:-1]
    lasts = np.flatnonzero(np.r_[begins[1:], True])
    return starts[begins], reach[lasts]


def length(intervals: Intervals) -> int:
    """Time covered by disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


def clipped(intervals: Intervals, begin: int, end: int) -> Intervals:
    """The part of intervals within a window."""
    starts, ends = np.maximum(intervals[0], begin), np.minimum(intervals[1], end)
    some = ends > starts
    return starts[some], ends[some]


def gaps(intervals: Intervals, begin: int, end: int) -> Intervals:
    """The time within a window that disjoint ascending intervals do not cover."""
    starts, ends = clipped(intervals, begin, end)
    begins, stops = np.r_[np.int64(begin), ends], np.r_[starts, np.int64(end)]
    some = stops > begins
    return begins[some], stops[some]


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """The time that two sets of disjoint ascending intervals share."""
    if not len(a[0]) or not len(b[0]):
        none = np.empty(0, dtype=np.int64)
        return none, none
    begin, end = int(min(a[0][0], b[0][0])), int(max(a[1][-1], b[1][-1]))
    outside_a, outside_b = gaps(a, begin, end), gaps(b, begin, end)
    neither = union(np.r_[outside_a[0], outside_b[0]], np.r_[outside_a[1], outside_b[1]])
    return gaps(neither, begin, end)


def overlap_with(starts: Array, ends: Array, cover: Intervals) -> Array:
    """int64 (n,): how much of each interval [start, end) disjoint ascending intervals cover."""
    if not len(cover[0]):
        return np.zeros(len(starts), dtype=np.int64)
    total = np.r_[np.int64(0), np.cumsum(cover[1] - cover[0])]
    result: Array = _covered_before(ends, cover, total) - _covered_before(starts, cover, total)
    return result


def _covered_before(times: Array, cover: Intervals, total: Array) -> Array:
    """Time covered up to each of some moments."""
    i = np.searchsorted(cover[0], times, side="right")
    before = np.maximum(i - 1, 0)
    partial = np.clip(times - cover[0][before], 0, cover[1][before] - cover[0][before])
    result: Array = np.where(i > 0, total[before] + partial, 0)
    return result
