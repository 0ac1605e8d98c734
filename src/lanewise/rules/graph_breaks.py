"""graph-breaks: a compiled function falls apart into several regions."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.model.intervals import length, union

from .base import Clear, Draft, Outcome, Rule, count, duration
from .compiled_regions import RegionCall, region_calls
from .context import Context

__all__ = ["RULE"]


def _check(ctx: Context) -> Outcome:
    calls = region_calls(ctx)
    broken = _broken(calls)
    if not broken:
        return Clear()
    # Each part of a broken frame pays the wrapper; one of them would remain.
    cheapest = {
        s: min((c for c in broken if c.step == s), key=lambda c: length(c.overhead)).event for s in {c.step for c in broken}
    }
    gone = [c for c in broken if c.event != cheapest[c.step]]
    if not gone:
        return Clear()
    overhead = union(np.concatenate([c.overhead[0] for c in gone]), np.concatenate([c.overhead[1] for c in gone]))
    frames = len({c.frame for c in broken})
    return [
        Draft(
            {
                "regions": count(ctx.per_step(len(broken))),
                "frames": count(frames),
                "overhead": duration(ctx.per_step(length(overhead))),
            },
            Change(cpu=overhead),
            ctx.per_step(length(overhead)),
            [c.event for c in broken[:10]],
            confidence="medium",
            where=ctx.where(broken[0].event),
        )
    ]


def _broken(calls: list[RegionCall]) -> list[RegionCall]:
    """Calls in steps that run regions of several frames: what is compiled once a call is one frame, a break makes another.

    The same frame called again and again (each layer of a model, compiled by itself) is no break.
    """
    by_step: dict[int, list[RegionCall]] = {}
    for call in calls:
        by_step.setdefault(call.step, []).append(call)
    return [c for found in by_step.values() if len({c.frame for c in found}) > 1 for c in found]


RULE = Rule(
    id="graph-breaks",
    precedence=42,
    needs=("cpu_ops", "steps"),
    check=_check,
    english={
        "name": "Graph breaks",
        "title": "{regions} compiled regions a step, of {frames} frames: the graph breaks",
        "text": "Between regions Python runs, nothing fuses across them, and each pays its own lookup and guards: {overhead} a step.",
        "fix": "Find the breaks with TORCH_LOGS=graph_breaks or torch.compile(fullgraph=True); move prints, .item() and unsupported "
        "calls out of the compiled function.",
        "doc_finds": "Steps that run compiled regions of more than one frame one after the other.",
        "doc_why": "At a break Dynamo returns to Python: the rest of the function is compiled as a frame of its own, with its own "
        "lookup and guards, and ops on both sides of the break cannot fuse.",
        "doc_fix": "`torch.compile(fullgraph=True)` turns the first break into an error that names it. Usual causes: `.item()` and "
        "data-dependent branches, print and logging, calls into C extensions without a fake implementation.",
        "doc_fine": "Several functions that are compiled on purpose look the same. A break between large regions costs some tens of "
        "microseconds a step.",
        "doc_measured": "Regions in a step that belong to different frames (the first number of `Torch-Compiled Region: 0/1`); the "
        "price is the lookup, guards and wrappers of all but the cheapest. Fusion lost across breaks is not in it.",
    },
)
