"""Lists of decoded values as arrays, whatever the values are: what does not fit is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST_STREAM", "MISSING", "MOST_DEVICES", "floats", "integers", "ratios", "small", "triples", "within"]

Array = npt.NDArray[Any]

# Marks "not there" in integer columns until they become Polars frames, where it is null.
MISSING = -1
# Devices are numbered from 0; a stream may be told by its address.
MOST_DEVICES, LARGEST_STREAM = 2**15, 2**48
_LARGEST_RATIO = 1e6


def integers(values: list[Any]) -> Array:
    """int64 of numbers, numeric strings and None (MISSING); what is no number is MISSING."""
    try:
        return np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(v) for v in values], dtype=np.int64)


def _integer(value: Any) -> int:
    if value is None:
        return MISSING
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):
        return MISSING
    # An unsigned 64-bit -1, as some exporters print it.
    number = number - 2**64 if number >= 2**63 else number
    return number if -(2**63) <= number < 2**63 else MISSING


def floats(values: list[Any]) -> Array:
    """float64 of numbers; NaN for None and for what is no number."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(v) for v in values], dtype=np.float64)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def triples(values: list[Any]) -> Array:
    """(n, 3) int32 of grid or block sizes; MISSING where there is none."""
    places: dict[Any, int] = {}
    try:  # there are few distinct ones
        codes = [places.setdefault(v, len(places)) for v in values]
    except TypeError:  # lists
        return _triples(values)
    return _triples(list(places))[codes]


def _triples(values: list[Any]) -> Array:
    try:
        array = np.array(values, dtype=np.int64)
        if array.shape == (len(values), 3) and (np.abs(array) < 2**31).all():
            return array.astype(np.int32)
    except (TypeError, ValueError, OverflowError):
        pass
    out = np.full((len(values), 3), MISSING, dtype=np.int32)
    for i, value in enumerate(values):
        if isinstance(value, list | tuple) and len(value) == 3 and all(isinstance(v, int) and 0 <= v < 2**31 for v in value):
            out[i] = value
    return out


def small(values: list[Any]) -> Array:
    """int32 of numbers; MISSING for what does not fit."""
    return within(values, 2**31).astype(np.int32)


def ratios(values: list[Any]) -> Array:
    """float32 of numbers; NaN for what does not fit."""
    array = floats(values)
    return np.where(np.abs(array) < _LARGEST_RATIO, array, np.nan).astype(np.float32)


def within(values: list[Any], bound: int) -> Array:
    """int64 of numbers from 0 to below a bound; MISSING for others."""
    array = integers(values)
    return np.where((array >= 0) & (array < bound), array, MISSING)
