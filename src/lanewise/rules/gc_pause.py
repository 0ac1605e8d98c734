"""gc-pause: Python's garbage collector is called within the steps."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.model.intervals import length

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context

__all__ = ["RULE"]

# How a call of `gc.collect()` is recorded: a built-in of the module gc, or a frame of a wrapper around it.
_COLLECT = re.compile(r"<built-in (?:function|method) collect(?: of module object at 0x[0-9a-f]+)?>|\bgc\.collect\b")


def _check(ctx: Context) -> Outcome:
    frames = ctx.events_matching(_COLLECT, "python_function")
    frames = ctx.in_steps(frames[np.isin(ctx.trace.lane[frames], ctx.lanes)])
    if not len(frames):
        return Clear()
    gone = ctx.intervals(frames)
    order = frames[np.argsort(-ctx.trace.dur[frames], kind="stable")]
    return [
        Draft(
            {
                "times": count(len(frames)),
                "spent": duration(ctx.per_step(length(gone))),
                "longest": duration(float(ctx.trace.dur[order[0]])),
            },
            Change(cpu=gone),
            ctx.per_step(length(gone)),
            first_events(order),
            where=ctx.where(int(order[0])),
        )
    ]


RULE = Rule(
    id="gc-pause",
    precedence=14,
    needs=("steps", "stacks"),
    check=_check,
    english={
        "name": "Garbage collection in the step",
        "title": "gc.collect() takes {spent} per step",
        "text": "It ran {times} times within the steps, up to {longest} at a time, and walks all Python objects while nothing is launched.",
        "fix": "Delete `gc.collect()` from the loop: objects without cycles are freed at once without it. Where cycles matter, "
        "`gc.freeze()` after set-up and one `gc.collect()` every few hundred steps.",
        "doc_finds": "Calls of `gc.collect()` on launching threads within the steps, where stacks were recorded.",
        "doc_why": "A full collection walks all container objects of the process: 10 to 500 ms in a large program, during which nothing "
        "is launched.",
        "doc_fix": "    gc.collect(); gc.freeze()          # once, after model and optimizer are built\n"
        "    gc.disable()                       # then by hand, at moments that suit: between epochs\n\n"
        "In distributed training collect on all ranks at the same step, or each rank's pause stops all of them.",
        "doc_fine": "Between epochs or before an evaluation, outside the steps.",
        "doc_measured": "Union of the frames of `gc.collect()`. Collections that Python starts by itself leave no event in a trace: they "
        "are time without any event, which `python-overhead` and `outlier-step` report without naming it.",
    },
)
