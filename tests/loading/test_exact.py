"""Times from text against Python's decimals."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanewise.loading.exact import EARLIEST_NS, LATEST_NS, exact_ns, ns_of_text

NONE = np.iinfo(np.int64).min

DIGITS = st.integers(0, 10**22).map(str)
PLAIN = st.builds(
    lambda sign, whole, part: sign + whole + part,
    st.sampled_from(["", "-"]),
    DIGITS,
    st.just("") | DIGITS.map(lambda d: "." + d),
)
TEXTS = PLAIN | st.builds(lambda t, e: f"{t}e{e}", PLAIN, st.integers(-30, 30))
ODD = st.sampled_from(
    [
        "",
        "null",
        "true",
        '"5"',
        "-",
        ".",
        "5.",
        "1e",
        "nan",
        "inf",
        "Infinity",
        "1e999999999",
        "9" * 500,
        "--5",
        "1.2.3",
        "²",
        "1_000",
        "[]",
    ]
)


def _expected(text: str) -> int:
    if not Decimal(text):  # whatever its exponent
        return 0
    ns = (
        int((Decimal(text) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))
        if Decimal(text).adjusted() < 24
        else LATEST_NS + 1
    )
    return ns if EARLIEST_NS <= ns <= LATEST_NS else NONE


@given(st.lists(TEXTS, max_size=30))
def test_numbers(texts: list[str]) -> None:
    assert exact_ns([t.encode() for t in texts]).tolist() == [_expected(t) for t in texts]


@given(st.lists(TEXTS | ODD, max_size=30))
def test_what_is_no_number_is_none(texts: list[str]) -> None:
    found = exact_ns([t.encode() for t in texts]).tolist()
    for text, ns in zip(texts, found, strict=True):
        single = ns_of_text(text.encode())
        assert ns == (NONE if single is None else single)


@given(st.lists(st.integers(EARLIEST_NS, LATEST_NS), min_size=1, max_size=50))
def test_what_kineto_writes(times: list[int]) -> None:
    texts = [f"{Decimal(ns) / 1000:.3f}".encode() for ns in times]
    assert exact_ns(texts).tolist() == times


def test_the_bounds() -> None:
    for ns in (LATEST_NS, LATEST_NS - 1, EARLIEST_NS):
        assert exact_ns([f"{Decimal(ns) / 1000:.3f}".encode()]).tolist() == [ns]
    for text in (
        b"4611686018427387.905",
        b"9999999999999999.999",
        b"9223372036854775.807",
        b"9999999999999999",
        b"5000000000000000",
    ):
        assert exact_ns([text]).tolist() == [NONE]


def test_a_million_times_take_no_decimals() -> None:
    """Epoch times with three decimals, the form that needs this, are converted all at once."""
    texts = [b"1722470400123456.%03d" % (i % 1000) for i in range(200_000)]
    found = exact_ns(texts)
    assert found[:3].tolist() == [1_722_470_400_123_456_000, 1_722_470_400_123_456_001, 1_722_470_400_123_456_002]
    assert len(np.unique(found)) == 1000
