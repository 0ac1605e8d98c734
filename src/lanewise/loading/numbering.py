"""A chunk's own numbers for its strings, lanes and inputs, so that chunks can be decoded anywhere."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Numbering", "Numbers", "Parts"]

Array = npt.NDArray[Any]
# So many distinct processes or threads are found faster one by one over the whole array than value by value.
_FEW = 32


class Numbering:
    """Gives each distinct value a number, in order of first sight."""

    def __init__(self) -> None:
        self._ids: defaultdict[Any, int] = defaultdict(count().__next__)

    def __contains__(self, value: object) -> bool:
        return value in self._ids

    def numbers(self, values: Iterable[Any]) -> list[int]:
        """The numbers of the values."""
        return list(map(self._ids.__getitem__, values))

    def codes(self, values: Iterable[Any], dtype: Any = np.int32) -> Array:
        """The numbers of the values, as an array."""
        return np.array(self.numbers(values), dtype=dtype)

    def values(self) -> list[Any]:
        """All values, in the order of their numbers."""
        return list(self._ids)


@dataclass(slots=True)
class Numbers:
    """The three numberings of a chunk."""

    strings: Numbering = field(default_factory=Numbering)
    lanes: Numbering = field(default_factory=Numbering)
    inputs: Numbering = field(default_factory=Numbering)


class Parts:
    """Processes or threads of many events: nearly always integers, of which there are few distinct ones."""

    def __init__(self) -> None:
        self._integers = array("q")
        self._others: list[Any] | None = None

    def add(self, values: list[Any]) -> None:
        """Take in some more."""
        if self._others is None:
            try:
                self._integers.fromlist(values)
            except (TypeError, OverflowError):
                self._others = self._integers.tolist()
            else:
                return
        self._others += values

    def numbered(self) -> tuple[Array, list[Any]]:
        """int64 (n,): numbers of the values in order of first sight; and the values."""
        ids = np.frombuffer(self._integers, dtype=np.int64)
        codes = np.full(len(ids), -1, dtype=np.int64)
        seen: list[int] = []
        row = 0
        while self._others is None and len(seen) <= _FEW:
            if not len(ids) or codes[row] >= 0:
                return codes, seen
            codes[ids == ids[row]] = len(seen)
            seen.append(int(ids[row]))
            row = int(codes.argmin())
        numbering = Numbering()
        values = ids.tolist() if self._others is None else self._others
        return numbering.codes(values, np.int64), numbering.values()
