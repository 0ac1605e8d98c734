"""Loops that do the same few pointwise ops to one tensor after the other, where one foreach call takes all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.work.inputs import ITEM_BYTES

from .context import Context
from .sequence import Op, Sequence

__all__ = ["TensorLoop", "tensor_loops"]

Array = npt.NDArray[Any]

# An update of one parameter by hand takes up to some 12 ops (Adam with weight decay and both corrections: 10).
_LONGEST_BODY = 12
# As for the optimizers of torch.optim: from some ten tensors on a loop costs more than gathering them in a list.
_LEAST_TENSORS = 10
_KINDS = ("elementwise", "reduction", "cast-copy", "memcpy-dtod", "memset", "norm")


@dataclass(frozen=True, slots=True)
class TensorLoop:
    """One loop in one step.

    Attributes:
        places: int64 (n,): its GPU ops, by place in the sequence; each is one call.
        body: names of the calls of one turn.
        turns: how often they are repeated: the number of tensors.
        bytes: what the ops move.
    """

    places: Array
    body: tuple[str, ...]
    turns: int
    bytes: float


def tensor_loops(ctx: Context, but: Array) -> list[TensorLoop]:
    """Loops in the steps outside autograd's engine and compiled code.

    Repeating ops on one tensor is no such loop: turns follow one another whose tensors differ in shape.

    Args:
        ctx: the trace's context; shapes are needed.
        but: events in which loops are not looked for.
    """
    seq = ctx.sequence
    fits = _fitting(ctx, seq, but)
    broken = np.r_[True, (np.diff(seq.step) != 0) | (np.diff(seq.lane) != 0)] if len(seq) else np.zeros(0, dtype=np.bool_)
    group = np.cumsum(broken)
    name = np.where(fits, ctx.trace.name[ctx.called.event[np.maximum(seq.call, 0)]], -1) if len(ctx.called) else seq.call
    found: list[TensorLoop] = []
    free = fits.copy()
    for length in range(1, _LONGEST_BODY + 1):
        for begin, end in _runs(name, group, free, length):
            turns = (end - begin) // length
            places = np.arange(begin, begin + turns * length)
            if (loop := _loop(seq, places, length, turns)) is not None:
                free[places] = False
                found.append(loop)
    return found


def _fitting(ctx: Context, seq: Sequence, but: Array) -> Array:
    """bool (n,): GPU ops that are a call's only one, a pointwise op or a reduction, and neither autograd's nor compiled."""
    inside = np.zeros(len(ctx.trace) + 1, dtype=np.bool_)
    if len(but):
        inside[ctx.inside(but)] = True
    alone = (seq.call >= 0) & (ctx.called.kernels[np.maximum(seq.call, 0)] == 1) if len(ctx.called) else seq.call >= 0
    result: Array = alone & np.isin(seq.kind.astype(str), _KINDS) & ~seq.compiled & ~seq.backward
    return result & ~inside[np.where(seq.owner >= 0, seq.owner, -1)]


def _runs(name: Array, group: Array, free: Array, length: int) -> list[tuple[int, int]]:
    """(begin, end) of the stretches of one group in which each name is the one `length` places before, often enough."""
    if len(name) <= length:
        return []
    same = (name[length:] == name[:-length]) & (group[length:] == group[:-length]) & free[length:] & free[:-length]
    edges = np.flatnonzero(np.diff(np.r_[0, same.view(np.int8), 0]))
    stretches = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [(a, b + length) for a, b in stretches if b + length - a >= _LEAST_TENSORS * length]


def _loop(seq: Sequence, places: Array, length: int, turns: int) -> TensorLoop | None:
    body = tuple(str(n) for n in seq.called_name[places[:length]])
    if not any(n.endswith("_") or "norm" in n for n in body):
        return None  # nothing is updated or measured: a network at work
    kinds = np.unique(seq.op_of[places])
    tensors = {int(k): seq.ops[k].tensors for k in kinds}
    if any(not t for t in tensors.values()):
        return None
    by_call = seq.op_of[places].reshape(turns, length).T
    if all(len({tensors[int(k)][0].shape for k in np.unique(call)}) < 2 for call in by_call):
        return None  # the same in each turn: one tensor, or slices of one
    moved = np.array([_bytes(seq.ops[k]) if k in tensors else 0.0 for k in range(len(seq.ops))])
    return TensorLoop(places, body, turns, float(moved[seq.op_of[places]].sum()))


def _bytes(op: Op) -> float:
    """What an op moves: its tensors once, and its result, which is one of them again or as large as the first."""
    sizes = [t.numel * ITEM_BYTES.get(t.dtype or "", 4) for t in op.tensors]
    return float(sum(sizes) + (sizes[0] if sizes else 0))
