"""What would be different if the program did not wait for the GPU: the waits go, and what is there only because of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lanewise.analyses.copies import STAGED_BYTES
from lanewise.analyses.host_syncs import HostSyncs
from lanewise.analyses.quiet_times import quiet_times
from lanewise.analyses.replay import Change
from lanewise.analyses.sync_feeders import TESTS
from lanewise.model.intervals import Intervals, length, overlap_with, union

from .context import Array, Context, Inputs
from .step_python import WORK_NS

__all__ = ["SyncChange", "sync_change"]

# Ops that take the indices that a nonzero found: with a mask (`torch.where`) instead of indices they are one op.
_INDEXED = frozenset(
    f"aten::{name}"
    for name in ("index", "index_put", "index_put_", "index_select", "gather", "scatter", "scatter_", "index_add_")
)
# A branch that stays on the GPU costs the side that was not taken and the `where` that chooses: two ops at least.
_BOTH_SIDES = 2
_MASKED_BYTES = 2 * 4  # a masked op in place reads and writes each element
_WITHIN = 6  # calls after it; further on, what happened to the indices in between is not known


@dataclass(frozen=True, slots=True)
class SyncChange:
    """The change, and what it is made of.

    Attributes:
        change: all that goes.
        least: only the waits and the waiting calls go, and both sides of a branch are computed instead.
        spent_ns: CPU time that goes beside the waits, as recorded, all steps together.
        worked_ns: of it, what the CPU does with large tensors that it read.
    """

    change: Change
    least: Change
    spent_ns: int
    worked_ns: int


@dataclass(frozen=True, slots=True)
class _Gather:
    """A call that gathers or scatters by the indices that a site found.

    Attributes:
        site, call: calls by number.
        kept, all: elements that the mask keeps, and that it has.
        width: elements that are moved for each.
    """

    site: int
    call: int
    kept: int
    all: int
    width: int


def sync_change(ctx: Context, syncs: HostSyncs, sites: Array) -> SyncChange:
    """What goes when some sites (places in `syncs`) no longer wait."""
    waits = syncs.waits[np.isin(syncs.site, sites)]
    large = _large_reads(ctx, syncs, sites)
    going = sites[(syncs.end[sites] > syncs.begin[sites]) & ~np.isin(sites, large)]
    shape = going[syncs.is_kind("shape")[going]]
    consumers, gathers = _consumers(ctx, syncs, shape)
    tests = _tests(ctx, syncs, shape)
    calls = np.unique(np.r_[_calls_of(ctx, syncs, going), consumers, tests])
    own = ctx.call_intervals(calls)
    trips = going[syncs.is_kind("round_trip")[going]]
    worked = _worked_on(ctx, syncs, large)
    gone = union(np.concatenate([own[0], syncs.begin[trips], worked[0]]), np.concatenate([own[1], syncs.end[trips], worked[1]]))
    gpu = dict.fromkeys(np.flatnonzero(np.isin(ctx.called.of_row, calls)).tolist(), 0)
    instead = len(trips) + _masked(ctx, syncs, shape, consumers, tests, gpu)
    _run_on_gpu(ctx, syncs, trips, gpu)
    aside = _read_late(ctx, syncs, large, gpu)
    extra, more = ctx.per_step(instead * ctx.op_cpu_ns), _gathering_ns(ctx, gathers)
    direct = np.unique(np.r_[syncs.call[going], _calls_of(ctx, syncs, trips)])
    only = ctx.call_intervals(direct)
    both = ctx.per_step(_BOTH_SIDES * _branches(ctx, syncs, going) * ctx.op_cpu_ns)
    fewer = {r: gpu[r] for r in np.flatnonzero(np.isin(ctx.called.of_row, direct)).tolist()}
    return SyncChange(
        Change(gpu=gpu, cpu=gone, waits=waits, aside=aside, extra_cpu_ns=extra, extra_gpu_ns=more),
        Change(
            gpu=fewer,
            cpu=union(np.r_[only[0], syncs.begin[trips]], np.r_[only[1], syncs.end[trips]]),
            waits=waits,
            aside=aside,
            extra_cpu_ns=extra + both,
            extra_gpu_ns=more,
        ),
        length(gone) - int(overlap_with(*gone, union(ctx.trace.ts[waits], ctx.trace.end[waits])).sum()),
        length(worked),
    )


def _branches(ctx: Context, syncs: HostSyncs, sites: Array) -> int:
    """Number of sites that decide a branch on a tensor's value."""
    is_branch = ctx.trace.names_where(lambda s: s == "aten::is_nonzero")
    return int(is_branch[ctx.trace.name[syncs.event[sites]]].sum())


