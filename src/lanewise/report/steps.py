"""What a step costs: medians, and one row a step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

__all__ = ["StepRow", "StepSection", "usual_step"]


def usual_step(launches: Sequence[int]) -> int:
    """Place of a step that stands for the others, from the launches of each.

    The second that launched work, since the first may still warm up, and a step that launched none is only a mark.
    """
    busy = [i for i, n in enumerate(launches) if n] or list(range(len(launches)))
    return busy[1] if len(busy) > 1 else busy[0]


class StepSection(Struct, frozen=True):
    """What one step costs: medians; `source` says whether the time was measured outside the profiler.

    Attributes:
        count: steps found.
        time_us: what a step adds to the run: the median.
        source: ``unprofiled``: timed outside the profiler by the recorder; ``profiled``: from `steps`.
        wall_us: length of the annotation: the median.
        gpu_busy_us: GPU busy time of a step: the median.
        profiled_time_us: median of `steps`, under the profiler.
        marks: ``ProfilerStep``, ``annotation``, or null without step marks.
        unprofiled_steps: steps that were timed outside the profiler.
    """

    count: int
    time_us: float | None
    source: str | None
    wall_us: float | None
    gpu_busy_us: float | None
    profiled_time_us: float | None
    marks: str | None
    unprofiled_steps: int | None


class StepRow(Struct, frozen=True):
    """One step.

    Attributes:
        name: of the annotation.
        index: its number, by name or else by place.
        wall_us: length of the annotation on the CPU.
        time_us: what the step adds to the run: from the end of the step before to its own end, the later of its CPU end and
            the end of its last GPU op.
        gpu_busy_us: union of the GPU ops that it launched; null where it launched work and none of it was recorded.
        gpu_ops: GPU ops that it launched, whenever they ran.
        kernels: kernels among them.
        copies: copies among them.
        memsets: memsets among them.
        launches: calls that start GPU work.
        start_us: start of the annotation, as in the file.
    """

    name: str
    index: int
    wall_us: float
    time_us: float
    gpu_busy_us: float | None
    gpu_ops: int
    kernels: int
    copies: int
    memsets: int
    launches: int
    start_us: float
