"""expanded-copy: tensors that are repeated in memory for an op that would have repeated them itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import Tensor

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .pointwise_chains import result_of
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Between the copy and the op that takes it lies at most the other copy (values after keys), a rotation of the queries (about six
# ops) and a mask; or a convolution with the layout changes around it, for a scale that was made ready first.
_NEAR = 12
# Ops with two operands that repeat the smaller one as they read it, at no cost.
_BROADCASTING = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "rsub",
        "pow",
        "maximum",
        "minimum",
        "where",
        "lerp",
        "addcmul",
        "addcdiv",
        "atan2",
        "fmod",
        "remainder",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "masked_fill",
        "logical_and",
        "logical_or",
        "bitwise_and",
        "bitwise_or",
    ]
)


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    repeating = np.array([_repeats(op) for op in seq.ops], dtype=np.bool_)
    if not len(ctx.called) or not repeating.any():
        return Clear()
    places = np.flatnonzero(repeating[seq.op_of] & (seq.call >= 0) & ~seq.compiled & ~seq.backward)
    taken = np.array([_taken_by(seq, int(i), repeating) for i in places], dtype=object)
    drafts = [_draft(ctx, seq, places[taken == variant], variant) for variant in ("keys", "broadcast")]
    return [draft for draft in drafts if draft is not None] or Clear()


def _draft(ctx: Context, seq: Sequence, places: Array, variant: str) -> Draft | None:
    if not len(places):
        return None
    largest = places[np.argsort(-seq.ns[places], kind="stable")]
    to, source = seq.op(int(largest[0])).tensors[:2]
    now = float(seq.ns[places].sum())
    return Draft(
        {
            "copies": count(ctx.per_step(len(places))),
            "gpu": duration(ctx.per_step(now)),
            "times": count(to.numel // max(source.stored, 1)),
            "shape": " x ".join(map(str, to.shape)),
            "bytes": size(float(to.stored_bytes) if to.dtype else None),
        },
        Change(gpu=dict.fromkeys(seq.rows[places].tolist(), 0), cpu=ctx.call_intervals(np.unique(seq.call[places]))),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="" if variant == "broadcast" else variant,
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _repeats(op: Op) -> bool:
    """Whether an op copies an expanded tensor (stride 0): each element is written several times."""
    if op.name != "copy_" or len(op.tensors) < 2:
        return False
    to, source = op.tensors[:2]
    same = to.numel == source.numel and to.dtype == source.dtype
    return same and source.strides is not None and 0 < source.stored < source.numel and source.stored > 1


def _taken_by(seq: Sequence, place: int, repeating: Array) -> str:
    """What takes the copy: ``keys`` for attention that knows shared heads, ``broadcast`` for a pointwise op, "" for others.

    Tensors are told apart by their sizes alone: an op with one operand as large as the copy takes the copy, unless another tensor
    of that size was made before and waits to be taken.
    """
    to = seq.op(place).tensors[0]
    waiting = _made_before(seq, place, to.numel, repeating)
    for i in range(place + 1, min(place + 1 + _NEAR, len(seq))):
        if seq.lane[i] != seq.lane[place] or seq.step[i] != seq.step[place]:
            return ""
        op = seq.op(i)
        full = [t for t in op.tensors if t.numel == to.numel]
        if repeating[seq.op_of[i]] or seq.kind[i] == "memset" or not full:
            continue
        if seq.kind[i] == "attention":
            return "keys" if len(to.shape) >= 3 else ""
        # A pointwise op with another operand as large as the copy has its result's size without it.
        if len(full) > 1:
            return "broadcast" if op.name.rstrip("_") in _BROADCASTING and _first_is_other(op, to) else ""
        if not waiting:
            return ""
    return ""


def _made_before(seq: Sequence, place: int, elements: int, repeating: Array) -> bool:
    """Whether the last ops before a copy made a tensor of its size that none of them has taken."""
    for i in range(place - 1, max(place - 1 - _NEAR, -1), -1):
        if seq.lane[i] != seq.lane[place] or seq.step[i] != seq.step[place]:
            return False
        op = seq.op(i)
        if repeating[seq.op_of[i]] or seq.kind[i] == "memset":
            continue
        made = result_of(op)
        if made is not None and made.numel == elements:
            return True
        if any(t.numel == elements for t in op.tensors):
            return False
    return False


def _first_is_other(op: Op, to: Tensor) -> bool:
    """Whether an op in place writes to something else than the copy: the copy may be what is worked on."""
    return not op.name.endswith("_") or op.tensors[0].shape != to.shape or op.tensors[0].strides != to.strides


RULE = Rule(
    id="expanded-copy",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Repeated in memory",
        "title": "Tensors written out {times} times before a pointwise op: {gpu} a step",
        "text": "{copies} copies a step repeat a smaller tensor in memory ({shape}, {bytes} in the largest case), and the op that takes it would "
        "have repeated it as it reads.",
        "fix": "Leave .contiguous(), .repeat() and .repeat_interleave() out: x + y.expand_as(x), or x + y with sizes of 1 where y repeats",
        "title_keys": "Keys and values repeated {times} times in memory: {gpu} a step",
        "text_keys": "{copies} copies a step repeat the keys and values for the heads that share them ({shape}, {bytes} in the largest case). "
        "Fused attention reads shared heads as they are.",
        "fix_keys": "F.scaled_dot_product_attention(q, k, v, is_causal=..., enable_gqa=True) on the keys and values before they are repeated "
        "(torch 2.5 and later); flash_attn_func takes fewer key heads as it is",
        "doc_finds": "Copies of expanded tensors (a stride of 0: `expand` with `contiguous` or `reshape`, `repeat`, `repeat_interleave`), where "
        "shapes were recorded, whose result goes to fused attention or to a pointwise op with another operand of the full size.",
        "doc_why": "The copy writes every element several times, and the next op reads all of them again. Attention kernels and pointwise "
        "kernels repeat by reading the same address.",
        "doc_fix": "y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)   # k, v with fewer heads than q\n"
        "x = x * scale[:, None, :]                                       # not scale.repeat(1, n, 1)",
        "doc_fine": "Where the copy is kept and changed later, or an op needs it in full (a convolution, `torch.cat`); those are not "
        "reported. Attention written as matmuls needs the repeated heads, or the queries grouped by `view`.",
        "doc_measured": "The GPU time of the copies, and the calls that make them; that the next op reads less is not counted.",
    },
)
