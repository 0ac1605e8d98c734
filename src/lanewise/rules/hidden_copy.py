"""hidden-copy: an op that copies its input first, and then works in place on the copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .sequence import Op, Sequence
from .spare_clones import spare_clones

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Ops of ATen that are a copy of their first input followed by their own form in place.
_COPYING = frozenset(
    [
        "masked_fill",
        "masked_scatter",
        "index_fill",
        "index_add",
        "index_copy",
        "index_put",
        "index_reduce",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "put",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "fill_diagonal",
        "_unsafe_index_put",
    ]
)
# A product that adds something begins with a copy of it to the result where the library has no epilogue for it.
_ADDING = frozenset(["addmm", "baddbmm", "addbmm", "addmv", "addr"])
_COPY_KINDS = ("memcpy-dtod", "cast-copy")


def _check(ctx: Context) -> Outcome:
    if not len(ctx.tree.events):
        return Clear()
    return [draft for draft in (_hidden(ctx), _asked(ctx)) if draft is not None] or Clear()


def _asked(ctx: Context) -> Draft | None:
    """Clones that the program asks for and does not need."""
    seq, places = ctx.sequence, spare_clones(ctx)
    if not len(places):
        return None
    largest = places[np.argsort(-seq.ns[places], kind="stable")]
    now = float(seq.ns[places].sum())
    shape = seq.op(int(largest[0])).tensors[0].shape
    return Draft(
        {
            "copies": count(ctx.per_step(len(places))),
            "gpu": duration(ctx.per_step(now)),
            "shape": " x ".join(str(n) for n in shape),
            "bytes": size(_copied_bytes(ctx, seq, int(largest[0]))),
        },
        Change(gpu=dict.fromkeys(seq.rows[places].tolist(), 0), cpu=ctx.call_intervals(seq.call[places])),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest]]),
        variant="asked",
        confidence="medium",
        where=ctx.where(int(seq.owner[largest[0]])),
    )


def _hidden(ctx: Context) -> Draft | None:
    """Copies that ops make of their inputs."""
    seq = ctx.sequence
    culprit = _culprits(ctx, seq)
    copies = np.flatnonzero(np.isin(seq.kind.astype(str), _COPY_KINDS) & (culprit >= 0) & ~seq.backward & ~seq.compiled)
    casts = np.array([_casts(op) for op in seq.ops], dtype=np.bool_)
    copies = copies[~casts[seq.op_of[copies]]] if len(copies) else copies
    if not len(copies):
        return None
    names = np.array([ctx.trace.name_of(int(e)).removeprefix("aten::") for e in culprit[copies]], dtype=object)
    kinds, inverse = np.unique(names.astype(str), return_inverse=True)
    dearest = int(np.bincount(inverse, weights=seq.ns[copies]).argmax())
    name = str(kinds[dearest])
    mine = copies[inverse == dearest]
    largest = mine[np.argsort(-seq.ns[mine], kind="stable")]
    now = float(seq.ns[copies].sum())
    return Draft(
        {
            "op": name,
            "in_place": f"{name}_",
            "ops": ", ".join(str(k) for k in kinds[np.argsort(-np.bincount(inverse, weights=seq.ns[copies]))][:4]),
            "copies": count(ctx.per_step(len(copies))),
            "gpu": duration(ctx.per_step(now)),
            "bytes": size(_copied_bytes(ctx, seq, int(largest[0]))),
        },
        Change(gpu=dict.fromkeys(seq.rows[copies].tolist(), 0), cpu=ctx.intervals(_copying_events(ctx, seq, copies, culprit))),
        ctx.per_step(now),
        [*first_events(ctx.gpu_event[seq.rows[largest]]), int(culprit[largest[0]])],
        variant="product" if name in _ADDING else "",
        confidence="medium",
        where=ctx.where(int(culprit[largest[0]])),
    )


def _culprits(ctx: Context, seq: Sequence) -> Array:
    """int64 (n,): event of the copying op around each GPU op, -1 where there is none or it is around other ops' copies."""
    trace, tree = ctx.trace, ctx.tree
    plumbing = trace.names_where(lambda s: s in ("aten::copy_", "aten::clone", "aten::contiguous", "aten::expand"))
    wanted = trace.names_where(lambda s: s.removeprefix("aten::") in _COPYING | _ADDING)
    nearest = tree.nearest(~plumbing[trace.name[tree.events]])
    place = np.where(seq.owner >= 0, ctx.place[np.maximum(seq.owner, 0)], -1)
    itself = np.where(place >= 0, tree.events[np.maximum(place, 0)], -1)
    up = np.where(place >= 0, nearest[np.maximum(place, 0)], -1)
    above = np.where(up >= 0, tree.events[np.maximum(up, 0)], -1)
    event = np.where((itself >= 0) & ~plumbing[trace.name[np.maximum(itself, 0)]], itself, above)
    good = (event >= 0) & wanted[trace.name[np.maximum(event, 0)]]
    # F.linear and nn.Linear have their own way to add a bias: what they call is not the program's choice.
    good &= seq.called_name != "linear"
    return np.where(good, event, -1).astype(np.int64)


