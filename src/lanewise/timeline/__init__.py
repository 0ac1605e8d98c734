"""The trace as a picture: lanes, rows and slices, with levels of detail that are prepared when the report is made."""

from __future__ import annotations

from .document import LanePart, Links, StepSpan, Tile, Timeline
from .drawing import timeline
from .selection import BUDGET
from .tiles import Tiles

__all__ = ["BUDGET", "LanePart", "Links", "StepSpan", "Tile", "Tiles", "Timeline", "timeline"]
