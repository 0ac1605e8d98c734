"""slice-gradients: a tensor indexed in a loop, whose gradient is filled and added as a whole once for each part taken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.backward import backward
from lanewise.analyses.id_sets import combined, distinct
from lanewise.analyses.replay import Change
from lanewise.model.intervals import union
from lanewise.work.inputs import ITEM_BYTES, Tensor

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .limits import stream_ns
from .loops import Loop, batching, program_loops
from .loss_loops import given, loss_loop
from .sequence import Op, Sequence
from .slice_assignments import slice_assignments

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Autograd's nodes whose gradient is zeros of the whole tensor with a part written into them.
_VIEWS = ("Select", "Slice", "Diagonal", "AsStrided", "Unfold")
_ROWS = ("Index", "IndexSelect", "Gather", "Take", "MaskedSelect", "Embedding")
_PART = re.compile(rf"^autograd::engine::evaluate_function: ({'|'.join(_VIEWS + _ROWS)})Backward\d+$")
# Up to three parts are written out by hand (two halves of a rotary embedding; queries, keys and values), and cost little.
_LEAST_PARTS = 4
# What one pass moves, in sizes of the tensor: parts are read and joined, or zeros are written for rows to be added to.
_JOINED, _FILLED = 2, 1


@dataclass(frozen=True, slots=True)
class _Parts:
    """Autograd's nodes that take parts of tensors, and what they launch.

    Attributes:
        node: int64 (n,): their events (the engine's call around each), by start.
        whole: int64 (n,): number of the tensor's kind in `kinds`.
        added: bool (n,): whether the engine adds the node's gradient to what others gave.
        view: bool (n,): whether it takes a view, and not rows by index.
        kinds: the tensors as filled: sizes and type.
        place: int64 (m,): places in the sequence that fill, copy or add whole gradients, in order.
        of: int64 (m,): the node of each, by place in `node`.
    """

    node: Array
    whole: Array
    added: Array
    view: Array
    kinds: list[Tensor]
    place: Array
    of: Array


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes of one step whose gradients meet in the same tensors, by place in `_Parts.node`, and how many tensors those are."""

    nodes: Array
    tensors: int


def _check(ctx: Context) -> Outcome:
    return [*_taken(ctx), *slice_assignments(ctx)] or Clear()


def _taken(ctx: Context) -> list[Draft]:
    """Parts that are taken out of a tensor."""
    seq = ctx.sequence
    parts = _parts(ctx, seq) if len(seq) else None
    groups = [] if parts is None else _groups(ctx, parts)
    if parts is None or not groups:
        return []
    after = {}
    for group in groups:
        after.update(_after(ctx, seq, parts, group))
    mine = np.isin(parts.of, np.concatenate([g.nodes for g in groups]))
    rows = seq.rows[parts.place[mine]]
    now = float(ctx.gpu_ns[rows].sum())
    spare = np.concatenate([g.nodes[g.tensors :] for g in groups])
    largest = max(groups, key=lambda g: float(seq.ns[parts.place[np.isin(parts.of, g.nodes)]].sum()))
    first = int(largest.nodes[0])
    kind = parts.kinds[int(parts.whole[first])]
    forward = ctx.trace.analysis(backward).forward_of(len(ctx.trace))
    made = _made(forward, parts.node[largest.nodes])
    dim, by_rows = _dimension(ctx, int(parts.node[first])), not parts.view[first]
    variant = "rows" if by_rows else "select" if "Select" in ctx.trace.name_of(int(parts.node[first])) else ""
    change = Change(gpu=after, cpu=_gone(ctx, parts, spare, forward))
    loops = _without_rule(ctx, [loss_loop(ctx, _made(forward, parts.node[g.nodes])) for g in groups])
    return [
        Draft(
            {
                "parts": count(len(largest.nodes) / largest.tensors),
                "nodes": count(ctx.per_step(sum(len(g.nodes) for g in groups))),
                "shape": " x ".join(str(n) for n in kind.shape),
                "bytes": size(kind.numel * ITEM_BYTES.get(kind.dtype or "", 4)),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(float(sum(after.values())))),
                "dim": "dim" if dim is None else str(dim),
            },
            _without(ctx, loops, change) if loops else change,
            ctx.per_step(now),
            first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]]),
            variant=variant,
            fix_variant="loss" if loops else variant,
            confidence="medium",
            where=ctx.where(int(made[0])) if len(made) else None,
            symptoms=("unfused-pointwise",),
        )
    ]


