"""Extra lanes for slices that overlap: none is hidden, none moves without need, what is nested stays together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanewise.timeline.extra_lanes import extra_lanes


def lanes(*slices: tuple[int, int]) -> list[int]:
    ordered = sorted(slices, key=lambda s: (s[0], -s[1]))
    ts, end = np.array([s[0] for s in ordered], dtype=np.int64), np.array([s[1] for s in ordered], dtype=np.int64)
    return extra_lanes(ts, end, np.arange(len(ordered))).tolist()


def dropped(slices: list[tuple[int, int]]) -> list[int]:
    """Places of slices that start within one that is open, and end after it, as a viewer that keeps a stack sees them."""
    stack: list[tuple[int, int]] = []
    out = []
    for place, (begin, end) in enumerate(slices):
        while stack and stack[-1][1] <= begin:
            stack.pop()
        if stack and end > stack[-1][1]:
            out.append(place)
        else:
            stack.append((begin, end))
    return out


def test_nested_slices_stay() -> None:
    assert lanes((0, 10), (1, 5), (2, 3), (6, 9), (10, 12)) == [0] * 5


def test_the_later_of_two_moves_and_nothing_else_does() -> None:
    assert lanes((0, 10), (5, 15), (11, 14), (20, 30)) == [0, 1, 0, 0]
    assert lanes((0, 10), (4, 9), (5, 15), (6, 8)) == [0, 0, 1, 0]
    assert lanes((0, 10), (5, 15), (6, 12)) == [0, 1, 1]


def test_a_chain_takes_one_extra_lane() -> None:
    assert lanes(*[(10 * i, 10 * i + 11) for i in range(100)]) == [i % 2 for i in range(100)]


def test_the_same_time_twice_is_nested() -> None:
    assert lanes((0, 10), (0, 10)) == [0, 0]


def test_instants_stay() -> None:
    assert lanes((0, 10), (5, 5), (5, 5)) == [0, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=40))
def test_each_lane_holds_what_a_viewer_shows(drawn: list[tuple[int, int]]) -> None:
    ordered = sorted(((a, a + d) for a, d in drawn), key=lambda s: (s[0], -s[1]))
    placed = lanes(*ordered)
    left = list(range(len(ordered)))
    number = 0
    while left:
        gone = {left[i] for i in dropped([ordered[i] for i in left])}
        assert [i for i in left if placed[i] == number] == [i for i in left if i not in gone]
        left = [i for i in left if i in gone]
        number += 1
