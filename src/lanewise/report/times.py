"""The report's unit of time."""

from __future__ import annotations

__all__ = ["us"]


def us(ns: float | None) -> float | None:
    """Nanoseconds as the report's microseconds; None stays None."""
    return None if ns is None else round(ns / 1000, 3)
