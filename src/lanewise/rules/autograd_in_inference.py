"""autograd-in-inference: a graph for backward is built in each step and never used."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.model.trace import MISSING

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context

__all__ = ["RULE", "TRAINING"]

# What building one autograd node and dropping it costs on the CPU: the same models timed with and without no_grad outside the
# profiler (torch 2.11) differ by 3.1 us a node; between hosts it is 1.5 to 5 us.
NODE_NS = 3_000
_NODE_LOW_NS, _NODE_HIGH_NS = 1_500, 5_000
_CASTS = ("aten::to", "aten::_to_copy")
TRAINING = re.compile(
    r"^autograd::engine::evaluate_function|^Optimizer\.(step|zero_grad)|Backward\d*$|^CompiledFunctionBackward"
)


def _check(ctx: Context) -> Outcome:
    events, sequence = ctx.trace.column("cpu_ops", "event"), ctx.trace.column("cpu_ops", "sequence")
    if len(ctx.events_matching(TRAINING)):
        return Clear()  # training: the graph is used
    # Autocast caches its copies of the weights with autograd on, whatever the mode around it: casts alone prove nothing.
    casts = ctx.trace.names_where(lambda s: s in _CASTS)[ctx.trace.name[events]]
    recorded = (sequence != MISSING) & (ctx.trace.column("cpu_ops", "forward_thread") <= 0) & ~casts
    nodes = ctx.in_steps(events[recorded])
    if not len(nodes):
        return Clear()
    step = ctx.step_of(nodes)
    numbers = sequence[recorded][np.isin(events[recorded], nodes)]
    n = len(np.unique(np.stack([step, numbers]), axis=1).T) / max(len(ctx.step_numbers), 1)
    return [
        Draft(
            {"nodes": count(n), "time": duration(n * NODE_NS)},
            Change(extra_cpu_ns=-n * NODE_NS),
            n * NODE_NS,
            first_events(nodes),
            confidence="medium",
            low=Change(extra_cpu_ns=-n * _NODE_LOW_NS),
            high=Change(extra_cpu_ns=-n * _NODE_HIGH_NS),
        )
    ]


RULE = Rule(
    id="autograd-in-inference",
    precedence=50,
    needs=("cpu_ops", "steps"),
    check=_check,
    english={
        "name": "Autograd in inference",
        "title": "{nodes} autograd nodes are built each step and never used",
        "text": "Ops record themselves for a backward pass, and this trace has none. Building and dropping the graph takes about "
        "{time} of CPU time a step, and keeps activations alive.",
        "fix": "If this is inference, run it under torch.inference_mode() (or torch.no_grad()).",
        "doc_finds": "Forward ops with autograd sequence numbers in a trace with no backward node and no optimizer.",
        "doc_why": "Each recorded op allocates a node and keeps its inputs: CPU time, and memory that grows with depth.",
        "doc_fix": "with torch.inference_mode():\n    y = model(x)",
        "doc_fine": "A trace of the forward part of a training step alone: the backward pass lies outside the window.",
        "doc_measured": "Distinct sequence numbers a step, at 3 µs a node (measured with and without no_grad outside the profiler; "
        "range 1.5 to 5 µs between hosts), counted only where the CPU bounds the step.",
    },
)
