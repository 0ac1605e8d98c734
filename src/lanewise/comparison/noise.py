"""When a difference is one: what the steps of the two traces vary by themselves, and what recordings vary between runs.

Medians over steps, spread as the median absolute deviation: one outlier step never decides. To that comes what no single
recording shows: the same program recorded again, in another process, is a little faster or slower as a whole. The allowances
below were measured on 68 pairs of recordings of one program each (32 traces on H200s, torch 2.11): 60 of a GPU-bound MLP and a
CPU-bound training step in several processes, and 8 of other programs, recorded one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "BUSY_RUN",
    "CPU_PACED_RUN",
    "CPU_RUN",
    "GPU_BOUND",
    "GPU_BOUND_RUN",
    "LEAST_STEPS",
    "LINK_RUN",
    "MEMORY_RUN",
    "OP_RUN",
    "PRODUCT_RUN",
    "PROFILED_CPU_RUN",
    "Judgement",
    "judged",
    "median_error",
]

Array = npt.NDArray[Any]

# Kernels of products (GEMM, convolution, attention): mostly below 2 %; 8.1 % was seen of a GEMM and 9.3 % of a convolution
# right after the start, where the clock decides, and 3.1 % of one that keeps the card at its power limit.
PRODUCT_RUN = 0.11
# All other kernels: up to 10.7 %, since what the L2 cache still holds depends on how the launches happen to follow one another.
MEMORY_RUN = 0.12
# Collectives wait for the last rank, and copies over the host's bus share it: the same pinned copy of 1.5 MB took 66 and 32 us
# in two recordings, and 70 and 31 in two others.
LINK_RUN = 1.5
# GPU busy time of a step: at most 5.1 %.
BUSY_RUN = 0.07
# From this part of the step on the GPU's work explains it, as in the replay.
GPU_BOUND = 0.92
# Step time where both are so: at most 6.6 %.
GPU_BOUND_RUN = 0.09
# Step time outside the profiler where the CPU is the limit: up to 33 %.
CPU_RUN = 0.40
# CPU time under the profiler: up to 208 %; against the pace of the same calls in both traces: at most 19 %.
CPU_PACED_RUN = 0.30
PROFILED_CPU_RUN = 2.20
# Own CPU time in a step of the ops of one name that launch GPU work, at the pace of the same calls: up to a factor of 1.60 in
# 420 pairs of two recordings of one program.
OP_RUN = 0.75
# With fewer steps than this a single odd one decides.
LEAST_STEPS = 3
# Standard errors that a difference must exceed: with some twenty figures a pair, 3 would raise one false alarm in 20 pairs.
_ERRORS = 3.5
# Of a median against a mean's standard error, for normal noise: sqrt(pi / 2).
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
_MAD_TO_SIGMA = 1.4826  # median distance from the median to a standard deviation, for normal noise


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said about two sets of values.

    Attributes:
        base, new: medians.
        call: ``less``, ``more`` or ``not-seen``.
        margin: what the difference had to exceed, in the values' unit.
        pace: factor by which the base was scaled first.
    """

    base: float
    new: float
    call: str
    margin: float
    pace: float = 1.0

    @property
    def margin_ratio(self) -> float | None:
        """The margin as a part of the base at the new trace's pace, or of the new value where the base is 0."""
        whole = self.base * self.pace or self.new
        return round(self.margin / whole, 4) if whole else None


def judged(
    base: Array,
    new: Array,
    run: float,
    *,
    pace: float = 1.0,
    paired: bool = False,
    least: float = 0.0,
    errors: tuple[float, float] | None = None,
) -> Judgement:
    """Compare two sets of values, one a step.

    Args:
        base, new: values of the steps, at least one each.
        run: what two runs of one program differ by, as a part of the larger value (above 1: a factor of 1 + run).
        pace: the new trace's whole pace against the base's, by which the base is scaled first.
        paired: the values belong together one by one (two files of one recording), so that only their differences vary.
        least: a difference below this is not called.
        errors: standard errors of the two medians, where they are known otherwise than from the values.
    """
    base, new = np.asarray(base, dtype=np.float64), np.asarray(new, dtype=np.float64)
    a, b = float(np.median(base)), float(np.median(new))
    if paired and len(base) == len(new):
        moved = new - base
        shift = float(np.median(moved))
        margin = max(_ERRORS * standard_error(moved), least)
        return Judgement(a, b, _called(shift, margin), margin)
    expected = a * pace
    # A factor, so that half as long is as far as twice as long.
    allowed = expected * run if b >= expected else expected - expected / (1 + run)
    spread = (standard_error(base), standard_error(new)) if errors is None else errors
    error = math.hypot(spread[0] * pace, spread[1])
    margin = max(allowed + _ERRORS * error, least)
    return Judgement(a, b, _called(b - expected, margin), margin, pace)


def _called(shift: float, margin: float) -> str:
    return "not-seen" if abs(shift) <= margin else "more" if shift > 0 else "less"


def standard_error(values: Array) -> float:
    """Standard error of the median of some values, from their median absolute deviation; 0 for a single one."""
    if len(values) < 2:
        return 0.0
    return median_error(float(np.median(np.abs(values - np.median(values)))), len(values))


def median_error(mad: float, count: int) -> float:
    """Standard error of the median of some values whose median distance from it is known."""
    return _MEDIAN_ERROR * _MAD_TO_SIGMA * mad / math.sqrt(count)