def _without_rule(ctx: Context, loops: list[Loop | None]) -> list[Loop]:
    """Loops that `unbatched-ops` and `unbatched-gemms` do not see, since their passes differ in size: they are priced here."""
    seen = [loop.calls for loop in ctx.answer(program_loops)]
    calls = np.concatenate(seen) if seen else np.empty(0, dtype=np.int64)
    return [loop for loop in loops if loop is not None and not np.isin(loop.calls, calls).any()]


def _parts(ctx: Context, seq: Sequence) -> _Parts | None:
    """Nodes that fill a gradient for a part, with the engine's sums; None without any."""
    taking = ctx.trace.names_where(lambda s: _PART.match(s) is not None)
    looking = ctx.trace.names_where(lambda s: (m := _PART.match(s)) is not None and m.group(1) in _VIEWS)
    within = (seq.node >= 0) & taking[ctx.trace.name[np.maximum(seq.node, 0)]]
    fills = np.flatnonzero(within & np.array([_fills(op) for op in seq.ops], dtype=np.bool_)[seq.op_of])
    if not len(fills):
        return None
    kinds = list(dict.fromkeys(seq.ops[k].tensors[0] for k in np.unique(seq.op_of[fills])))
    number = np.array([kinds.index(op.tensors[0]) if _fills(op) and op.tensors[0] in kinds else -1 for op in seq.ops])
    # Of several fills in a node the largest is the gradient's.
    order = np.lexsort((-np.array([k.numel for k in kinds])[number[seq.op_of[fills]]], seq.node[fills]))
    fills = fills[order][np.r_[True, np.diff(seq.node[fills][order]) != 0]]
    fills = fills[np.argsort(ctx.trace.ts[seq.node[fills]], kind="stable")]
    node, whole = seq.node[fills], number[seq.op_of[fills]]
    nodes = np.argsort(node, kind="stable")
    inner = np.flatnonzero(within & np.isin(seq.node, node))
    of = nodes[np.searchsorted(node[nodes], seq.node[inner])]
    sums = _sums(ctx, seq, inner, of, [kinds[k].shape for k in whole])
    view = looking[ctx.trace.name[node]]
    added = np.zeros(len(node), dtype=np.bool_)
    added[of[sums]] = True
    kept = sums | view[of] | np.isin(inner, fills)
    return _Parts(node, whole, added, view, kinds, inner[kept], of[kept])


def _fills(op: Op) -> bool:
    return op.name in ("zero_", "fill_") and bool(op.tensors) and op.tensors[0].numel > 1


def _sums(ctx: Context, seq: Sequence, places: Array, of: Array, shapes: list[tuple[int, ...]]) -> Array:
    """bool (places,): the engine's own sums of whole gradients: right inside its call around the node, not in the node."""
    event = ctx.called.event[np.maximum(seq.call[places], 0)]
    up = ctx.tree.parent[ctx.place[event]]
    direct = (seq.call[places] >= 0) & (up >= 0) & (ctx.tree.events[np.maximum(up, 0)] == seq.node[places])
    out = np.zeros(len(places), dtype=np.bool_)
    for i in np.flatnonzero(direct):
        op = seq.op(int(places[i]))
        out[i] = op.name in ("add", "add_") and bool(op.tensors) and op.tensors[0].shape == shapes[of[i]]
    return out


