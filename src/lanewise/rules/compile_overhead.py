"""compile-overhead: guards and wrappers of a compiled region cost more than its fusion saves."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.kernels import decode
from lanewise.model.intervals import length, union

from .base import Clear, Draft, Outcome, Rule, count, duration
from .compiled_regions import RegionCall, region_calls
from .context import Context

__all__ = ["RULE"]

# CPU time of one more eager op outside the profiler: ATen dispatch and a launch take 4 to 8 us on current hosts (torch 2.11:
# 5.3 us a pointwise op).
EAGER_OP_NS = 6_000


def _check(ctx: Context) -> Outcome:
    calls = ctx.answer(region_calls)
    if not calls:
        return Clear()
    overhead = union(np.concatenate([c.overhead[0] for c in calls]), np.concatenate([c.overhead[1] for c in calls]))
    more_ops = sum(_ops_if_eager(ctx, c) for c in calls)
    extra = ctx.per_step(more_ops * EAGER_OP_NS)
    if _unfused_gpu_ns(ctx, calls) >= (ctx.replay.real_ns if ctx.replay else np.inf):
        return Clear()  # without fusion the GPU would be the limit
    cost = ctx.per_step(length(overhead))
    longest = sorted(calls, key=lambda c: -length(c.overhead))
    return [
        Draft(
            {"calls": count(ctx.per_step(len(calls))), "overhead": duration(cost), "saved": count(ctx.per_step(more_ops))},
            Change(cpu=overhead, extra_cpu_ns=extra),
            cost,
            [c.event for c in longest[:8]],
            confidence="medium",
            where=ctx.where(longest[0].event),
        )
    ]


def _ops_if_eager(ctx: Context, call: RegionCall) -> int:
    """How many more ops the region would be without fusion: a fused kernel of n operations is n ops."""
    return sum(max(len(decode(ctx.trace.name_of(int(op))).fused_ops) - 1, 0) for op in call.ops)


def _unfused_gpu_ns(ctx: Context, calls: list[RegionCall]) -> float:
    """GPU time per step if each fused kernel became one kernel of the same traffic for each of its operations."""
    total = float(ctx.gpu_ns[ctx.rows].sum())
    ops = np.array([op for call in calls for op in call.ops], dtype=np.int64)
    if not len(ops):
        return ctx.per_step(total)
    codes, inverse = np.unique(ctx.trace.name[ops], return_inverse=True)
    more = np.array([max(len(decode(ctx.trace.strings[c]).fused_ops) - 1, 0) for c in codes])[inverse]
    known = np.flatnonzero(ctx.launches.launch >= 0)
    own = np.zeros(len(ctx.tree.events), dtype=np.int64)
    np.add.at(own, ctx.place[ctx.launches.call[ctx.launches.launch[known]]], ctx.gpu_ns[known])
    return ctx.per_step(total + float((more * ctx.tree.totals(own)[ctx.place[ops]]).sum()))


RULE = Rule(
    id="compile-overhead",
    precedence=45,
    needs=("cpu_ops", "steps", "launches"),
    check=_check,
    english={
        "name": "Compile overhead",
        "title": "{overhead} a step go to guards and wrappers of compiled calls ({calls} a step)",
        "text": "Looking up the compiled code, checking its guards and unpacking its arguments cost more CPU time than fusion saves "
        "({saved} ops fewer a step), and the CPU is what bounds this step.",
        "fix": "Compile a larger part of the model (the wrapper is paid once a call), or leave torch.compile out for this one; "
        'mode="reduce-overhead" helps where inputs are static.',
        "doc_finds": "Compiled regions whose lookup, guards and wrappers take longer than the eager ops that they replace would.",
        "doc_why": "Each call of a compiled region costs 20 to 100 µs of CPU before its first kernel. For a region of a few tiny "
        "ops that is more than it saves.",
        "doc_fix": "Compile the whole model or the training step instead of single functions; fewer arguments and fewer guarded "
        "Python objects make guards cheaper. For tiny functions eager is faster.",
        "doc_fine": "Where the GPU bounds the step, CPU overhead costs nothing; for large regions fusion saves far more than 100 µs.",
        "doc_measured": "CPU time of the cache lookup and of the region outside the ops that launch work, less 6 µs for each eager "
        "op that a fused kernel stands for (dispatch and launch outside the profiler on current hosts).",
    },
)
