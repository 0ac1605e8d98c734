"""python-overhead: the launching thread spends its time in Python between the ops."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.model.intervals import Intervals, length

from .base import Clear, Draft, NotChecked, Outcome, Rule, duration, first_events, percent
from .context import Array, Context
from .frames import frame_over
from .step_python import WORK_NS, python_holes, step_windows

__all__ = ["RULE"]

_LEAST_SHARE = 0.1  # of the step: steps that the CPU bounds vary by as much from run to run
# Of the recorded step: in 40 steps that launches bound, Python between the ops was 5 to 31 % (median 18), and 38 % where hooks on
# each module added to it.
_LEAST_PART = 1 / 3
_LEAST_CALLS = 20  # ops per step; with fewer, the pauses are the loop's own and the step mark's


def _check(ctx: Context) -> Outcome:
    replay = ctx.replay
    if replay is None:
        return NotChecked("no-launches")
    holes = ctx.answer(python_holes)
    windows = length(step_windows(ctx))
    spent = length(holes)
    if not windows or spent < _LEAST_PART * windows or replay.saving(Change(cpu=holes)) < _LEAST_SHARE * replay.real_ns:
        return Clear()
    ns = holes[1] - holes[0]
    long = ns >= WORK_NS
    few = 2 * int(ns[long].sum()) >= spent
    if not few and ctx.per_step(len(ctx.in_steps(ctx.called.event))) < _LEAST_CALLS:
        return Clear()
    order = np.argsort(-ns, kind="stable")[:8]
    after = _next_events(ctx, holes, order)
    frame = frame_over(ctx, int(holes[0][order[0]]), int(holes[1][order[0]]))
    return [
        Draft(
            {
                "spent": duration(ctx.per_step(spent)),
                "share": percent(spent / windows),
                "longest": duration(float(ns[order[0]])),
                "next": ctx.trace.name_of(after[0]) if after else "-",
            },
            Change(cpu=holes),
            ctx.per_step(spent),
            first_events(after),
            variant="long" if few else "",
            confidence="medium" if replay.real else "low",
            low=Change(cpu=(holes[0][long], holes[1][long])),
            symptoms=("launch-bound",),
            where=frame,
        )
    ]


def _next_events(ctx: Context, holes: Intervals, order: Array) -> list[int]:
    """What runs after each of some holes."""
    events = ctx.tree.events[np.isin(ctx.trace.lane[ctx.tree.events], ctx.lanes)]
    events = events[np.argsort(ctx.trace.ts[events], kind="stable")]
    at = np.searchsorted(ctx.trace.ts[events], holes[1][order], side="left")
    return [int(e) for e in events[at[at < len(events)]]]


RULE = Rule(
    id="python-overhead",
    precedence=79,
    general=True,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Python between the ops",
        "title": "Python between the ops takes {spent} per step ({share})",
        "title_long": "No op and no call for {spent} per step ({share})",
        "text": "The launching thread is in no op and no call for {share} of the recorded step, in many short pauses, and the GPU waits.",
        "text_long": "Python, or something else that is not recorded, holds the launching thread up to {longest} at a time, the longest "
        "before {next}, and the GPU waits.",
        "fix": "`torch.compile` takes the model's Python out of the step; fewer, larger ops, and hooks, asserts and logging out of the loop "
        "help as well.",
        "fix_long": "Move that work out of the step or into another thread; record with_stack=True to see the lines.",
        "doc_finds": "Time in the steps in which the launching threads are in no recorded op, annotation or call.",
        "doc_why": "While Python runs nothing is launched. Once the queue is empty the GPU waits.",
        "doc_fix": "Compile the model, so that Python runs once instead of in every step. Take out of the loop what need not be in it: "
        "logging, metrics, schedulers and their list building, `named_parameters()` walks, assertions on shapes.",
        "doc_fine": "Where the GPU bounds the step. Under the profiler Python looks a little slower than it is.",
        "doc_measured": "The steps are replayed without that time, which is the most that could be saved; pauses between two nodes of "
        "autograd's engine, data loading and compilation are not in it. Found when it is a third of the recorded step and its going "
        "would save 10 %. The low end of the range counts only pauses from 0.3 ms on.",
    },
)
