"""unfused-attention: attention written from products, a mask and a softmax."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .base import Clear, Draft, Outcome, Quantity, Rule, count, duration, first_events, size
from .context import Context
from .fused_attention import Site, fusion
from .limits import Attention
from .sequence import Op, Product, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# What lies between the products: scale, mask (made there or not), casts, copies, dropout.
_BETWEEN = (
    "elementwise",
    "cast-copy",
    "memcpy-dtod",
    "fill",
    "memset",
    "random",
    "transpose-layout",
    "gemm-aux",
    "fused-pointwise",
    "reduction",
)
# GPU ops between a product and the softmax: scale, two for a mask, a cast and copies leave room to spare.
_MOST_BETWEEN = 12
# Fused kernels take heads up to this size; a product of more is a layer, and what follows its softmax is no attention.
_MOST_DIM = 256
_MASKS = ("masked_fill", "masked_fill_", "where", "add", "add_", "baddbmm", "tril", "triu")
_BATCHED = ("bmm", "baddbmm")
_DROPOUT = ("dropout", "native_dropout", "_fused_dropout")


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    if not len(seq):
        return Clear()
    # Attention ops that are one call already (math backend, nested) are other rules' matter.
    softmax = np.flatnonzero(_softmaxes(seq) & ~seq.backward)
    softmax = softmax[_in_no_attention(seq, softmax)]
    sites: list[Site] = []
    for i in softmax:
        site = _site(ctx, seq, int(i))
        if site is not None and (not sites or site.places[0] > sites[-1].places[-1]):
            sites.append(site)
    lanes = sorted({int(ctx.trace.lane[s.first]) for s in sites})
    groups = [[s for s in sites if ctx.trace.lane[s.first] == lane] for lane in lanes]
    return [d for group in groups if (d := _draft(ctx, seq, group)) is not None] or Clear()


def _softmaxes(seq: Sequence) -> Array:
    """bool (n,): softmax kernels of any library, and the exponential of a softmax written out, where shapes show what it is of."""
    usual = np.array(
        [not ("log" in op.name or op.name.endswith(("backward", "backward_data"))) for op in seq.ops], dtype=np.bool_
    )
    written = np.array([op.name in ("exp", "exp_", "exp2") and bool(op.tensors) for op in seq.ops], dtype=np.bool_)
    result: Array = ((seq.kind == "softmax") & usual[seq.op_of]) | written[seq.op_of]
    return result


def _in_no_attention(seq: Sequence, rows: Array) -> Array:
    return np.array(["attention" not in str(name) for name in seq.called_name[rows]], dtype=np.bool_)


def _draft(ctx: Context, seq: Sequence, sites: list[Site]) -> Draft | None:
    found = fusion(ctx, sites)
    if found is None:
        return None
    site = sites[0]
    names = _names(ctx, seq, site.places)
    masked = any(name in _MASKS for name in names) or "baddbmm" in seq.named[site.places]
    dropout = any(name in _DROPOUT for name in names)
    return Draft(
        {
            "calls": count(ctx.per_step(found.sites)),
            "kernels": count(ctx.per_step(found.kernels)),
            "ops": ", ".join(names[:7]),
            "gpu": duration(ctx.per_step(found.now_ns)),
            "after": duration(ctx.per_step(found.after_ns)),
            **_scores(site.sizes),
        },
        found.change,
        ctx.per_step(found.now_ns),
        first_events(ctx.gpu_event[found.rows]),
        variant="" if site.sizes is None else "shapes",
        confidence="low" if site.sizes is None else "high",
        fix_variant="masked" if masked and not dropout else "dropout" if dropout else "",
        where=ctx.where(int(site.first)),
    )


def _names(ctx: Context, seq: Sequence, places: Array) -> list[str]:
    """The called ops in order; kernels of other libraries may be launched outside any, and are told by their kind."""
    named: dict[int, str] = {}
    for place in places.tolist():
        call = int(seq.call[place])
        known = ctx.trace.name_of(int(ctx.called.event[call])).removeprefix("aten::") if call >= 0 else str(seq.kind[place])
        named.setdefault(call if call >= 0 else -1 - place, known)
    return list(named.values())


def _scores(sizes: Attention | None) -> dict[str, Quantity | str]:
    if sizes is None:
        return {"scores": "", "shape": ""}
    n_bytes = sizes.heads * sizes.queries * sizes.keys * (4 if sizes.dtype == "fp32" else 2)
    return {"scores": size(n_bytes), "shape": f"{sizes.heads} x {sizes.queries} x {sizes.keys}"}


def _site(ctx: Context, seq: Sequence, i: int) -> Site | None:
    """The attention around a softmax: the product that made its scores, and the one that takes its result."""
    scores = seq.op(i).tensors[:1]
    elements = prod(scores[0].shape) if scores else None
    before, after = _product_near(seq, i, -1, elements), _product_near(seq, i, 1, elements)
    if before is None or after is None or seq.call[before] < 0 or seq.call[after] < 0:
        return None
    if seq.kind[i] != "softmax" and not {"sum", "div"} <= {n.rstrip("_") for n in seq.named[i:after]}:
        return None  # an exponential that is not divided by its sum
    sizes = None
    if scores or (seq.op(before).product and seq.op(after).product):
        sizes = _sizes(seq.op(before).product, seq.op(after).product, scores[0].shape if scores else None)
        if sizes is None:
            return None
    first, last = int(ctx.called.event[seq.call[before]]), int(ctx.called.event[seq.call[after]])
    return Site(first, last, _between(seq, before, after), sizes)


def _between(seq: Sequence, before: int, after: int) -> Array:
    """Places from the first GPU op of one place's call to the last of another's."""
    while before > 0 and seq.call[before - 1] == seq.call[before]:
        before -= 1
    while after + 1 < len(seq) and seq.call[after + 1] == seq.call[after]:
        after += 1
    return np.arange(before, after + 1)


def _sizes(qk: Product | None, pv: Product | None, scores: tuple[int, ...] | None) -> Attention | None:
    """What is computed, where the products fit each other and the scores (None where their shape is not recorded)."""
    if qk is None or pv is None or qk.a.dtype is None:
        return None
    if (qk.batch, qk.m, qk.n) != (pv.batch, pv.m, pv.k) if scores is None else len(scores) < 2 or qk.n != scores[-1]:
        return None
    if pv.k != qk.n or max(qk.k, pv.n) > _MOST_DIM:
        return None
    return Attention(qk.batch, qk.m, qk.n, qk.k, pv.n, qk.a.dtype)


def _product_near(seq: Sequence, i: int, way: int, elements: int | None) -> int | None:
    """Place of the next product before (`way` -1) or after (1) the softmax whose result or first operand has these elements.

    Without shapes any batched product will do: attention is batched over heads, a layer before a softmax is not.
    """
    for distance in range(1, _MOST_BETWEEN + 1):
        at = i + way * distance
        if not 0 <= at < len(seq) or seq.lane[at] != seq.lane[i] or seq.step[at] != seq.step[i]:
            return None
        op = seq.op(at)
        if seq.kind[at] in ("gemm", "gemv"):
            return at if _fits(op, way, elements) else None
        if op.name not in _BATCHED and seq.kind[at] not in _BETWEEN:
            return None
    return None


def _fits(op: Op, way: int, elements: int | None) -> bool:
    if elements is None:
        return op.name in _BATCHED
    p = op.product
    return p is not None and elements == (p.elements if way < 0 else p.batch * p.m * p.k)


RULE = Rule(
    id="unfused-attention",
    precedence=20,
    needs=("gpu_events", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Attention by hand",
        "title": "Attention runs as {kernels} kernels a step, not as one per call",
        "text": "{ops}: each writes all scores to memory or reads them back, {gpu} a step (calls: {calls}). A fused kernel never writes "
        "them and takes about {after} (told by the order of ops: shapes were not recorded).",
        "text_shapes": "{ops}: each writes or reads scores of {shape} ({scores}), {gpu} a step (calls: {calls}). A fused kernel never "
        "writes them and takes about {after}.",
        "fix": "y = F.scaled_dot_product_attention(q, k, v)",
        "fix_masked": "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)   # for a causal mask; any other: attn_mask=mask",
        "fix_dropout": "y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p if self.training else 0.0)   # or "
        "attn_mask=mask",
        "doc_finds": "A softmax (of any library, or written out as exp, sum and division) between two matmuls of one thread: the first "
        "writes what it reads, the second takes what it wrote, with nothing but scale, mask, casts, copies and dropout between them.",
        "doc_why": "Every op between the matmuls reads and writes a matrix of queries times keys for each head, which grows with the "
        "square of the length. FlashAttention keeps it on the chip, forward and backward.",
        "doc_fix": "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # q, k, v: (batch, heads, length, head size), any strides\n"
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)    # additive or boolean mask (True: keep)",
        "doc_fine": "Where the scores themselves are wanted (to return attention weights), or queries and keys are few.",
        "doc_measured": "All GPU time from the first matmul's call to the second's, and of the backward nodes that these ops made (by "
        "sequence number), against one fused kernel: the arithmetic of all scores at 30 % of the dense peak with heads of 64, 42 % of 128 "
        "(27 and 37 % backward), as cuDNN and FlashAttention reach on an H200. Whether a mask is causal the trace does not tell: no "
        "score is taken as masked.",
    },
)
