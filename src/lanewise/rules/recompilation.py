"""recompilation: torch.compile at work in steady steps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import length, union

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, percent
from .context import Context

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_REGION = re.compile(r"^Torch-Compiled Region: ")
# Compiling in this many steps is no warm-up any more: the first step compiles, a second may add a dynamic shape.
_STEPS_AT_LEAST = 2
# Compiling holds the CPU, allocates, waits and starts cold: what these find is its doing.
_SYMPTOMS = ("compile-overhead", "graph-breaks", "python-overhead", "launch-bound", "allocator", "host-sync", "cold-start")


def _check(ctx: Context) -> Outcome:
    starts, ends = ctx.activity.by_name["compile"]
    if not len(starts):
        return Clear()
    if len(ctx.steps) < 2:
        return NotChecked("one-step")
    step = np.searchsorted(ctx.steps.start, starts, side="right") - 1
    inside = np.isin(step, ctx.step_numbers)
    compiling = np.unique(step[inside])
    if len(compiling) < min(_STEPS_AT_LEAST, len(ctx.step_numbers)):
        return Clear()
    first = _first_calls(ctx, compiling)
    gone = union(
        np.r_[starts[inside], ctx.trace.ts[first]],
        np.r_[ends[inside], ctx.trace.end[first]],
    )
    rows = ctx.launched_in(first)
    spent = length((starts[inside], ends[inside]))
    whole = int(ctx.steps.time_ns[ctx.step_numbers].sum())
    compiles = ctx.in_steps(ctx.events_matching(re.compile(r"^_compile\.compile_inner|^entire_frame_compile$")))
    order = compiles[np.argsort(-ctx.trace.dur[compiles], kind="stable")]
    return [
        Draft(
            {
                "spent": duration(ctx.per_step(spent)),
                "share": percent(spent / whole if whole else None),
                "steps": count(len(compiling)),
                "of": count(len(ctx.step_numbers)),
                "times": count(len(compiles)),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone),
            ctx.per_step(length(gone)),
            first_events(np.r_[order, first]),
            symptoms=_SYMPTOMS,
            where=ctx.where(int(order[0])) if len(order) else None,
        )
    ]


def _first_calls(ctx: Context, compiling: Array) -> Array:
    """Calls of regions that were compiled in their own step: a region's first call loads and tunes its kernels.

    Such a region's number occurs in one step only; where it occurs again the code was kept, and its calls are usual ones.
    """
    regions = ctx.in_steps(ctx.events_matching(_REGION))
    step = ctx.step_of(regions)
    name = ctx.trace.name[regions]
    once = np.array([len(np.unique(step[name == n])) == 1 for n in name], dtype=np.bool_)
    return regions[once & np.isin(step, compiling)]


RULE = Rule(
    id="recompilation",
    precedence=10,
    needs=("cpu_ops",),
    check=_check,
    english={
        "name": "Recompilation",
        "title": "torch.compile compiles again in {steps} of {of} steps",
        "text": "Compiling takes {spent} a step ({share} of the recorded step), {times} compilations in all. The GPU waits meanwhile.",
        "fix": "See why with TORCH_LOGS=recompiles; mark what varies (`torch._dynamo.mark_dynamic`, `dynamic=True`) or pad inputs "
        "to a few shapes.",
        "doc_finds": "Dynamo and Inductor at work in steps after the first, and the first calls of the code that they made.",
        "doc_why": "A compilation takes 0.1 to 60 s on the CPU, with the GPU idle; code that is thrown away after one call never pays.",
        "doc_fix": "`TORCH_LOGS=recompiles` names the guard that failed. Shapes that vary: `torch.compile(dynamic=True)` or "
        "`torch._dynamo.mark_dynamic(x, 0)`, or pad to a few sizes. Python values that vary (a counter, a flag): make them "
        "tensors or keep them out of the compiled function. New modules or lambdas each step: create them once.",
        "doc_fine": "The first step or two: everything is compiled once, and once more when a shape turns out to vary.",
        "doc_measured": "Union of the dynamo and inductor events within the steps, with the calls of regions that occur in the "
        "step of their compilation only. Found when at least 2 steps compile.",
    },
)
