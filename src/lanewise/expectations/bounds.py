"""What a number should be: ``5``, ``"<=3"``, ``"2..4"``; of ratios ``">=60%"``, of sizes ``"<=20 GiB"``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Bound", "count_bound", "ratio_bound", "size_bound"]

_FORM = re.compile(r"\s*(<=|>=|==|=|<|>|≤|≥)?\s*([\d._]+\s*[%A-Za-z]*)\s*\Z")
_RANGE = re.compile(r"\s*([\d._]*?\d\s*[%A-Za-z]*)\s*\.\.\s*([\d._]*\d\s*[%A-Za-z]*)\s*\Z")
_SIZES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Bound:
    """A closed or open interval.

    Attributes:
        text: as it was written.
        low, high: its ends.
        low_open, high_open: whether an end itself is outside.
    """

    text: str
    low: float = -_INFINITY
    high: float = _INFINITY
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is inside."""
        return self.meets(value, value)

    def meets(self, least: float, most: float) -> bool:
        """Whether any value from `least` to `most` is inside."""
        low = most > self.low if self.low_open else most >= self.low
        high = least < self.high if self.high_open else least <= self.high
        return low and high


def _bound(value: Any, number: Callable[[str], float | None]) -> Bound | None:
    """The bound that a value of a file states, None where it states none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value)
    between = _RANGE.match(text)
    if between is not None:
        low, high = number(between[1]), number(between[2])
        return Bound(text, low, high) if low is not None and high is not None and low <= high else None
    form = _FORM.match(text)
    limit = number(form[2]) if form is not None else None
    if form is None or limit is None:
        return None
    sign = form[1] or "=="
    if sign in ("<", "<=", "≤"):
        return Bound(text, high=limit, high_open=sign == "<")
    if sign in (">", ">=", "≥"):
        return Bound(text, low=limit, low_open=sign == ">")
    return Bound(text, limit, limit)


def count_bound(value: Any) -> Bound | None:
    """A bound of a whole number."""
    return _bound(value, lambda text: float(text) if text.strip().replace("_", "").isdigit() else None)


def ratio_bound(value: Any) -> Bound | None:
    """A bound of a ratio: 0.6 or 60%."""

    def number(text: str) -> float | None:
        share = text.strip().removesuffix("%").strip()
        try:
            return float(share) / 100 if "%" in text else float(share)
        except ValueError:
            return None

    return _bound(value, number)


def size_bound(value: Any) -> Bound | None:
    """A bound of a size in bytes: 1073741824, 1 GiB, 1.5 GB."""

    def number(text: str) -> float | None:
        form = re.fullmatch(r"([\d._]+)\s*([A-Za-z]*)", text.strip())
        scale = _SIZES.get(form[2].lower() or "b") if form is not None else None
        try:
            return float(form[1]) * scale if form is not None and scale is not None else None
        except ValueError:
            return None

    return _bound(value, number)
