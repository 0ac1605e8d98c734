"""Loops over the parts of a tensor that make one number of each: their passes do not build on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .context import Context
from .loops import Loop

__all__ = ["given", "loss_loop"]

Array = npt.NDArray[Any]


def loss_loop(ctx: Context, taken: Array) -> Loop | None:
    """The loop whose passes each take a part and reduce it to one number, as the loss of a sample; None where there is none.

    Only that number goes from pass to pass: autograd hands each pass the gradient of one element.

    Args:
        ctx: the trace's context.
        taken: events of the ops that take the parts, one a pass.
    """
    calls = np.sort(ctx.called.of_event[taken].astype(np.int64))
    period = np.diff(calls)
    if len(calls) < 2 or calls[0] < 0 or (period != period[0]).any() or not period[0]:
        return None
    body = calls[:, None] + np.arange(int(period[0]))
    if body[-1, -1] >= len(ctx.called):
        return None
    event = ctx.called.event[body]
    same = (ctx.trace.name[event] == ctx.trace.name[event[0]]).all() and (
        ctx.trace.lane[event] == ctx.trace.lane[event[0, 0]]
    ).all()
    if not same or not _ends_in_numbers(ctx, event[:, 0], event[:, -1]):
        return None
    return Loop(body.ravel(), int(period[0]), picks=True, multiplies=False)


def _ends_in_numbers(ctx: Context, begin: Array, end: Array) -> bool:
    """Whether the first node of each pass in the backward pass is given the gradient of one element."""
    nodes, of = ctx.sequence.backward_nodes(begin, end)
    order = np.lexsort((ctx.trace.ts[nodes], of))
    nodes, of = nodes[order], of[order]
    first = nodes[np.r_[True, np.diff(of) != 0]] if len(of) else nodes
    engine, recorded = ctx.answer(given)
    if len(first) < len(begin) or not len(engine):
        return False
    place = np.minimum(np.searchsorted(engine, first), len(engine) - 1)
    return bool((engine[place] == first).all()) and all(_is_number(ctx, int(r)) for r in np.unique(recorded[place]))


def _is_number(ctx: Context, row: int) -> bool:
    dims = ctx.inputs_at(row).dims
    return bool(dims) and all(n == 1 for n in dims[0])


def given(ctx: Context) -> tuple[Array, Array]:
    """(events of the engine's calls around autograd's nodes, rows of `Trace.inputs`: the gradients that each node was given).

    Ascending by event; nodes whose inputs were not recorded are left out.
    """
    tree, trace = ctx.tree, ctx.trace
    engine = trace.names_where(lambda s: s.startswith("autograd::engine::evaluate_function"))[trace.name[tree.events]]
    named = trace.names_where(lambda s: "Backward" in s or s.startswith("torch::autograd::"))[trace.name[tree.events]]
    inner = np.flatnonzero((tree.parent >= 0) & engine[np.maximum(tree.parent, 0)] & named)
    around, recorded = tree.events[tree.parent[inner]].astype(np.int64), ctx.input_row[tree.events[inner]]
    order = np.argsort(around, kind="stable")
    order = order[recorded[order] >= 0]
    return around[order], recorded[order]
