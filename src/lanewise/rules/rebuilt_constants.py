"""rebuilt-constants: masks, positions and tables that depend on nothing but sizes are computed again each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .constant_chains import Chain, chain_from, factories, recorded_inputs
from .context import Context
from .made_tensors import WHOLE

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# A tensor that is only filled may be written into later (a sum, a state); one from which something is computed is meant as it is.
_LEAST_GPU_OPS = 2
# Without steps nothing shows what changes from one to the next: as often the same chain is a layer's.
_LEAST_REPEATS = 4
# What follows no chain is not followed again where as many calls are the same.
_WINDOW = 8
_MOST_NAMED = 6
# What makes no mask and no index, of whatever it is given but those.
_OF_FRACTIONS = frozenset(
    [
        "linear",
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "einsum",
        "layer_norm",
        "rms_norm",
        "_fused_rms_norm",
        "group_norm",
        "batch_norm",
        "conv1d",
        "conv2d",
        "conv3d",
        "scaled_dot_product_attention",
        "softmax",
        "gelu",
        "relu",
        "relu_",
        "silu",
        "silu_",
        "sigmoid",
        "tanh",
        "dropout",
        "reshape",
        "contiguous",
        "masked_fill",
        "masked_fill_",
        "embedding",
        "sqrt",
        "rsqrt",
        "pow",
        "mean",
        "add",
        "add_",
        "mul",
        "mul_",
        "sub",
        "div",
        "div_",
        "to",
        "cat",
        "index_select",
        "copy_",
    ]
)


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A chain and where it occurs.

    Attributes:
        chain: its first occurrence.
        begins: numbers of the first call of each occurrence that could go.
    """

    chain: Chain
    begins: Array


def _check(ctx: Context) -> Outcome:
    found = _rebuilt(ctx)
    if not found:
        return Clear()
    calls = np.unique(np.concatenate([(np.array(r.chain.calls) - r.chain.begin + b) for r in found for b in r.begins]))
    rows = np.flatnonzero(np.isin(ctx.called.of_row, calls))
    gone = ctx.call_intervals(calls)
    gpu = float(ctx.gpu_ns[rows].sum())
    longest = max(found, key=lambda r: float(len(r.chain.calls) * len(r.begins)))
    launching = [c for c in longest.chain.calls if ctx.called.kernels[c]]
    names = [ctx.trace.name_of(int(ctx.called.event[c])).removeprefix("aten::") for c in launching]
    named = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    steps = max(len(ctx.step_numbers), 1)
    return [
        Draft(
            {
                "times": count(sum(len(r.begins) for r in found) / steps),
                "kernels": count(ctx.per_step(len(rows))),
                "gpu": duration(ctx.per_step(gpu)),
                "cpu": duration(ctx.per_step(float((gone[1] - gone[0]).sum()))),
                "ops": named,
                "length": count(len(names)),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone),
            ctx.per_step(gpu),
            first_events(ctx.called.event[launching]),
            variant="weights" if longest.chain.looked_up else "given" if longest.chain.given else "",
            confidence="medium",
            where=ctx.where(int(ctx.called.event[longest.chain.begin])),
        )
    ]


