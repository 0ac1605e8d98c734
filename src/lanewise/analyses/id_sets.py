"""Sets of event numbers and ids as ascending arrays.

Sorting 64-bit integers is vectorised in NumPy; its own `unique` hashes since 2.3 and `isin` calls it, which takes ten times
as long on the hundreds of thousands of numbers that a trace has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.orders import stable_order

__all__ = ["among", "combined", "distinct", "first_places", "in_groups", "numbered"]

Array = npt.NDArray[Any]


def distinct(values: Array) -> Array:
    """Each of some numbers once, ascending."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered if first.all() else ordered[first]


def among(values: Array, chosen: Array) -> Array:
    """bool (n,): which values are among the chosen ones (ascending, as `distinct` gives them)."""
    if not len(chosen):
        return np.zeros(len(values), dtype=np.bool_)
    place = np.minimum(np.searchsorted(chosen, values), len(chosen) - 1)
    result: Array = chosen[place] == values
    return result


def in_groups(keys: Array) -> Array:
    """int64 (n,): places of some keys (0 to 2**31 - 1), those of one key together and in order, keys ascending."""
    both: Array = np.sort((keys.astype(np.int64) << 32) | np.arange(len(keys)))
    both &= 0xFFFFFFFF
    return both


def numbered(values: Array) -> tuple[Array, Array]:
    """Some integers' distinct values, ascending, and for each its number among them, int64 (n,)."""
    if not len(values):
        return values, np.empty(0, dtype=np.int64)
    low = int(values.min())
    if int(values.max()) - low < 4 * len(values):  # codes: a table of all that there may be
        at = values.astype(np.int64) - low
        seen = np.zeros(int(at.max()) + 1, dtype=np.bool_)
        seen[at] = True
        return (np.flatnonzero(seen) + low).astype(values.dtype), (np.cumsum(seen) - 1)[at]
    found, _, number = first_places(values)
    return found, number


def first_places(values: Array) -> tuple[Array, Array, Array]:
    """The same with the place of the first of each distinct value between the two."""
    order = stable_order(values)
    ordered = values[order]
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    number = np.empty(len(values), dtype=np.int64)
    number[order] = np.cumsum(first) - 1
    return ordered[first], order[first], number


def combined(columns: list[Array]) -> tuple[Array, Array]:
    """Places of the first of each distinct combination of some columns, and the number of the combination of each row."""
    key, width = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        found, code = numbered(column)
        if width * len(found) >= 2**62:
            numbers, key = numbered(key)
            width = len(numbers)
        key, width = key * len(found) + code, width * len(found)
    _, first, number = first_places(key)
    return first, number
