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


def hidden(slices: list[tuple[int, int]]) -> int:
    """Slices that start within one that is open, and end after it, as a viewer that keeps a stack sees them."""
    stack: list[tuple[int, int]] = []
    count = 0
    for begin, end in slices:
        while stack and stack[-1][1] <= begin:
            stack.pop()
        if stack and end > stack[-1][1]:
            count += 1
        else:
            stack.append((begin, end))
    return count


def test_nested_slices_stay() -> None:
    assert lanes((0, 10), (1, 5), (2, 3), (6, 9), (10, 12)) == [0] * 5


def test_the_later_of_two_moves_with_what_it_encloses() -> None:
    assert lanes((0, 10), (5, 15), (11, 14), (20, 30)) == [0, 1, 1, 0]


def test_a_chain_takes_one_extra_lane() -> None:
    assert lanes(*[(10 * i, 10 * i + 11) for i in range(100)]) == [i % 2 for i in range(100)]


def test_the_same_time_twice_is_nested() -> None:
    assert lanes((0, 10), (0, 10)) == [0, 0]


def test_instants_stay() -> None:
    assert lanes((0, 10), (5, 5), (5, 5)) == [0, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=40))
def test_nothing_is_hidden_on_any_lane(drawn: list[tuple[int, int]]) -> None:
    ordered = sorted(((a, a + d) for a, d in drawn), key=lambda s: (s[0], -s[1]))
    placed = lanes(*ordered)
    for number in range(max(placed, default=0) + 1):
        mine = [s for s, lane in zip(ordered, placed, strict=True) if lane == number]
        assert mine or not ordered
        assert hidden(mine) == 0
    if ordered and hidden(ordered) == 0:
        assert set(placed) == {0}
