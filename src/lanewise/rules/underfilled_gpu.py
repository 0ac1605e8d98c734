"""underfilled-gpu: long kernels with blocks for half the SMs or fewer."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.replay import Change

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import LAUNCH_NS

__all__ = ["RULE"]

# A kernel that takes two launches' time is more than a launch: its length is its work.
_LEAST_NS = 2 * LAUNCH_NS
# From half the SMs on, a kernel is one wave that is nearly full: what is missing is no more than the tail of any launch.
_LEAST_FILL = 2
# Less of the GPU time than this in such kernels is what every model has (small reductions, indexing).
_LEAST_SHARE = 0.05


def _check(ctx: Context) -> Outcome:
    sms = _multiprocessors(ctx)
    if sms is None:
        return NotChecked("no-device")
    rows = ctx.rows[ctx.is_kind("compute")[ctx.rows]]
    grid = [ctx.trace.column("gpu_ops", f"grid_{axis}")[rows].astype(np.int64) for axis in "xyz"]
    blocks = grid[0] * grid[1] * grid[2]
    known = np.minimum(np.minimum(grid[0], grid[1]), grid[2]) > 0
    few = known & (blocks * _LEAST_FILL <= sms) & (ctx.gpu_ns[rows] > _LEAST_NS)
    if not few.any():
        return Clear()
    if float(ctx.gpu_ns[rows[few]].sum()) < _LEAST_SHARE * float(ctx.gpu_ns[ctx.rows].sum()):
        return Clear()
    rows, blocks = rows[few], blocks[few]
    ns = ctx.gpu_ns[rows]
    new = np.maximum(ns * blocks / sms, LAUNCH_NS)
    _, inverse = np.unique(ctx.trace.name[ctx.gpu_event[rows]], return_inverse=True)
    top = int(np.bincount(inverse, weights=ns).argmax())
    mine = np.flatnonzero(inverse == top)
    longest = np.r_[mine[np.argsort(-ns[mine], kind="stable")], np.argsort(-ns, kind="stable")]
    first = int(rows[longest[0]])
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(rows))),
                "gpu": duration(ctx.per_step(float(ns.sum()))),
                "kernel": ctx.kernel(first).label(),
                "blocks": count(int(np.median(blocks[mine]))),
                "sms": count(sms),
            },
            Change(gpu=dict(zip(rows.tolist(), new.astype(int).tolist(), strict=True))),
            ctx.per_step(float(ns.sum())),
            first_events(ctx.gpu_event[rows[longest]]),
            confidence="low",
            where=ctx.where(int(ctx.owner[first])) if ctx.owner[first] >= 0 else None,
        )
    ]


def _multiprocessors(ctx: Context) -> int | None:
    used = np.unique(ctx.trace.column("gpu_ops", "device"))
    sms = ctx.trace.device(int(used[0])).sms if len(used) else None
    return sms or (ctx.device.sms if ctx.device is not None else None)


RULE = Rule(
    id="underfilled-gpu",
    precedence=80,
    general=True,
    needs=("gpu_events",),
    check=_check,
    english={
        "name": "Underfilled GPU",
        "title": "Kernels that leave half the GPU idle or more: {gpu} a step",
        "text": "They have at most half as many blocks as the card has SMs ({kernel}: {blocks} blocks on {sms} SMs); kernels a step: {kernels}. Spread "
        "over all SMs the same work would take a fraction of the time.",
        "fix": "More work per launch: a larger batch, several inputs at once, or a kernel that splits the reduction (split-k, "
        "FlashDecoding).",
        "doc_finds": "Compute kernels with at most half as many blocks as the card has multiprocessors that take at least twice as long as a launch and together 5 % "
        "of the GPU time.",
        "doc_why": "A block runs on one SM. A kernel of 16 blocks uses 16 of 132 SMs, however long it takes.",
        "doc_fix": "Raise the batch size, or process several sequences at once; for one long reduction use an op that splits it.",
        "doc_fine": "Where latency counts and there is no more work to do, or where other streams fill the rest of the card.",
        "doc_measured": "Each such kernel's time times its blocks over the SMs, but no less than a launch. The work is taken to divide "
        "freely, which it may not: the saving is an upper bound. Collectives, which use few SMs on purpose, are left out.",
    },
)
