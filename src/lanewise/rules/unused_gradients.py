"""unused-gradients: gradients of weights are computed that no optimizer updates a parameter with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.id_sets import distinct
from lanewise.analyses.replay import Change
from lanewise.kernels import Kernel
from lanewise.work.inputs import DTYPES, ITEM_BYTES

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .gradient_use import STEP_MARK, Gradients, Uncertain, gradients, unused_shapes
from .sequence import Op

__all__ = ["RULE"]

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

# Between the op that makes a gradient and the moment when it is accumulated, autograd transposes, casts and reshapes it.
_MOST_NODES_BETWEEN = 12
_WGRAD = re.compile(r"wgrad|wrw|bwd_?weight|backward_filter", re.IGNORECASE)
_GAMMA = re.compile(r"gamma", re.IGNORECASE)


def _check(ctx: Context) -> Outcome:
    if not len(ctx.events_named("torch::autograd::AccumulateGrad")):
        return Clear()
    marks = ctx.in_steps(ctx.events_matching(STEP_MARK, "user_annotation"))
    if not len(marks):
        return NotChecked("no-optimizer")
    found = gradients(ctx, int(ctx.trace.lane[marks[0]]))
    if not len(found.event):
        return Clear()
    if _nested(ctx, found):
        return NotChecked("nested-backward")
    try:
        spare = unused_shapes(ctx, marks, found)
    except Uncertain as why:
        return NotChecked(str(why))
    return _drafts(ctx, found, spare) if spare else Clear()


def _nested(ctx: Context, found: Gradients) -> bool:
    """Whether backward passes run inside one another: a parameter may then be given several gradients in one."""
    node = ctx.sequence.nodes_around(found.event)
    return bool((ctx.sequence.nodes_around(node[node >= 0]) >= 0).any())


def _drafts(ctx: Context, found: Gradients, spare: Counter[Shape]) -> Outcome:
    unused = np.zeros(len(found.event), dtype=np.bool_)
    rows: list[Array] = []
    gone: list[Array] = []
    for shape, n in spare.items():
        mine = _chosen(found, shape, n)
        made, mine_rows, mine_calls = _makers(ctx, found.event[mine], shape)
        unused[mine[made]] = True
        rows.append(mine_rows)
        gone.append(mine_calls)
    if not unused.any():
        return Clear()
    engine = ctx.sequence.nodes_around(found.event[unused])
    tail_rows, tail = _tail(ctx, found, unused)
    all_rows = distinct(np.concatenate([*rows, ctx.launched_in(engine), tail_rows]).astype(np.int64))
    cpu = ctx.intervals(np.concatenate([*gone, engine, tail]).astype(np.int64))
    now = float(ctx.gpu_ns[all_rows].sum())
    runs = len(np.unique(found.run))
    shapes = Counter({found.shapes[k]: int(n) for k, n in enumerate(np.bincount(found.shape[unused]) // runs) if n})
    largest = max(shapes, key=lambda s: shapes[s] * prod(s), default=found.shapes[int(found.shape[unused][0])])
    return [
        Draft(
            {
                "unused": count(int(unused.sum()) / runs),
                "all": count(len(found.event) / runs),
                "shape": " x ".join(str(n) for n in largest),
                "number": count(shapes[largest]),
                "gpu": duration(ctx.per_step(now)),
                "bytes": size(_bytes(ctx, found, unused) / runs),
            },
            Change(gpu=dict.fromkeys(all_rows.tolist(), 0), cpu=cpu),
            ctx.per_step(now),
            first_events(ctx.gpu_event[all_rows[np.argsort(-ctx.gpu_ns[all_rows], kind="stable")]]),
            variant="tail" if len(tail_rows) else "",
            confidence="medium",
        )
    ]


def _chosen(found: Gradients, shape: Shape, n: int) -> Array:
    """Which gradients of a size, n in each backward pass, are not used.

    Those that are added to earlier ones, where those are as many: what an optimizer has, its `zero_grad` clears. Else the first
    ones, so that what comes after the last used one is not overrated.
    """
    mine = np.flatnonzero(found.shape == found.shapes.index(shape))
    order = np.lexsort((np.arange(len(mine)), found.run[mine]))
    mine = mine[order]
    run, kept = found.run[mine], found.kept[mine]
    first = np.flatnonzero(np.r_[True, np.diff(run) != 0])
    of = np.cumsum(np.r_[True, np.diff(run) != 0]) - 1
    as_many = np.bincount(of[kept], minlength=len(first)) == n
    rank = np.arange(len(mine)) - first[of]
    return mine[np.where(as_many[of], kept, rank < n)]


def _makers(ctx: Context, events: Array, shape: Shape) -> tuple[Array, Array, Array]:
    """(which gradients of a size are known to be a weight's, rows that make them, events of the calls that go with the rows).

    The op that makes it is the last fitting one before, a few of autograd's nodes back at most.
    """
    seq = ctx.sequence
    inner = np.flatnonzero(seq.backward & (seq.call >= 0))
    # One place for each call of an op.
    inner = inner[np.r_[True, np.diff(seq.owner[inner]) != 0]] if len(inner) else inner
    tests = [_test(op, shape) for op in seq.ops]
    fits = inner[np.array([t is not None for t in tests], dtype=np.bool_)[seq.op_of[inner]]]
    casts = inner[np.array([_is_cast(op, shape) for op in seq.ops], dtype=np.bool_)[seq.op_of[inner]]]
    casting = ctx.trace.names_where(lambda s: s.endswith("ToCopyBackward0"))
    casts = casts[(seq.node[casts] >= 0) & casting[ctx.trace.name[np.maximum(seq.node[casts], 0)]]]
    place, made = _last_before(ctx, fits, events)
    cast, known = _last_before(ctx, casts, events[made])
    after = known & (ctx.trace.ts[seq.owner[casts[cast]]] > ctx.trace.ts[seq.owner[fits[place[made]]]]) if len(casts) else known
    chosen = distinct(np.r_[fits[place[made]], casts[cast[after]]] if len(casts) else fits[place[made]])
    rows: list[Array] = [np.empty(0, dtype=np.int64)]
    whole: list[int] = []
    owners, first = np.unique(seq.owner[chosen], return_index=True)
    theirs = np.flatnonzero(np.isin(seq.owner, owners))
    theirs = theirs[np.argsort(seq.owner[theirs], kind="stable")]
    each = np.split(seq.rows[theirs], np.searchsorted(seq.owner[theirs], owners))[1:]
    for owner, k, launched in zip(owners.tolist(), seq.op_of[chosen[first]].tolist(), each, strict=True):
        test = tests[k]
        going = launched if test is None else launched[[test(ctx.kernel(int(r))) for r in launched]]
        rows.append(going)
        if len(going) == len(launched):
            whole.append(owner)
    return made, np.concatenate(rows), np.array(whole, dtype=np.int64)


def _node_starts(ctx: Context) -> Array:
    """Starts of autograd's nodes, ascending."""
    return np.sort(ctx.trace.ts[ctx.sequence.nodes])


def _last_before(ctx: Context, places: Array, events: Array) -> tuple[Array, Array]:
    """(number of the last of some places whose op began before each event, whether it is near enough)."""
    if not len(places) or not len(events):
        return np.zeros(len(events), dtype=np.int64), np.zeros(len(events), dtype=np.bool_)
    seq, ts = ctx.sequence, ctx.trace.ts
    nodes = ctx.answer(_node_starts)
    begin = ts[seq.owner[places]]
    order = np.argsort(begin, kind="stable")
    at = np.searchsorted(begin[order], ts[events]) - 1
    last = order[np.maximum(at, 0)]
    between = np.searchsorted(nodes, ts[events]) - np.searchsorted(nodes, begin[last])
    near = (at >= 0) & (between <= _MOST_NODES_BETWEEN)
    return last, near & (ctx.trace.lane[seq.owner[places[last]]] == ctx.trace.lane[events])


def _test(op: Op, shape: Shape) -> Callable[[Kernel], bool] | None:
    """Which kernels of an op go with a weight's gradient of these sizes; None where the op does not make it."""
    product = op.product
    if product is not None:
        first = product.a.strides
        turned = first is None or (first[-2] == 1 and first[-1] != 1) or product.a.shape[-2] == 1
        return _every if turned and sorted(shape) == sorted((product.m, product.n)) and product.batch == 1 else None
    if op.inputs is None or not op.inputs.dims:
        return None
    dims = [tuple(d) for d in op.inputs.dims if d and all(isinstance(n, int) for n in d)]
    if op.name == "sum":
        kept = tuple(n for n in shape if n != 1)
        of_channels = len(kept) == 1 and bool(dims) and len(dims[0]) > 2 and dims[0][1] == kept[0]
        return _every if dims and kept and dims[0] != shape and (dims[0][-len(kept) :] == kept or of_channels) else None
    if op.name == "embedding_dense_backward":
        return _every if dims and len(shape) == 2 and dims[0][-1] == shape[-1] else None
    if "convolution_backward" in op.name and len(dims) > 2:
        if dims[2] == shape:
            return _weight_kernel
        return _bias_kernel if len(shape) == 1 and shape[0] in (dims[2][0], dims[0][1]) else None
    if "norm_backward" in op.name:
        return _gamma_kernel if shape in dims else None
    return None


def _every(kernel: Kernel) -> bool:
    return True


def _weight_kernel(kernel: Kernel) -> bool:
    return _WGRAD.search(kernel.name) is not None


def _bias_kernel(kernel: Kernel) -> bool:
    return kernel.kind == "reduction"


def _gamma_kernel(kernel: Kernel) -> bool:
    return _GAMMA.search(kernel.name) is not None


def _is_cast(op: Op, shape: Shape) -> bool:
    return op.name == "copy_" and bool(op.tensors) and sorted(op.tensors[0].shape) == sorted(shape)


def _tail(ctx: Context, found: Gradients, unused: Array) -> tuple[Array, Array]:
    """(rows, autograd's nodes) after the last used gradient of each backward pass: they lead to unused ones only."""
    seq, ts = ctx.sequence, ctx.trace.ts
    empty = np.empty(0, dtype=np.int64)
    used = np.flatnonzero(~unused)
    if not len(used):
        return empty, empty
    engine = seq.nodes
    # The last gradient of each run, used or not, ends it; the last used one is where it could have ended.
    runs, last = np.unique(found.run[::-1], return_index=True)
    stop = ctx.trace.end[found.event[len(found.event) - 1 - last]]
    used_runs, at = np.unique(found.run[used[::-1]], return_index=True)
    enough = ctx.trace.end[found.event[used[len(used) - 1 - at]]]
    stop = stop[np.isin(runs, used_runs)]
    place = np.searchsorted(enough, ts[engine], side="right") - 1
    beyond = (place >= 0) & (ts[engine] < stop[np.maximum(place, 0)])
    nodes = engine[beyond]
    return seq.rows[np.isin(seq.node, nodes)], nodes


def _bytes(ctx: Context, found: Gradients, unused: Array) -> float:
    """Memory of the unused gradients of all runs."""
    total = 0.0
    for row, n in zip(*np.unique(ctx.input_row[found.event[unused]], return_counts=True), strict=True):
        inputs = ctx.inputs_at(int(row))
        kind = DTYPES.get(inputs.types[0] if inputs.types else "", "")
        total += int(n) * prod(inputs.dims[0] if inputs.dims else []) * ITEM_BYTES.get(kind, 4)
    return total


RULE = Rule(
    id="unused-gradients",
    precedence=20,
    needs=("gpu_events", "launches", "shapes", "steps"),
    check=_check,
    english={
        "name": "Gradients that nobody uses",
        "title": "{unused} of {all} gradients are of parameters that no optimizer updates",
        "text": "The backward pass computes them, mostly {shape} ({number} of them), in {gpu} of GPU time a step and {bytes} of memory; the "
        "optimizer's steps in this trace work on other sizes, or on fewer tensors.",
        "text_tail": "The backward pass computes them, mostly {shape} ({number} of them), and goes on for them after the last gradient that is used: "
        "{gpu} of GPU time a step, and {bytes} of memory. The optimizer's steps in this trace work on other sizes, or on fewer tensors.",
        "fix": "Freeze what the optimizer does not have, before the first step: ids = {{id(p) for g in optimizer.param_groups for p in g['params']}}; "
        "for p in model.parameters(): p.requires_grad_(id(p) in ids).",
        "doc_finds": "Gradients accumulated in the backward pass (`AccumulateGrad`) of sizes that the ops of the optimizers' steps do not have, or "
        "have fewer of: weights frozen in name only, as when only adapters or a head are given to the optimizer.",
        "doc_why": "A parameter that requires a gradient gets one, whether anybody uses it or not: a matmul as large as the forward pass's for "
        "each weight, the memory of the gradient, and a backward pass down to the first such layer. Where only the optimizer's "
        "`zero_grad` is called they even add up from step to step.",
        "doc_fix": "model.requires_grad_(False)                  # first freeze all\n"
        "for p in model.head.parameters():            # then what is trained\n"
        "    p.requires_grad_(True)\n"
        "optimizer = AdamW((p for p in model.parameters() if p.requires_grad), fused=True)\n\n"
        "peft: get_peft_model(model, config) does so.",
        "doc_fine": "Gradients that something else reads (their norms, a penalty), or that an optimizer uses in steps that the trace does not hold.",
        "doc_measured": "GPU and CPU time of the ops that make those gradients (the last product, reduction or weight kernel with such a result before "
        "each, with casts), of their accumulation, and of all nodes after the last gradient that is used. Gradients whose making is not "
        "recognised count as used. Lists of more than 30 tensors have no sizes in a trace: then the blocks of their kernels (one for "
        "65536 elements of a tensor) must be those of the gradients begun anew, or of one choice of sizes alone; else it is not checked. "
        "So it is where an optimizer works on tensors that no gradient has the sizes of (shards, flat copies).",
    },
)
