"""Names that torch.compile leaves in a trace."""

from __future__ import annotations

import re

__all__ = ["REGION"]

REGION = re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)")
"""A call of compiled code: number of the frame, number of its compilation."""
