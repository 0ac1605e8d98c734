"""Parts of a tensor that are written in place under autograd: each write copies the gradient of the whole tensor."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.backward import backward
from lanewise.analyses.id_sets import combined, distinct
from lanewise.analyses.replay import Change
from lanewise.model.intervals import union
from lanewise.work.inputs import DTYPES, ITEM_BYTES

from .base import Draft, count, duration, first_events, size
from .context import Context
from .loss_loops import given

__all__ = ["slice_assignments"]

Array = npt.NDArray[Any]

_NODE = "autograd::engine::evaluate_function: torch::autograd::CopySlices"
# As for parts that are taken: up to three are written out by hand, and cost little.
_LEAST_PARTS = 4


def slice_assignments(ctx: Context) -> list[Draft]:
    """The finding of four writes or more to parts of one tensor in a step; shapes are needed."""
    nodes, recorded = _nodes(ctx)
    if not len(nodes):
        return []
    groups = _groups(ctx, nodes, recorded)
    if not groups:
        return []
    mine = np.concatenate(groups)
    rows, plain = _rows(ctx, nodes[mine], recorded[mine])
    now = float(ctx.gpu_ns[rows].sum())
    spare = np.concatenate([g[1:] for g in groups])
    forward = ctx.trace.analysis(backward).forward_of(len(ctx.trace))[nodes[spare]]
    forward = forward[np.isin(nodes[spare], plain) & (forward >= 0)].astype(np.int64)
    calls = ctx.called.of_event[forward]
    begin, end = ctx.call_intervals(distinct(calls[calls >= 0].astype(np.int64)))
    gone = union(np.r_[ctx.trace.ts[nodes[spare]], begin], np.r_[ctx.trace.end[nodes[spare]], end])
    largest = max(groups, key=lambda g: len(g) * prod(_whole(ctx, int(recorded[g[0]]))[0]))
    shape, item = _whole(ctx, int(recorded[largest[0]]))
    return [
        Draft(
            {
                "parts": count(len(largest)),
                "nodes": count(ctx.per_step(len(mine))),
                "shape": " x ".join(str(n) for n in shape),
                "bytes": size(prod(shape) * item),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(0),
                "dim": "dim",
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone),
            ctx.per_step(now),
            first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]]),
            variant="assigned",
            confidence="medium",
            where=ctx.where(int(forward[0])) if len(forward) else None,
            symptoms=("unfused-pointwise",),
        )
    ]


def _nodes(ctx: Context) -> tuple[Array, Array]:
    """(autograd's nodes of such writes in the steps, by start; rows of `Trace.inputs`: the gradients that they were given)."""
    engine, recorded = ctx.answer(given)
    mine = ctx.trace.names_where(lambda s: s == _NODE)[ctx.trace.name[engine]] if len(engine) else np.zeros(0, dtype=np.bool_)
    nodes, rows = engine[mine], recorded[mine]
    inside = np.isin(nodes, ctx.in_steps(nodes)) if len(nodes) else np.zeros(0, dtype=np.bool_)
    order = np.argsort(ctx.trace.ts[nodes[inside]], kind="stable")
    return nodes[inside][order], rows[inside][order]


def _groups(ctx: Context, nodes: Array, recorded: Array) -> list[Array]:
    """Nodes, by place, that hand one gradient on to each other: no other node is given one of its sizes in between."""
    engine, rows = ctx.answer(given)
    others = ~np.isin(engine, nodes)
    before = np.zeros(len(nodes), dtype=np.int64)
    dims = {int(r): ctx.inputs_at(int(r)).dims for r in np.unique(rows)}
    kinds, kind = np.unique(recorded, return_inverse=True)
    for k, row in enumerate(kinds.tolist()):
        same = [r for r, found in dims.items() if found and list(_whole(ctx, row)[0]) in found]
        begin = np.sort(ctx.trace.ts[engine[others & np.isin(rows, same)]])
        before[kind == k] = np.searchsorted(begin, ctx.trace.ts[nodes[kind == k]])
    _, number = combined([ctx.step_of(nodes), ctx.trace.lane[nodes].astype(np.int64), kind.astype(np.int64), before])
    order = np.argsort(number, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return [g for g in found if len(g) >= _LEAST_PARTS]


def _rows(ctx: Context, nodes: Array, recorded: Array) -> tuple[Array, Array]:
    """(rows that go, nodes whose writes are plain copies).

    The copy of the whole goes; where the part was simply assigned, so do those that take it out and clear it.
    """
    seq, trace = ctx.sequence, ctx.trace
    inner = ctx.inside(nodes)
    copying = inner[trace.names_where(lambda s: s.endswith("CopyBackwards"))[trace.name[inner]]]
    up = ctx.tree.nearest(trace.names_where(lambda s: s == _NODE)[trace.name[ctx.tree.events]])[ctx.place[copying]]
    plain = np.unique(ctx.tree.events[up[up >= 0]]).astype(np.int64)
    order = np.argsort(nodes, kind="stable")
    within = np.flatnonzero(np.isin(seq.node, nodes))
    of = order[np.searchsorted(nodes[order], seq.node[within])]
    shapes = {int(r): _whole(ctx, int(r))[0] for r in np.unique(recorded)}
    pairs, inverse = np.unique(np.c_[seq.op_of[within], recorded[of]], axis=0, return_inverse=True)
    whole = np.array([_copies(seq.ops[int(op)], shapes[int(row)]) for op, row in pairs], dtype=np.bool_)
    goes = whole[inverse.reshape(-1)] | np.isin(seq.node[within], plain)
    return seq.rows[within[goes]], plain


def _copies(op: Any, shape: tuple[int, ...]) -> bool:
    return op.name == "copy_" and bool(op.tensors) and op.tensors[0].shape == shape


def _whole(ctx: Context, row: int) -> tuple[tuple[int, ...], int]:
    """(sizes of the tensor that is written to, bytes of an element)."""
    inputs = ctx.inputs_at(row)
    shape = tuple(inputs.dims[0]) if inputs.dims else ()
    return shape, ITEM_BYTES.get(DTYPES.get(inputs.types[0] if inputs.types else "", ""), 4)
