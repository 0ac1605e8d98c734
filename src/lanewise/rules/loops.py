"""Loops of the program in what it launches: stretches of calls that repeat, and what batching their passes would save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import union

from .context import Context
from .limits import product_ns, stream_ns
from .pointwise_chains import result_of
from .sequence import Sequence
from .step_python import ENGINE_NS

__all__ = ["LEAST_PASSES", "Loop", "batching", "program_loops", "stretches"]

Array = npt.NDArray[Any]

# Fewer passes are written out by hand (queries, keys and values), and save little. Of the 8 or 16 experts that models have, a
# small batch may leave some without tokens.
LEAST_PASSES = 4
# What takes the i-th part of a batch in pass i; its index is a scalar input.
_PICKING = ("select", "slice", "narrow", "index_select")
# What hands out all parts of a batch at once, for the loop to go over; it comes right before the loop, but for what else the
# loop goes over (zip) and a result that is made ready.
_NEAR = 6
_UNBINDING = ("unbind", "split", "chunk", "split_with_sizes", "tensor_split")
# Launching calls in one pass: a pass with more is a model by itself, and rewriting it for a batch is no small fix.
_MOST_CALLS = 32
# Of these, a product or two with what lies between may go without picking; more would be a layer.
_MOST_PRODUCT_CALLS = 6
# What adds a pass's result to a sum, which may as well be taken once over all passes. A sum as large as a part may be a state:
# h * a + x[i] has the sizes of x[i] * a + h.
_ADDING = ("add", "add_")
# Lookups in a table; a loop over some has a table for each.
_LOOKUPS = ("embedding", "_embedding_bag", "embedding_bag")
# What a product alone launches.
_PRODUCT_KINDS = ("gemm", "gemv", "memset", "gemm-aux", "cast-copy", "memcpy-dtod", "transpose-layout")


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in the launching calls.

    Attributes:
        calls: int64 (passes * period,): numbers of its calls (`Context.called`).
        period: how many make a pass.
        picks: whether each pass picks its part of a batch.
        multiplies: whether it is a product or two with what lies between.
    """

    calls: Array
    period: int
    picks: bool
    multiplies: bool

    @property
    def passes(self) -> int:
        """How often it goes round."""
        return len(self.calls) // self.period


def stretches(key: Array, lane: Array, step: Array, period: int) -> Iterator[tuple[int, int]]:
    """(first place, passes) where keys repeat every `period` places on one lane and in one step, `LEAST_PASSES` times or more."""
    same = (key[period:] == key[:-period]) & (lane[period:] == lane[:-period]) & (step[period:] == step[:-period])
    edges = np.flatnonzero(np.diff(np.r_[False, same, False].astype(np.int8)))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        passes = (end - begin) // period + 1
        if passes >= LEAST_PASSES:
            yield begin, passes


