"""exposed-communication: collectives during which the GPU computes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import clipped, intersection, length, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context

__all__ = ["RULE"]

Array = npt.NDArray[Any]


def _check(ctx: Context) -> Outcome:
    communication = ctx.rows[ctx.is_kind("communication")[ctx.rows]]
    if not len(communication):
        return Clear()
    compute = ctx.rows[ctx.is_kind("compute")[ctx.rows]]
    shown = union(ctx.gpu.ts[communication], ctx.gpu.end[communication])
    working = union(ctx.gpu.ts[compute], ctx.gpu.end[compute])
    total, hidden = length(shown), length(intersection(shown, working))
    exposed = np.array([_exposed(ctx, int(r), working) for r in communication])
    order = communication[np.argsort(-exposed, kind="stable")]
    step = ctx.replay.real_ns if ctx.replay is not None else None
    cost = ctx.per_step(total - hidden)
    return [
        Draft(
            {
                "exposed": duration(cost),
                "total": duration(ctx.per_step(total)),
                "share": percent(cost / step if step else None),
                "calls": count(ctx.per_step(len(communication))),
                "name": ctx.trace.name_of(int(ctx.gpu_event[order[0]])).split("(")[0],
            },
            Change(aside=communication),
            cost,
            first_events(ctx.gpu_event[order]),
            confidence="medium",
        )
    ]


def _exposed(ctx: Context, row: int, working: tuple[Array, Array]) -> int:
    begin, end = int(ctx.gpu.ts[row]), int(ctx.gpu.end[row])
    return end - begin - length(clipped(working, begin, end))


RULE = Rule(
    id="exposed-communication",
    precedence=40,
    needs=("gpu_events",),
    check=_check,
    english={
        "name": "Exposed communication",
        "title": "{exposed} of communication a step that no compute hides ({share})",
        "text": "{calls} collectives take {total} a step; during {exposed} of it this GPU computes nothing. The longest exposed one "
        "is {name}. Waiting for a slower rank counts as communication here.",
        "fix": "Overlap it: larger DDP buckets started earlier (bucket_cap_mb, gradient_as_bucket_view), FSDP prefetch "
        "(forward_prefetch, limit_all_gathers), async_op=True with the wait later; compare the ranks for waiting.",
        "doc_finds": "Time in collectives on a GPU during which none of its compute kernels run.",
        "doc_why": "The step is longer by it. Collectives on a stream of their own could run beside compute.",
        "doc_fix": "DDP: tune `bucket_cap_mb`, `static_graph=True`, avoid `find_unused_parameters`. FSDP: `forward_prefetch=True`, "
        "`backward_prefetch=BACKWARD_PRE`. By hand: `work = dist.all_reduce(t, async_op=True)`, compute, then `work.wait()`. "
        "Less to send: gradient compression, bf16 reduction, accumulation with `no_sync()`.",
        "doc_fine": "A last bucket or a small metric all-reduce at the end of the step cannot be hidden. Where a rank waits for "
        "another, the slower rank is the problem, not the network: see collective-wait.",
        "doc_measured": "Union of communication kernels less its intersection with the union of compute kernels; the saving is "
        "what the replayed step loses when communication runs beside everything else (an upper bound, hence medium confidence).",
    },
)
