"""Numbers and orders of integers: the same as NumPy's, whatever the values."""

from __future__ import annotations

import numpy as np
import pytest

from lanewise.analyses.id_sets import combined, first_places, numbered
from lanewise.model.orders import stable_order

CASES = {
    "empty": [],
    "one": [7],
    "sorted": [1, 1, 2, 3],
    "codes": [3, 1, 3, 0, 1],
    "far apart": [10**15, -5, 10**15, 0],
    "the whole range": [2**63 - 1, -(2**63), 0, 2**63 - 1],
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_as_numpy(values: list[int], dtype: type) -> None:
    if values and dtype is np.int32 and max(map(abs, values)) >= 2**31:
        pytest.skip("does not fit")
    array = np.array(values, dtype=dtype)
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()
    found, first, number = np.unique(array, return_index=True, return_inverse=True)
    assert [a.tolist() for a in numbered(array)] == [found.tolist(), number.tolist()]
    if values:
        assert [a.tolist() for a in first_places(array)] == [found.tolist(), first.tolist(), number.tolist()]


def test_many_with_ties() -> None:
    values = np.random.default_rng(1).integers(0, 500, 5000) * 10**12
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
    assert numbered(values)[1].tolist() == np.unique(values, return_inverse=True)[1].tolist()


def test_combinations() -> None:
    a, b = np.array([1, 1, 2, 1]), np.array([5, 6, 5, 5])
    first, number = combined([a, b])
    assert first.tolist() == [0, 1, 2]
    assert number.tolist() == [0, 1, 2, 0]


def test_combinations_of_more_values_than_fit_into_one_number() -> None:
    n = 3000
    columns = [np.random.default_rng(i).permutation(n) for i in range(7)]
    first, number = combined(columns)
    assert sorted(number.tolist()) == list(range(n))
    assert first[number].tolist() == list(range(n))
