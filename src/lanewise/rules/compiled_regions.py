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

from lanewise.analyses.compiler_names import REGION
from lanewise.model.intervals import Intervals, gaps, union

from .context import Context

__all__ = ["RegionCall", "region_calls"]

Array = npt.NDArray[Any]

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
    regions = ctx.in_steps(ctx.events_matching(REGION))
    if not len(regions):
        return []
    tree = ctx.tree
    within = np.isin(tree.events, regions)
    nearest = tree.nearest(within)
    outermost = np.where(within, np.arange(len(tree.events)), -1)
    for level in tree.levels()[1:]:
        above = outermost[tree.parent[level]]
        outermost[level] = np.where(above >= 0, above, outermost[level])
    # What belongs to each region and to none inside it.
    inner = np.flatnonzero((nearest >= 0) & ~within)
    inner = inner[np.argsort(nearest[inner], kind="stable")]
    nested = np.flatnonzero(within & (nearest >= 0))
    nested = nested[np.argsort(nearest[nested], kind="stable")]
    places = ctx.place[regions]
    mine, holds = (_slices(nearest[events], places) for events in (inner, nested))
    marks = _Marks(ctx)
    steps = ctx.step_of(regions)
    before = _lookup_before(ctx, regions)
    return [
        _call(
            marks,
            int(regions[i]),
            int(tree.events[outermost[places[i]]]),
            int(steps[i]),
            tree.events[inner[mine[0][i] : mine[1][i]]],
            tree.events[nested[holds[0][i] : holds[1][i]]],
            int(before[i]),
        )
        for i in range(len(regions))
    ]


def _slices(keys: Array, wanted: Array) -> tuple[Array, Array]:
    """Where each wanted key begins and ends among sorted ones."""
    return np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")


def _lookup_before(ctx: Context, regions: Array) -> Array:
    """int64 (regions,): event of the lookup that led to each: the last on its lane that ends before it, not far away; -1 for none."""
    trace = ctx.trace
    lookups = ctx.events_matching(_LOOKUP)
    out = np.full(len(regions), -1, dtype=np.int64)
    for lane in np.unique(trace.lane[regions]):
        rows = np.flatnonzero(trace.lane[regions] == lane)
        there = lookups[trace.lane[lookups] == lane]
        if not len(there):
            continue
        there = there[np.argsort(trace.end[there], kind="stable")]
        at = np.searchsorted(trace.end[there], trace.ts[regions[rows]], side="right") - 1
        found = there[np.maximum(at, 0)]
        near = trace.ts[regions[rows]] - trace.end[found] <= trace.dur[found] + trace.dur[regions[rows]]
        out[rows] = np.where((at >= 0) & near, found, -1)
    return out


class _Marks:
    """What kind of event each is: one that works, a lookup, a wrapper.

    Attributes:
        working: bool (events,): ops that launch GPU work themselves or through what is inside them; in a trace without any,
            ATen's ops and the kernels of a compiled graph.
        lookup, wrapper: bool (events,).
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        trace = ctx.trace
        self.working = _working(ctx)
        self.lookup = trace.names_where(lambda s: _LOOKUP.match(s) is not None)[trace.name]
        self.wrapper = trace.names_where(lambda s: s.startswith(_WRAPPERS))[trace.name]


def _working(ctx: Context) -> Array:
    """bool (events,): ops that launch GPU work themselves or through what is inside them; in a trace without any, ATen's ops and
    the kernels of a compiled graph."""
    tree, trace = ctx.tree, ctx.trace
    out = np.zeros(len(trace), dtype=np.bool_)
    if len(ctx.launches.call):
        launching = np.zeros(len(tree.events), dtype=np.int64)
        launching[ctx.place[ctx.launches.call]] = 1
        wrapper = trace.names_where(lambda s: s.startswith(_WRAPPERS) or REGION.match(s) is not None)
        out[tree.events] = (tree.totals(launching) > 0) & ~wrapper[trace.name[tree.events]]
    else:
        doing = trace.names_where(lambda s: s.startswith(("aten::", "## Call CompiledFxGraph")))
        out[tree.events] = doing[trace.name[tree.events]]
    return out


def _call(marks: _Marks, region: int, outer: int, step: int, inner: Array, nested: Array, lookup: int) -> RegionCall:
    ctx, trace = marks.ctx, marks.ctx.trace
    begin, end = int(trace.ts[region]), _end(marks, region, inner, nested)
    op = inner[marks.working[inner] & (trace.ts[inner] < end)]
    starts, ends = gaps(union(trace.ts[op], trace.end[op]), begin, end)
    if lookup >= 0:
        starts, ends = np.r_[trace.ts[lookup], starts], np.r_[np.int64(begin), ends]
    match = REGION.match(trace.name_of(region))
    frame = int(match.group(1)) if match else -1
    known = set(op.tolist())
    outermost = op[[ctx.parent(int(e)) not in known for e in op]] if len(op) else op
    return RegionCall(region, outer, frame, step, (starts, ends), outermost)


def _end(marks: _Marks, region: int, inner: Array, nested: Array) -> int:
    """Where a region's own work ends: with the compiled graph before the call that breaks it, where other regions are inside."""
    trace = marks.ctx.trace
    if not len(nested):
        return int(trace.end[region])
    stop = int(np.r_[trace.ts[nested], trace.ts[inner[marks.lookup[inner]]]].min())
    mine = inner[trace.end[inner] <= stop]
    wrapping = marks.wrapper[mine]
    mine = mine[wrapping] if wrapping.any() else mine
    return int(trace.end[mine].max()) if len(mine) else int(trace.ts[region])
