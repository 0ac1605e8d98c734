"""unbatched-gemms: a Python loop that makes small products of one shape, which could be one batched product."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import union

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import product_ns, stream_ns
from .pointwise_chains import result_of
from .sequence import Product, Sequence
from .step_python import ENGINE_NS

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Calls that launch work in one pass of the loop: a product or two with what lies between. More would be a layer.
_MOST_CALLS = 6
# Fewer passes are written out by hand (queries, keys and values), and save little.
_LEAST_PASSES = 4
# What takes the i-th part of a batch in pass i; its index is a scalar input.
_PICKING = ("select", "slice", "narrow", "index_select")
# What a product alone launches.
_PRODUCT_KINDS = ("gemm", "gemv", "memset", "gemm-aux", "cast-copy", "memcpy-dtod", "transpose-layout")


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop in the launching calls: numbers of its calls, how many make a pass, whether each pass picks its part of a batch."""

    calls: Array
    period: int
    picks: bool

    @property
    def passes(self) -> int:
        return len(self.calls) // self.period


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    seq = ctx.sequence
    if not len(ctx.called) or not len(seq):
        return Clear()
    loops = _loops(ctx, seq)
    if not loops:
        return Clear()
    back = seq.made_in_backward(
        np.array([ctx.called.event[lo.calls[0]] for lo in loops]), np.array([ctx.called.event[lo.calls[-1]] for lo in loops])
    )
    change, now, after = _change(ctx, seq, loops, back)
    longest = max(loops, key=lambda lo: lo.passes)
    product, place = _product_in(seq, longest)
    events = ctx.called.event[longest.calls]
    return [
        Draft(
            {
                "products": count(ctx.per_step(sum(lo.passes * _products(seq, lo) for lo in loops))),
                "passes": count(longest.passes),
                "shape": f"({product.m}, {product.k}) x ({product.k}, {product.n})",
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(after)),
                "cpu": duration(float(ctx.trace.end[events[-1]] - ctx.trace.ts[events[0]])),
            },
            change,
            ctx.per_step(now),
            [*first_events(events, 4), *first_events(ctx.gpu_event[seq.rows[np.flatnonzero(seq.call == longest.calls[0])]], 2)],
            fix_variant="picked" if longest.picks else "",
            confidence="high" if longest.picks else "medium",
            where=ctx.where(int(seq.owner[place])),
        )
    ]


def _loops(ctx: Context, seq: Sequence) -> list[_Loop]:
    """Stretches of launching calls that repeat with products in them, and whose passes do not build on each other."""
    # Calls are numbered by thread and start, as the sequence is ordered: one stretch each, but for what no call launched.
    first = np.r_[0, np.flatnonzero(np.diff(seq.call)) + 1]
    calls = seq.call[first]
    known = (calls >= 0) & ~seq.compiled[first]
    calls, first = calls[known], first[known]
    if len(calls) < _LEAST_PASSES:
        return []
    event = ctx.called.event[calls]
    last = np.r_[np.flatnonzero(np.diff(seq.call)), len(seq) - 1][known]
    launched = seq.op_of[first] * (len(seq.ops) + 1) + seq.op_of[last]
    _, key = np.unique(np.c_[ctx.trace.name[event], launched], axis=0, return_inverse=True)
    has_product = np.array([op.product is not None for op in seq.ops], dtype=np.bool_)
    with_product = np.isin(calls, seq.call[has_product[seq.op_of] & (seq.call >= 0)])
    lane, step = seq.lane[first], seq.step[first]
    found: list[_Loop] = []
    taken = np.zeros(len(calls), dtype=np.bool_)
    for period in range(1, _MOST_CALLS + 1):
        same = (key[period:] == key[:-period]) & (lane[period:] == lane[:-period]) & (step[period:] == step[:-period])
        for begin, length in _runs(same):
            passes = length // period + 1
            inner = np.arange(begin, begin + passes * period)
            if passes < _LEAST_PASSES or taken[inner].any() or not with_product[inner[:period]].any():
                continue
            picks = _picks(ctx, calls[inner], period)
            loop = _Loop(calls[inner], period, picks)
            if not _recurs(ctx, seq, loop) if picks else period == 1 and _cannot_chain(seq, int(calls[inner[0]])):
                taken[inner] = True
                found.append(loop)
    return sorted(found, key=lambda lo: int(lo.calls[0]))


