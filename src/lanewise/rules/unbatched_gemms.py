"""unbatched-gemms: a Python loop that makes small products of one shape, which could be one batched product."""

from __future__ import annotations

import numpy as np

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .loops import Loop, batching, program_loops
from .sequence import Product, Sequence

__all__ = ["RULE"]


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    loops = [loop for loop in ctx.answer(program_loops) if loop.multiplies]
    if not loops:
        return Clear()
    seq = ctx.sequence
    change, now, after = batching(ctx, loops)
    longest = max(loops, key=lambda lo: lo.passes)
    product, place = _product_in(seq, longest)
    events = ctx.called.event[longest.calls]
    return [
        Draft(
            {
                "products": count(ctx.per_step(sum(lo.passes * _products(seq, lo) for lo in loops))),
                "passes": count(longest.passes),
                "shape": f"({product.m}, {product.k}) x ({product.k}, {product.n})",
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(after)),
                "cpu": duration(float(ctx.trace.end[events[-1]] - ctx.trace.ts[events[0]])),
            },
            change,
            ctx.per_step(now),
            [*first_events(events, 4), *first_events(ctx.gpu_event[seq.rows[np.flatnonzero(seq.call == longest.calls[0])]], 2)],
            fix_variant="picked" if longest.picks else "",
            confidence="high" if longest.picks else "medium",
            where=ctx.where(int(seq.owner[place])),
        )
    ]


def _product_in(seq: Sequence, loop: Loop) -> tuple[Product, int]:
    for i in np.flatnonzero(np.isin(seq.call, loop.calls[: loop.period])):
        p = seq.op(int(i)).product
        if p is not None:
            return p, int(i)
    raise AssertionError("a loop has a product")


def _products(seq: Sequence, loop: Loop) -> int:
    """Products in one pass."""
    inner = np.flatnonzero(np.isin(seq.call, loop.calls[: loop.period]))
    return len({int(seq.owner[i]) for i in inner if seq.op(int(i)).product is not None})


RULE = Rule(
    id="unbatched-gemms",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Matmuls in a loop",
        "title": "{products} matmuls a step in a loop, where a batched one would do",
        "text": "A loop of {passes} passes multiplies {shape} in each: {cpu} of CPU time as recorded, for {gpu} of GPU time a step. Batched, the "
        "GPU needs about {after} and the CPU one call.",
        "fix": "y = torch.bmm(torch.stack(a), torch.stack(b))",
        "fix_picked": "y = torch.bmm(a, b)   # the whole batch instead of a[i] @ b[i] in a loop; more dimensions: a @ b",
        "doc_finds": "Calls that launch work and repeat at least four times with a matmul of one shape in each pass, where the passes "
        "cannot build on each other: each picks the next part of a batch, or the result does not fit as the next operand.",
        "doc_why": "A small matmul occupies a few SMs for some microseconds, and each call costs the CPU more than that. One batched matmul "
        "fills the card with all of them in one launch.",
        "doc_fix": "y = torch.bmm(a, b)                      # (n, m, k) x (n, k, p)\n"
        "y = torch.einsum('nmk,nkp->nmp', a, b)   # the same\n"
        "y = F.linear(x, w.flatten(0, 1)).unflatten(-1, (n, p))  # one x, many weights",
        "doc_fine": "Passes of different sizes (mixtures of experts: grouped matmuls, `torch._grouped_mm`), or matmuls that fill the card "
        "each.",
        "doc_measured": "GPU time against one batched kernel for each op of the loop (arithmetic at 80 % of the dense peak or traffic at "
        "88 % of the bandwidth); CPU time from the end of the first pass to the end of the last. At most six launching calls make a pass: "
        "more would be a layer.",
    },
)
