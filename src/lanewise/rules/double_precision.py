"""double-precision: work in fp64, twice the bytes of fp32 and on most cards a small part of its rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context
from .limits import LAUNCH_NS, stream_ns
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_ARITHMETIC = ("gemm", "conv", "attention", "rnn", "linalg")
_HALF_THE_BYTES = 0.5  # of fp64 are fp32's


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    double = _double(ctx, seq)
    if not double.any():
        return Clear()
    places = np.flatnonzero(double)
    ns = seq.ns[places]
    arithmetic = np.isin(seq.kind[places].astype(str), _ARITHMETIC)
    fp32 = np.where(arithmetic, ns * _rate_ratio(ctx), ns - _HALF_THE_BYTES * _moving_ns(ctx, seq, places))
    after = np.minimum(np.maximum(fp32, LAUNCH_NS), ns).astype(np.int64)
    largest = places[np.argsort(-ns, kind="stable")]
    now = float(ns.sum())
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(places))),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(float(after.sum()))),
                "share": percent(now / max(float(seq.ns.sum()), 1.0)),
                "ops": ", ".join(_names(seq, largest)),
                "first": str(seq.called_name[places[0]]) or seq.op(int(places[0])).name,
            },
            Change(gpu=dict(zip(seq.rows[places].tolist(), after.tolist(), strict=True))),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[largest]]),
            confidence="medium",
            where=ctx.where(int(seq.owner[places[0]])),
        )
    ]


def _double(ctx: Context, seq: Sequence) -> Array:
    """bool (n,): GPU ops whose kernel or whose largest recorded tensor is fp64; numbers (one element) are not."""
    named = ctx.kernels_where(lambda k: k.dtype == "fp64")[seq.rows]
    typed = np.array([_largest_type(op) == "fp64" for op in seq.ops], dtype=np.bool_)[seq.op_of] if len(seq) else named
    # A kernel's name tells the type of its arithmetic also for a number: then its tensors, where recorded, decide.
    single = np.array([bool(op.tensors) and max(t.numel for t in op.tensors) <= 1 for op in seq.ops], dtype=np.bool_)
    result: Array = (named | typed) & ~(single[seq.op_of] if len(seq) else named)
    return result


def _moving_ns(ctx: Context, seq: Sequence, places: Array) -> Array:
    """The part of each op's time that moving its bytes takes at the card's bandwidth; all of it where they are not known.

    A kernel that computes addresses (broadcasting, short rows) is bound by that as much in fp32.
    """
    ns = seq.ns[places].astype(np.float64)
    if ctx.device is None:
        return ns
    kinds, first, inverse = np.unique(seq.op_of[places], return_index=True, return_inverse=True)
    moving = np.full(len(kinds), np.inf)
    for k, at in enumerate(first.tolist()):
        owner = int(seq.owner[places[at]])
        work = ctx.work(owner) if owner >= 0 else None
        if work is not None and work.bytes:
            moving[k] = stream_ns(ctx, work.bytes) or np.inf
    result: Array = np.minimum(moving[inverse], ns)
    return result


def _largest_type(op: Op) -> str | None:
    tensors = [t for t in op.tensors if t.dtype is not None]
    return max(tensors, key=lambda t: t.numel).dtype if tensors else None


def _rate_ratio(ctx: Context) -> float:
    """Time of fp32 arithmetic against fp64's by the card's peak rates, no less than half the bytes take; for an unknown card that."""
    if ctx.device is None:
        return _HALF_THE_BYTES
    double = max(filter(None, (ctx.device.peak_flops("fp64", tensors) for tensors in (True, False))), default=None)
    single = ctx.device.peak_flops("fp32", tensor_cores=False)
    return min(double / single, 1.0) if double and single else _HALF_THE_BYTES


def _names(seq: Sequence, largest: Array) -> list[str]:
    names = [str(name) or seq.op(int(i)).name for i, name in zip(largest[:40], seq.called_name[largest[:40]], strict=True)]
    return list(dict.fromkeys(names))[:5]


RULE = Rule(
    id="double-precision",
    precedence=28,
    needs=("gpu_events", "launches"),
    check=_check,
    english={
        "name": "Double precision",
        "title": "fp64 arithmetic in {kernels:kernel} a step: {gpu}",
        "text": "{share} of the GPU time ({ops}); the first is {first}. In fp32 they would move half the bytes and take about {after}.",
        "fix": "Find where fp64 comes in and cast there: numpy arrays are float64, so torch.from_numpy(a).float() or np.float32; "
        "no .double(), no torch.set_default_dtype(torch.float64).",
        "doc_finds": "Kernels of fp64 arithmetic, by their names, and ops whose largest tensor is fp64, where shapes were recorded.",
        "doc_why": "fp64 doubles what every kernel moves. Its arithmetic runs at half the rate of fp32 on data-centre cards, at 1/32 to 1/64 on "
        "all others, and bf16 on tensor cores is fifteen times faster and more. One fp64 tensor makes all that is computed from it fp64.",
        "doc_fix": "x = torch.from_numpy(array).float()          # or array.astype(np.float32)\n"
        "scale = torch.tensor(values, dtype=x.dtype)   # of a numpy array it would be float64",
        "doc_fine": "Simulations and sums that need the digits. Then keep it to those ops.",
        "doc_measured": "Pointwise kernels, copies and reductions: half the time that their bytes take at 88 % of the memory bandwidth goes, half of "
        "all their time where the bytes are not known; matmuls, convolutions and "
        "attention at the ratio of the card's peak rates in fp64 and in fp32 without tensor cores.",
    },
)
