"""The only place that turns nanoseconds, bytes and ratios into text.

Everything inside lanewise is int64 nanoseconds, bytes and ratios from 0 to 1; everything a person reads comes from here.
English and Japanese write these units alike; only the word for "not known" differs. None is always "not known".
"""

from __future__ import annotations

__all__ = [
    "bandwidth",
    "count",
    "duration",
    "flops_rate",
    "gigabytes_per_s",
    "microseconds",
    "percent",
    "ratio_of",
    "size",
    "teraflops",
    "unknown",
]

_UNKNOWN = {"en": "not known", "ja": "不明"}


def unknown(lang: str = "en") -> str:
    """The words for a value that the trace does not tell."""
    return _UNKNOWN[lang]


def _three_digits(value: float) -> str:
    """About three significant digits, never an exponent, with thousands separators."""
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def duration(ns: float | None, lang: str = "en") -> str:
    """Nanoseconds as text: ``812 ns``, ``4.21 µs``, ``1.30 ms``, ``12.4 s``."""
    if ns is None:
        return unknown(lang)
    magnitude = abs(ns)
    if magnitude < 1_000:
        return f"{ns:.0f} ns" if ns else "0 µs"
    # The bounds sit where three digits would round up to the next unit, so that "1,000 µs" never appears.
    if magnitude < 999_500:
        return f"{_three_digits(ns / 1e3)} µs"
    if magnitude < 999_500_000:
        return f"{_three_digits(ns / 1e6)} ms"
    return f"{_three_digits(ns / 1e9)} s"


def microseconds(ns: float | None, lang: str = "en") -> str:
    """Nanoseconds as microseconds whatever the size, for columns of a table: ``4.2``, ``1,302.5``."""
    return unknown(lang) if ns is None else f"{ns / 1e3:,.1f}"


def percent(ratio: float | None, lang: str = "en") -> str:
    """A ratio from 0 to 1 as text: ``0.4 %``, ``37 %``, ``100 %``."""
    if ratio is None:
        return unknown(lang)
    value = ratio * 100
    if value == 0:
        return "0 %"
    if abs(value) < 0.05:
        return "< 0.1 %"
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:.0f} %"


def ratio_of(part: float | None, whole: float | None) -> float | None:
    """``part / whole``, or None where either is not known or the whole is 0."""
    return None if part is None or not whole else part / whole


def count(number: int | None, lang: str = "en") -> str:
    """A whole number with thousands separators."""
    return unknown(lang) if number is None else f"{number:,}"


def size(n_bytes: float | None, lang: str = "en") -> str:
    """Bytes as text, in powers of 1,024: ``512 B``, ``1.5 KiB``, ``48.0 MiB``."""
    if n_bytes is None:
        return unknown(lang)
    value = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def bandwidth(bytes_per_s: float | None, lang: str = "en") -> str:
    """Bytes per second as text, in powers of 1,000 as data sheets have it: ``812 GB/s``, ``4.50 TB/s``."""
    if bytes_per_s is None:
        return unknown(lang)
    value = bytes_per_s / 1e9
    return f"{_three_digits(value / 1e3)} TB/s" if value >= 999.5 else f"{_three_digits(value)} GB/s"


def flops_rate(flops_per_s: float | None, lang: str = "en") -> str:
    """Floating-point operations per second as text: ``818 TFLOP/s``, ``950 GFLOP/s``."""
    if flops_per_s is None:
        return unknown(lang)
    value = flops_per_s / 1e12
    return f"{_three_digits(value)} TFLOP/s" if value >= 0.9995 else f"{_three_digits(value * 1e3)} GFLOP/s"


def teraflops(flops_per_s: float | None, lang: str = "en") -> str:
    """Floating-point operations per second in TFLOP/s whatever the size, for columns of a table: ``818``, ``0.70``."""
    return unknown(lang) if flops_per_s is None else _three_digits(flops_per_s / 1e12)


def gigabytes_per_s(bytes_per_s: float | None, lang: str = "en") -> str:
    """Bytes per second in GB/s whatever the size, for columns of a table: ``4,496``, ``12.1``."""
    return unknown(lang) if bytes_per_s is None else _three_digits(bytes_per_s / 1e9)
