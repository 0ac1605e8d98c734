"""dtype-casts: casts that are not needed: of the same weights in every forward pass, and those undone right after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import Intervals, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .cast_pairs import asked_weights, undone
from .context import Context
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Ops that autocast runs in half precision, and where they keep their weight and bias. Its casts are recorded inside them.
_WEIGHTS = {
    "linear": (1, 2),
    "matmul": (1,),
    "mm": (1,),
    "bmm": (),
    "addmm": (0, 2),
    "baddbmm": (0,),
    "addbmm": (0,),
    "conv1d": (1, 2),
    "conv2d": (1, 2),
    "conv3d": (1, 2),
    "conv_transpose1d": (1, 2),
    "conv_transpose2d": (1, 2),
    "conv_transpose3d": (1, 2),
    "convolution": (1, 2),
    "einsum": (),
    "scaled_dot_product_attention": (),
    "prelu": (1,),
    "lstm": (),
    "gru": (),
}
# Ops that autocast keeps in fp32: it wraps them as well.
_FP32_OPS = (
    "aten::layer_norm",
    "aten::group_norm",
    "aten::rms_norm",
    "aten::softmax",
    "aten::log_softmax",
    "aten::norm",
    "aten::pow",
)
_HALF = ("fp16", "bf16")
_CASTS = ("aten::to", "aten::_to_copy", "aten::copy_")


def _check(ctx: Context) -> Outcome:
    if not len(ctx.sequence):
        return Clear()
    return [draft for draft in (_weights(ctx), _repeated(ctx), asked_weights(ctx), undone(ctx)) if draft is not None] or Clear()


def _weights(ctx: Context) -> Draft | None:
    seq = ctx.sequence
    if bool(seq.backward.any()):
        return None  # weights that are trained change every step, and are cast every step
    around = _cast_of(ctx, seq)
    places = np.flatnonzero(around >= 0)
    mine = _weights_among(ctx, seq, places, around)
    if not len(mine):
        return None
    largest = mine[np.argsort(-seq.ns[mine], kind="stable")]
    moved = sum(seq.op(int(i)).tensors[0].numel * (4 + 2) for i in mine)
    casts = _cast_events(ctx, seq, places)
    gone = _autocast_time(ctx, casts)
    now = float(seq.ns[places].sum())
    return Draft(
        {
            "weights": count(ctx.per_step(len(mine))),
            "casts": count(ctx.per_step(len(places))),
            "dtype": str(seq.op(int(largest[0])).tensors[0].dtype),
            "torch_dtype": {"bf16": "torch.bfloat16", "fp16": "torch.float16"}[str(seq.op(int(largest[0])).tensors[0].dtype)],
            "gpu": duration(ctx.per_step(now)),
            "cpu": duration(ctx.per_step(float(ctx.trace.dur[casts].sum()))),
            "bytes": size(ctx.per_step(moved)),
        },
        _change(ctx, seq, places, gone),
        ctx.per_step(now),
        [*first_events(ctx.gpu_event[seq.rows[largest]]), int(around[largest[0]])],
        where=ctx.where(int(around[largest[0]])),
    )


def _repeated(ctx: Context) -> Draft | None:
    """Casts of weights in training beyond one a step for each weight that is trained."""
    seq = ctx.sequence
    if not bool(seq.backward.any()):
        return None
    around = _cast_of(ctx, seq)
    mine = _weights_among(ctx, seq, np.flatnonzero((around >= 0) & ~seq.backward), around)
    trained = _trained(ctx)
    if not len(mine) or not trained:
        return None
    spare = _beyond(seq, mine, trained)
    if not len(spare):
        return None
    weights = {seq.ops[k].tensors[0].shape for k in np.unique(seq.op_of[mine])}
    frozen = np.array([(int(seq.step[i]), seq.op(int(i)).tensors[0].shape) not in trained for i in spare], dtype=np.bool_)
    # The gradient of each cast that is trained is cast back.
    known = {shape for _, shape in trained} & weights
    back = (
        np.array([_from_half(op) and op.tensors[0].shape in known for op in seq.ops], dtype=np.bool_)[seq.op_of] & seq.backward
    )
    returned = _beyond(seq, np.flatnonzero(back), trained)
    both = np.r_[spare, returned].astype(np.int64)
    casts = _cast_events(ctx, seq, both)
    now = float(seq.ns[both].sum())
    largest = spare[np.argsort(-seq.ns[spare], kind="stable")]
    return Draft(
        {
            "casts": count(ctx.per_step(len(spare))),
            "weights": count(len(weights)),
            "dtype": str(seq.op(int(largest[0])).tensors[0].dtype),
            "torch_dtype": {"bf16": "torch.bfloat16", "fp16": "torch.float16"}[str(seq.op(int(largest[0])).tensors[0].dtype)],
            "gpu": duration(ctx.per_step(now)),
            "cpu": duration(ctx.per_step(float(ctx.trace.dur[casts].sum()))),
        },
        _change(ctx, seq, both, union(ctx.trace.ts[casts], ctx.trace.end[casts])),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="frozen" if frozen.mean() > 0.5 else "repeated",
        confidence="medium",
        where=ctx.where(int(around[largest[0]])),
    )


def _trained(ctx: Context) -> dict[tuple[int, tuple[int, ...]], int]:
    """How often a gradient of each shape is accumulated in each step: once for each weight of that shape that is trained."""
    events = ctx.in_steps(ctx.events_named("torch::autograd::AccumulateGrad"))
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    for event, step in zip(events.tolist(), ctx.step_of(events).tolist(), strict=True):
        inputs = ctx.inputs(event)
        if inputs is not None and inputs.dims and not any(isinstance(n, list) for n in inputs.dims[0]):
            key = (step, tuple(inputs.dims[0]))
            found[key] = found.get(key, 0) + 1
    return found


def _beyond(seq: Sequence, places: Array, most: dict[tuple[int, tuple[int, ...]], int]) -> Array:
    """Those of some places in order that come after the first `most` of their step and shape."""
    if not len(places):
        return places
    distinct = {t: n for n, t in enumerate(dict.fromkeys(op.tensors[0].shape for op in seq.ops if op.tensors))}
    shape = np.array([distinct[op.tensors[0].shape] if op.tensors else -1 for op in seq.ops])[seq.op_of[places]]
    _, group = np.unique(seq.step[places] * (len(distinct) + 1) + shape, return_inverse=True)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], group[order])
    rank = np.empty(len(places), dtype=np.int64)
    rank[order] = np.arange(len(places)) - first
    _, example = np.unique(group, return_index=True)
    limit = np.array([most.get((int(seq.step[i]), seq.op(int(i)).tensors[0].shape), 0) for i in places[example]])
    result: Array = places[rank >= limit[group]]
    return result


def _from_half(op: Op) -> bool:
    t = op.tensors
    return op.name == "copy_" and len(t) > 1 and t[0].dtype == "fp32" and t[1].dtype in _HALF


def _weights_among(ctx: Context, seq: Sequence, places: Array, around: Array) -> Array:
    """Those of some casts that are of a weight or bias."""
    return places[np.array([_is_weight(ctx, seq, int(i), int(around[i])) for i in places], dtype=np.bool_)]


def _cast_of(ctx: Context, seq: Sequence) -> Array:
    """int64 (n,): the op for which autocast made each cast to half precision; -1 for all other GPU ops."""
    trace, tree = ctx.trace, ctx.tree
    cast = np.array([_to_half(op.name, op.tensors) for op in seq.ops], dtype=np.bool_)[seq.op_of]
    plumbing = trace.names_where(lambda s: s in _CASTS)
    nearest = tree.nearest(~plumbing[trace.name[tree.events]])
    wanted = trace.names_where(lambda s: s.removeprefix("aten::") in _WEIGHTS)
    place = np.where(cast & (seq.owner >= 0), ctx.place[np.maximum(seq.owner, 0)], -1)
    up = np.where(place >= 0, nearest[np.maximum(place, 0)], -1)
    event = np.where(up >= 0, tree.events[np.maximum(up, 0)], -1)
    good = (event >= 0) & wanted[trace.name[np.maximum(event, 0)]] & ~seq.compiled
    return np.where(good, event, -1).astype(np.int64)


def _to_half(name: str, tensors: list[Any]) -> bool:
    return name == "copy_" and len(tensors) > 1 and tensors[0].dtype in _HALF and tensors[1].dtype == "fp32"


def _is_weight(ctx: Context, seq: Sequence, i: int, event: int) -> bool:
    """Whether a cast is one of the op's weight or bias, by its shape; activations have others or are the first input."""
    found = ctx.inputs(event)
    places = _WEIGHTS[ctx.trace.name_of(event).removeprefix("aten::")]
    if found is None or not isinstance(found.dims, list):
        return False
    shape = list(seq.op(i).tensors[0].shape)
    return any(p < len(found.dims) and found.dims[p] == shape for p in places) and found.dims[0] != shape