def _casts(op: Op) -> bool:
    """Whether a copy also changes the type: then it is no mere copy of the input."""
    return op.name == "copy_" and len(op.tensors) > 1 and op.tensors[0].dtype != op.tensors[1].dtype


def _copied_bytes(ctx: Context, seq: Sequence, i: int) -> float | None:
    recorded = int(ctx.trace.column("gpu_ops", "bytes")[seq.rows[i]])
    if recorded > 0:
        return float(recorded)
    tensors = seq.op(i).tensors
    return float(tensors[0].stored_bytes) if tensors and tensors[0].dtype else None


def _copying_events(ctx: Context, seq: Sequence, copies: Array, culprit: Array) -> Array:
    """The clone or copy inside the op, whose CPU time goes with it; for a product the library's own call."""
    own = seq.owner[copies]
    calls = ctx.launches.call[ctx.launches.launch[seq.rows[copies]]]
    events = np.where(own == culprit[copies], calls, own)
    parents = np.array([ctx.parent(int(e)) for e in events])
    clone = np.array([p >= 0 and ctx.trace.name_of(int(p)) == "aten::clone" for p in parents], dtype=np.bool_)
    return np.where(clone, parents, events)


RULE = Rule(
    id="hidden-copy",
    precedence=30,
    needs=("gpu_events", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Hidden copy",
        "title": "{op} copies its whole input first: {gpu} a step",
        "text": "{ops} without a trailing underscore copies what it is called on ({bytes} in the largest case) and changes the copy: "
        "copies a step: {copies}. Where the original is not needed any more, the copy is not either.",
        "fix": "x.{in_place}(...) in place of x.{op}(...); under autograd only where no op before needs x for its gradient",
        "title_product": "{op} copies its addend first: {gpu} a step",
        "text_product": "{ops} copies what it adds to the matmul into the result ({bytes} in the largest case) before "
        "the matmul adds to it; copies a step: {copies}.",
        "fix_product": "x.{in_place}(a, b) where x is not needed any more; for a bias of one dimension F.linear(a, weight, bias), which adds "
        "it inside the product",
        "title_asked": "clone() copies {shape} and nothing is written to it: {copies} a step",
        "text_asked": "{gpu} a step ({bytes} in the largest case), though no op of the step changes a tensor of that kind in place: both "
        "stay equal, and one of them is enough. Writes outside the recorded steps are not seen.",
        "fix_asked": "before = h instead of before = h.clone(): a name is enough as long as nothing is written in place",
        "doc_finds": "Copies of the whole input inside ops that exist in place too (`masked_fill`, `index_add`, `index_put`, `scatter` and "
        "others), and inside matmuls that add something (`addmm`, `baddbmm`). And calls of `clone()`, "
        "two a step or more, where shapes were recorded, and no op in place writes to a tensor that could be the copy or its original.",
        "doc_why": "The copy reads and writes the tensor once more than the op itself needs, and takes as much memory again.",
        "doc_fix": "scores.masked_fill_(mask, -1e4)\nx.index_add_(0, index, values)",
        "doc_fine": "Where the original is used afterwards, or autograd needs it: then the copy is wanted.",
        "doc_measured": "The GPU time of the copies and the CPU time of the calls that make them; the trace does not tell whether the "
        "original is used again.",
    },
)
