"""Finding what repeats in a sequence: hashes of shapes, and repetitions of one or several neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["mixed", "ordinals", "repeats"]

Array = npt.NDArray[Any]

# Up to this length every period is tried; time is in proportion. Layers of a model are shorter. Of longer ones (whole steps,
# on the thread of autograd) only the most frequent distances.
_LONGEST_PERIOD = 256
_LONGER_PERIODS = 32
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
    period, covered = np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    for p in _periods(shapes):
        same = shapes[:-p] == shapes[p:]
        if not same.any():
            continue
        # How many positions from here on equal the one a period later.
        stop = np.r_[np.flatnonzero(~same), len(same)]
        at = np.arange(len(same))
        cover = ((stop[np.searchsorted(stop, at)] - at) // p + 1) * p
        better = np.flatnonzero((cover > p) & (cover > covered[: len(same)]))
        period[better], covered[better] = p, cover[better]
    out, i = [], 0
    while i < n:
        p, c = int(period[i]), int(covered[i])
        out.append((i, p, c // p))
        i += c
    return out


def _periods(shapes: Array) -> list[int]:
    """Periods to try: all short ones, and the distances at which most events come again."""
    n = len(shapes)
    short = min(n // 2, _LONGEST_PERIOD)
    if n // 2 <= short:
        return list(range(1, short + 1))
    order = np.argsort(shapes, kind="stable")
    same = shapes[order][1:] == shapes[order][:-1]
    distances = np.diff(order)[same]
    longer, counts = np.unique(distances[(distances > short) & (distances <= n // 2)], return_counts=True)
    most = np.sort(longer[np.argsort(-counts, kind="stable")[:_LONGER_PERIODS]])
    return [*range(1, short + 1), *most.tolist()]
