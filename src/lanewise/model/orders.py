"""The order of integers, with equal ones as they were.

Sorting 64-bit integers is vectorised in NumPy, finding their order is not: number and place are sorted as one, where both fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["stable_order"]

Array = npt.NDArray[Any]


def stable_order(values: Array) -> Array:
    """int64 (n,): places of some integers, ascending; equal ones in order."""
    n = len(values)
    if not n or (values[1:] >= values[:-1]).all():
        return np.arange(n)
    low, high = int(values.min()), int(values.max())
    bits = (n - 1).bit_length()
    if high - low >= 1 << (63 - bits):
        return np.argsort(values, kind="stable")
    both = values.astype(np.int64)
    both -= low
    both <<= bits
    both |= np.arange(n)
    both.sort()
    both &= (1 << bits) - 1
    return both
