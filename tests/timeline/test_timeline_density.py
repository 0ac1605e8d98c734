"""Density of a lane, bin by bin, against counting."""

from __future__ import annotations

import numpy as np

from lanewise.timeline.density import levels, spread


def cover_of(slices: list[tuple[int, int]], width: int, bins: int, begin: int = 0) -> tuple[list[int], list[int]]:
    ts, end = np.array([s[0] for s in slices]), np.array([s[1] for s in slices])
    cover, colour = spread(ts, end, np.arange(len(slices), dtype=np.int8) % 3, begin, width, bins)
    return cover.tolist(), colour.tolist()


def test_cover_is_the_union() -> None:
    # Bins of 90: the first is full, by two slices that overlap; the second is covered by a third; the third has nothing.
    cover, _ = cover_of([(0, 60), (30, 120)], 90, 3)
    assert cover == [9, 3, 0]


def test_a_lone_short_slice_is_seen() -> None:
    cover, colour = cover_of([(100, 100)], 1000, 2)
    assert cover == [1, 0]
    assert colour[0] == 0


def test_colour_is_that_of_most_time() -> None:
    _, colour = cover_of([(0, 10), (10, 70), (80, 90)], 90, 1)
    assert colour == [1]


def test_a_bin_in_which_nothing_starts_goes_on() -> None:
    cover, colour = cover_of([(0, 1), (5, 300)], 100, 3)
    assert cover[1:] == [9, 9]
    assert colour == [1, 1, 1]


def test_a_window_of_the_trace() -> None:
    cover, _ = cover_of([(0, 50), (100, 145), (190, 400)], 90, 2, begin=100)
    assert cover == [5, 9]


def test_levels_get_finer_only_where_there_is_more() -> None:
    ts = np.arange(0, 5000, 5)
    few = levels(ts, ts + 2, np.zeros(len(ts), dtype=np.int8), 5000)
    assert [len(level.cover) for level in few] == [2048]
    ts = np.arange(0, 50000, 5)
    many = levels(ts, ts + 2, np.zeros(len(ts), dtype=np.int8), 50000)
    assert [len(level.cover) for level in many] == [2048, 32768]
    assert levels(ts[:0], ts[:0], np.zeros(0, dtype=np.int8), 10) == []