def program_loops(ctx: Context) -> list[Loop]:
    """Loops of the program, in order, whose passes do not build on each other and could be one pass over a batch.

    Each pass picks the next part of a batch, or is nothing but a product whose result does not fit as the next operand.
    """
    seq = ctx.sequence
    if not len(ctx.called) or not len(seq):
        return []
    # Calls are numbered by thread and start, as the sequence is ordered: one stretch each, but for what no call launched.
    first = np.r_[0, np.flatnonzero(np.diff(seq.call)) + 1]
    last = np.r_[first[1:], len(seq)] - 1
    known = (seq.call[first] >= 0) & ~seq.compiled[first]
    first, last = first[known], last[known]
    calls = seq.call[first]
    launched = seq.op_of[first] * (len(seq.ops) + 1) + seq.op_of[last]
    _, key = np.unique(np.c_[ctx.trace.name[ctx.called.event[calls]], launched], axis=0, return_inverse=True)
    multiplying = np.array([op.product is not None for op in seq.ops], dtype=np.bool_)
    product = np.isin(calls, seq.call[multiplying[seq.op_of] & (seq.call >= 0)])
    found: list[Loop] = []
    taken = np.zeros(len(calls), dtype=np.bool_)
    for period in range(1, min(_MOST_CALLS, len(calls) // LEAST_PASSES) + 1):
        for begin, passes in stretches(key.ravel(), seq.lane[first], seq.step[first], period):
            inner = np.arange(begin, begin + passes * period)
            if taken[inner].any():
                continue
            multiplies = period <= _MOST_PRODUCT_CALLS and bool(product[inner[:period]].any())
            loop = Loop(calls[inner], period, _picks(ctx, calls[inner], period), multiplies)
            if _independent(ctx, seq, loop):
                taken[inner] = True
                found.append(loop)
    return sorted(found, key=lambda lo: int(lo.calls[0]))


def _independent(ctx: Context, seq: Sequence, loop: Loop) -> bool:
    if loop.picks:
        return not _recurs(ctx, seq, loop)
    return loop.multiplies and loop.period == 1 and _cannot_chain(seq, int(loop.calls[0]))


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


def _picks(ctx: Context, calls: Array, period: int) -> bool:
    """Whether each pass first picks its part of a batch: the same op on the same tensor with the next index.

    A loop over what one call has taken apart picks too.
    """
    indices = []
    for pass_ in range(1, len(calls) // period):
        begin, end = int(calls[pass_ * period - 1]) + 1, int(calls[pass_ * period])
        picked = [n for n in range(begin, end) if _name(ctx, n) in _PICKING]
        found = ctx.inputs(int(ctx.called.event[picked[0]])) if picked else None
        numbers = [v for v in (found.concrete if found is not None and found.concrete else []) if str(v).lstrip("-").isdigit()]
        if len(numbers) < 2:
            return _taken_apart(ctx, calls, period) > 0
        indices.append(int(numbers[1]))
    steps = set(np.diff(indices).tolist())
    return len(steps) == 1 and 0 not in steps


def _taken_apart(ctx: Context, calls: Array, period: int) -> int:
    """Elements of one part, where a call just before the loop takes a batch apart into as many parts as there are passes; else 0."""
    first, passes = int(calls[0]), len(calls) // period
    for call in range(first - 1, max(first - 1 - _NEAR, -1), -1):
        if _name(ctx, call) not in _UNBINDING:
            continue
        found = ctx.inputs(int(ctx.called.event[call]))
        sizes = found.dims[0] if found is not None and found.dims else None
        if sizes and all(isinstance(n, int) for n in sizes) and passes in sizes:
            return prod(sizes) // passes
    return 0


def _name(ctx: Context, call: int) -> str:
    return ctx.trace.name_of(int(ctx.called.event[call])).removeprefix("aten::")


def _recurs(ctx: Context, seq: Sequence, loop: Loop) -> bool:
    """Whether each pass may take what the one before made, or has tables of its own: by name, or by the sizes of operands.

    A pass that only multiplies has its operands from outside. Where more is done, an operand that the pass has neither picked
    nor made, and that is as large as its result, may be the state that goes from pass to pass.
    """
    calls = loop.calls[loop.period : 2 * loop.period]
    places = np.flatnonzero(np.isin(seq.call, calls) & (seq.kind != "memset"))
    kinds = seq.kind[places].astype(str)
    if (kinds == "rnn").any() or any(_name(ctx, int(c)) in _LOOKUPS for c in calls):
        return True  # a cell carries a state; a lookup in each pass is one in a table of its own
    if np.isin(kinds, _PRODUCT_KINDS).all():
        return False
    own = _picked(ctx, int(loop.calls[loop.period - 1]) + 1, int(calls[-1]))  # elements of what is there and not used yet
    own += [part] if (part := _taken_apart(ctx, loop.calls, loop.period)) else []
    parts = set(own)
    outside: set[int] = set()
    result = 0
    owners = list(dict.fromkeys(seq.owner[places].tolist()))
    for owner in owners:
        op = seq.op(int(places[np.flatnonzero(seq.owner[places] == owner)[0]]))
        for tensor in op.tensors[1:] if op.name == "copy_" else op.tensors:
            if tensor.numel in own:
                own.remove(tensor.numel)
            elif not (owner == owners[-1] and op.name in _ADDING and tensor.numel not in parts):
                outside.add(tensor.numel)
        made = result_of(op)
        result = op.product.elements if op.product is not None else made.numel if made is not None else 0
        own.append(result)
    return result in outside if loop.multiplies else not outside.isdisjoint(own)


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


def batching(ctx: Context, loops: list[Loop]) -> tuple[Change, float, float]:
    """(what one pass over a batch in place of some loops changes, GPU ns now, GPU ns then), over all steps."""
    seq = ctx.sequence
    event = ctx.called.event
    back = seq.made_in_backward(np.array([event[lo.calls[0]] for lo in loops]), np.array([event[lo.calls[-1]] for lo in loops]))
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
        begins.append(int(ctx.trace.end[event[loop.calls[loop.period - 1]]]))
        ends.append(int(ctx.trace.end[event[loop.calls[-1]]]))
        rest = nodes[stretch == number]
        rest = rest[max(len(rest) // loop.passes, 1) :]
        begins += ctx.trace.ts[rest].tolist()
        ends += until[stretch == number][-len(rest) :].tolist() if len(rest) else []
    cpu = union(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    return Change(gpu=after, cpu=cpu), now, then


def _nodes(ctx: Context, seq: Sequence, loops: list[Loop]) -> tuple[Array, Array, Array]:
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
    """Time of all passes of one op as one kernel; where its size is not known, of the passes side by side."""
    owners = np.unique(seq.owner[places])
    work = ctx.work(int(owners[0]))
    if work is None or work.bytes is None:
        return _side_by_side_ns(ctx, seq, places)
    product = seq.op(int(places[0])).product
    ns = stream_ns(ctx, work.bytes * len(owners))
    if product is not None:
        tf32 = ctx.kernel(int(seq.rows[places[0]])).dtype == "tf32"
        ns = product_ns(ctx, product.flops * len(owners), work.bytes * len(owners), "tf32" if tf32 else product.a.dtype or "")
    return float(seq.ns[places].sum()) if ns is None else ns


def _side_by_side_ns(ctx: Context, seq: Sequence, places: Array) -> float:
    """Time of some kernels if their blocks ran at once, one a multiprocessor; at least the longest of them."""
    ns = seq.ns[places].astype(np.float64)
    if ctx.device is None or ctx.device.sms is None:
        return float(ns.sum())
    grid = [ctx.trace.column("gpu_ops", f"grid_{axis}")[seq.rows[places]].astype(np.float64) for axis in "xyz"]
    blocks = grid[0] * grid[1] * grid[2]
    share = np.where(blocks > 0, np.minimum(blocks / ctx.device.sms, 1), 1.0)
    return max(float((ns * share).sum()), float(ns.max()))
