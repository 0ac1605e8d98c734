"""Lists of decoded values as arrays, whatever the values are: what does not fit is not known."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from .numbering import Numbering

__all__ = [
    "LARGEST_STREAM",
    "MISSING",
    "MOST_DEVICES",
    "Codes",
    "Floats",
    "Integers",
    "Triples",
    "floats",
    "integers",
    "ratios",
    "within",
]

Array = npt.NDArray[Any]

# Marks "not there" in integer columns until they become Polars frames, where it is null.
MISSING = -1
# Devices are numbered from 0; a stream may be told by its address.
MOST_DEVICES, LARGEST_STREAM = 2**15, 2**48
_LARGEST_RATIO = 1e6  # no occupancy and no number of blocks or warps of an SM comes near it; what does is damage


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


def ratios(values: Array) -> Array:
    """float32 of float64 (n,); NaN for what does not fit."""
    return np.where(np.abs(values) < _LARGEST_RATIO, values, np.nan).astype(np.float32)


def within(values: Array, bound: int) -> Array:
    """int64 (n,) from 0 to below a bound; MISSING for others."""
    return np.where((values >= 0) & (values < bound), values, MISSING)


def _triples(values: list[tuple[Any, ...]]) -> Array:
    """(n, 3) int32 of grid or block sizes; MISSING where there is none."""
    try:
        sizes = np.array(values, dtype=np.int64)
        if sizes.shape == (len(values), 3) and (np.abs(sizes) < 2**31).all():
            return sizes.astype(np.int32)
    except (TypeError, ValueError, OverflowError):
        pass
    out = np.full((len(values), 3), MISSING, dtype=np.int32)
    for i, value in enumerate(values):
        if len(value) == 3 and all(isinstance(v, int) and 0 <= v < 2**31 for v in value):
            out[i] = value
    return out


class Integers:
    """A growing column of integers; see `integers`."""

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, values: list[Any]) -> None:
        """Take in some more."""
        try:
            self._values.fromlist(values)
        except (TypeError, OverflowError):
            self._values.frombytes(integers(values).tobytes())

    @property
    def column(self) -> Array:
        """int64 (n,): all of them."""
        return np.frombuffer(self._values, dtype=np.int64)


class Floats:
    """A growing column of numbers; see `floats`."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, values: list[Any]) -> None:
        """Take in some more."""
        try:
            self._values.fromlist(values)
        except (TypeError, OverflowError):
            self._values.frombytes(floats(values).tobytes())

    @property
    def column(self) -> Array:
        """float64 (n,): all of them."""
        return np.frombuffer(self._values, dtype=np.float64)


class Codes:
    """A growing column of numbers of values, by a numbering; MISSING for None."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._codes = array("i")

    def add(self, values: list[Any]) -> None:
        """Take in some more."""
        nones = values.count(None)
        if nones == len(values):
            self.add_missing(nones)
        elif not nones:
            self._codes.fromlist(self._numbering.numbers(values))
        else:
            known = iter(self._numbering.numbers(v for v in values if v is not None))
            self._codes.fromlist([MISSING if v is None else next(known) for v in values])

    def add_missing(self, n: int) -> None:
        """Take in as many None."""
        self._codes.frombytes(np.full(n, MISSING, dtype=np.int32).tobytes())

    @property
    def column(self) -> Array:
        """int32 (n,): all of them."""
        return np.frombuffer(self._codes, dtype=np.int32)

    def renumbered(self, numbering: Numbering) -> Array:
        """int32 (n,): the same by another numbering."""
        codes = self.column
        mapping = numbering.codes(self._numbering.values())
        return np.where(codes < 0, np.int32(MISSING), mapping[codes]) if len(mapping) else codes


class Triples:
    """A growing column of grid or block sizes, of which there are few distinct ones."""

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._codes = array("i")

    def add(self, values: list[Any]) -> None:
        """Take in some more: lists of three, or whatever else."""
        try:
            codes = self._numbering.numbers(map(tuple, values))
        except TypeError:  # no list, or a list of lists
            codes = self._numbering.numbers(map(_hashable, values))
        self._codes.fromlist(codes)

    @property
    def column(self) -> Array:
        """int32 (n, 3): all of them; MISSING for what is no size."""
        return _triples(self._numbering.values())[np.frombuffer(self._codes, dtype=np.int32)]


def _hashable(size: Any) -> tuple[Any, ...]:
    """A size as a tuple; an empty one for what is none."""
    return tuple(size) if isinstance(size, list | tuple) and all(isinstance(v, int | float) for v in size) else ()
