"""anomaly-detection: autograd checks each gradient for NaN and keeps the stack of each op."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.host_syncs import host_syncs
from lanewise.analyses.replay import Change
from lanewise.model.intervals import Intervals, length, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Array, Context

__all__ = ["RULE"]

_NODE = re.compile(r"^autograd::engine::evaluate_function: (?!torch::autograd::AccumulateGrad)")
_CHECKS = frozenset(["aten::isnan", "aten::_is_any_true", "aten::any", "aten::item", "aten::is_nonzero"])
# Anomaly mode tests the gradients of every node but those that only accumulate; a hook or two tests some.
_LEAST_CHECKED = 0.5
# What an op takes before it calls the next (checking its arguments, dispatching) where no stack is taken, as recorded.
_USUAL_NS = 10_000


def _check(ctx: Context) -> Outcome:
    checks = _gradient_checks(ctx)
    if not len(checks):
        return Clear()
    nodes = ctx.in_steps(ctx.events_matching(_NODE))
    checked = np.unique(ctx.tree.parent[ctx.place[ctx.called.event[checks]]])
    if not len(nodes) or len(checked) < _LEAST_CHECKED * len(nodes):
        return Clear()
    rows = np.flatnonzero(np.isin(ctx.called.of_row, checks))
    own, stacks = ctx.call_intervals(checks), _stacks(ctx)
    gone = union(np.r_[own[0], stacks[0]], np.r_[own[1], stacks[1]])
    syncs = ctx.trace.analysis(host_syncs)
    waits = syncs.waits[np.isin(syncs.call[syncs.site], checks)]
    return [
        Draft(
            {
                "nodes": count(ctx.per_step(len(checked))),
                "calls": count(ctx.per_step(len(checks))),
                "checking": duration(ctx.per_step(length(own))),
                "stacks": duration(ctx.per_step(length(stacks))),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone, waits=waits),
            ctx.per_step(length(gone)),
            first_events(ctx.called.event[checks]),
            symptoms=("host-sync", "python-overhead"),
        )
    ]


def _gradient_checks(ctx: Context) -> Array:
    """Calls in the steps directly below some of autograd's nodes that test what they computed, by number."""
    names = ctx.trace.names_where(lambda s: s in _CHECKS)
    calls = np.flatnonzero(names[ctx.trace.name[ctx.called.event]]) if len(ctx.called) else np.empty(0, dtype=np.int64)
    up = ctx.tree.parent[ctx.place[ctx.called.event[calls]]] if len(calls) else calls
    below = ctx.trace.names_where(lambda s: _NODE.match(s) is not None)[ctx.trace.name[ctx.tree.events[np.maximum(up, 0)]]]
    found = calls[(up >= 0) & below] if len(calls) else calls
    events = ctx.called.event[found]
    result: Array = found[np.isin(events, ctx.in_steps(events))].astype(np.int64)
    return result


def _stacks(ctx: Context) -> Intervals:
    """Time in which ops of the forward pass take the Python stack: between their start and what they call, beyond the usual."""
    trace, tree = ctx.trace, ctx.tree
    recorded = np.full(len(trace), -1, dtype=np.int64)
    recorded[trace.column("cpu_ops", "event")] = trace.column("cpu_ops", "sequence")
    first = np.full(len(tree.events), -1, dtype=np.int64)
    inner = np.flatnonzero(tree.parent >= 0)[::-1]
    first[tree.parent[inner]] = inner  # of several the first counts: they are in order
    graded = ctx.in_steps(tree.events[(recorded[tree.events] >= 0) & ctx.sequence.is_forward(tree.events)])
    below = first[ctx.place[graded]]
    until = np.where(below >= 0, trace.ts[tree.events[np.maximum(below, 0)]], trace.end[graded])
    begin = trace.ts[graded] + _USUAL_NS
    long = until > begin
    return union(begin[long], until[long])


RULE = Rule(
    id="anomaly-detection",
    precedence=12,
    needs=("gpu_events", "steps", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Anomaly detection is on",
        "title": "Autograd checks the gradients of {nodes} nodes a step for NaN, and waits for each answer",
        "text": "{calls} calls a step test gradients ({checking} of CPU time as recorded), and each op of the forward pass keeps its Python "
        "stack ({stacks}). That is torch.autograd.set_detect_anomaly(True) or detect_anomaly().",
        "fix": "Turn it off: torch.autograd.set_detect_anomaly(False), Trainer(detect_anomaly=False); on only to look for a NaN that is there.",
        "doc_finds": "`isnan`, a reduction and a read directly below half or more of autograd's nodes.",
        "doc_why": "Anomaly detection is for finding the op that makes a NaN. It takes the Python stack at each op of the forward pass, "
        "100 µs and more with a deep stack, and reads a value for each gradient of the backward pass, so that the CPU cannot run ahead.",
        "doc_fix": "with torch.autograd.detect_anomaly():   # around the step that fails, while looking for it\n    loss.backward()",
        "doc_fine": "While a NaN is looked for, in the steps in which it occurs.",
        "doc_measured": "GPU and CPU time of the tests and their waits, and in the forward pass the time between the start of an op that "
        "autograd records and what it calls, beyond 10 µs.",
    },
)
