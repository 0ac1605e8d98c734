"""Lists of names, written as text with spaces between."""

from __future__ import annotations

__all__ = ["listed"]


def listed(text: str) -> tuple[str, ...]:
    """The names in `text`."""
    return tuple(text.split())
