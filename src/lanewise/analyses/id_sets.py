"""Sets of event numbers and ids as ascending arrays.

Sorting 64-bit integers is vectorised in NumPy; its own `unique` hashes since 2.3 and `isin` calls it, which takes ten times
as long on the hundreds of thousands of numbers that a trace has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["among", "distinct", "in_groups"]

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