def _cast_events(ctx: Context, seq: Sequence, places: Array) -> Array:
    """The outermost cast op around each copy."""
    plumbing = ctx.trace.names_where(lambda s: s in _CASTS)
    events = seq.owner[places].copy()
    for _ in range(len(_CASTS) - 1):
        at = ctx.tree.parent[ctx.place[events]]
        parents = np.where(at >= 0, ctx.tree.events[np.maximum(at, 0)], events)
        events = np.where(plumbing[ctx.trace.name[parents]], parents, events)
    return np.unique(events)


def _autocast_time(ctx: Context, casts: Array) -> Intervals:
    """CPU time of autocast: the casts, and what its wrappers add around the ops themselves.

    A wrapper has the name of the op that it calls: all of it that is not that op is autocast.
    """
    trace, tree = ctx.trace, ctx.tree
    covered = trace.names_where(lambda s: s.removeprefix("aten::") in _WEIGHTS or s in _FP32_OPS)
    child = np.flatnonzero(covered[trace.name[tree.events]] & (tree.parent >= 0))
    inner, outer = tree.events[child], tree.events[tree.parent[child]]
    same = trace.name[inner] == trace.name[outer]
    inner, outer = inner[same], outer[same]
    starts = np.r_[trace.ts[outer], trace.end[inner], trace.ts[casts]]
    return union(starts, np.r_[trace.ts[inner], trace.end[outer], trace.end[casts]])


