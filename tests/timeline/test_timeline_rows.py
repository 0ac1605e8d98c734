"""Rows of slices: none covers another, and nesting reads from top to bottom."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanewise.timeline.rows import slice_rows


def rows(*slices: tuple[int, int]) -> list[int]:
    ordered = sorted(slices, key=lambda s: (s[0], -s[1]))
    ts, end = np.array([s[0] for s in ordered]), np.array([s[1] for s in ordered])
    return slice_rows(ts, end).tolist()


def test_nested() -> None:
    assert rows((0, 10), (1, 5), (2, 3), (6, 9)) == [0, 1, 2, 1]


def test_overlapping_goes_below() -> None:
    assert rows((0, 10), (5, 15)) == [0, 1]


def test_a_long_chain_of_overlaps_takes_two_rows() -> None:
    chain = [(10 * i, 10 * i + 11) for i in range(500)]
    assert rows(*chain) == [i % 2 for i in range(500)]


def test_touching_shares_a_row() -> None:
    assert rows((0, 10), (10, 20), (20, 30)) == [0, 0, 0]


def test_instants_at_one_moment_are_all_seen() -> None:
    assert rows((5, 5), (5, 5), (5, 5)) == [0, 1, 2]


def test_none() -> None:
    assert slice_rows(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)).tolist() == []


SLICES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=40)


@given(SLICES)
def test_no_two_of_a_row_overlap(drawn: list[tuple[int, int]]) -> None:
    ordered = sorted(((a, a + d) for a, d in drawn), key=lambda s: (s[0], -s[1]))
    if not ordered:
        return
    row = slice_rows(np.array([s[0] for s in ordered]), np.array([s[1] for s in ordered]))
    for r in range(int(row.max()) + 1):
        mine = [s for s, its in zip(ordered, row, strict=True) if its == r]
        assert mine  # no row is empty
        for (b0, e0), (b1, _) in pairwise(mine):
            assert b1 >= e0
            assert b1 > b0


@given(SLICES)
def test_rows_are_what_taking_each_first_fit_gives(drawn: list[tuple[int, int]]) -> None:
    ordered = sorted(((a, a + d) for a, d in drawn), key=lambda s: (s[0], -s[1]))
    last: list[tuple[int, int]] = []
    wanted = []
    for begin, end in ordered:
        place = next((i for i, (b, e) in enumerate(last) if begin >= e and begin > b), len(last))
        last[place : place + 1] = [(begin, end)]
        wanted.append(place)
    got = slice_rows(np.array([s[0] for s in ordered], dtype=np.int64), np.array([s[1] for s in ordered], dtype=np.int64))
    assert got.tolist() == wanted
