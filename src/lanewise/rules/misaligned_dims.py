"""misaligned-dims: a matrix product with a size that the fast kernels do not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import ITEM_BYTES, Tensor

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, percent
from .context import Context
from .limits import product_ns
from .sequence import Product, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Tensor-core kernels load 16 bytes at a time (TMA demands it on Hopper, vectorised loads before), so each row of a matrix must
# begin at a multiple of 16 bytes: 8 elements of 2 bytes.
_ALIGNMENT_BYTES = 16
# Large sizes are padded to a whole tile's width, which cuBLAS is tuned for; small ones to what the loads demand, since a tile
# would add more work than it saves.
_PAD, _LEAST_PAD = 64, 8
_LARGE = 512
# From this size on, and as the width of a result, it is most likely a vocabulary.
_VOCABULARY = 8192
# Well-shaped products stay within 15 % of what is expected of them; one that takes half as long again fell to another kernel.
_SLOW = 1.5


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    seq = ctx.sequence
    gemm = ctx.kernels_where(lambda k: k.kind in ("gemm", "gemm-aux", "gemv"))[seq.rows]
    new, odd = _new_times(ctx, seq, gemm)
    rows = np.flatnonzero(new < seq.ns)
    if not len(rows):
        return Clear()
    cost_of = np.bincount(seq.op_of[rows], weights=seq.ns[rows] - new[rows], minlength=len(seq.ops))
    worst = int(cost_of.argmax())
    product, size = seq.ops[worst].product, odd[worst]
    assert product is not None
    unit = _PAD if size >= _LARGE else _LEAST_PAD
    padded = -(-size // unit) * unit
    mine = rows[seq.op_of[rows] == worst]
    largest = rows[np.argsort(-seq.ns[rows], kind="stable")]
    now, after = float(seq.ns[rows].sum()), float(new[rows].sum())
    return [
        Draft(
            {
                "size": f"{size}",
                "padded": f"{padded}",
                "shape": f"({product.m}, {product.k}) x ({product.k}, {product.n})",
                "calls": count(ctx.per_step(len(np.unique(seq.owner[rows])))),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(after)),
                "share": percent(float(new[mine].sum()) / float(seq.ns[mine].sum())),
                "kernel": ctx.kernel(int(seq.rows[mine[np.argmax(seq.ns[mine])]])).name[:72],
            },
            Change(gpu={int(seq.rows[i]): int(new[i]) for i in rows}),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[largest]]),
            fix_variant="vocabulary" if size >= _VOCABULARY else "",
            where=ctx.where(int(seq.owner[largest[0]])),
        )
    ]


def _new_times(ctx: Context, seq: Sequence, gemm: Array) -> tuple[Array, dict[int, int]]:
    """(ns (n,): times with padded sizes, present ones where nothing would change; the size to pad by op)."""
    new = seq.ns.astype(np.float64)
    odd: dict[int, int] = {}
    calls = np.bincount(seq.op_of, weights=_first_of_owner(seq, gemm), minlength=len(seq.ops))
    present = np.bincount(seq.op_of, weights=np.where(gemm, seq.ns, 0), minlength=len(seq.ops))
    for number, op in enumerate(seq.ops):
        if not calls[number] or op.product is None:
            continue
        size = misaligned_size(op.product)
        work = ctx.work(int(seq.owner[np.flatnonzero(seq.op_of == number)[0]])) if size is not None else None
        if size is None or work is None or work.bytes is None:
            continue
        ns = product_ns(ctx, op.product.flops, work.bytes, op.product.a.dtype or "")
        mean = present[number] / calls[number]
        if ns is not None and mean > _SLOW * ns:
            odd[number] = size
            mine = gemm & (seq.op_of == number)
            new[mine] *= ns / mean
    return new, odd


def _first_of_owner(seq: Sequence, gemm: Array) -> Array:
    """1 at one product kernel of each op call, 0 elsewhere."""
    out = np.zeros(len(seq))
    chosen = np.flatnonzero(gemm)
    out[chosen[np.unique(seq.owner[chosen], return_index=True)[1]]] = 1
    return out


def misaligned_size(product: Product) -> int | None:
    """The size of a product that keeps rows of a matrix from beginning at multiples of 16 bytes; None where all do.

    Only for types that tensor cores take by 16 bytes: 2 bytes an element and less.
    """
    item = ITEM_BYTES.get(product.a.dtype or "", 8)
    if item > 2:
        return None
    unit = _ALIGNMENT_BYTES // item
    rows = [_row_length(product.a, product.k), _row_length(product.b, product.n), product.n]
    found = [r for r in rows if r % unit]
    # A row length that is none of the sizes belongs to a slice of a larger matrix.
    return max(found) if found else None


def _row_length(t: Tensor, width: int) -> int:
    """Elements from one row of a matrix to the next, whichever of its two dimensions lies in memory without gaps."""
    if t.strides is None or len(t.strides) < 2:
        return width
    outer, inner = t.strides[-2:]
    if 1 not in (outer, inner):
        return width
    return max(outer, inner) if min(t.shape[-2:]) > 1 else width


RULE = Rule(
    id="misaligned-dims",
    precedence=20,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Misaligned sizes",
        "title": "A dimension of {size} keeps matmuls off the fast kernels",
        "text": "{shape}: rows that do not begin at a multiple of 16 bytes, {share} of the speed of a padded matmul. Such matmuls "
        "take {gpu} a step (calls: {calls}); padded to {padded} about {after}.",
        "fix": "Pad the size of {size} to {padded}: a hidden size of {padded}, or input features padded with zeros.",
        "fix_vocabulary": "Pad {size} to {padded}: a vocabulary of {padded} in nn.Embedding and nn.Linear, unused entries at the end.",
        "doc_finds": "Matmuls of 2-byte types with a size or row length that is not a multiple of 8 elements (16 bytes), in "
        "kernels that take at least half as long again as a padded matmul would.",
        "doc_why": "Tensor-core kernels load 16 bytes at a time. Rows that begin elsewhere are read element by element by a kernel of an "
        "older generation (`align1`, `align2` in its name), five to ten times slower on Hopper.",
        "doc_fix": "vocab = 64 * math.ceil(vocab / 64)\nmodel.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64)  # transformers",
        "doc_fine": "Matmuls that memory bounds (few rows, as in decoding) and tiny ones: they take no longer than padded ones.",
        "doc_measured": "The matmul's time against its arithmetic at 80 % of the dense peak or its traffic at 88 % of the bandwidth, "
        "whichever is longer, plus the launch: what padded matmuls of the same size reach within 15 %.",
    },
)