def _change(ctx: Context, seq: Sequence, places: Array, gone: Intervals) -> Change:
    """Without the casts. Of the CPU time as many parts are the program's own as of the whole step's: the replay takes the same
    from each event for the profiler, which leaves too little of casts, that are many small events."""
    change = Change(gpu=dict.fromkeys(seq.rows[places].tolist(), 0), cpu=gone)
    if ctx.replay is None:
        return change
    taken = ctx.replay.cpu_ns() - ctx.replay.cpu_ns(change)
    own = ctx.own_cpu_ratio * ctx.replay.recorded_within_ns(gone)
    return replace(change, extra_cpu_ns=-max(own - taken, 0.0))


RULE = Rule(
    id="dtype-casts",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Needless casts",
        "title": "autocast casts {weights} weights to {dtype} in every step",
        "text": "The weights are fp32 and never change here, yet each forward casts them anew, and the activations too: {casts} casts, {gpu} "
        "of GPU time ({bytes} for the weights) and {cpu} of CPU time as recorded.",
        "fix": "model = model.to({torch_dtype})  # once, before the loop, instead of autocast",
        "title_repeated": "autocast casts the same weights to {dtype} again and again: {casts} casts a step too many",
        "text_repeated": "A weight that is trained needs one cast a step, and so many gradients are accumulated; there are {casts} casts more, "
        "{gpu} of GPU time and {cpu} of CPU time as recorded, some of them in the backward pass. autocast keeps its casts only until its "
        "block ends.",
        "fix_repeated": "One `with torch.autocast(...)` around the whole forward pass, not one for each layer, time step or micro-batch; "
        "leave `cache_enabled` on.",
        "title_frozen": "autocast casts frozen weights to {dtype} in every step: {casts} casts",
        "text_frozen": "No gradient of their shapes is accumulated: these weights are not trained, do not change, and yet are cast each time "
        "they are used: {gpu} of GPU time and {cpu} of CPU time as recorded.",
        "fix_frozen": "frozen.to({torch_dtype}) once, before the loop; only what is trained needs fp32",
        "title_asked": "{weights} weights are cast to {dtype} in every step",
        "text_asked": "The weights do not change here, yet the program casts them before each use: {gpu} of GPU time and {bytes} of traffic "
        "a step.",
        "fix_asked": "layer.to({torch_dtype}) once, before the loop, instead of weight.to(x.dtype) in forward",
        "title_undone": "{dtype} to {other} and back: {pairs} times a step",
        "text_undone": "{shape} goes from {dtype} to {other} and right back, {bytes} of traffic for nothing; all such casts take {gpu} a "
        "step. The trace does not tell whether the {other} tensor is used again; if not, both casts can go.",
        "fix_undone": "Delete both casts: x instead of x.float().half(), F.gelu(x) instead of F.gelu(x.float()).half()",
        "doc_finds": "Casts from fp32 to half precision inside the ops that autocast covers, of their weights or biases, in steps without "
        "a backward pass; in training, those beyond one a step for each weight of that shape that gets a gradient. The same where the "
        "program itself casts the weight of a layer. And casts that it undoes right after: with "
        "nothing between them, or with a single pointwise op, softmax or norm, which computes in fp32 anyway.",
        "doc_why": "autocast keeps its casts only until the end of its block. Each forward reads every fp32 weight and writes it in half "
        "precision, and each cast is three ops and a launch on the CPU. A cast there and back reads and writes the tensor twice and changes "
        "nothing: pointwise ops, softmax and norms of half-precision tensors compute in fp32 registers as they are.",
        "doc_fix": "model = model.to(torch.bfloat16).eval()\nwith torch.inference_mode():\n    y = model(x.to(torch.bfloat16))",
        "doc_fine": "In training: fp32 master weights change every step, so that casting them once a step is what mixed precision is. Micro-batches whose "
        "gradients add up cast them once each.",
        "doc_measured": "GPU time of the casts and CPU time of the ops around them. Weights are told from activations by the shapes of the "
        "op's arguments. Norms and softmax in fp32, which half-precision weights change too, are not counted. For casts there and back both kernels go with their calls, and the op "
        "between them moves as many bytes less as the narrower type has.",
    },
)
