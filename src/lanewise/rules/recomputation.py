"""recomputation: activation checkpointing runs the forward pass again inside the backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import Intervals, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Ops that autograd records inside the backward pass are a forward pass again, or a backward pass that is differentiated itself
# (create_graph=True). The first repeats calls of the forward pass of the same step, the second mostly does not.
_LEAST_REPEATED = 0.5
_MOST_NAMED = 5


def _check(ctx: Context) -> Outcome:
    calls = _again(ctx)
    if not len(calls):
        return Clear()
    rows = np.flatnonzero(np.isin(ctx.called.of_row, calls))
    gone = _spent(ctx, calls)
    events = ctx.called.event[calls]
    gpu = float(ctx.gpu_ns[rows].sum())
    everything = float(ctx.gpu_ns[ctx.rows].sum())
    names, n = np.unique(ctx.trace.name[events[ctx.called.kernels[calls] > 0]], return_counts=True)
    most = [ctx.trace.strings[names[i]] for i in np.argsort(-n, kind="stable")[:_MOST_NAMED]]
    return [
        Draft(
            {
                "calls": count(ctx.per_step(len(calls))),
                "ops": ", ".join(most),
                "gpu": duration(ctx.per_step(gpu)),
                "share": percent(gpu / everything if everything else None),
                "cpu": duration(ctx.per_step(float((gone[1] - gone[0]).sum()))),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone),
            ctx.per_step(gpu),
            first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]]),
            confidence="medium",
            where=ctx.where(int(events[0])),
        )
    ]


def _spent(ctx: Context, calls: Array) -> Intervals:
    """CPU time from the start of each of autograd's nodes to the end of the last op that it repeats, Python included."""
    events = ctx.called.event[calls]
    node = ctx.sequence.nodes_around(events)
    first = np.flatnonzero(np.r_[True, np.diff(node) != 0])
    last = np.r_[first[1:], len(node)] - 1
    begin = np.where(node[first] >= 0, ctx.trace.ts[np.maximum(node[first], 0)], ctx.trace.ts[events[first]])
    return union(begin, ctx.trace.end[events[last]])


def _again(ctx: Context) -> Array:
    """Calls of the steps, by number, that autograd's engine makes with gradients on: a forward pass."""
    event = ctx.called.event
    if not len(event):
        return np.empty(0, dtype=np.int64)
    recorded = np.full(len(ctx.trace), -1, dtype=np.int64)
    recorded[ctx.trace.column("cpu_ops", "event")] = ctx.trace.column("cpu_ops", "sequence")
    step = ctx.step_of(event)
    forward = ctx.sequence.is_forward(event)
    counted = (recorded[event] >= 0) & np.isin(step, ctx.step_numbers if len(ctx.steps) else [-1])
    again = np.flatnonzero(counted & ~forward)
    # The same op with the same inputs in the same step's forward pass.
    width = int(ctx.input_row[event].max(initial=0)) + 2
    key = (ctx.trace.name[event].astype(np.int64) * width + ctx.input_row[event] + 1) * (len(ctx.steps) + 2) + step
    repeated = np.isin(key[again], key[forward])  # autograd does not record a checkpointed forward pass
    return again if len(again) and repeated.mean() >= _LEAST_REPEATED else np.empty(0, dtype=np.int64)


RULE = Rule(
    id="recomputation",
    precedence=35,
    needs=("gpu_events", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Forward pass computed again",
        "title": "Checkpointing computes {calls} ops again in the backward pass: {gpu} of GPU time a step",
        "text": "{share} of the step's GPU time and {cpu} of CPU time as recorded repeat what the forward pass had computed ({ops}), "
        "since its results were not kept. That buys memory; the trace does not tell whether the memory is needed.",
        "fix": "Without it where memory allows (torch.cuda.max_memory_allocated() against the card's); else for some of the layers only, "
        "or `create_selective_checkpoint_contexts`, which keeps the results of matmuls and attention and repeats the cheap ops.",
        "doc_finds": "Ops inside autograd's backward pass that autograd records in their turn, and that the forward pass of the same step "
        "called too: `torch.utils.checkpoint`, `gradient_checkpointing_enable()` and their like.",
        "doc_why": "A checkpointed layer keeps its input only, and computes the rest again when its backward pass comes: a forward pass more, "
        "a quarter of the step and more.",
        "doc_fix": "model.gradient_checkpointing_disable()              # Hugging Face\n\n"
        "for i, layer in enumerate(layers):                   # every other layer\n"
        "    x = checkpoint(layer, x, use_reentrant=False) if i % 2 else layer(x)\n\n"
        "context = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default, torch.ops.aten.addmm.default])\n"
        "x = checkpoint(layer, x, use_reentrant=False, context_fn=context)",
        "doc_fine": "Where the batch does not fit without it, or a larger batch pays for it.",
        "doc_measured": "GPU time of all such calls, and CPU time from the start of autograd's node to the last of them. What keeping the "
        "inputs costs in the forward pass (hooks at each saved tensor) is not counted. Ops of a backward pass that is differentiated itself (`create_graph=True`) are "
        "recorded by autograd too; they are told by not being in the forward pass, and not counted.",
    },
)
