"""mixed-layouts: pointwise ops whose tensors lie in memory in different orders, so that one is read against its grain."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import ITEM_BYTES

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .layouts import order_of
from .limits import stream_ns
from .pointwise_chains import result_of
from .sequence import Op

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Small tensors stay in the cache, where the order of reading costs little.
_LEAST_BYTES = 4 << 20
# Kernels that read in order take up to 1.2 times the time of the traffic at the bandwidth that streams reach (limits.STREAM_SHARE).
_LEAST_RATIO = 1.5


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    seq = ctx.sequence
    mixed = np.array([_mixed(op) for op in seq.ops], dtype=np.bool_)
    if not mixed.any():
        return Clear()
    places = np.flatnonzero(mixed[seq.op_of] & (seq.kind == "elementwise") & ~seq.compiled)
    each = np.array([(stream_ns(ctx, _bytes(op)) or 0.0) if yes else 0.0 for op, yes in zip(seq.ops, mixed, strict=True)])
    usual = each[seq.op_of[places]]
    slow = (usual > 0) & (seq.ns[places] > _LEAST_RATIO * usual)
    places, usual = places[slow], usual[slow]
    if not len(places):
        return Clear()
    now = float(seq.ns[places].sum())
    largest = places[np.argsort(-(seq.ns[places] - usual), kind="stable")]
    first = seq.op(int(largest[0]))
    return [
        Draft(
            {
                "ops": count(ctx.per_step(len(places))),
                "names": ", ".join(sorted({str(n) for n in seq.called_name[places]})),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(float(usual.sum()))),
                "shape": " x ".join(map(str, first.tensors[0].shape)),
                "one": str(list(first.tensors[0].strides or ())),
                "other": str(list(_other(first).strides or ())),
            },
            Change(gpu=dict(zip(seq.rows[places].tolist(), usual.astype(int).tolist(), strict=True))),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[largest]]),
            where=ctx.where(int(seq.owner[largest[0]])),
        )
    ]


def _mixed(op: Op) -> bool:
    """Whether tensors of the same sizes lie in different orders."""
    if len(op.tensors) < 2 or op.name == "copy_":
        return False
    first = op.tensors[0]
    if first.numel * ITEM_BYTES.get(first.dtype or "", 4) < _LEAST_BYTES:
        return False
    orders = {order_of(t) for t in op.tensors if t.shape == first.shape and t.stored == t.numel}
    return len(orders) > 1 and None not in orders


def _other(op: Op) -> Any:
    """The first tensor that lies in another order than the first."""
    return next(t for t in op.tensors if t.shape == op.tensors[0].shape and order_of(t) != order_of(op.tensors[0]))


def _bytes(op: Op) -> float:
    """What an op moves: each tensor once, and its result where that is a new one."""
    made = None if op.name.endswith("_") else result_of(op)
    written = made if made is not None else op.tensors[0]
    return float(sum(t.numel * ITEM_BYTES.get(t.dtype or "", 4) for t in (*op.tensors, written)))


RULE = Rule(
    id="mixed-layouts",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Mixed layouts",
        "title": "Pointwise ops on tensors of different memory order: {gpu} a step",
        "text": "{names} read one of their tensors against its grain ({shape}, strides {one} and {other}); such ops a step: {ops}. In one order "
        "they would take about {after}.",
        "fix": "Give both tensors the same order where they are made: channels_last for the whole network, or no transpose before the op",
        "doc_finds": "Pointwise kernels over tensors of the same sizes whose strides order the dimensions differently, of 4 MiB and more, that take "
        "one and a half times as long as their traffic or longer. Shapes have to be recorded.",
        "doc_why": "Neighbouring threads read neighbouring elements of one tensor, and elements far apart of the other: each of those reads "
        "fetches 32 bytes for the sake of two or four.",
        "doc_fix": "model = model.to(memory_format=torch.channels_last)   # all of it, so that sums of branches meet in one order\n"
        "y = x + proj(x)                                       # proj on (batch, length, width), as x is",
        "doc_fine": "One such op at the border between two parts of a network that each need their own order.",
        "doc_measured": "The time of the kernels against their traffic at 88 % of the memory bandwidth.",
    },
)
