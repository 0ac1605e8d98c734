"""layout-copy: copies that only turn dimensions in memory, around products and convolutions that do not need it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context
from .layouts import feeds, is_layout_copy, undoes
from .sequence import Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_COPYING_CALLS = ("contiguous", "clone", "reshape", "flatten", "copy_")
_CONVOLUTIONS = ("conv", "slow_conv", "thnn_conv", "miopen_conv", "cudnn_conv", "mkldnn_conv", "_conv")


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    found = (_around_convolutions(ctx, seq), _before_products(ctx, seq), _in_convolutions_of_one(ctx, seq))
    return [draft for draft in found if draft is not None] or Clear()


def _around_convolutions(ctx: Context, seq: Sequence) -> Draft | None:
    """Transposes that the library makes around kernels that want the channels innermost."""
    of_convolution = np.array([op.name.startswith(_CONVOLUTIONS) for op in seq.ops], dtype=np.bool_)[seq.op_of]
    rows = np.flatnonzero((seq.kind == "transpose-layout") & of_convolution)
    if not len(rows):
        return None
    now = float(seq.ns[rows].sum())
    calls = np.unique(seq.owner[rows])
    convolutions = float(seq.ns[np.isin(seq.owner, calls)].sum())
    largest = rows[np.argsort(-seq.ns[rows], kind="stable")]
    launching = np.unique(ctx.launches.call[ctx.launches.launch[seq.rows[rows]]])
    return Draft(
        {
            "kernels": count(ctx.per_step(len(rows))),
            "calls": count(ctx.per_step(len(calls))),
            "gpu": duration(ctx.per_step(now)),
            "share": percent(now / convolutions),
            "ops": "",
        },
        Change(gpu=dict.fromkeys(seq.rows[rows].tolist(), 0), cpu=ctx.intervals(launching)),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="conv",
        fix_variant="conv" if (seq.called_name[rows] != "conv1d").mean() > 0.5 else "conv1d",
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _in_convolutions_of_one(ctx: Context, seq: Sequence) -> Draft | None:
    """Copies that convolutions make of turned inputs though their kernel is one position, so that a linear layer would do.

    The bias, which a matmul adds as it stores its result and these convolutions add in a kernel of their own, goes too.
    """
    named = ctx.trace.names_where(lambda s: s.removeprefix("aten::").startswith(("conv1d", "convolution")))
    candidates = np.flatnonzero(named[ctx.trace.name[ctx.called.event]])
    _, first, kind = np.unique(ctx.input_row[ctx.called.event[candidates]], return_index=True, return_inverse=True)
    fits = np.array([_takes_one_position(ctx, int(ctx.called.event[c])) for c in candidates[first]], dtype=np.bool_)
    if not fits.any():
        return None
    calls = candidates[fits[kind.reshape(-1)]]
    inside = np.flatnonzero(np.isin(seq.call, calls) & ~seq.compiled)
    turning = inside[_turning(seq)[seq.op_of[inside]]]
    calls = np.unique(seq.call[turning])
    bias = inside[np.isin(seq.call[inside], calls) & (seq.named[inside] == "add_")]
    rows = np.r_[turning, bias]
    if not len(turning):
        return None
    now = float(seq.ns[rows].sum())
    largest = rows[np.argsort(-seq.ns[rows], kind="stable")]
    launching = np.unique(ctx.launches.call[ctx.launches.launch[seq.rows[rows]]])
    return Draft(
        {
            "kernels": count(ctx.per_step(len(rows))),
            "calls": count(ctx.per_step(len(calls))),
            "gpu": duration(ctx.per_step(now)),
            "share": percent(now / float(seq.ns[np.isin(seq.call, calls)].sum())),
            "ops": "",
        },
        Change(gpu=dict.fromkeys(seq.rows[rows].tolist(), 0), cpu=ctx.intervals(launching)),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="linear",
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _takes_one_position(ctx: Context, event: int) -> bool:
    """Whether an op is a convolution, or the backward pass of one, in one dimension over all channels of one position at a time."""
    found = ctx.inputs(event)
    first = 1 if "backward" in ctx.trace.name_of(event) else 0
    if found is None or found.dims is None or len(found.dims) < first + 2:
        return False
    x, weight = found.dims[first], found.dims[first + 1]
    sizes = all(isinstance(n, int) for n in (*x, *weight)) and len(x) >= 2 and len(weight) == 3
    return bool(sizes and weight[2] == 1 and weight[1] == x[-2])


def _before_products(ctx: Context, seq: Sequence) -> Draft | None:
    """Copies that the program makes before products that take either layout, and pairs of copies that undo each other."""
    rows = _needless(ctx, seq)
    if not len(rows):
        return None
    now = float(seq.ns[rows].sum())
    largest = rows[np.argsort(-seq.ns[rows], kind="stable")]
    names = sorted({str(n) for n in seq.called_name[rows]})
    return Draft(
        {
            "kernels": count(ctx.per_step(len(rows))),
            "calls": count(ctx.per_step(len(rows))),
            "gpu": duration(ctx.per_step(now)),
            "share": percent(None),
            "ops": ", ".join(names),
        },
        Change(gpu=dict.fromkeys(seq.rows[rows].tolist(), 0), cpu=ctx.call_intervals(np.unique(seq.call[rows]))),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        confidence="medium",
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _turning(seq: Sequence) -> Array:
    """bool (ops,): which kinds of ops are copies to another order."""
    return np.array([is_layout_copy(op) for op in seq.ops], dtype=np.bool_)


def _needless(ctx: Context, seq: Sequence) -> Array:
    """Places of copies that nothing needs."""
    turning = _turning(seq)
    if not turning.any() or not len(ctx.called):
        return np.empty(0, dtype=np.int64)
    made = np.isin(seq.called_name.astype(str), _COPYING_CALLS) & ~seq.compiled
    places = np.flatnonzero(turning[seq.op_of] & made)
    needless = np.zeros(len(seq), dtype=np.bool_)
    working = np.flatnonzero(seq.kind != "memset")
    following = np.searchsorted(working, places, side="right")
    judged: dict[tuple[int, int], tuple[bool, bool]] = {}
    for place, at in zip(places.tolist(), following.tolist(), strict=True):
        after = int(working[at]) if at < len(working) else -1
        if after < 0 or seq.lane[after] != seq.lane[place] or seq.step[after] != seq.step[place]:
            continue
        key = (int(seq.op_of[place]), int(seq.op_of[after]))
        if key not in judged:
            one, other = seq.ops[key[0]], seq.ops[key[1]]
            judged[key] = (undoes(one, other), other.product is not None and feeds(one, other.product))
        undone, fed = judged[key]
        needless[place] |= undone or fed
        needless[after] |= undone
    return np.flatnonzero(needless)


RULE = Rule(
    id="layout-copy",
    precedence=30,
    needs=("gpu_events", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Layout copies",
        "title": "Copies that only turn dimensions in memory: {gpu} a step",
        "text": "{ops} copies a tensor to another order of dimensions right before a matmul that takes either order, or before a copy "
        "that turns it back; copies a step: {kernels}.",
        "fix": "Leave .contiguous() out: x.transpose(1, 2) @ w reads the transposed tensor as it is, at the same speed",
        "title_conv": "Convolutions turn NCHW to NHWC and back: {gpu} a step",
        "text_conv": "Around the convolutions ({calls} a step) kernels only change the layout: {kernels} a step, {share} of the convolutions' "
        "time. The tensor-core kernels want the channels innermost.",
        "fix_conv": "model = model.to(memory_format=torch.channels_last); x = x.to(memory_format=torch.channels_last)",
        "fix_conv1d": "1-D tensors have no channels-last format: keep them as (batch, channels, 1, length).to(memory_format=torch.channels_last) "
        "and use nn.Conv2d with kernels of (1, k)",
        "title_linear": "Convolutions of one position turn their input: {gpu} a step",
        "text_linear": "{calls} convolutions a step have a kernel of size 1: each output position takes one input position, as in a linear layer. But "
        "they copy a transposed input to their own layout and add the bias in a kernel of its own: {kernels} kernels a step, {share} of "
        "their time.",
        "fix_linear": "nn.Linear on the tensor before the transpose, with weight.squeeze(-1), in place of nn.Conv1d(..., 1): the result is the same",
        "doc_finds": "Kernels of cuDNN or MIOpen that turn tensors around a convolution, the same inside convolutions of kernel size 1, and `.contiguous()`, `.clone()` or `.reshape()` that "
        "copy to another order of dimensions just before a matmul or before a copy that undoes it.",
        "doc_why": "A turning copy reads or writes with large steps and reaches a fifth to a third of the memory bandwidth, so that it often "
        "takes longer than the matmul that it is for.",
        "doc_fix": "model = model.to(memory_format=torch.channels_last)\nx = x.to(memory_format=torch.channels_last)  # once, at the input: "
        "layers keep it\n"
        "self.proj = nn.Linear(width, hidden)            # on (batch, length, width); not nn.Conv1d(width, hidden, 1) on its transpose",
        "doc_fine": "Where heads are merged or split for a batched matmul, one copy is needed (fused attention needs none). Batch norm in "
        "training and ops without a channels-last kernel can become slower in that layout: measure.",
        "doc_measured": "The time of the copies, and of the calls that make them. A matmul is taken to read either order of its matrices "
        "at the same speed; a copy counts only where the op after it, on the same thread, is that matmul or the copy back.",
    },
)
