"""The time of a step outside the profiler, as the recorder left it in the trace."""

from __future__ import annotations

from typing import Any

from lanewise.model.trace import Trace

__all__ = ["unprofiled_step"]

# A year: what is longer is no time of a step.
_LONGEST_US = 366 * 86400 * 1e6


def unprofiled_step(trace: Trace) -> dict[str, Any] | None:
    """The step's time outside the profiler as the recorder left it in the trace, in us, or None.

    A dict with ``median`` and ``steps``, and ``min`` and ``max`` where kept; see the document of the recorder.
    """
    own = trace.header.get("lanewise")
    timed = own.get("unprofiled_step_us") if isinstance(own, dict) else None
    if not isinstance(timed, dict):
        return None
    median = timed.get("median")
    good = isinstance(median, int | float) and not isinstance(median, bool) and 0 < median < _LONGEST_US
    return timed if good else None
