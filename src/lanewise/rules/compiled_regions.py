"""Calls of compiled regions and what each costs on the CPU beside the ops that it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, gaps, union

from .context import Context

__all__ = ["RegionCall", "region_calls"]

Array = npt.NDArray[Any]

_REGION = re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)")
_LOOKUP = re.compile(r"^TorchDynamo Cache Lookup$")


@dataclass(frozen=True, slots=True)
class RegionCall:
    """One call of a compiled region from code that is not compiled itself.

    Attributes:
        event: the region's event.
        frame: number of the compiled frame: the first number of ``0/1``; a frame split by graph breaks has several.
        step: step during which it was called.
        overhead: time of the cache lookup, guards and wrappers: all that is not inside an op that does work.
        ops: events of the ops directly inside that launch GPU work.
    """

    event: int
    frame: int
    step: int
    overhead: Intervals
    ops: Array


def region_calls(ctx: Context) -> list[RegionCall]:
    """Calls of compiled regions in the steps that per-step numbers are taken over, in order."""
    regions = ctx.in_steps(ctx.events_matching(_REGION))
    if not len(regions):
        return []
    within = np.isin(ctx.tree.events, regions)
    outer = ctx.tree.nearest(within)[ctx.place[regions]]
    regions = regions[outer < 0]
    lookups = ctx.events_matching(_LOOKUP)
    working = _working_ops(ctx)
    steps = ctx.step_of(regions)
    return [_call(ctx, int(e), int(s), lookups, working) for e, s in zip(regions, steps, strict=True)]


def _working_ops(ctx: Context) -> Array:
    """bool (tree,): events that launch GPU work themselves or through what is inside them."""
    launching = np.zeros(len(ctx.tree.events), dtype=np.int64)
    launching[ctx.place[ctx.launches.call]] = 1
    return ctx.tree.totals(launching) > 0


def _call(ctx: Context, region: int, step: int, lookups: Array, working: Array) -> RegionCall:
    trace = ctx.trace
    begin, end = int(trace.ts[region]), int(trace.end[region])
    inner = ctx.inside(np.array([region]))
    inner = inner[inner != region]
    op = inner[working[ctx.place[inner]]]
    # The outermost working ops: wrappers around them (the compiled graph's call, autograd's function) do none of the work.
    wrapper = np.array([_is_wrapper(trace.name_of(int(e))) for e in op], dtype=np.bool_)
    op = op[~wrapper]
    covered = union(trace.ts[op], trace.end[op])
    starts, ends = gaps(covered, begin, end)
    before = lookups[(trace.lane[lookups] == trace.lane[region]) & (trace.end[lookups] <= begin)]
    if len(before) and begin - int(trace.end[before[-1]]) <= int(trace.dur[before[-1]]) + (end - begin):
        starts, ends = np.r_[trace.ts[before[-1]], starts], np.r_[np.int64(begin), ends]
    match = _REGION.match(trace.name_of(region))
    frame = int(match.group(1)) if match else -1
    outermost = op[[ctx.parent(int(e)) not in set(op.tolist()) for e in op]] if len(op) else op
    return RegionCall(region, frame, step, (starts, ends), outermost)


def _is_wrapper(name: str) -> bool:
    return name.startswith(("## Call CompiledFxGraph", "CompiledFunction", "Torch-Compiled Region", "AOTDispatcher"))