def _rebuilt(ctx: Context) -> list[_Rebuilt]:
    """Chains that occur as often in each step, or often in a trace without steps."""
    event = ctx.called.event
    starts = np.flatnonzero(factories(ctx) & _eligible(ctx)) if len(event) else np.empty(0, dtype=np.int64)
    if not len(starts):
        return []
    step = ctx.step_of(event)
    width = int(ctx.input_row.max(initial=0)) + 2
    code = ctx.trace.name[event].astype(np.int64) * width + ctx.input_row[event] + 1
    rows = np.full(len(event), -1, dtype=np.int64)
    launched = np.flatnonzero(ctx.called.of_row >= 0)
    rows[ctx.called.of_row[launched]] = launched
    trained = bool(len(ctx.sequence) and ctx.sequence.backward.any())
    last = _last_of_stretch(ctx.trace.lane[event], step)
    taken = np.zeros(len(event), dtype=np.bool_)
    found: list[_Rebuilt] = []
    none: set[bytes] = set()
    for first in starts.tolist():
        if taken[first]:
            continue
        window = code[first : min(first + _WINDOW, int(last[first]) + 1)].tobytes()
        if window in none:
            continue
        chain = chain_from(ctx, first, int(last[first]), rows, lookups=not trained, givens=True)
        if chain.given and not _same_all_step(ctx, chain, _occurrences(code, starts[~taken[starts]], last, chain), step):
            chain = chain_from(ctx, first, int(last[first]), rows, lookups=not trained)
        if not chain.computes or int(ctx.called.kernels[list(chain.calls)].sum()) < _LEAST_GPU_OPS:
            none.add(window)
            continue
        begins = _occurrences(code, starts[~taken[starts]], last, chain)
        for begin in begins:
            taken[begin : begin + chain.end - chain.begin + 1] = True
        if (kept := _could_go(ctx, chain, begins, step)) is not None:
            found.append(kept)
    return found


def _eligible(ctx: Context) -> Array:
    """bool (calls,): calls in the steps, outside autograd's engine and compiled code."""
    event = ctx.called.event
    seq = ctx.sequence
    compiled = np.zeros(len(event), dtype=np.bool_)
    compiled[seq.call[seq.compiled & (seq.call >= 0)]] = True
    counted = np.isin(ctx.step_of(event), ctx.step_numbers) if len(ctx.steps) else np.ones(len(event), dtype=np.bool_)
    result: Array = counted & ~compiled & seq.is_forward(event)
    return result


def _last_of_stretch(lane: Array, step: Array) -> Array:
    """int64 (calls,): the last call of each one's lane and step."""
    broken = np.flatnonzero((np.diff(lane) != 0) | (np.diff(step) != 0))
    ends = np.r_[broken, len(lane) - 1]
    result: Array = ends[np.searchsorted(ends, np.arange(len(lane)))]
    return result


def _occurrences(code: Array, starts: Array, last: Array, chain: Chain) -> Array:
    """First calls of all occurrences of a chain: the same ops with the same inputs, one after the other."""
    length = chain.end - chain.begin + 1
    wanted = code[chain.begin : chain.end + 1]
    places = starts[(code[starts] == wanted[0]) & (starts + length - 1 <= last[starts])]
    for offset in range(1, length):
        places = places[code[places + offset] == wanted[offset]]
    return places


def _same_all_step(ctx: Context, chain: Chain, begins: Array, step: Array) -> bool:
    """Whether a chain recurs in a step, and nothing in between makes masks or indices: those that go into it are the same."""
    if not len(ctx.steps):
        return False
    length = chain.end - chain.begin + 1
    pairs = np.flatnonzero(step[begins[1:]] == step[begins[:-1]])
    between = [np.arange(begins[i] + length, begins[i + 1]) for i in pairs]
    calls = np.concatenate(between) if between else np.empty(0, dtype=np.int64)
    calls = calls[ctx.called.kernels[calls] > 0]
    events = ctx.called.event[calls]
    _, once = np.unique(np.c_[ctx.trace.name[events], ctx.input_row[events]], axis=0, return_index=True)
    return len(pairs) > 0 and not any(_may_make_indices(ctx, int(e)) for e in events[once])


def _may_make_indices(ctx: Context, event: int) -> bool:
    name, recorded = ctx.trace.name_of(event).removeprefix("aten::"), recorded_inputs(ctx, event)
    fractions = recorded is not None and any(t.dtype not in WHOLE for t in recorded.tensors() if t.shape)
    return name not in _OF_FRACTIONS or not fractions