def _groups(ctx: Context, parts: _Parts) -> list[_Group]:
    """Nodes between which nothing takes up a gradient of their tensor's sizes: up to there, sums go to the same tensors."""
    taken = _taken_up(ctx, parts)
    step, lane = ctx.step_of(parts.node), ctx.trace.lane[parts.node]
    _, number = combined([step, lane.astype(np.int64), parts.whole, taken])
    found = []
    order = np.argsort(number, kind="stable")
    for nodes in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        tensors = max(int((~parts.added[nodes]).sum()), 1)
        if len(nodes) >= _LEAST_PARTS * tensors:
            found.append(_Group(nodes, tensors))
    return found


def _taken_up(ctx: Context, parts: _Parts) -> Array:
    """int64 (nodes,): how many nodes before each were given a gradient of its tensor's sizes: the sum was complete then."""
    engine, recorded = ctx.answer(given)
    begin = ctx.trace.ts[engine]
    dims = {int(r): ctx.inputs_at(int(r)).dims for r in np.unique(recorded)}
    out = np.zeros(len(parts.node), dtype=np.int64)
    for k, kind in enumerate(parts.kinds):
        mine = np.flatnonzero(parts.whole == k)
        takes = [r for r, found in dims.items() if found and list(kind.shape) in found]
        ts = np.sort(begin[np.isin(recorded, takes)])
        out[mine] = np.searchsorted(ts, ctx.trace.ts[parts.node[mine]])
    return out


def _after(ctx: Context, seq: Sequence, parts: _Parts, group: _Group) -> dict[int, int]:
    """New durations by row: of all fills, copies and sums one pass over each tensor remains."""
    places = parts.place[np.isin(parts.of, group.nodes)]
    kind, view = parts.kinds[int(parts.whole[group.nodes[0]])], bool(parts.view[group.nodes[0]])
    moved = kind.numel * ITEM_BYTES.get(kind.dtype or "", 4) * (_JOINED if view else _FILLED)
    one = stream_ns(ctx, moved)
    # On a card that is not known: what filling and adding takes for one of the parts.
    left = group.tensors * (one if one is not None else float(seq.ns[places].sum()) / len(group.nodes))
    after = {}
    for place in places[np.argsort(-seq.ns[places], kind="stable")].tolist():
        ns = min(left, float(seq.ns[place]))
        after[int(seq.rows[place])] = int(ns)
        left -= ns
    return after


def _without(ctx: Context, loops: list[Loop], change: Change) -> Change:
    """The same with the loops themselves gone: one pass over the whole tensor instead."""
    once, _, _ = batching(ctx, loops)
    pairs = [c for c in (once.cpu, change.cpu) if c is not None]
    cpu = union(np.concatenate([begin for begin, _ in pairs]), np.concatenate([end for _, end in pairs]))
    return Change(gpu={**once.gpu, **change.gpu}, cpu=cpu)


def _gone(ctx: Context, parts: _Parts, spare: Array, forward: Array) -> tuple[Array, Array]:
    """CPU time of the nodes that go, and of the calls that took views for them: `unbind` and `split` are one call."""
    nodes = parts.node[spare]
    made = _made(forward, parts.node[spare[parts.view[spare]]])
    calls = ctx.called.of_event[made]
    begin, end = ctx.call_intervals(distinct(calls[calls >= 0].astype(np.int64)))
    return union(np.r_[ctx.trace.ts[nodes], begin], np.r_[ctx.trace.end[nodes], end])


def _made(forward: Array, nodes: Array) -> Array:
    """Events of the forward ops of some nodes, where known."""
    made: Array = forward[nodes]
    return made[made >= 0].astype(np.int64)


def _dimension(ctx: Context, node: int) -> int | None:
    """The dimension along which a node's part is taken; None where not recorded."""
    for event in ctx.inside(np.array([node])):
        if ctx.trace.name_of(int(event)) in ("aten::select_backward", "aten::slice_backward"):
            found = ctx.inputs(int(event))
            if found is not None and found.concrete and len(found.concrete) > 2 and found.concrete[2].lstrip("-").isdigit():
                return int(found.concrete[2])
    return None


