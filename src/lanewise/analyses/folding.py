"""Finding what repeats in a sequence: hashes of shapes, and repetitions of one or several neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["mixed", "ordinals", "repeats"]

Array = npt.NDArray[Any]

# Looking for longer periods costs time in proportion and finds whole steps rather than layers.
_LONGEST_PERIOD = 256
_ODD = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: Array) -> Array:
    """A hash of each of some numbers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (values + np.uint64(1)) * _ODD
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out: Array = x ^ (x >> np.uint64(31))
    return out


def ordinals(parent: Array) -> Array:
    """int64 (n,): how many siblings come before each event."""
    order = np.argsort(parent, kind="stable")
    sorted_parent = parent[order]
    new = np.r_[True, np.diff(sorted_parent) != 0] if len(order) else np.empty(0, dtype=np.bool_)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0)) if len(order) else order
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.arange(len(order)) - begin
    return out


def repeats(shapes: Array) -> list[tuple[int, int, int]]:
    """(begin, period, times) of the parts of a sequence, from the front; the repetition that covers most is taken."""
    n = len(shapes)
    runs = {}
    for period in range(1, min(n // 2, _LONGEST_PERIOD) + 1):
        same = shapes[:-period] == shapes[period:]
        if same.any():
            # How many positions from here on equal the one a period later.
            stop = np.r_[np.flatnonzero(~same), len(same)]
            at = np.arange(len(same))
            runs[period] = stop[np.searchsorted(stop, at)] - at
    out, i = [], 0
    while i < n:
        best = (1, 1)
        for period, run in runs.items():
            if i < len(run):
                times = int(run[i]) // period + 1
                if times > 1 and times * period > best[0] * best[1]:
                    best = (period, times)
        out.append((i, *best))
        i += best[0] * best[1]
    return out