def _could_go(ctx: Context, chain: Chain, begins: Array, step: Array) -> _Rebuilt | None:
    """What of a chain's occurrences could go: all where every step has it as often.

    All but one of each step go where another step has other numbers, or may have: not all of them are recorded, and what is given
    from outside is the step's. Without steps to compare all but the first go.
    """
    if not len(ctx.steps):
        return _Rebuilt(chain, begins[1:]) if len(begins) >= _LEAST_REPEATS else None
    times = np.bincount(step[begins], minlength=len(ctx.steps))[ctx.step_numbers]
    if len(times) > 1 and times.all() and (times == times[0]).all() and not (chain.shifted or chain.given):
        return _Rebuilt(chain, begins)
    later = np.r_[False, step[begins[1:]] == step[begins[:-1]]]
    return _Rebuilt(chain, begins[later]) if later.any() else None


RULE = Rule(
    id="rebuilt-constants",
    precedence=25,
    needs=("gpu_events", "launches", "cpu_ops", "shapes"),
    check=_check,
    english={
        "name": "Constants built again",
        "title": "Constants are built {times:time} a step: {kernels} GPU ops",
        "text": "{gpu} of GPU time and {cpu} of CPU time as recorded: {length} ops ({ops}) start from numbers and use nothing else, with the same arguments each time. "
        "Numbers that the trace does not record are taken to be the same.",
        "text_weights": "{gpu} of GPU time and {cpu} of CPU time as recorded: {length} ops ({ops}) start from numbers and use nothing else but a table of weights, which does not change in inference. "
        "Numbers that the trace does not record are taken to be the same.",
        "title_given": "The same tensor is built again {times:time} a step: {kernels} GPU ops",
        "text_given": "{gpu} of GPU time and {cpu} of CPU time as recorded: {length} ops ({ops}) start from numbers and take nothing else but masks or indices, "
        "which no op in between makes anew. All but the first of a step make what is there.",
        "fix_given": "Build it once a step, before the layers, and pass it to all of them.",
        "fix": 'Build it once and keep it: self.register_buffer("mask", mask, persistent=False), cut to the length in use; or behind '
        "functools.lru_cache by length, type and device, outside the layers.",
        "fix_weights": "Build it once and pass it to all layers, or keep it until the length or the weights change: functools.lru_cache by length for "
        "the indices, the looked-up table beside it in eval mode.",
        "doc_finds": "Chains of ops that start with `arange`, `ones`, `zeros`, `full`, `eye`, `linspace`, a window and the like, and then use only "
        "what they have made, and numbers: causal masks, position indices, rotary tables, buckets of relative positions. In each step "
        "as often, with equal arguments. Without training an embedding looked up by the chain belongs to it. A chain that also takes "
        "masks or indices (padding) counts where it recurs within a step, with nothing in between that makes any.",
        "doc_why": "Each op is a launch and a pass over memory for values that were known before the first step. In a model of many layers the same mask is "
        "built in each of them.",
        "doc_fix": "class Attention(nn.Module):\n"
        "    def __init__(self, longest):\n"
        "        super().__init__()\n"
        '        self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).tril(), persistent=False)\n'
        "    def forward(self, q, k, v):\n"
        "        mask = self.mask[: q.shape[-2], : k.shape[-2]]      # a view\n\n"
        "@functools.lru_cache(maxsize=8)\n"
        "def buckets(length, device): ...                          # once a length",
        "doc_fine": "Where sizes change with every batch, so that nothing would be found again; a mask that attention builds itself (`is_causal=True`) needs "
        "neither op nor buffer.",
        "doc_measured": "All GPU ops of the chains, and the CPU time of their calls. Two GPU ops are the least, one of them more than a fill: a tensor that "
        "is only filled may be written into. A chain whose numbers change from step to step, or may (a whole number that the trace does not record is added, a mask is taken), counts all but once a step; "
        "in a trace without steps, chains that occur four times or more count all but the first.",
    },
)