RULE = Rule(
    id="slice-gradients",
    precedence=20,
    needs=("gpu_events", "launches", "shapes", "steps"),
    check=_check,
    english={
        "name": "Whole gradients for slices",
        "title": "{parts} parts of one tensor get a gradient of its full size each",
        "text": "In the backward pass each part taken of {shape} ({bytes}) fills zeros for the whole, writes itself into them and adds the whole "
        "to the sum: {nodes} times and {gpu} of GPU time a step. One pass takes about {after}.",
        "title_rows": "{parts} lookups in one tensor get a gradient of its full size each",
        "title_assigned": "{parts} writes to parts of one tensor copy its gradient each",
        "text_assigned": "In the backward pass each write to a part of {shape} ({bytes}), x[i] = y, copies the gradient of the whole: {nodes} times and {gpu} "
        "of GPU time a step.",
        "fix": "parts = x.split(sizes, {dim}) once before the loop instead of x[a:b] in it: its backward is one cat. Or, where no part needs the "
        "result of another, no loop: the whole tensor at once, with a mask.",
        "fix_loss": "No loop: the loss of the whole tensor at once with reduction='none', times a mask or the weight of each element, and one sum. "
        "Or x.unbind(0) once before the loop instead of x[i] in it.",
        "fix_select": "parts = x.unbind({dim}) once before the loop instead of indexing x in it: its backward is one stack. Or, where no part needs "
        "the result of another, no loop: the whole tensor at once, with a mask.",
        "fix_assigned": "Collect the parts in a list and join them once behind the loop, torch.stack(parts) or torch.cat(parts). Where parts are "
        "cleared or scaled, one torch.where, masked_fill or product with a mask for the whole tensor.",
        "fix_rows": "Look up all rows at once before the loop: parts = x[torch.cat(indices)].split(sizes), one gradient for all; embeddings "
        "likewise.",
        "doc_finds": "Four or more parts of one tensor taken by themselves in a step of training (`x[i]`, `x[:, t]`, `x[a:b]`, `x[index]`, "
        "an embedding called in a loop), each of which fills zeros for the whole tensor in the backward pass, with the sums of those "
        "gradients. And four or more parts of one tensor written in place (`x[:, t] = h`), each of which copies the gradient of the whole "
        "(`CopySlices`).",
        "doc_why": "The gradient of `x[i]` is as large as `x`: zeros, with one part copied in. Autograd adds all of them, so that a loop over "
        "n parts moves the tensor about 4 n times where once or twice would do.",
        "doc_fix": "loss = sum(criterion(x[i], y[i]) for i in range(len(x)))          # n gradients of the size of x\n\n"
        "loss = sum(map(criterion, x.unbind(0), y.unbind(0)))              # one\n"
        "loss = (criterion(x, y, reduction='none') * weight).sum()         # one, and no loop\n\n"
        "h.append(cell(x[t]))                                             # not out[:, t] = cell(x[t])\n"
        "out = torch.stack(h, 1)\n\n"
        "i, f, g, o = gates.chunk(4, 1)                                    # not gates[:, :n], gates[:, n : 2 * n], ...",
        "doc_fine": "One, two or three slices of a tensor: a class token, the halves of a rotary embedding. Parts of small tensors in a step "
        "that the GPU bounds.",
        "doc_measured": "GPU time of the fills, copies and sums of whole gradients, less one pass over each tensor at 88 % of the bandwidth: read "
        "and written once for views, filled once for rows by index. CPU time of autograd's nodes but the first, and of the calls that "
        "took the views. Sums end where a node is given a gradient of the tensor's sizes: two layers are two tensors. A loop "
        "whose passes end in one number each, as a loss, goes as a whole but for one pass over the tensor. For writes: the copies of the "
        "whole gradient and, where a part was simply assigned, all that its node does, the call that wrote it, and nothing instead, since the gradient of "
        "`stack` is views. Fewer than four parts are usually written out by hand, and cost little.",
    },
)
