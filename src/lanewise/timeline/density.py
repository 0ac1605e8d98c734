"""How busy a lane is, bin by bin: what is drawn where there are more slices than pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import union

from .document import Level

__all__ = ["levels", "spread", "text"]

Array = npt.NDArray[Any]

# Bins of the coarsest level: a wide screen has as many pixels. Each further level is 16 times as fine.
_COARSEST = 2048
_FINEST = _COARSEST * 16
_DIGITS = np.frombuffer(b"0123456789", dtype=np.uint8)


def levels(ts: Array, end: Array, colour: Array, span: int) -> list[Level]:
    """Levels of one lane.

    Args:
        ts, end: int64 (n,): slices, from the trace's start, ascending.
        colour: int8 (n,): classes.
        span: ns of the whole trace.
    """
    if not len(ts) or span <= 0:
        return []
    out = []
    for bins in (_COARSEST, _FINEST):
        if bins > _COARSEST and len(ts) <= _COARSEST:
            break
        width = span / bins
        cover, most = spread(ts, end, colour, 0.0, width, bins)
        out.append(Level(width, *text(cover, most)))
    return out


def spread(ts: Array, end: Array, colour: Array, begin: float, width: float, bins: int) -> tuple[Array, Array]:
    """For each bin: how much of it is covered, from 0 to 9, and the class with most time among what starts there or before.

    Anything at all counts as 1, so that a lone slice is seen at every zoom.
    """
    edges = begin + np.arange(bins + 1) * width
    starts, ends = union(ts, end)
    covered = np.zeros(bins)
    if len(starts):
        # Covered time up to a moment is piecewise linear, with corners at the starts and ends of the union.
        corners = np.empty(2 * len(starts))
        corners[0::2], corners[1::2] = starts, ends
        sums = np.empty(2 * len(starts))
        reached = np.cumsum(ends - starts)
        sums[0::2], sums[1::2] = np.r_[0, reached[:-1]], reached
        covered = np.diff(np.interp(edges, corners, sums)) / width
    first = np.floor((ts - begin) / width).astype(np.int64)
    inside = (first >= 0) & (first < bins)
    weight = np.minimum(end - ts, width) + 1.0
    classes = int(colour.max(initial=0)) + 1
    table = np.bincount(first[inside] * classes + colour[inside], weights=weight[inside], minlength=bins * classes)
    table = table[: bins * classes].reshape(bins, classes)
    most, some = table.argmax(axis=1), table.sum(axis=1) > 0
    # A bin in which nothing starts has the class of what went on.
    last = np.maximum.accumulate(np.where(some, np.arange(bins), -1))
    most = np.where(last >= 0, most[np.maximum(last, 0)], 0)
    cover = np.ceil(np.minimum(covered, 1.0) * 9 - 1e-9).astype(np.int64)
    return np.clip(np.maximum(cover, some), 0, 9), most


def text(cover: Array, colour: Array) -> tuple[str, str]:
    """Cover as digits and classes as letters."""
    return _DIGITS[cover].tobytes().decode("ascii"), (colour + ord("a")).astype(np.uint8).tobytes().decode("ascii")
