"""The time of a step outside the profiler, as the recorder left it in the trace."""

from __future__ import annotations

from typing import Any, TypeGuard

from lanewise.model.trace import Trace

__all__ = ["unprofiled_mad", "unprofiled_step"]

# A year: what is longer is no time of a step.
_LONGEST_US = 366 * 86400 * 1e6


def unprofiled_step(trace: Trace) -> dict[str, Any] | None:
    """The step's time outside the profiler as the recorder left it in the trace, in us, or None.

    A dict with ``median`` and ``steps``, and ``min``, ``max`` and ``mad`` where kept; see the document of the recorder.
    """
    own = trace.header.get("lanewise")
    timed = own.get("unprofiled_step_us") if isinstance(own, dict) else None
    if not isinstance(timed, dict):
        return None
    median = timed.get("median")
    return timed if _is_time(median) and median > 0 else None


def unprofiled_mad(timed: dict[str, Any]) -> float:
    """Median distance of the timed steps from their median, in us; 0 where it is not known.

    Older recordings keep the shortest and the longest step alone. Half the way to the nearer of the two stands for it: of ten
    normal values the smallest lies 1.5 standard deviations from the median, and their median distance is 0.67; of more steps
    it is an upper bound, and one outlier does not matter.
    """
    mad, low, high = timed.get("mad"), timed.get("min"), timed.get("max")
    if _is_time(mad):
        return float(mad)
    if not _is_time(low) or not _is_time(high):
        return 0.0
    return max(min(timed["median"] - low, high - timed["median"]), 0.0) / 2


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LONGEST_US
