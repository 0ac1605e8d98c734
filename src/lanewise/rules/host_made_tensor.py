"""host-made-tensor: constants and noise that are made on the CPU in every step and then copied to the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanewise.analyses.host_syncs import copy_waits
from lanewise.analyses.replay import Change
from lanewise.model.intervals import length, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Array, Context
from .step_python import WORK_NS

__all__ = ["RULE"]

# Ops that make a tensor out of nothing but numbers ...
_CONSTANTS = frozenset(
    ["arange", "ones", "zeros", "full", "eye", "linspace", "logspace", "ones_like", "zeros_like", "full_like"]
)
_CONSTANTS |= frozenset(["tril_indices", "triu_indices", "hann_window", "hamming_window"])
# ... or out of the CPU's random numbers.
_RANDOM = frozenset(
    ["rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli", "multinomial"]
)
# What is computed from these alone on the way. An op that is not here may bring in data: a batch being put together is
# `data-starvation`'s.
_FROM_THEM = frozenset(
    [
        "tril",
        "triu",
        "tril_",
        "triu_",
        "bool",
        "float",
        "half",
        "bfloat16",
        "double",
        "int",
        "long",
        "type_as",
        "to",
        "_to_copy",
        "clone",
        "contiguous",
        "detach",
        "mul",
        "mul_",
        "add",
        "add_",
        "sub",
        "sub_",
        "rsub",
        "div",
        "div_",
        "neg",
        "neg_",
        "pow",
        "reciprocal",
        "exp",
        "exp_",
        "log",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "abs",
        "clamp",
        "floor",
        "floor_divide",
        "remainder",
        "le",
        "lt",
        "ge",
        "gt",
        "eq",
        "ne",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_not",
        "__and__",
        "__or__",
        "__rpow__",
        "masked_fill",
        "masked_fill_",
        "where",
        "fill_",
        "zero_",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "view",
        "reshape",
        "_unsafe_view",
        "repeat",
        "repeat_interleave",
        "transpose",
        "permute",
        "t",
        "flip",
        "outer",
        "ger",
        "einsum",
        "cumsum",
        "stack",
        "cat",
        "flatten",
        "unflatten",
        "unbind",
        "chunk",
        "split",
        "slice",
        "select",
        "narrow",
        "empty",
        "meshgrid",
        "uniform_",
        "normal_",
        "random_",
        "bernoulli_",
        "exponential_",
        "polar",
        "view_as_complex",
        "softmax",
        "resolve_conj",
        "alias",
        "is_pinned",
        "pin_memory",
        "_pin_memory",
        "lift_fresh",
        "item",
        "_local_scalar_dense",
        "is_nonzero",
    ]
)
_MOST_BACK = 40  # calls before the copy; what takes more is a program of its own


@dataclass(frozen=True, slots=True)
class _Made:
    """A tensor made on the CPU: places in `copies`, calls from the first that makes it to the one that copies it."""

    copy: int
    first: int
    last: int
    random: bool


def _check(ctx: Context) -> Outcome:
    made = _made(ctx)
    if not made:
        return Clear()
    copies = ctx.copies
    chosen = np.array([m.copy for m in made])
    calls = np.concatenate([np.arange(m.first, m.last + 1) for m in made])
    place, waits = copy_waits(ctx.trace)
    held = waits[np.isin(place, chosen)]
    events = ctx.called.event
    begins, ends = ctx.call_intervals(np.array([m.first for m in made]))
    gone = union(
        np.r_[begins, [ctx.trace.ts[events[m.first]] for m in made]].astype(np.int64),
        np.r_[ends, [ctx.trace.end[events[m.last]] for m in made]].astype(np.int64),
    )
    rows = np.flatnonzero(np.isin(ctx.called.of_row, calls))
    noise = [m for m in made if m.random]
    # Random numbers are drawn anew each time, by as many ops, on the GPU.
    again = sum(m.last - m.first for m in noise) * ctx.op_cpu_ns
    dearest = max(made, key=lambda m: int(ctx.trace.end[events[m.last]] - ctx.trace.ts[events[m.first]]))
    names = [ctx.trace.name_of(int(e)).removeprefix("aten::") for e in events[dearest.first : dearest.last]]
    return [
        Draft(
            {
                "times": count(ctx.per_step(len(made))),
                "ops": ", ".join(dict.fromkeys(names)),
                "cpu": duration(ctx.per_step(length(gone))),
                "bytes": size(ctx.per_step(float(np.maximum(copies.bytes[chosen], 0).sum()))),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=gone, waits=held, extra_cpu_ns=ctx.per_step(again)),
            ctx.per_step(length(gone)),
            first_events(np.r_[events[dearest.first : dearest.last + 1], copies.call[chosen][:4]]),
            variant="random" if 2 * len(noise) > len(made) else "",
            confidence="medium",
            symptoms=("small-copies", "pageable-copy", "python-overhead"),
            where=ctx.where(int(events[dearest.first])),
        )
    ]


def _made(ctx: Context) -> list[_Made]:
    """Tensors made in the steps."""
    copies, called = ctx.copies, ctx.called
    call = called.of_row[copies.row]
    mine = np.flatnonzero(copies.to_gpu & (call >= 0) & (copies.call >= 0) & np.isin(copies.row, ctx.rows))
    if not len(mine):
        return []
    names = ctx.trace.name[called.event]
    constant, random, derived = (
        ctx.trace.names_where(lambda s, w=wanted: s.startswith("aten::") and s[6:] in w)[names]  # type: ignore[misc]
        for wanted in (_CONSTANTS, _RANDOM, _FROM_THEM)
    )
    on_cpu = (called.kernels == 0) & (constant | random | derived)
    found = []
    for copy, last in zip(mine.tolist(), call[mine].tolist(), strict=True):
        back = np.arange(max(last - _MOST_BACK, 0), last)
        fits = on_cpu[back] & (ctx.trace.lane[called.event[back]] == ctx.trace.lane[called.event[last]])
        stretch = back[len(back) - int(np.argmin(np.r_[fits[::-1], False])) :]
        sources = stretch[(constant | random)[stretch]]
        if not len(sources):
            continue
        first = int(sources[0])
        if _pauses(ctx, first, last):
            continue
        found.append(_Made(copy, first, last, bool(random[first:last].any())))
    return found


def _pauses(ctx: Context, first: int, last: int) -> bool:
    """Whether Python does work of its own between some calls: then the tensor is filled with something."""
    events = ctx.called.event[first : last + 1]
    rest: Array = ctx.trace.ts[events[1:]] - ctx.trace.end[events[:-1]]
    return bool(len(rest) and int(rest.max()) >= WORK_NS)


RULE = Rule(
    id="host-made-tensor",
    precedence=14,
    needs=("gpu_events", "steps", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Constants made on the CPU",
        "title": "Constants are made on the CPU and copied: {times} a step, {cpu}",
        "text": "{ops} make the same tensor on the CPU in every step, and it is copied to the GPU: {cpu} of CPU time as recorded, {bytes} of "
        "copies a step.",
        "fix": "Make it once and keep it on the GPU (`self.register_buffer('mask', mask, persistent=False)`), or make it there: "
        "torch.ones(n, n, device=x.device).tril().",
        "title_random": "Random numbers are drawn on the CPU and copied: {times} a step, {cpu}",
        "text_random": "{ops} run on the CPU, and the result is copied to the GPU: {cpu} of CPU time as recorded, {bytes} of copies a step.",
        "fix_random": "Draw them on the GPU: torch.randn(shape, device=x.device), torch.randn_like(x).",
        "doc_finds": "Copies to the GPU of tensors that were made just before, on the CPU, out of numbers or random numbers only: `arange`, "
        "`ones`, `full`, `randn` and what is computed from them.",
        "doc_why": "Without `device=` tensors are made on the CPU. A mask of 1024 x 1024 takes it 150 µs to fill and as long to copy from "
        "pageable memory, while it launches nothing; the GPU needs 3 µs for it.",
        "doc_fix": "mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()\n"
        "positions = torch.arange(n, device=x.device)\n"
        "noise = torch.randn_like(x)",
        "doc_fine": "Where the GPU is busy meanwhile. Random numbers that must be the CPU generator's.",
        "doc_measured": "CPU time from the first op that makes the tensor to the end of its copy, the copy itself and the wait for it. "
        "Constants are taken to be made once; random numbers cost as many ops on the GPU. Where any other op takes part, or Python works "
        "for 0.3 ms between, the tensor may hold data and is left to the other rules.",
    },
)
