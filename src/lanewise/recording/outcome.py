"""What comes of a recorder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lanewise.recording.clock import StepTimes
from lanewise.recording.texts import Notice

__all__ = ["Recording"]


@dataclass
class Recording:
    """What came of a recorder.

    Attributes:
        path: the trace, or None where none was written.
        table: torch's table beside it, or None.
        completed: steps that came in all.
        times: the step's time without the profiler, or None.
        notices: what there is to say about it, in order.
    """

    path: Path | None = None
    table: Path | None = None
    completed: int = 0
    times: StepTimes | None = None
    notices: list[Notice] = field(default_factory=list)
