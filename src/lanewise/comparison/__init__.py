"""Two or more traces beside each other: what changed, what stayed the same, and what noise does not let one see."""

from __future__ import annotations

from .difference import compare
from .document import Comparison

__all__ = ["Comparison", "compare"]
