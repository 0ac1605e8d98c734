"""outlier-step: one step takes far longer than the others, and what it had that they had not."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanewise.model.intervals import clipped, overlap_with

from .base import Clear, Draft, NotChecked, Outcome, Rule, duration, first_events, percent
from .context import Array, Context
from .frames import frame_over
from .step_python import python_holes

__all__ = ["RULE"]

_LEAST_STEPS = 4  # with fewer, no step is usual
# A step is an outlier beyond so many times the median distance from the median (a normal spread has 0.1 % there), and a
# quarter of the median.
_SPREADS = 5.0
_LEAST_SHARE = 0.25
_LEAST_UNEXPLAINED = 1.0  # of the median: less, with nothing to show for it, is no news
_CAUSES = ("compile", "data", "allocation", "sync", "pageable_copy", "profiler")


def _check(ctx: Context) -> Outcome:
    time = ctx.steps.time_ns[ctx.step_numbers].astype(np.float64)
    if len(time) < _LEAST_STEPS:
        return NotChecked("few-steps")
    usual = float(np.median(time))
    spread = float(np.median(np.abs(time - usual)))
    far = time - usual > np.maximum(_SPREADS * spread, _LEAST_SHARE * usual)
    if not far.any():
        return Clear()
    worst = int(ctx.step_numbers[int(time.argmax())])
    others = ctx.step_numbers[~far]
    excess = float(time.max()) - usual
    cause, part, events, name = _explained(ctx, worst, others, excess)
    if not cause and excess < _LEAST_UNEXPLAINED * usual:
        return Clear()
    slots: dict[str, Any] = {
        "step": str(int(ctx.steps.index[worst])),
        "time": duration(float(time.max())),
        "usual": duration(usual),
        "part": duration(part),
        "name": name,
        "share": percent(part / excess if excess else None),
    }
    return [
        Draft(
            slots,
            None,
            ctx.per_step(excess),
            first_events([*events, int(ctx.steps.event[worst])]),
            variant=cause,
            confidence="high" if cause else "low",
            where=ctx.where(events[0]) if events else None,
        )
    ]


def _window(ctx: Context, step: int) -> tuple[int, int]:
    """CPU time of a step, up to the start of the next one."""
    start = int(ctx.steps.start[step])
    end = start + int(ctx.steps.wall_ns[step])
    return start, max(end, int(ctx.steps.start[step + 1])) if step + 1 < len(ctx.steps) else end


def _explained(ctx: Context, worst: int, others: Array, excess: float) -> tuple[str, float, list[int], str]:
    """(cause, its part of the excess in ns, events, a name): the same kernels but slower, or the activity that is longest beyond
    what it takes in other steps; no cause where none explains half of the excess."""
    busy = ctx.steps.gpu_busy_ns
    slower = float(busy[worst] - np.median(busy[others]))
    if 2 * slower >= excess and _same_kernels(ctx, worst, others):
        rows = np.flatnonzero(ctx.steps.gpu_step == worst)
        row = int(rows[np.argmax(ctx.gpu_ns[rows])])
        return "clocks", slower, [int(ctx.gpu_event[row])], f"{busy[worst] / max(float(np.median(busy[others])), 1.0):.2f}"
    best: tuple[str, float, list[int], str] = ("", 0.0, [], "-")
    for cause in _CAUSES:
        intervals = ctx.activity.by_name[cause]
        more = _more(ctx, intervals, worst, others)
        if more > best[1]:
            events = _events_at(ctx, intervals, worst)
            best = (cause, more, events, ctx.trace.name_of(events[0]) if events else "-")
    holes = ctx.answer(python_holes)
    pause = _more(ctx, holes, worst, others)
    if pause > best[1]:
        begin, end = _longest(holes, *_window(ctx, worst))
        best = ("python", pause, _after(ctx, end), frame_over(ctx, begin, end) or "-")
    return best if 2 * best[1] >= excess else ("", best[1], best[2], best[3])


def _more(ctx: Context, intervals: tuple[Array, Array], worst: int, others: Array) -> float:
    """By how much more of an activity a step has than the others."""
    begin, end = np.array([_window(ctx, int(i)) for i in (worst, *others)], dtype=np.int64).T
    spent = overlap_with(begin, end, intervals)
    return float(spent[0] - np.median(spent[1:]))


def _same_kernels(ctx: Context, worst: int, others: Array) -> bool:
    """Whether a step runs as many GPU ops of each name as a usual one."""
    rows = np.flatnonzero(ctx.steps.gpu_step >= 0)
    name, step = ctx.trace.name[ctx.gpu_event[rows]], ctx.steps.gpu_step[rows]
    like = int(others[np.argsort(ctx.steps.time_ns[others], kind="stable")[len(others) // 2]])
    return bool(np.array_equal(np.sort(name[step == worst]), np.sort(name[step == like])))


def _events_at(ctx: Context, intervals: tuple[Array, Array], step: int) -> list[int]:
    """The longest recorded events of an activity in a step."""
    inside = clipped(intervals, *_window(ctx, step))
    if not len(inside[0]):
        return []
    events = ctx.trace.rows("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "overhead")
    at = np.searchsorted(inside[0], ctx.trace.ts[events], side="right") - 1
    mine = events[(at >= 0) & (ctx.trace.end[events] <= inside[1][np.maximum(at, 0)])]
    return [int(e) for e in mine[np.argsort(-ctx.trace.dur[mine], kind="stable")[:3]]]


def _longest(intervals: tuple[Array, Array], begin: int, end: int) -> tuple[int, int]:
    starts, ends = clipped(intervals, begin, end)
    if not len(starts):
        return begin, begin
    i = int((ends - starts).argmax())
    return int(starts[i]), int(ends[i])


def _after(ctx: Context, moment: int) -> list[int]:
    """The first event of the launching threads after a moment."""
    events = ctx.tree.events[np.isin(ctx.trace.lane[ctx.tree.events], ctx.lanes)]
    later = events[ctx.trace.ts[events] >= moment]
    return [int(later[np.argmin(ctx.trace.ts[later])])] if len(later) else []


RULE = Rule(
    id="outlier-step",
    precedence=86,
    general=True,
    needs=("steps",),
    check=_check,
    english={
        "name": "A step that stands out",
        "title": "Step {step} takes {time}, the others {usual}",
        "text": "What it did differently does not show in the trace; the largest part that does is {part} ({share} of the difference).",
        "text_clocks": "It runs the same kernels, {name} times as long: lower clocks (power, temperature), or another process on the card.",
        "text_compile": "torch.compile was at work in it: {part} ({name}).",
        "text_data": "It waited {part} longer for data ({name}).",
        "text_allocation": "{part} more went to memory from the driver ({name}).",
        "text_sync": "It waited {part} longer for the GPU ({name}).",
        "text_pageable_copy": "{part} more went to copies from pageable memory ({name}).",
        "text_profiler": "The profiler took {part} for itself in it ({name}); it is not part of the real step.",
        "text_python": "For {part} longer than in other steps nothing was recorded on the launching threads (frame: {name}): a garbage "
        "collection, logging, a checkpoint, or the thread was not scheduled.",
        "fix": "Record more steps (`lanewise record --active 20`) and with_stack=True, to see whether it comes back.",
        "fix_clocks": "Watch `nvidia-smi -q -d CLOCK,PERFORMANCE` during a run; lock clocks to compare runs.",
        "fix_compile": "See why with TORCH_LOGS=recompiles.",
        "fix_data": "A larger `prefetch_factor` and more workers even out slow items; look for large files.",
        "fix_allocation": "Pad inputs to a few sizes, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        "fix_sync": "Read GPU values every N steps, and a step later.",
        "fix_python": "Record with_stack=True to see the line; `gc.freeze()` after set-up makes collections short.",
        "doc_finds": "A step far above the others, and what it had that they had not.",
        "doc_why": "A rare slow step hides in a mean, and in distributed training every rank's rare step is everybody's.",
        "doc_fix": "It depends on what it was: the finding names compilation, data, allocation, a wait, a pause of Python, the profiler, or "
        "slower clocks.",
        "doc_fine": "The first step is left out (`cold-start`); saving a checkpoint or logging every N steps is meant.",
        "doc_measured": "Steps beyond the median by 5 times the median distance from it, and by a quarter. Slower clocks: the same kernels "
        "by name and number, with at least half of the difference in their time. Otherwise the activity that takes longest beyond what it "
        "takes in the other steps, if that is at least half of the difference.",
    },
)
