"""unfused-pointwise: chains of pointwise ops and reductions, each a kernel that reads what the one before wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .limits import LAUNCH_NS, arithmetic_ns, stream_ns
from .pointwise_chains import Chain, chains_of
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_COMPILED = re.compile(r"^Torch-Compiled Region")
_OPTIMIZER = re.compile(r"^Optimizer\.step#")
# What a chain consists of; a softmax or norm of ATen is one kernel already and no part of one.
_MEMBERS = ("elementwise", "cast-copy", "reduction", "memcpy-dtod", "random")
# Entering a compiled region costs the CPU 40 to 60 us a call beside its kernels (torch 2.11; `compile-overhead`).
_REGION_NS = 50_000.0
# Chains are counted where fusing saves memory traffic that takes longer than a launch. Shorter ones are a matter of launches.
_LEAST_NS = LAUNCH_NS
# Memory bandwidth of an unknown card: that of the slower ones that train models.
_USUAL_BANDWIDTH = 1e12


@dataclass(frozen=True, slots=True)
class _Found:
    """A chain at its place: begin and end in the sequence, its present and its fused time in ns (central, best, worst)."""

    begin: int
    end: int
    now: float
    fused: float
    best: float
    worst: float
    chain: Chain


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    if not len(ctx.called):
        return Clear()
    places = np.flatnonzero(_fusible(ctx, seq))
    cache: dict[bytes, list[Chain]] = {}
    found = [f for begin, end in _runs(seq, places) for f in _chains(ctx, seq, places[begin:end], cache)]
    if not found:
        return Clear()
    now, fused = sum(f.now for f in found), sum(f.fused for f in found)
    dearest = max(found, key=lambda f: f.now - f.fused)
    norms = sum(f.now - f.fused for f in found if f.chain.norm)
    variant = "norm" if norms > 0.5 * (now - fused) else ""
    compiled = bool(len(ctx.events_matching(_COMPILED)))
    inner = np.arange(dearest.begin, dearest.end)
    inner = inner[np.isin(inner, places)]
    order = np.argsort(-seq.ns[inner], kind="stable")
    extra = 0.0 if compiled else ctx.per_step(sum(not f.chain.norm for f in found)) * _REGION_NS
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(sum(f.end - f.begin for f in found))),
                "chains": count(ctx.per_step(len(found))),
                "ops": ", ".join(_names(seq, inner)),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(fused)),
                "bytes": size(dearest.chain.bytes),
            },
            _change(ctx, seq, places, found, "fused", extra),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[inner[order]]]),
            variant=variant,
            fix_variant=variant or ("compiled" if compiled else ""),
            confidence="medium",
            low=_change(ctx, seq, places, found, "worst", extra),
            high=_change(ctx, seq, places, found, "best", 0.0),
            where=ctx.where(int(seq.owner[inner[0]])),
        )
    ]


def _fusible(ctx: Context, seq: Sequence) -> Array:
    """bool (n,): pointwise ops and reductions whose whole call is such, outside optimizers, with layouts as they are."""
    kind = np.isin(seq.kind.astype(str), _MEMBERS) & (seq.call >= 0)
    fits = np.array([_same_layout(op) for op in seq.ops], dtype=np.bool_)[seq.op_of] if len(seq) else kind
    good = kind & fits
    # A call that also does something else (a product with its bias, a loss) does not go away when its copies are fused.
    calls = len(ctx.called)
    passing = good | (seq.kind == "memset")
    spoiled = np.bincount(seq.call[(seq.call >= 0) & ~passing], minlength=calls) > 0
    good &= ~spoiled[np.maximum(seq.call, 0)]
    marks = ctx.in_steps(ctx.events_matching(_OPTIMIZER, "user_annotation"))
    if len(marks):
        inside = np.zeros(len(ctx.trace) + 1, dtype=np.bool_)
        inside[ctx.inside(marks)] = True
        good &= ~inside[np.where(seq.owner >= 0, seq.owner, -1)]
    return good


def _same_layout(op: Op) -> bool:
    """Whether an op leaves the order of dimensions in memory as it is: a transposing copy is another matter."""
    if op.name != "copy_" or len(op.tensors) < 2:
        return not op.name.startswith(("_foreach", "_fused_ad", "_fused_sgd"))
    to, source = op.tensors[:2]
    if to.strides is None or source.strides is None or to.shape != source.shape:
        return True
    return _order(to.shape, to.strides) == _order(source.shape, source.strides)


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    return sorted((i for i, s in enumerate(shape) if s > 1), key=lambda i: -strides[i])


def _runs(seq: Sequence, places: Array) -> list[tuple[int, int]]:
    """(begin, end) among `places` of runs of neighbours of one thread and step, memsets between them passed over."""
    if len(places) < 2:
        return []
    counted = np.cumsum(seq.kind != "memset")
    joined = (np.diff(counted[places]) == 1) & (np.diff(seq.lane[places]) == 0) & (np.diff(seq.step[places]) == 0)
    edges = np.flatnonzero(np.r_[True, ~joined, True])
    return [(int(a), int(b)) for a, b in pairwise(edges) if b - a > 1]


def _chains(ctx: Context, seq: Sequence, run: Array, cache: dict[bytes, list[Chain]]) -> list[_Found]:
    key = seq.op_of[run].tobytes()
    if key not in cache:
        cache[key] = chains_of([seq.ops[i] for i in seq.op_of[run]])
    out = []
    for chain in cache[key]:
        members = run[chain.begin : chain.end]
        if seq.call[members[0]] == seq.call[members[-1]]:
            continue  # inside one call: its own affair
        if np.count_nonzero((seq.kind[members] != "memcpy-dtod") & (seq.named[members] != "cat")) < 2:
            continue  # a copy beside a single op: whether it is needed is another matter than fusing
        ns = seq.ns[members].astype(np.float64)
        now = float(ns.sum())
        bandwidth = _USUAL_BANDWIDTH if ctx.device is None else ctx.device.memory_bandwidth
        if (chain.moved - chain.bytes) / bandwidth * 1e9 < _LEAST_NS:
            continue
        arithmetic = sum(min(arithmetic_ns(ctx, i), t) for i, t in zip(chain.instructions, ns, strict=True))
        fused, best, worst = (
            max(_moving_ns(ctx, chain, now, b), arithmetic) for b in (chain.bytes, chain.least_bytes, chain.most_bytes)
        )
        if now - fused > _LEAST_NS:
            out.append(_Found(int(members[0]), int(members[-1]) + 1, now, fused, best, min(worst, now), chain))
    return out


def _moving_ns(ctx: Context, chain: Chain, now: float, n_bytes: float) -> float:
    """Time of moving what the fused kernel moves; on unknown cards at the rate at which the chain moves it now."""
    ns = stream_ns(ctx, n_bytes)
    return ns if ns is not None else now * min(1.0, n_bytes / chain.moved)


def _change(ctx: Context, seq: Sequence, places: Array, found: list[_Found], which: str, extra: float) -> Change:
    after: dict[int, int] = {}
    member = np.zeros(len(seq) + 1, dtype=np.bool_)
    member[places] = True
    begins, ends = [], []
    for f in found:
        inner = np.arange(f.begin, f.end)
        inner = inner[member[inner]]
        # The replay takes no row for longer than it is: the fused time is shared out over all.
        shared = seq.ns[inner] * min(getattr(f, which) / f.now, 1.0)
        after.update(zip(seq.rows[inner].tolist(), shared.astype(int).tolist(), strict=True))
        calls = seq.call[inner]
        begins.append(int(ctx.trace.end[ctx.called.event[calls.min()]]))
        ends.append(int(ctx.trace.end[ctx.called.event[calls.max()]]))
    cpu = union(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    return Change(gpu=after, cpu=cpu, extra_cpu_ns=extra)


def _names(seq: Sequence, inner: Array) -> list[str]:
    """Names of the called ops of a chain, in order, each call once."""
    _, first = np.unique(seq.call[inner], return_index=True)
    return [str(name) for name in seq.called_name[inner[np.sort(first)]]][:8]


RULE = Rule(
    id="unfused-pointwise",
    precedence=40,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Unfused pointwise ops",
        "title": "{kernels} pointwise kernels a step, where {chains} would do",
        "text": "{ops}: each writes its result to memory and the next reads it back. Fused, {gpu} become about {after}: every input read "
        "once, the result written once ({bytes} for this chain).",
        "fix": "Put these ops into one function and compile it: f = torch.compile(f)",
        "fix_compiled": "torch.compile is in use: move these ops into the compiled function, where they would be one kernel.",
        "title_norm": "Norm written out: {kernels} kernels a step, where {chains} would do",
        "text_norm": "{ops}: each op reads and writes the whole tensor. One kernel reads it once and writes it once: {gpu} would be about "
        "{after} ({bytes} for this chain).",
        "fix_norm": "F.rms_norm(x, (d,), weight, eps) or F.layer_norm(x, (d,), weight, bias, eps): one kernel forward, two backward; "
        "or torch.compile around it.",
        "doc_finds": "Runs of neighbouring pointwise ops, casts and reductions of one thread, each of which reads a tensor that the run has "
        "read or written. At least two of them compute: a copy beside a single op is no chain.",
        "doc_why": "A pointwise op takes as long as its bytes take to move. Seven ops over a tensor move it fourteen times and more; one "
        "fused kernel moves it twice.",
        "doc_fix": "@torch.compile\ndef f(x, bias):\n    return torch.sigmoid(F.gelu(x + bias) * 2)",
        "doc_fine": "Small tensors: their kernels take as long as a launch, and fusing saves launches, not traffic (see launch-bound). Ops "
        "between which the program needs the values.",
        "doc_measured": "Present time of the chain against one kernel: its outside inputs and its result at 88 % of the memory bandwidth, or "
        "its arithmetic where that takes longer (fp32 instructions a function, measured on an H200). The trace does not name tensors: "
        "operands are told by size and type, and a quarter of those that could come from outside are taken to; the range takes all or "
        "none. torch.compile's own 50 µs a call are counted.",
    },
)
