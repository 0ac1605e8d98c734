"""epilogue-fusion, good news: a bias or an activation is done inside the matrix product."""

from __future__ import annotations

import numpy as np

from lanewise.work.inputs import ITEM_BYTES

from .base import Clear, Draft, Outcome, Rule, bandwidth, count, duration, first_events, size
from .context import Context

__all__ = ["RULE"]

# "add" is the addend of addmm, which is read all the same. Worth a line when it saves at least this part of the step's GPU time.
_LEAST_SHARE = 0.01


def _check(ctx: Context) -> Outcome:
    fused = ctx.kernels_where(lambda k: k.kind in ("gemm", "conv") and k.epilogue not in (None, "none", "add"))
    seq = ctx.sequence
    places = np.flatnonzero(fused[seq.rows])
    if not len(places):
        return Clear()
    saved = 0.0
    for place in places:
        product = seq.op(int(place)).product
        if product is not None:
            parts = len((ctx.kernel(int(seq.rows[place])).epilogue or "").split("+"))
            saved += 2 * parts * product.elements * ITEM_BYTES.get(product.a.dtype or "", 2)
    saved_ns = ctx.memory_ns(saved)
    total = float(ctx.gpu_ns[ctx.rows].sum())
    if saved_ns is None or saved_ns < _LEAST_SHARE * total:
        return Clear()
    largest = places[np.argsort(-seq.ns[places], kind="stable")]
    kinds = sorted({ctx.kernel(int(seq.rows[p])).epilogue or "" for p in places})
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(places))),
                "epilogues": ", ".join(kinds),
                "bytes": size(ctx.per_step(saved)),
                "saved": duration(ctx.per_step(saved_ns)),
                "rate": bandwidth(ctx.device.memory_bandwidth if ctx.device is not None else None),
            },
            None,
            None,
            first_events(ctx.gpu_event[seq.rows[largest]]),
            good=True,
        )
    ]


RULE = Rule(
    id="epilogue-fusion",
    precedence=90,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Epilogues inside matmuls",
        "title": "Bias or activation done inside matmuls: {saved} saved a step",
        "text": "Matmuls that apply {epilogues} before they store their result: {kernels} a step. As ops of their own these would read and "
        "write {bytes} more, {saved} at {rate}.",
        "fix": "Nothing to do.",
        "doc_finds": "Kernels of matmuls and convolutions whose name says that they apply a bias, an activation or a scale before "
        "they store the result.",
        "doc_why": "The result is still in registers: adding a bias there is free, while an op of its own reads and writes the whole result.",
        "doc_fix": "F.linear and nn.Linear with a bias do it by themselves; torch._addmm_activation and torch.compile also fuse ReLU and GELU.",
        "doc_fine": "This is good news: there is nothing to fix.",
        "doc_measured": "Twice the bytes of the result for each part of the epilogue, at the card's memory bandwidth; shown from 1 % of the "
        "GPU time on.",
    },
)
