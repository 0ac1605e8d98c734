"""compiled-fusion, good news: what torch.compile fused, and what that saved."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.id_sets import first_places
from lanewise.work.inputs import ITEM_BYTES

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .sequence import Op

__all__ = ["RULE"]

# Names in a kernel that stand for no pass over memory of their own.
_VIEWS = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "alias",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "detach",
        "as_strided",
        "lift_fresh_copy",
        "clone",
    ]
)


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    passes = np.zeros(len(ctx.gpu_event), dtype=np.int64)
    codes, first, inverse = first_places(ctx.trace.name[ctx.gpu_event])
    if len(codes):
        passes = np.array([_passes(ctx, row) for row in first.tolist()], dtype=np.int64)[inverse]
    places = np.flatnonzero(passes[seq.rows] > 1)
    if not len(places):
        return Clear()
    operations = passes[seq.rows[places]]
    moved = np.array([_largest_bytes(op) for op in seq.ops])[seq.op_of[places]]
    saved = float(((operations - 1) * 2 * moved)[moved > 0].sum())
    known = bool((moved > 0).any())
    largest = places[np.argsort(-seq.ns[places], kind="stable")]
    kernel = ctx.kernel(int(seq.rows[largest[0]]))
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(places))),
                "operations": count(ctx.per_step(float(operations.sum()))),
                "example": ", ".join(o for o in kernel.fused_ops if o not in _VIEWS),
                "gpu": duration(ctx.per_step(float(seq.ns[places].sum()))),
                "bytes": size(ctx.per_step(saved) if known else None),
                "saved": duration(ctx.memory_ns(ctx.per_step(saved)) if known else None),
            },
            None,
            None,
            first_events(ctx.gpu_event[seq.rows[largest]]),
            variant="shapes" if known and ctx.device is not None else "",
            good=True,
        )
    ]


def _passes(ctx: Context, row: int) -> int:
    """Operations of a fused kernel that would each be a pass over memory."""
    return len([o for o in ctx.kernel(row).fused_ops if o not in _VIEWS])


def _largest_bytes(op: Op) -> float:
    """Bytes of the largest tensor of a generated kernel: what each of its operations would read or write."""
    return max((t.stored * ITEM_BYTES.get(t.dtype or "", 4) for t in op.tensors), default=0.0)


RULE = Rule(
    id="compiled-fusion",
    precedence=90,
    needs=("gpu_events", "launches"),
    check=_check,
    english={
        "name": "Fused by torch.compile",
        "title": "torch.compile fused {operations} operations, kernels a step: {kernels}",
        "text": "The longest does {example} in one pass. All of them take {gpu} a step.",
        "text_shapes": "The longest does {example} in one pass. All of them take {gpu} a step; one by one the operations would move {bytes} "
        "more, {saved} at the memory bandwidth.",
        "fix": "Nothing to do.",
        "doc_finds": "Kernels that Inductor generated, and the operations in their names, views left out.",
        "doc_why": "Each operation that is fused into a kernel saves writing its result to memory and reading it back.",
        "doc_fix": "model = torch.compile(model)  # and ops that still run outside it",
        "doc_fine": "This is good news: there is nothing to fix.",
        "doc_measured": "For each operation beyond the first, writing and reading the largest tensor of its kernel once, at the card's memory "
        "bandwidth.",
    },
)