def _calls_of(ctx: Context, syncs: HostSyncs, sites: Array) -> Array:
    """Calls of the sites, of what only computes what they read, and of what a round trip does on the CPU."""
    last = syncs.call[sites].astype(np.int64)
    back = syncs.back[sites]
    last = np.where(back >= 0, np.maximum(ctx.called.of_row[np.maximum(back, 0)], last), last)
    first = syncs.call[sites] - syncs.feeders[sites]
    n = last - first + 1
    out: Array = np.repeat(first - np.r_[0, np.cumsum(n)[:-1]], n) + np.arange(int(n.sum()))
    return out


def _large_reads(ctx: Context, syncs: HostSyncs, sites: Array) -> Array:
    """Sites that take a tensor to the CPU for good, larger than a command carries: the copy stays, without the wait."""
    copies = ctx.copies
    rows = copies.row[~copies.to_gpu & (copies.bytes > STAGED_BYTES)]
    return sites[syncs.is_kind("to_cpu")[sites] & np.isin(syncs.call[sites], ctx.called.of_row[rows])]


def _worked_on(ctx: Context, syncs: HostSyncs, sites: Array) -> Intervals:
    """What the launching thread does after large reads until it launches again, where that is work of its own.

    A tensor is read to be worked on, and nothing else is known to happen there.
    """
    quiet = ctx.trace.analysis(quiet_times)
    mine = np.isin(quiet.begin, ctx.trace.end[syncs.event[sites]]) & (quiet.ns >= WORK_NS)
    return union(quiet.begin[mine], quiet.end[mine])


def _read_late(ctx: Context, syncs: HostSyncs, sites: Array, gpu: dict[int, int]) -> Array | None:
    """Rows of large copies to the CPU: into pinned memory they run beside the kernels, at the rate that pinned copies have."""
    copies = ctx.copies
    mine = ~copies.to_gpu & (copies.bytes > 0) & np.isin(ctx.called.of_row[copies.row], syncs.call[sites])
    rate = copies.rate(to_gpu=False) or copies.rate(to_gpu=True)
    if rate:
        gpu.update(zip(copies.row[mine].tolist(), (copies.bytes[mine] / rate * 1e9).astype(np.int64).tolist(), strict=True))
    return copies.row[mine] if mine.any() else None


def _run_on_gpu(ctx: Context, syncs: HostSyncs, sites: Array, gpu: dict[int, int]) -> None:
    """The op of a round trip runs on the GPU: at least what came back is read and written there once."""
    n_bytes = ctx.trace.column("gpu_ops", "bytes")
    for row in syncs.back[sites].tolist():
        gpu[row] = int(ctx.memory_ns(2 * max(int(n_bytes[row]), 0)) or 0)


def _tests(ctx: Context, syncs: HostSyncs, sites: Array) -> Array:
    """The comparison directly before each site that makes its mask."""
    before = syncs.call[sites].astype(np.int64) - 1
    before = before[before >= 0]
    is_test = ctx.trace.names_where(lambda s: s.startswith("aten::") and s[6:] in TESTS)
    return before[is_test[ctx.trace.name[ctx.called.event[before]]]]


def _consumers(ctx: Context, syncs: HostSyncs, sites: Array) -> tuple[Array, list[_Gather]]:
    """Calls soon after that take indices which these sites found: a size that their result has and their inputs do not have.

    Those that take them of what was masked become one masked op; those that gather from something else (rows of a table, nodes
    of a graph) stay, and with a mask do so for all elements.
    """
    names = {int(i) for i in np.flatnonzero(ctx.trace.names_where(lambda s: s in _INDEXED))}
    called, taken = ctx.called, set(syncs.call[sites].tolist())
    inner = _inner_ops(ctx, syncs.call[sites])
    shapes = "shapes" in ctx.trace.capabilities
    out, gathers = [], []
    for call in syncs.call[sites].tolist():
        masked = _masked_sizes(ctx, int(called.event[call]))
        found = {n for e in inner.get(call, ()) for n in _sizes(ctx, e)} - set(_sizes(ctx, int(called.event[call]))) - {1}
        for nxt in range(call + 1, min(call + 1 + _WITHIN, len(called))):
            event = int(called.event[nxt])
            if ctx.trace.lane[event] != ctx.trace.lane[called.event[call]]:
                break
            if nxt not in taken and int(ctx.trace.name[event]) in names and (not shapes or found & set(_sizes(ctx, event))):
                first = _first_sizes(ctx, event)
                if shapes and not masked & set(first):
                    kept = max(found & set(_sizes(ctx, event)))
                    gathers.append(_Gather(call, nxt, kept, max(masked, default=kept), int(np.prod(first[1:] or [1]))))
                    continue
                out.append(nxt)
                if not shapes:
                    break  # the next such op is taken for the one that uses them
    return np.unique(np.array(out, dtype=np.int64)), gathers


