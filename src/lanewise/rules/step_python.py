"""Python time within the steps: stretches of the launching threads in which nothing was recorded."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.quiet_times import recorded_holes
from lanewise.model.intervals import Intervals, gaps, intersection, union

from .context import Context

__all__ = ["ENGINE_NS", "WORK_NS", "python_holes", "step_windows"]

# Python between two ops of a model takes 2 to 50 us; from here on it is work of its own.
WORK_NS = 300_000

# Autograd's engine hands out the next node within some 5 us under the profiler; a longer pause is a Python hook, or the end.
ENGINE_NS = 50_000


def step_windows(ctx: Context) -> Intervals:
    """CPU time of each step that per-step numbers are taken over: up to the start of the next one."""
    found = ctx.steps
    ends = np.r_[found.start[1:], found.start[-1:] + found.wall_ns[-1:]]
    stops = np.maximum(np.minimum(ends, np.iinfo(np.int64).max), found.start + found.wall_ns)
    return union(found.start[ctx.step_numbers], stops[ctx.step_numbers])


def python_holes(ctx: Context) -> Intervals:
    """Time within the steps in no op, no annotation's leaf and no call, and not between two nodes of autograd's engine."""
    holes = recorded_holes(ctx.trace, step_windows(ctx))
    starts, ends = ctx.activity.by_name["autograd"]
    engine = union(starts, np.minimum(ends + ENGINE_NS, np.r_[starts[1:], ends[-1:]])) if len(starts) else (starts, ends)
    data, compiling = ctx.activity.by_name["data"], ctx.activity.by_name["compile"]
    other = union(np.concatenate([engine[0], data[0], compiling[0]]), np.concatenate([engine[1], data[1], compiling[1]]))
    if not len(holes[0]):
        return holes
    return intersection(gaps(other, int(holes[0][0]), int(holes[1][-1])), holes)
