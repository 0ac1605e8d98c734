"""Calls of compiled regions and what each costs on the CPU beside the ops that it runs.

At a graph break the code that Dynamo made calls what follows as a function of its own, with its own lookup and region, inside the
region before it. What is between the two is the program's own: the call that broke the graph.
"""

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
_WRAPPERS = ("## Call CompiledFxGraph", "CompiledFunction", "AOTDispatcher", "Pregraph bytecode")


@dataclass(frozen=True, slots=True)
class RegionCall:
    """One call of a compiled region.

    Attributes:
        event: the region's event.
        outer: event of the outermost region around it: its own where code that is not compiled calls it.
        frame: number of the compiled frame: the first number of ``0/1``; a frame split by graph breaks has several.
        step: step during which it was called.
        overhead: time of the cache lookup, guards and wrappers: all that is neither inside an op that does work nor, where the
            graph breaks, the program's own.
        ops: events of the ops directly inside that do work; those of regions within are theirs.
    """

    event: int
    outer: int
    frame: int
    step: int
    overhead: Intervals
    ops: Array


def region_calls(ctx: Context) -> list[RegionCall]:
    """Calls of compiled regions in the steps that per-step numbers are taken over, in order."""
    regions = ctx.in_steps(ctx.events_matching(_REGION))
    if not len(regions):
        return []
    tree = ctx.tree
    within = np.isin(tree.events, regions)
    nearest = tree.nearest(within)
    outermost = np.where(within, np.arange(len(tree.events)), -1)
    for level in tree.levels()[1:]:
        above = outermost[tree.parent[level]]
        outermost[level] = np.where(above >= 0, above, outermost[level])
    lookups = ctx.events_matching(_LOOKUP)
    working = _working(ctx)
    # What belongs to each region and to none inside it.
    inner = np.flatnonzero((nearest >= 0) & ~within)
    inner = inner[np.argsort(nearest[inner], kind="stable")]
    places = ctx.place[regions]
    first = np.searchsorted(nearest[inner], places, side="left")
    last = np.searchsorted(nearest[inner], places, side="right")
    nested = np.flatnonzero(within & (nearest >= 0))
    steps = ctx.step_of(regions)
    return [
        _call(
            ctx,
            int(regions[i]),
            int(tree.events[outermost[places[i]]]),
            int(steps[i]),
            tree.events[inner[first[i] : last[i]]],
            tree.events[nested[nearest[nested] == places[i]]],
            lookups,
            working,
        )
        for i in range(len(regions))
    ]


def _working(ctx: Context) -> Array:
    """bool (events,): ops that launch GPU work themselves or through what is inside them; in a trace without any, ATen's ops and
    the kernels of a compiled graph."""
    tree, trace = ctx.tree, ctx.trace
    out = np.zeros(len(trace), dtype=np.bool_)
    if len(ctx.launches.call):
        launching = np.zeros(len(tree.events), dtype=np.int64)
        launching[ctx.place[ctx.launches.call]] = 1
        wrapper = trace.names_where(lambda s: s.startswith(_WRAPPERS) or _REGION.match(s) is not None)
        out[tree.events] = (tree.totals(launching) > 0) & ~wrapper[trace.name[tree.events]]
    else:
        doing = trace.names_where(lambda s: s.startswith(("aten::", "## Call CompiledFxGraph")))
        out[tree.events] = doing[trace.name[tree.events]]
    return out


def _call(
    ctx: Context, region: int, outer: int, step: int, inner: Array, nested: Array, lookups: Array, working: Array
) -> RegionCall:
    trace = ctx.trace
    begin, end = int(trace.ts[region]), _end(ctx, region, inner, nested, lookups)
    op = inner[working[inner] & (trace.ts[inner] < end)]
    starts, ends = gaps(union(trace.ts[op], trace.end[op]), begin, end)
    before = lookups[(trace.lane[lookups] == trace.lane[region]) & (trace.end[lookups] <= begin)]
    if len(before) and begin - int(trace.end[before[-1]]) <= int(trace.dur[before[-1]]) + (int(trace.end[region]) - begin):
        starts, ends = np.r_[trace.ts[before[-1]], starts], np.r_[np.int64(begin), ends]
    match = _REGION.match(trace.name_of(region))
    frame = int(match.group(1)) if match else -1
    known = set(op.tolist())
    outermost = op[[ctx.parent(int(e)) not in known for e in op]] if len(op) else op
    return RegionCall(region, outer, frame, step, (starts, ends), outermost)


def _end(ctx: Context, region: int, inner: Array, nested: Array, lookups: Array) -> int:
    """Where a region's own work ends: with the compiled graph before the call that breaks it, where other regions are inside."""
    trace = ctx.trace
    if not len(nested):
        return int(trace.end[region])
    inside = lookups[np.isin(lookups, inner)]
    stop = int(min(trace.ts[nested].min(), trace.ts[inside].min() if len(inside) else trace.ts[nested].min()))
    mine = inner[trace.end[inner] <= stop]
    wrapping = trace.names_where(lambda s: s.startswith(_WRAPPERS))[trace.name[mine]]
    mine = mine[wrapping] if wrapping.any() else mine
    return int(trace.end[mine].max()) if len(mine) else int(trace.ts[region])
