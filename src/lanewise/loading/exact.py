"""Timestamps from their text, exact to the nanosecond: epoch microseconds with a fraction do not fit a double."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["EARLIEST_NS", "LATEST_NS", "NO_TIME", "exact_ns", "ns_of_text"]

NO_TIME = np.iinfo(np.int64).min
"""Where there is no time, or none that fits."""
# Times outside of these are no times, and differences of times within them fit into int64: 1933 to 2116 since the epoch.
EARLIEST_NS, LATEST_NS = -(2**60), 2**62
_LONGEST_TEXT = 64  # a longer one is no time, and Decimal would read all of it
_LARGEST_EXPONENT = 20  # beyond int64 in any case; a whole number of such a size is not written out


def ns_of_text(text: bytes) -> int | None:
    """Whole nanoseconds of a decimal number of microseconds, rounded half up; None when it is no number or no time.

    A number in quotes is one too.
    """
    try:
        number = Decimal(text.strip(b'"')[:_LONGEST_TEXT].decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError, ValueError):
        return None
    if not number.is_finite():
        return None
    if not number:  # whatever its exponent
        return 0
    if number.adjusted() > _LARGEST_EXPONENT:
        return None
    ns = int((number * 1000).to_integral_value(rounding="ROUND_HALF_UP"))
    return ns if EARLIEST_NS <= ns <= LATEST_NS else None


def exact_ns(raws: Sequence[Any]) -> npt.NDArray[np.int64]:
    """int64 nanoseconds of JSON numbers given as text (buffers; empty or ``null`` where there is none).

    Where there is none, or none that fits, it is `NO_TIME`.

    Texts of one shape (as many digits before the point, at most three after it) are converted together.
    """
    texts = [bytes(r) for r in raws]
    out = np.full(len(texts), NO_TIME, dtype=np.int64)
    lengths = np.array([len(t) for t in texts])
    for length in np.unique(lengths):
        if length == 0:
            continue
        rows = np.flatnonzero(lengths == length)
        digits = np.frombuffer(b"".join([texts[i] for i in rows]), dtype=np.uint8).reshape(len(rows), length)
        _convert(digits, rows, texts, out)
    return out


def _convert(
    digits: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], texts: list[bytes], out: npt.NDArray[np.int64]
) -> None:
    length = digits.shape[1]
    points = digits == ord(".")
    whole = np.where(points.any(axis=1), points.argmax(axis=1), length)
    numeric = digits - ord("0") <= 9  # wraps around for anything below "0"
    for point in np.unique(whole):
        some = whole == point
        block = digits[some]
        places = length - point - 1 if point < length else 0
        columns = np.r_[0:point, point + 1 : length]
        digits_ns = len(columns) + 3 - places
        if places <= 3 and len(columns) and digits_ns <= 19 and numeric[some][:, columns].all():
            powers = 10 ** np.arange(digits_ns - 1, 2 - places, -1, dtype=np.int64)
            # With 19 digits, what begins with 5 or more is beyond the latest time, and what begins with 9 would overflow.
            fits = block[:, 0] < ord("5") if digits_ns == 19 else np.ones(len(block), dtype=np.bool_)
            value = (block[:, columns].astype(np.int64) - ord("0")) @ powers
            out[rows[some]] = np.where(fits & (value <= LATEST_NS), value, NO_TIME)
        else:  # a sign, an exponent, more digits, a number in quotes
            for row in rows[some]:
                ns = ns_of_text(texts[row])
                if ns is not None:
                    out[row] = ns
