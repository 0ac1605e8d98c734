"""What a run of the command line gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Exit status and what was written."""

    status: int
    out: str
    err: str