def _inner_ops(ctx: Context, calls: Array) -> dict[int, list[int]]:
    """Ops inside each call, but for those that size an empty result before its size is known."""
    events = ctx.trace.column("cpu_ops", "event")
    call = ctx.called.of_event[events]
    rows = np.isin(call, calls) & ~ctx.trace.names_where(lambda s: s == "aten::resize_")[ctx.trace.name[events]]
    inner: dict[int, list[int]] = {}
    for c, e in zip(call[rows].tolist(), events[rows].tolist(), strict=True):
        inner.setdefault(c, []).append(e)
    return inner


def _gathering_ns(ctx: Context, gathers: list[_Gather]) -> float:
    """GPU time per step that gathering with a mask adds: the elements that were left out, and for each site one masked op over
    what is gathered first."""
    # Of a mask that kept nothing, the time of its gathering tells nothing of its elements.
    some = [g for g in gathers if g.kept]
    ns = sum(float(ctx.gpu_ns[ctx.called.of_row == g.call].sum()) * max(g.all / g.kept - 1, 0.0) for g in some)
    first = {g.site: g for g in reversed(gathers)}
    masked = sum(ctx.memory_ns(_MASKED_BYTES * float(g.all) * g.width) or 0.0 for g in first.values())
    return ctx.per_step(ns + masked)


def _masked_sizes(ctx: Context, event: int) -> set[int]:
    """Sizes of the inputs of an op that waits for its size: the mask, and what is masked."""
    inputs = ctx.inputs(event)
    return set(_numbers(inputs.dims if inputs is not None else None)) - {1}


def _first_sizes(ctx: Context, event: int) -> list[int]:
    """Sizes of what an op takes by indices: its first input."""
    inputs = ctx.inputs(event)
    return _numbers(inputs.dims[0]) if inputs is not None and inputs.dims else []


def _sizes(ctx: Context, event: int) -> list[int]:
    inputs = ctx.inputs(event)
    return _numbers(inputs.dims if inputs is not None else None)


def _numbers(dims: Any) -> list[int]:
    """All sizes in recorded shapes."""
    if isinstance(dims, list):
        return [n for part in dims for n in _numbers(part)]
    return [dims] if isinstance(dims, int) else []


def _masked(ctx: Context, syncs: HostSyncs, sites: Array, consumers: Array, tests: Array, gpu: dict[int, int]) -> int:
    """Number of ops that come instead, each with a row of `gpu_ops` that stands for its time.

    What is looked up and written back with the same indices is one masked op; so is a lookup, and so are indices that are found
    for something further on. Its mask is compared once.
    """
    calls = syncs.call[sites].astype(np.int64)
    writes = ctx.trace.names_where(lambda s: s.startswith(("aten::index_put", "aten::masked_scatter")))
    is_write = writes[ctx.trace.name[ctx.called.event[calls]]]
    ends = np.union1d(calls[is_write], consumers)
    nearest = np.searchsorted(ends, calls)
    ends_soon = nearest < len(ends)
    ends_soon[ends_soon] = ends[nearest[ends_soon]] <= calls[ends_soon] + _WITHIN
    replaced = np.union1d(ends, calls[~ends_soon])
    for call in replaced.tolist():
        rows = np.flatnonzero(ctx.called.of_row == call)
        if len(rows):
            row = int(rows[np.argmax(ctx.gpu_ns[rows])])
            gpu[row] = min(int(ctx.gpu_ns[row]), _masked_ns(ctx, ctx.inputs(int(ctx.called.event[call]))))
    return len(replaced) + min(len(tests), len(replaced))


def _masked_ns(ctx: Context, inputs: Inputs | None) -> int:
    """Time of a masked op over the first input: reads it and the other side, writes once; four bytes an element."""
    if inputs is None or not inputs.dims or not isinstance(inputs.dims[0], list):
        return 0
    return int(ctx.memory_ns(3 * 4 * float(np.prod(inputs.dims[0] or [1]))) or 0)
