"""Casts that the program asks for and does not need: undone right after, or of the same weights in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import ITEM_BYTES, Tensor

from .base import Draft, count, duration, first_events, size
from .context import Context
from .sequence import Op, Sequence

__all__ = ["CastPair", "asked_weights", "cast_pairs", "undone"]

Array = npt.NDArray[Any]

_FLOATING = ("fp64", "fp32", "bf16", "fp16")
# Calls by which a program casts. Those of autocast are recorded inside the op that they are made for.
_CASTING = ("to", "_to_copy", "copy_", "type_as", "float", "half", "bfloat16")
# Calls after a cast in which the op that takes it is looked for: views of it may come first.
_SOON = 3
# ATen computes these in fp32 whatever type they read: widening the input of one of them alone changes nothing.
_WIDE_INSIDE = ("elementwise", "softmax", "norm")


@dataclass(frozen=True, slots=True)
class CastPair:
    """Two casts of which the second undoes the first: places in the sequence, `op` that of the one op between them or -1."""

    there: int
    back: int
    op: int


def _asked(seq: Sequence) -> Array:
    """bool (n,): casts between floating types that are calls of the program's own."""
    cast = np.array([_is_cast(op) for op in seq.ops], dtype=np.bool_)
    result: Array = cast[seq.op_of] & np.isin(seq.called_name.astype(str), _CASTING) & ~seq.compiled
    return result


def cast_pairs(ctx: Context) -> list[CastPair]:
    """All pairs in the steps, in order."""
    seq = ctx.sequence
    places = np.flatnonzero(seq.kind != "memset")
    asked = _asked(seq)
    found: list[CastPair] = []
    last = -1
    for n in np.flatnonzero(asked[places]).tolist():
        if n > last and (pair := _pair(seq, places[n : n + 3], asked)) is not None:
            found.append(pair)
            last = n + (1 if pair.op < 0 else 2)
    return found


def _pair(seq: Sequence, places: Array, asked: Array) -> CastPair | None:
    """The pair that the first of some neighbouring places begins."""
    first = int(places[0])
    for n in (1, 2):
        if n >= len(places):
            return None
        back = int(places[n])
        if seq.lane[back] != seq.lane[first] or seq.step[back] != seq.step[first]:
            return None
        if asked[back]:
            between = int(places[1]) if n == 2 else -1
            fits = _undoes(seq.op(first), seq.op(back)) and (between < 0 or _wide_anyway(seq, first, between))
            return CastPair(first, back, between) if fits else None
    return None


def _is_cast(op: Op) -> bool:
    if op.name != "copy_" or len(op.tensors) < 2:
        return False
    to, source = op.tensors[:2]
    return to.numel == source.numel and to.dtype != source.dtype and to.dtype in _FLOATING and source.dtype in _FLOATING


def _undoes(first: Op, second: Op) -> bool:
    (to, source), (end, begin) = first.tensors[:2], second.tensors[:2]
    return (to.dtype, source.dtype, to.numel) == (begin.dtype, end.dtype, begin.numel)


def _wide_anyway(seq: Sequence, first: int, place: int) -> bool:
    """Whether an op reads what a widening cast made and nothing else of its size, and computes in fp32 by itself."""
    to, source = seq.op(first).tensors[:2]
    tensors = seq.op(place).tensors
    alone = [t.dtype for t in tensors if t.numel == to.numel] == [to.dtype] and max(t.numel for t in tensors) == to.numel
    once = np.count_nonzero(seq.call[max(place - 2, 0) : place + 3] == seq.call[place]) == 1
    widened = to.dtype == "fp32" and ITEM_BYTES[str(source.dtype)] < ITEM_BYTES["fp32"]
    return alone and once and widened and seq.kind[place] in _WIDE_INSIDE and seq.op(place).name != "copy_"


def undone(ctx: Context) -> Draft | None:
    """What goes with all pairs: both casts, and of an op between them what it moves in the wider type."""
    pairs = cast_pairs(ctx)
    if not pairs:
        return None
    seq = ctx.sequence
    casts = np.array([[p.there, p.back] for p in pairs]).reshape(-1)
    gpu = dict.fromkeys(seq.rows[casts].tolist(), 0)
    for p in pairs:
        if p.op >= 0:
            wide, narrow = (ITEM_BYTES[str(t.dtype)] for t in seq.op(p.there).tensors[:2])
            gpu[int(seq.rows[p.op])] = int(seq.ns[p.op] * narrow / wide)
    dearest = max(pairs, key=lambda p: int(seq.ns[p.there] + seq.ns[p.back]))
    to, source = seq.op(dearest.there).tensors[:2]
    now = float(seq.ns[casts].sum())
    return Draft(
        {
            "pairs": count(ctx.per_step(len(pairs))),
            "shape": _text(source),
            "dtype": str(source.dtype),
            "other": str(to.dtype),
            "gpu": duration(ctx.per_step(now)),
            "bytes": size(sum(_bytes(seq.op(int(i))) for i in (dearest.there, dearest.back))),
        },
        Change(gpu=gpu, cpu=ctx.call_intervals(seq.call[casts])),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[[dearest.there, dearest.back]]]),
        variant="undone",
        confidence="medium",
        where=ctx.where(int(seq.owner[dearest.there])),
    )


def asked_weights(ctx: Context) -> Draft | None:
    """Casts of weights of layers in steps that do not train: the same result in every step."""
    seq = ctx.sequence
    places = np.flatnonzero(_asked(seq))
    if not len(places) or bool(seq.backward.any()):
        return None
    mine = places[[_taken_as_weight(ctx, seq, int(i)) for i in places]]
    if not len(mine):
        return None
    now = float(seq.ns[mine].sum())
    largest = mine[np.argsort(-seq.ns[mine], kind="stable")]
    dtype = str(seq.op(int(largest[0])).tensors[0].dtype)
    return Draft(
        {
            "weights": count(ctx.per_step(len(mine))),
            "dtype": dtype,
            "torch_dtype": {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp64": "torch.float64"}.get(
                dtype, "torch.float32"
            ),
            "gpu": duration(ctx.per_step(now)),
            "bytes": size(ctx.per_step(sum(_bytes(seq.op(int(i))) for i in mine))),
        },
        Change(gpu=dict.fromkeys(seq.rows[mine].tolist(), 0), cpu=ctx.call_intervals(seq.call[mine])),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="asked",
        confidence="medium",
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _taken_as_weight(ctx: Context, seq: Sequence, i: int) -> bool:
    """Whether a layer soon after takes what a cast made as its weight, by name and shape."""
    call, shape = int(seq.call[i]), list(seq.op(i).tensors[0].shape)
    for after in range(call + 1, min(call + 1 + _SOON, len(ctx.called))):
        event = int(ctx.called.event[after])
        name = ctx.trace.name_of(event).removeprefix("aten::")
        if name == "linear" or name.startswith("conv"):
            found = ctx.inputs(event)
            dims = found.dims if found is not None and found.dims else []
            return len(dims) > 1 and dims[1] == shape != dims[0]
    return False


def _text(t: Tensor) -> str:
    return " x ".join(str(n) for n in t.shape) or "1"


def _bytes(op: Op) -> float:
    return float(sum(t.numel * ITEM_BYTES[str(t.dtype)] for t in op.tensors[:2]))