def _runs(same: Array) -> list[tuple[int, int]]:
    """(begin, length) of runs of True."""
    edges = np.flatnonzero(np.diff(np.r_[False, same, False].astype(np.int8)))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _picks(ctx: Context, calls: Array, period: int) -> bool:
    """Whether each pass first picks its part of a batch: the same op on the same tensor with the next index."""
    indices = []
    for pass_ in range(1, len(calls) // period):
        begin, end = int(calls[pass_ * period - 1]) + 1, int(calls[pass_ * period])
        picked = [n for n in range(begin, end) if _name(ctx, n) in _PICKING]
        found = ctx.inputs(int(ctx.called.event[picked[0]])) if picked else None
        numbers = [v for v in (found.concrete if found is not None and found.concrete else []) if str(v).lstrip("-").isdigit()]
        if len(numbers) < 2:
            return False
        indices.append(int(numbers[1]))
    steps = set(np.diff(indices).tolist())
    return len(steps) == 1 and 0 not in steps


def _name(ctx: Context, call: int) -> str:
    return ctx.trace.name_of(int(ctx.called.event[call])).removeprefix("aten::")


def _cannot_chain(seq: Sequence, call: int) -> bool:
    """Whether a call is nothing but a product whose result does not fit as its own operand: the next cannot build on it."""
    places = np.flatnonzero(seq.call == call)
    if not np.isin(seq.kind[places].astype(str), _PRODUCT_KINDS).all():
        return False
    for i in places:
        p = seq.op(int(i)).product
        if p is not None:
            return p.n != p.k and p.m != p.k
    return False


def _recurs(ctx: Context, seq: Sequence, loop: _Loop) -> bool:
    """Whether each pass may take what the one before made: recurrent cells by name, others by the sizes of their operands.

    A pass that only multiplies has its operands from outside. Where more is done, an operand that the pass has neither picked
    nor made, and that is as large as its result, may be the state that goes from pass to pass.
    """
    calls = loop.calls[loop.period : 2 * loop.period]
    places = np.flatnonzero(np.isin(seq.call, calls) & (seq.kind != "memset"))
    kinds = seq.kind[places].astype(str)
    if (kinds == "rnn").any():
        return True
    if np.isin(kinds, _PRODUCT_KINDS).all():
        return False
    own = _picked(ctx, int(loop.calls[loop.period - 1]) + 1, int(calls[-1]))  # elements of what is there and not used yet
    outside: set[int] = set()
    result = 0
    for owner in dict.fromkeys(seq.owner[places].tolist()):
        op = seq.op(int(places[np.flatnonzero(seq.owner[places] == owner)[0]]))
        for tensor in op.tensors[1:] if op.name == "copy_" else op.tensors:
            if tensor.numel in own:
                own.remove(tensor.numel)
            else:
                outside.add(tensor.numel)
        made = result_of(op)
        result = op.product.elements if op.product is not None else made.numel if made is not None else 0
        own.append(result)
    return result in outside


def _picked(ctx: Context, begin: int, end: int) -> list[int]:
    """Elements of the parts that some calls take of a batch."""
    out = []
    for call in range(begin, end):
        found = ctx.inputs(int(ctx.called.event[call])) if _name(ctx, call) in _PICKING else None
        sizes = found.dims[0] if found is not None and found.dims else None
        numbers = [int(v) for v in (found.concrete or []) if str(v).lstrip("-").isdigit()] if found is not None else []
        if sizes and all(isinstance(n, int) for n in sizes) and numbers and -len(sizes) <= numbers[0] < len(sizes):
            taken = numbers[2] - numbers[1] if _name(ctx, call) == "slice" and len(numbers) > 2 else 1
            out.append(prod(sizes) // max(sizes[numbers[0]], 1) * max(taken, 1))
    return out


def _product_in(seq: Sequence, loop: _Loop) -> tuple[Product, int]:
    for i in np.flatnonzero(np.isin(seq.call, loop.calls[: loop.period])):
        p = seq.op(int(i)).product
        if p is not None:
            return p, int(i)
    raise AssertionError("a loop has a product")


def _products(seq: Sequence, loop: _Loop) -> int:
    """Products in one pass."""
    inner = np.flatnonzero(np.isin(seq.call, loop.calls[: loop.period]))
    return len({int(seq.owner[i]) for i in inner if seq.op(int(i)).product is not None})


def _change(ctx: Context, seq: Sequence, loops: list[_Loop], back: Array) -> tuple[Change, float, float]:
    """(what batching changes, GPU ns now, batched), over all steps."""
    after: dict[int, int] = {}
    begins: list[int] = []
    ends: list[int] = []
    now = then = 0.0
    nodes, stretch, until = _nodes(ctx, seq, loops)
    for number, loop in enumerate(loops):
        places = np.flatnonzero(np.isin(seq.call, loop.calls))
        for group in (places, np.flatnonzero(back == number)):
            for op in np.unique(seq.op_of[group]):
                mine = group[seq.op_of[group] == op]
                present = float(seq.ns[mine].sum())
                batched = min(_batched_ns(ctx, seq, mine), present)
                after.update(
                    zip(seq.rows[mine].tolist(), (seq.ns[mine] * (batched / present)).astype(int).tolist(), strict=True)
                )
                now, then = now + present, then + batched
        event = ctx.called.event[loop.calls]
        begins.append(int(ctx.trace.end[event[loop.period - 1]]))
        ends.append(int(ctx.trace.end[event[-1]]))
        rest = nodes[stretch == number]
        rest = rest[max(len(rest) // loop.passes, 1) :]
        begins += ctx.trace.ts[rest].tolist()
        ends += until[stretch == number][-len(rest) :].tolist() if len(rest) else []
    cpu = union(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    return Change(gpu=after, cpu=cpu), now, then


def _nodes(ctx: Context, seq: Sequence, loops: list[_Loop]) -> tuple[Array, Array, Array]:
    """(autograd's nodes of the loops in order, loop of each, when the engine has handed out the next one, soon after)."""
    event = ctx.called.event
    nodes, stretch = seq.backward_nodes(
        np.array([event[loop.calls[0]] for loop in loops]), np.array([event[loop.calls[-1]] for loop in loops])
    )
    order = np.argsort(ctx.trace.ts[nodes], kind="stable")
    nodes, stretch = nodes[order], stretch[order]
    end = ctx.trace.end[nodes]
    following = np.r_[ctx.trace.ts[nodes[1:]], end[-1:]] if len(nodes) else end
    until = np.where((following >= end) & (following - end <= ENGINE_NS), following, end)
    return nodes, stretch, until


def _batched_ns(ctx: Context, seq: Sequence, places: Array) -> float:
    """Time of all passes of one op as one kernel; the present time where its size is not known."""
    owners = np.unique(seq.owner[places])
    work = ctx.work(int(owners[0]))
    if work is None or work.bytes is None:
        return float(seq.ns[places].sum())
    product = seq.op(int(places[0])).product
    ns = stream_ns(ctx, work.bytes * len(owners))
    if product is not None:
        tf32 = ctx.kernel(int(seq.rows[places[0]])).dtype == "tf32"
        ns = product_ns(ctx, product.flops * len(owners), work.bytes * len(owners), "tf32" if tf32 else product.a.dtype or "")
    return float(seq.ns[places].sum()) if ns is None else ns


RULE = Rule(
    id="unbatched-gemms",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Matmuls in a loop",
        "title": "{products} matmuls a step in a loop, where a batched one would do",
        "text": "A loop of {passes} passes multiplies {shape} in each: {cpu} of CPU time as recorded, for {gpu} of GPU time a step. Batched, the "
        "GPU needs about {after} and the CPU one call.",
        "fix": "y = torch.bmm(torch.stack(a), torch.stack(b))",
        "fix_picked": "y = torch.bmm(a, b)   # the whole batch instead of a[i] @ b[i] in a loop; more dimensions: a @ b",
        "doc_finds": "Calls that launch work and repeat at least four times with a matmul of one shape in each pass, where the passes "
        "cannot build on each other: each picks the next part of a batch, or the result does not fit as the next operand.",
        "doc_why": "A small matmul occupies a few SMs for some microseconds, and each call costs the CPU more than that. One batched matmul "
        "fills the card with all of them in one launch.",
        "doc_fix": "y = torch.bmm(a, b)                      # (n, m, k) x (n, k, p)\n"
        "y = torch.einsum('nmk,nkp->nmp', a, b)   # the same\n"
        "y = F.linear(x, w.flatten(0, 1)).unflatten(-1, (n, p))  # one x, many weights",
        "doc_fine": "Passes of different sizes (mixtures of experts: grouped matmuls, `torch._grouped_mm`), or matmuls that fill the card "
        "each.",
        "doc_measured": "GPU time against one batched kernel for each op of the loop (arithmetic at 80 % of the dense peak or traffic at "
        "88 % of the bandwidth); CPU time from the end of the first pass to the end of the last. At most six launching calls make a pass: "
        "more would be a layer.",
    },
)
