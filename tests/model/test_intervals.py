"""Interval sets against sets of whole nanoseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from lanewise.model.intervals import Intervals, clipped, gaps, intersection, length, overlap_with, union

Pairs = list[tuple[int, int]]
# Starts and lengths small enough to collide often; empty ones too.
PAIRS = st.lists(st.tuples(st.integers(-20, 40), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=25)
MOMENT = st.integers(-30, 60)


def _arrays(pairs: Pairs) -> Intervals:
    return np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64)


def _moments(pairs: Pairs) -> set[int]:
    return {t for a, b in pairs for t in range(a, b)}


def _covered(intervals: Intervals) -> set[int]:
    return _moments(list(zip(intervals[0].tolist(), intervals[1].tolist(), strict=True)))


def _is_canonical(intervals: Intervals) -> bool:
    starts, ends = intervals
    return bool((starts < ends).all() and (ends[:-1] < starts[1:]).all())


def _set(pairs: Pairs) -> Intervals:
    return union(*_arrays(pairs))


@given(PAIRS)
def test_union(pairs: Pairs) -> None:
    result = _set(pairs)
    assert _covered(result) == _moments(pairs)
    assert _is_canonical(result)
    assert length(result) == len(_moments(pairs))


@given(PAIRS)
def test_union_of_sorted_intervals_and_of_its_own_result(pairs: Pairs) -> None:
    once = _set(sorted(pairs))
    again = union(*once)
    assert [a.tolist() for a in once] == [a.tolist() for a in _set(pairs)] == [a.tolist() for a in again]


@given(PAIRS, MOMENT, MOMENT)
def test_clipped_and_gaps_share_the_window(pairs: Pairs, a: int, b: int) -> None:
    begin, end = min(a, b), max(a, b)
    window = set(range(begin, end))
    inside, outside = clipped(_set(pairs), begin, end), gaps(_set(pairs), begin, end)
    assert _covered(inside) == _moments(pairs) & window
    assert _covered(outside) == window - _moments(pairs)
    assert _is_canonical(inside)
    assert _is_canonical(outside)
    assert length(inside) + length(outside) == end - begin


@given(PAIRS, PAIRS)
def test_intersection(a: Pairs, b: Pairs) -> None:
    result = intersection(_set(a), _set(b))
    assert _covered(result) == _moments(a) & _moments(b)
    assert _is_canonical(result)
    assert length(result) == length(intersection(_set(b), _set(a)))


@given(PAIRS, PAIRS)
def test_overlap_with(pairs: Pairs, cover: Pairs) -> None:
    result = overlap_with(*_arrays(pairs), _set(cover))
    assert result.tolist() == [len(set(range(a, b)) & _moments(cover)) for a, b in pairs]


@given(PAIRS)
def test_nothing(pairs: Pairs) -> None:
    none = _set([])
    assert length(none) == 0
    assert length(intersection(_set(pairs), none)) == 0
    assert overlap_with(*_arrays(pairs), none).tolist() == [0] * len(pairs)
    assert _covered(gaps(none, 3, 9)) == set(range(3, 9))


def test_large_times_stay_exact() -> None:
    """Nanoseconds since 1970 do not fit a double."""
    base = 1_722_470_400_123_456_789
    starts: npt.NDArray[Any] = np.array([base, base + 5, base + 12], dtype=np.int64)
    result = union(starts, starts + np.array([6, 1, 3]))
    assert [a.tolist() for a in result] == [[base, base + 12], [base + 6, base + 15]]
    assert overlap_with(starts, starts + 10, result).tolist() == [6, 4, 3]
