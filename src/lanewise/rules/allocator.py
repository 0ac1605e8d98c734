"""allocator: steady steps take memory from the driver and give it back."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.cpu_activity import RELEASE, allocation_calls
from lanewise.analyses.replay import Change
from lanewise.model.intervals import length

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, percent
from .context import Array, Context

__all__ = ["RULE"]

_HOST = re.compile(r"Host")


def _check(ctx: Context) -> Outcome:
    calls = allocation_calls(ctx.trace)
    calls = calls[np.isin(ctx.trace.lane[calls], ctx.lanes)]
    if not len(calls):
        return Clear()
    if len(ctx.steps) < 2:
        return NotChecked("one-step")
    calls = ctx.in_steps(calls)
    # A cache that still grows allocates in a step or two; what at least half of the steps do is no warm-up.
    busy = np.unique(ctx.step_of(calls))
    if not len(calls) or 2 * len(busy) < len(ctx.step_numbers) or (len(busy) < 2 and len(ctx.step_numbers) > 1):
        return Clear()
    frees = ctx.trace.names_where(lambda s: RELEASE.search(s) is not None)[ctx.trace.name[calls]]
    waits = _waits(ctx, calls[frees])
    gone = ctx.intervals(calls)
    spent = length(ctx.intervals(np.r_[calls, waits]))
    variant = _variant(ctx, calls, frees)
    order = calls[np.argsort(-ctx.trace.dur[calls], kind="stable")]
    recorded = float(ctx.steps.time_ns[ctx.step_numbers].sum())
    return [
        Draft(
            {
                "mallocs": count(ctx.per_step(int((~frees).sum()))),
                "frees": count(ctx.per_step(int(frees.sum()))),
                "spent": duration(ctx.per_step(spent)),
                "share": percent(spent / recorded if recorded else None),
                "name": ctx.trace.name_of(int(order[0])),
            },
            Change(cpu=gone, waits=waits if len(waits) else None),
            ctx.per_step(spent),
            first_events(order),
            variant=variant,
            where=ctx.where(int(order[0])),
        )
    ]


def _waits(ctx: Context, frees: Array) -> Array:
    """Synchronisations that the allocator makes directly before it gives memory back."""
    calls = ctx.trace.rows("cuda_runtime", "cuda_driver")
    out = []
    for lane in np.unique(ctx.trace.lane[frees]):
        mine = calls[ctx.trace.lane[calls] == lane]
        before = np.searchsorted(mine, frees[ctx.trace.lane[frees] == lane]) - 1
        out.append(mine[before[before >= 0]])
    found = np.concatenate(out) if out else np.empty(0, dtype=np.int64)
    return np.intersect1d(found, ctx.blocking)


def _variant(ctx: Context, calls: Array, frees: Array) -> str:
    """empty_cache: memory is given back outside any op; retry: within an op, to make room; pinned: host memory; else growth."""
    host = ctx.trace.names_where(lambda s: _HOST.search(s) is not None)[ctx.trace.name[calls]]
    if 2 * int(ctx.trace.dur[calls[host]].sum()) > int(ctx.trace.dur[calls].sum()):
        return "pinned"
    outside = ctx.called.of_event[calls[frees]] < 0
    if not len(outside):
        return "growth"
    return "" if 2 * int(outside.sum()) >= len(outside) else "retry"


RULE = Rule(
    id="allocator",
    precedence=12,  # what the driver takes is nobody else's, though it happens inside their ops
    needs=("steps", "launches"),
    check=_check,
    english={
        "name": "Memory taken from the driver in every step",
        "title": "{frees} frees and {mallocs} allocations at the driver per step: {spent}",
        "title_growth": "{mallocs} allocations at the driver per step: {spent}",
        "title_retry": "GPU memory is full: {frees:free} and {mallocs:allocation} per step",
        "title_pinned": "Pinned memory is allocated in every step: {spent}",
        "text": "The cache is emptied in every step, and filled again: {name} and the like take {spent} per step ({share} of it). A free "
        "waits for the GPU.",
        "text_growth": "PyTorch's cache has no block that fits, step after step: {spent} per step ({share} of it) in {name} and the like. "
        "Sizes vary, or memory leaks.",
        "text_retry": "An allocation fails, cached blocks are given back, and it is tried again: {spent} per step ({share} of it), with "
        "the GPU drained each time.",
        "text_pinned": "{name} and the like take {spent} per step ({share} of it): the operating system locks the pages one by one.",
        "fix": "Delete `torch.cuda.empty_cache()` from the loop: freed memory stays in PyTorch's cache and is used again. It never makes "
        "room for PyTorch itself.",
        "fix_growth": "Pad inputs to a few sizes, or set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; see what grows with "
        "`torch.cuda.memory._record_memory_history()`.",
        "fix_retry": "Leave room: a smaller batch, activation checkpointing, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` against "
        "fragmentation.",
        "fix_pinned": "Allocate pinned buffers once (`torch.empty(..., pin_memory=True)`) and copy into them, or let "
        "`DataLoader(pin_memory=True)` do it in its own thread.",
        "doc_finds": "`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and their relatives (HIP, virtual memory) in steps after the first.",
        "doc_why": "PyTorch keeps freed GPU memory, so that a steady step needs nothing from the driver. A driver allocation takes 50 µs "
        "to some ms, a free waits until the GPU is idle.",
        "doc_fix": "`torch.cuda.empty_cache()` helps other processes on the card, never this one; call it rarely, if at all. Where sizes "
        "vary, pad them to a few values, or `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. Where memory is full, use less: the "
        "allocator frees and tries again in every step before it gives up.",
        "doc_fine": "The first steps fill the cache; a longer input later takes more once.",
        "doc_measured": "The steps are replayed without these calls and without the synchronisation directly before a free. Reported "
        "when at least half of the steps after the first make them, and more than one.",
    },
)
