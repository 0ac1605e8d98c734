"""expert-loop: a mixture of experts that runs its experts one after the other and waits for the size of each one's share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.host_syncs import host_syncs
from lanewise.analyses.replay import Change
from lanewise.model.intervals import length, union
from lanewise.work.inputs import ITEM_BYTES

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import product_ns, stream_ns
from .loops import stretches
from .sequence import Op, Product, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Launching calls of one expert: finding its tokens (2 to 4), gathering them, two or three products with what lies between,
# weighting and adding them (2 to 4).
_MOST_CALLS = 16
# Sorting the tokens by expert, counting and offsets, gathering and scattering all of them once.
_SORTING_OPS = 8


@dataclass(frozen=True, slots=True)
class _Loop:
    """One loop: its launching calls, how many make a pass, and the places of its GPU ops in the sequence."""

    calls: Array
    period: int
    places: Array

    @property
    def passes(self) -> int:
        return len(self.calls) // self.period


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    seq = ctx.sequence
    syncs = ctx.trace.analysis(host_syncs)
    shaped = np.unique(syncs.call[syncs.is_kind("shape")])
    loops = _loops(ctx, seq, shaped) if len(shaped) and len(seq) else []
    if not loops:
        return Clear()
    calls = np.concatenate([loop.calls for loop in loops])
    places = np.concatenate([loop.places for loop in loops])
    event = [ctx.called.event[loop.calls] for loop in loops]
    begins = np.array([int(ctx.trace.end[e[loop.period - 1]]) for e, loop in zip(event, loops, strict=True)])
    gone = union(begins, np.array([int(ctx.trace.end[e[-1]]) for e in event]))
    waits = syncs.waits[np.isin(syncs.call[syncs.site], calls)]
    now, after = float(seq.ns[places].sum()), _grouped(ctx, seq, loops)
    longest = max(loops, key=lambda loop: loop.passes)
    products = [p for p in (seq.ops[k].product for k in np.unique(seq.op_of[longest.places])) if p is not None]
    return [
        Draft(
            {
                "loops": count(ctx.per_step(len(loops))),
                "experts": count(longest.passes),
                "waits": count(ctx.per_step(len(np.unique(waits)))),
                "least": count(min(p.m for p in products)),
                "most": count(max(p.m for p in products)),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(float(sum(after.values())))),
                "cpu": duration(ctx.per_step(length(gone))),
            },
            Change(gpu=after, cpu=gone, waits=waits, extra_cpu_ns=ctx.per_step(len(loops) * _SORTING_OPS * ctx.op_cpu_ns)),
            ctx.per_step(now),
            [*first_events(event[0], 6), *first_events(waits, 2)],
            confidence="medium",
            symptoms=("host-sync", "unfused-pointwise"),
            where=ctx.where(int(event[0][0])),
        )
    ]


def _loops(ctx: Context, seq: Sequence, shaped: Array) -> list[_Loop]:
    """Stretches of launching calls that repeat but for the number of tokens, with a product and a wait for a size in each pass."""
    first = np.r_[0, np.flatnonzero(np.diff(seq.call)) + 1]
    keep = (seq.call[first] >= 0) & ~seq.compiled[first] & ~seq.backward[first]
    last = np.r_[first[1:], len(seq)][keep] - 1
    first = first[keep]
    calls = seq.call[first]
    signs: dict[Any, int] = {}
    sign = np.array([signs.setdefault(_sign(op), len(signs)) for op in seq.ops])[seq.op_of[first]]
    key = ctx.trace.name[ctx.called.event[calls]].astype(np.int64) * (len(signs) + 1) + sign
    lane, step = seq.lane[first], seq.step[first]
    multiplies = np.array([op.product is not None for op in seq.ops], dtype=np.bool_)
    product = np.isin(calls, seq.call[multiplies[seq.op_of] & (seq.call >= 0)])
    waiting = np.isin(calls, shaped)
    taken = np.zeros(len(calls), dtype=np.bool_)
    found = []
    for period in range(3, _MOST_CALLS + 1):
        for begin, passes in stretches(key, lane, step, period):
            inner = np.arange(begin, begin + passes * period)
            body = inner[:period]
            if not taken[inner].any() and product[body].any() and waiting[body].any():
                loop = _Loop(calls[inner], period, np.arange(first[inner[0]], last[inner[-1]] + 1))
                taken[inner] = True
                if _rows_differ(seq, loop):
                    found.append(loop)
    return sorted(found, key=lambda loop: int(loop.calls[0]))


def _rows_differ(seq: Sequence, loop: _Loop) -> bool:
    """Whether the products of the passes have different numbers of rows: shares of one batch. Layers that follow one another and
    wait for a size each multiply all rows."""
    ops = [seq.ops[k] for k in np.unique(seq.op_of[loop.places])]
    return len({op.product.m for op in ops if op.product is not None}) > 1


def _sign(op: Op) -> Any:
    """What stays the same from expert to expert: the name, and the shapes but for their first size, the tokens."""
    return (op.name, tuple(t.shape[1:] for t in op.tensors))


def _grouped(ctx: Context, seq: Sequence, loops: list[_Loop]) -> dict[int, int]:
    """New durations by row: the products and pointwise ops of all experts as one grouped kernel each, one search for the tokens."""
    after: dict[int, int] = {}
    for loop in loops:
        number = np.searchsorted(loop.calls, seq.call[loop.places])
        for position in range(loop.period):
            mine = loop.places[number % loop.period == position]
            present = float(seq.ns[mine].sum())
            together = min(_together_ns(ctx, seq, mine), present)
            after.update(
                zip(seq.rows[mine].tolist(), (seq.ns[mine] * (together / max(present, 1))).astype(int).tolist(), strict=True)
            )
    return after


def _together_ns(ctx: Context, seq: Sequence, places: Array) -> float:
    """Time of the same call of all passes as one kernel; what only looks for tokens is done once for all of them."""
    ops = [seq.ops[k] for k in seq.op_of[places]]
    products = [(op.product, int(i)) for op, i in zip(ops, places.tolist(), strict=True) if op.product is not None]
    if products:
        flops = float(sum(p.flops for p, _ in products))
        n_bytes = float(sum(_product_bytes(p) for p, _ in products))
        tf32 = ctx.kernel(int(seq.rows[products[0][1]])).dtype == "tf32"
        ns = product_ns(ctx, flops, n_bytes, "tf32" if tf32 else products[0][0].a.dtype or "")
    else:
        # A gather reads what it writes, however large the tensor is from which it takes.
        ns = stream_ns(ctx, float(sum(3 * min(map(_bytes, op.tensors), default=0.0) for op in ops)))
    return float(seq.ns[places].sum()) if ns is None else ns


def _product_bytes(p: Product) -> float:
    item = ITEM_BYTES.get(p.a.dtype or "", 4)
    return float(item * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n))


def _bytes(t: Any) -> float:
    return float(t.numel * ITEM_BYTES.get(t.dtype or "", 4))


RULE = Rule(
    id="expert-loop",
    precedence=20,
    needs=("gpu_events", "launches", "shapes", "steps"),
    check=_check,
    english={
        "name": "Experts one after the other",
        "title": "{experts} experts run one after the other, with {waits} waits for the GPU a step",
        "text": "For each expert the CPU waits to learn how many tokens it has ({least} to {most}), then launches small matmuls: {cpu} of CPU "
        "time as recorded, for {gpu} of GPU time a step. Grouped, the GPU needs about {after}.",
        "fix": "Sort the tokens by expert once (argsort of the router's choice, one_hot, sum and cumsum on the GPU) and multiply all experts in one "
        "grouped matmul: torch._grouped_mm(x, weights, offs); or give each expert a fixed number of places and use torch.bmm. "
        "Hugging Face: experts_implementation='grouped_mm'.",
        "doc_finds": "Loops of launching calls, four passes or more, that repeat but for the number of rows, with a wait for a size (`nonzero`, "
        "`where`, a boolean index) in each pass, and matmuls whose number of rows differs from pass to pass.",
        "doc_why": "How many tokens an expert has is known on the GPU only. Asking for it empties the queue once an expert and layer, and the "
        "matmuls of each are too small to fill the card.",
        "doc_fix": "choice = router(x).argmax(-1)\n"
        "order = choice.argsort()\n"
        "offsets = F.one_hot(choice, experts).sum(0).cumsum(0).to(torch.int32)   # bincount would wait\n"
        "y = torch._grouped_mm(F.silu(torch._grouped_mm(x[order], w1, offsets)), w2, offsets)\n"
        "out = torch.empty_like(x).index_copy_(0, order, y)",
        "doc_fine": "A few experts with thousands of tokens each: their matmuls fill the card, and the waits are hidden behind them.",
        "doc_measured": "Each call of the loop body as one kernel for all experts: matmuls at 80 % of the dense peak or the bandwidth, all else "
        "at 88 % of the bandwidth; CPU time from the end of the first pass to the end of the last, less eight ops for sorting; no waits. "
        "At most 16 launching calls make a pass.",
    },
)
