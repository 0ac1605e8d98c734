"""unused-outputs: products and convolutions compute rows or samples of which only a part is taken."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import ITEM_BYTES

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import LAUNCH_NS, product_ns
from .parts import PASSING, Pick, Uses, pick_of
from .row_chains import RowChain, row_chains
from .sequence import Product

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Where more is used, the product is needed for the most part.
_MOST_USED = 0.5
# What does the same to each row: it could as well be done to the rows that are taken.
_ROW_BY_ROW = frozenset(
    [
        "to",
        "_to_copy",
        "float",
        "half",
        "bfloat16",
        "double",
        "type_as",
        "clone",
        "contiguous",
        "mul",
        "div",
        "add",
        "sub",
        "mul_",
        "div_",
        "add_",
        "sub_",
        "neg",
        "exp",
        "log",
        "tanh",
        "tanh_",
        "sigmoid",
        "relu",
        "relu_",
        "gelu",
        "silu",
        "clamp",
        "clamp_",
        "clamp_min",
        "clamp_max",
        "softmax",
        "_softmax",
        "log_softmax",
        "_log_softmax",
        "masked_fill",
        "masked_fill_",
        "layer_norm",
        "rms_norm",
    ]
)
_OVER_ONE_DIMENSION = ("softmax", "_softmax", "log_softmax", "_log_softmax")


@dataclass(frozen=True, slots=True)
class _Wasted:
    """A product most of whose rows nobody takes.

    Attributes:
        call: number of its call.
        product: its sizes.
        places: its GPU ops by place in the sequence.
        between: numbers of the calls that do something to each row before some are taken.
        pick: the first call's taking.
        used: part of the rows that is taken.
    """

    call: int
    product: Product
    places: Array
    between: list[int]
    pick: Pick
    used: float


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    if not len(seq) or seq.backward.any():
        return Clear()
    products = _wasted(ctx)
    chains = row_chains(ctx, ctx.answer(Uses), _MOST_USED, _compiled(ctx))
    found = ([_of_products(ctx, products)] if products else []) + ([_of_samples(ctx, chains)] if chains else [])
    return found or Clear()


def _compiled(ctx: Context) -> Array:
    """bool (calls,): calls in compiled code."""
    seq = ctx.sequence
    out = np.zeros(len(ctx.called), dtype=np.bool_)
    out[seq.call[seq.compiled & (seq.call >= 0)]] = True
    return out


def _of_samples(ctx: Context, chains: list[RowChain]) -> Draft:
    """The finding of stretches of whose samples only a part is taken."""
    after: dict[int, int] = {}
    now = 0.0
    for chain in chains:
        rows = np.flatnonzero(np.isin(ctx.called.of_row, chain.calls))
        ns = ctx.gpu_ns[rows]
        now += float(ns.sum())
        then = np.minimum(np.maximum(ns * chain.used, LAUNCH_NS), ns).astype(int)
        after.update(zip(rows.tolist(), then.tolist(), strict=True))
    longest = max(chains, key=lambda c: len(c.calls))
    events = ctx.called.event[list(longest.calls)]
    names = [ctx.trace.name_of(int(e)).removeprefix("aten::") for e in events]
    return Draft(
        {
            "rows": count(longest.pick.size),
            "taken": count(round(longest.used * longest.pick.size)),
            "convs": count(sum(name.startswith("conv") for name in names)),
            "calls": count(len(names)),
            "gpu": duration(ctx.per_step(now)),
            "shape": " x ".join(map(str, longest.pick.shape)),
            "dim": str(longest.pick.dim),
            "times": count(ctx.per_step(len(chains))),
        },
        Change(gpu=after),
        ctx.per_step(now),
        first_events(events),
        variant="samples",
        confidence="medium",
        where=ctx.where(int(events[0])),
    )


def _of_products(ctx: Context, found: list[_Wasted]) -> Draft:
    """The finding of products of whose rows only a part is taken."""
    seq = ctx.sequence
    after: dict[int, int] = {}
    now = 0.0
    for w in found:
        product_now = float(seq.ns[w.places].sum())
        ratio = _product_then(ctx, w, product_now) / max(product_now, 1.0)
        after.update(zip(seq.rows[w.places].tolist(), (seq.ns[w.places] * ratio).astype(int).tolist(), strict=True))
        now += product_now
        rest = np.flatnonzero(np.isin(ctx.called.of_row, w.between))
        ns = ctx.gpu_ns[rest]
        now += float(ns.sum())
        then = np.minimum(np.maximum(ns * w.used, LAUNCH_NS), ns).astype(int)
        after.update(zip(rest.tolist(), then.tolist(), strict=True))
    largest = max(found, key=lambda w: int(seq.ns[w.places].sum()))
    p, pick = largest.product, largest.pick
    names = list(dict.fromkeys(ctx.trace.name_of(int(ctx.called.event[c])).removeprefix("aten::") for c in largest.between))
    taken = round(largest.used * pick.size)
    return Draft(
        {
            "rows": count(pick.size),
            "taken": count(taken),
            "gpu": duration(ctx.per_step(now)),
            "shape": " x ".join(map(str, pick.shape)),
            "dim": str(pick.dim),
            "times": count(ctx.per_step(len(found))),
            "product": f"({p.batch * p.m} x {p.k}) ({p.k} x {p.n})",
            "ops": ", ".join(names),
        },
        Change(gpu=after),
        ctx.per_step(now),
        first_events(ctx.gpu_event[seq.rows[largest.places[np.argsort(-seq.ns[largest.places], kind="stable")]]]),
        variant="between" if names else "",
        confidence="medium",
        where=ctx.where(int(ctx.called.event[largest.call])),
    )


def _wasted(ctx: Context) -> list[_Wasted]:
    """Products of the steps, without a backward pass, of whose rows only a part is taken."""
    seq = ctx.sequence
    uses = ctx.answer(Uses)
    picked = uses.picked_sizes()
    wanted = np.array([_may_be_picked(op.product, picked) for op in seq.ops], dtype=np.bool_)
    places = np.flatnonzero(wanted[seq.op_of] & (seq.call >= 0) & ~seq.compiled)
    found = []
    for call in np.unique(seq.call[places]).tolist():
        mine = np.flatnonzero(seq.call == call)
        product = next(p for i in mine if (p := seq.op(int(i)).product) is not None)
        if (wasted := _taken_of(ctx, uses, call, product, mine)) is not None:
            found.append(wasted)
    return found


def _may_be_picked(product: Product | None, picked: dict[int, list[Pick]]) -> bool:
    if product is None:
        return False
    return any(_is_row(pick, product) for pick in picked.get(product.elements, ()))


def _is_row(pick: Pick, product: Product) -> bool:
    """Whether a call takes some rows of a product, at most so many that the others are the larger part."""
    few = pick.end - pick.begin <= _MOST_USED * pick.size
    return few and pick.shape[-1] == product.n and pick.dim < len(pick.shape) - 1


def _taken_of(ctx: Context, uses: Uses, call: int, product: Product, places: Array) -> _Wasted | None:
    """What the calls after a product take of its rows; None where something uses all of them, or nothing any."""
    between: list[int] = []
    first: Pick | None = None
    taken: set[int] = set()
    for later in uses.after(call, product.elements):
        name, recorded = uses.name(later), uses.inputs(later)
        if recorded is None:
            return None
        launches = bool(ctx.called.kernels[later])
        pick = pick_of(name, recorded)
        if pick is not None:
            if pick.whole:
                continue
            if not _is_row(pick, product) or (first is not None and pick[0::3] != first[0::3]):
                return None
            first = first or pick
            taken |= set(range(pick.begin, pick.end))
        elif not launches and name in PASSING:
            continue
        elif launches and first is None and _row_by_row(name, recorded, product.elements):
            between.append(later)
        else:
            return None
    if first is None or len(taken) > _MOST_USED * first.size:
        return None
    return _Wasted(call, product, places, between, first, len(taken) / first.size)


def _row_by_row(name: str, recorded: Any, elements: int) -> bool:
    if name not in _ROW_BY_ROW or sum(t.numel == elements for t in recorded.tensors()) != 1:
        return False
    rank = len(next(t.shape for t in recorded.tensors() if t.numel == elements))
    return name not in _OVER_ONE_DIMENSION or recorded.integer(1) in (-1, rank - 1)


def _product_then(ctx: Context, w: _Wasted, now: float) -> float:
    """Time of the product with the rows that are taken."""
    p = w.product
    rows = ceil(p.batch * p.m * w.used)
    item = ITEM_BYTES.get(p.a.dtype or "", 4)
    moved = item * (rows * (p.k + p.n) + p.b.numel)
    longest = w.places[np.argmax(ctx.sequence.ns[w.places])]
    tf32 = ctx.kernel(int(ctx.sequence.rows[longest])).dtype == "tf32"
    ns = product_ns(ctx, 2.0 * rows * p.k * p.n, moved, "tf32" if tf32 else p.a.dtype or "")
    return min(now, max(now * w.used, LAUNCH_NS) if ns is None else ns)


RULE = Rule(
    id="unused-outputs",
    precedence=20,
    needs=("gpu_events", "launches", "cpu_ops", "shapes"),
    check=_check,
    english={
        "name": "Outputs that nobody uses",
        "title": "{taken} of {rows} rows of a product are used: {gpu} of GPU time",
        "text": "The product {product} gives {shape}, of which what follows takes {taken} of {rows} along dimension {dim}; nothing else in the step uses the rest. "
        "{times:time} a step.",
        "text_between": "The product {product} gives {shape}, of which what follows takes {taken} of {rows} along dimension {dim}; nothing else in the step uses the rest, "
        "but the ops in between ({ops}) run over all of it. {times:time} a step.",
        "title_samples": "{taken} of {rows} samples of {convs:convolution} are used: {gpu}",
        "text_samples": "{calls:op} in a row compute {shape}, each sample by itself; what follows takes {taken} of {rows} along dimension {dim}, "
        "and nothing else in the step uses the rest. {times:time} a step.",
        "fix_samples": "Take the samples before the first of these ops: decode(h[:, i]) in place of decode(h)[:, i].",
        "fix": "Take the rows before the product: head(h[:, -1]) in place of head(h)[:, -1]. Hugging Face: model(..., logits_to_keep=1), "
        "num_logits_to_keep in older versions.",
        "doc_finds": "Matrix products (linear layers) without a backward pass of whose rows `select`, `slice`, `narrow` or `index_select` take half or less, while no "
        "other op in the step has an operand of the full size. Ops in between that do the same to each row (casts, temperatures, softmax) belong to it. So do stretches of convolutions, with "
        "pointwise ops and norms of each sample between them, of whose samples half or less is taken.",
        "doc_why": "The last layer of a language model is the largest product of it, and its result the largest tensor. After a prompt of a thousand tokens one "
        "row is sampled from, and the other 999 were computed, cast and thrown away.",
        "doc_fix": "h = body(ids)\n"
        "logits = head(h[:, -1]).float()              # not head(h).float()[:, -1]\n"
        "out = model(input_ids, logits_to_keep=1)     # Hugging Face",
        "doc_fine": "Scoring, where each position's loss counts, or where the caller keeps all logits for later: then no op of the step shows it.",
        "doc_measured": "The product's time less that of the same product with the rows that are taken: its arithmetic at 80 % of the card's peak, or its weights and "
        "results at 88 % of the bandwidth, whichever takes longer. Of the ops in between, and of stretches of convolutions, the part that nobody takes. Half of the rows at most may be taken: "
        "beyond, most of the product is needed.",
    },
)
