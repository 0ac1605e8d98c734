"""Two or more traces beside each other: what changed, what stayed the same, and what noise does not let one see."""

from __future__ import annotations

from .difference import compare, compare_sides
from .document import Comparison
from .figures import TraceSide

__all__ = ["Comparison", "TraceSide", "compare", "compare_sides"]
