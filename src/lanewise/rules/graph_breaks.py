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
    calls = ctx.answer(region_calls)
    broken = _broken(calls)
    if not broken:
        return Clear()
    # Each part of a broken function pays the wrapper; one of them would remain.
    parts: dict[int, list[RegionCall]] = {}
    for call in broken:
        parts.setdefault(call.outer if _nested(calls) else -1 - call.step, []).append(call)
    cheapest = {min(found, key=lambda c: length(c.overhead)).event for found in parts.values()}
    gone = [c for c in broken if c.event not in cheapest]
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
            variant="" if _nested(calls) else "apart",
            confidence="medium" if _nested(calls) else "low",
            where=ctx.where(broken[0].event),
        )
    ]


def _nested(calls: list[RegionCall]) -> bool:
    """Whether regions are inside others, as what follows a break is inside what came before it."""
    return any(c.event != c.outer for c in calls)


def _broken(calls: list[RegionCall]) -> list[RegionCall]:
    """Calls of regions that hold others of another frame, and those: what is compiled once a call is one frame.

    Where none holds another (traces in which regions only follow one another), those in steps that run several frames. The same
    frame called again and again (each layer of a model, compiled by itself) is no break.
    """
    nested = _nested(calls)
    together: dict[int, list[RegionCall]] = {}
    for call in calls:
        together.setdefault(call.outer if nested else call.step, []).append(call)
    return [c for found in together.values() if len({c.frame for c in found}) > 1 for c in found]


RULE = Rule(
    id="graph-breaks",
    precedence=42,
    needs=("cpu_ops", "steps"),
    check=_check,
    english={
        "name": "Graph breaks",
        "title": "{regions} compiled regions a step, of {frames} frames: the graph breaks",
        "text": "Between regions Python runs, nothing fuses across them, and each pays its own lookup and guards: {overhead} a step.",
        "title_apart": "{regions} compiled regions a step, of {frames} frames, one after the other",
        "text_apart": "Either they are compiled apart on purpose, or the function around them was not compiled because its graph breaks "
        "inside a loop. Nothing fuses across them, and each pays its own lookup and guards: {overhead} a step.",
        "fix_apart": "Compile the function that calls them; if it is compiled already, TORCH_LOGS=graph_breaks names the break that keeps it from "
        "being.",
        "fix": "Find the breaks with TORCH_LOGS=graph_breaks or torch.compile(fullgraph=True); move prints, .item() and unsupported "
        "calls out of the compiled function.",
        "doc_finds": "Compiled regions that hold regions of other frames: what follows a break runs inside what came before it. In traces "
        "without such nesting, steps that run regions of more than one frame.",
        "doc_why": "At a break Dynamo returns to Python: the rest of the function is compiled as a frame of its own, with its own "
        "lookup and guards, and ops on both sides of the break cannot fuse.",
        "doc_fix": "`torch.compile(fullgraph=True)` turns the first break into an error that names it. Usual causes: `.item()` and "
        "data-dependent branches, print and logging, calls into C extensions without a fake implementation.",
        "doc_fine": "Functions that are compiled by themselves and call one another look the same. A function that breaks inside a loop is not "
        "compiled at all, and where nothing below it is either, there is no region to see. A break between large regions costs some tens of "
        "microseconds a step.",
        "doc_measured": "Frames are told by the first number of `Torch-Compiled Region: 0/1`. The price is the lookup, guards and wrappers of "
        "all parts of a function but the cheapest, without what the program does between them. Fusion lost across breaks is not in it.",
    },
)
