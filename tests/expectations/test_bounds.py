from __future__ import annotations

import pytest

from lanewise.expectations.bounds import Bound, count_bound, ratio_bound, size_bound


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (5, [5], [4, 6]),
        ("5", [5], [4, 6]),
        ("== 5", [5], [4]),
        ("<=3", [0, 3], [4]),
        ("<3", [2], [3]),
        (">=2", [2, 900], [1]),
        (">2", [3], [2]),
        ("2..4", [2, 3, 4], [1, 5]),
        ("1_000", [1000], [999]),
    ],
)
def test_bounds_of_counts(text: object, inside: list[int], outside: list[int]) -> None:
    bound = count_bound(text)
    assert bound is not None
    assert all(bound.holds(n) for n in inside)
    assert not any(bound.holds(n) for n in outside)


@pytest.mark.parametrize("text", ["", "five", "<=", "4..2", "5%", True, None, [5], "<=3 kernels", "1.5"])
def test_what_is_no_bound_of_a_count(text: object) -> None:
    assert count_bound(text) is None


def test_bounds_of_ratios() -> None:
    for text in (">=60%", ">=0.6", ">= 60 %"):
        assert ratio_bound(text) == Bound(text, low=0.6)
    between = ratio_bound("40%..60%")
    assert between is not None
    assert between.holds(0.5)
    assert not between.holds(0.7)
    assert ratio_bound("much") is None


def test_bounds_of_sizes() -> None:
    bound = size_bound("<=20 GiB")
    assert bound is not None
    assert bound.high == 20 * 2**30
    assert size_bound("<=1.5 GB") == Bound("<=1.5 GB", high=1.5e9)
    assert size_bound(1024) == Bound("1024", low=1024, high=1024)
    assert size_bound("<=3 potatoes") is None


def test_a_margin_widens_both_ends() -> None:
    bound = ratio_bound("0.4..0.6")
    assert bound is not None
    assert not bound.holds(0.65)
    assert bound.meets(0.55, 0.75)
    assert bound.meets(0.25, 0.45)
    assert bound.meets(0.1, 0.9)
    assert not bound.meets(0.61, 0.9)
    assert not bound.meets(0.1, 0.39)
