"""profiler-overhead: the profiler's own time within the steps."""

from __future__ import annotations

import numpy as np

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context

__all__ = ["RULE"]

# The profiler marks time that it spent on itself (buffer requests, flushes). Below this share of the recorded steps it
# changes no conclusion: steps vary by more.
LEAST_SHARE = 0.02


def _check(ctx: Context) -> Outcome:
    events = ctx.in_steps(ctx.trace.rows("overhead")) if len(ctx.steps) else ctx.trace.rows("overhead")
    if not len(events):
        return Clear()
    spent = int(ctx.trace.dur[events].sum())
    whole = int(ctx.steps.time_ns[ctx.step_numbers].sum()) if len(ctx.steps) else _span(ctx)
    if not whole or spent < LEAST_SHARE * whole:
        return Clear()
    order = events[np.argsort(-ctx.trace.dur[events], kind="stable")]
    slots = {"spent": duration(spent), "times": count(len(events)), "share": percent(spent / whole)}
    return [Draft({**slots, "name": ctx.trace.name_of(int(order[0]))}, None, ctx.per_step(spent), first_events(order))]


def _span(ctx: Context) -> int:
    span = ctx.trace.span
    return span[1] - span[0] if span else 0


RULE = Rule(
    id="profiler-overhead",
    precedence=90,
    general=True,
    check=_check,
    english={
        "name": "Profiler overhead",
        "title": "The profiler spent {spent} on itself ({share} of the recorded steps)",
        "text": "{times} times it stopped the program for its own work, the longest for {name}. It is not part of the real step.",
        "fix": "Record fewer steps or less per event (no stacks, no shapes); a longer warm-up keeps buffer requests out.",
        "doc_finds": "Time that the profiler marks as its own (category `overhead`) within the steps.",
        "doc_why": "It lengthens the recorded step, and gaps under it look like an idle GPU; the real step does not have it.",
        "doc_fix": "Use a schedule with warm-up, record few steps, leave stacks and shapes out unless needed. `lanewise record` "
        "times the step outside the profiler, so that figures are in real time.",
        "doc_fine": "A single buffer request outside the steps, or overhead below 2 % of them.",
        "doc_measured": "Sum of the `overhead` events that begin within the steps, over the steps' recorded time; reported from "
        "2 % on, since steps vary by about that much.",
    },
)
