"""What attention costs now and would cost in one fused op: shared by the rules about attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.model.intervals import union

from .context import Context
from .limits import Attention, attention_ns, fused_speedup
from .sequence import Sequence

__all__ = ["Fusion", "Site", "fusion"]

Array = npt.NDArray[Any]

# A fused call launches through one op within another: as much CPU time as two of the calls that it replaces.
_KEPT_CALLS = 2


@dataclass(frozen=True, slots=True)
class Site:
    """One attention of the forward pass that is not fused.

    Attributes:
        first, last: events of the first and the last op that go.
        places: places in the sequence of its GPU ops.
        sizes: what is computed; None where shapes were not recorded.
    """

    first: int
    last: int
    places: Array
    sizes: Attention | None


@dataclass(frozen=True, slots=True)
class Fusion:
    """What fusing all sites changes.

    Attributes:
        change: for the replay.
        now_ns, after_ns: GPU time of all steps, now and fused.
        rows: rows of `gpu_ops`, the longest first.
        kernels: GPU ops now.
        sites: attentions of the forward passes.
    """

    change: Change
    now_ns: float
    after_ns: float
    rows: Array
    kernels: int
    sites: int


def fusion(ctx: Context, sites: list[Site]) -> Fusion | None:
    """Price sites of one thread, in order, with their backward passes; None where fusing them would save nothing."""
    seq = ctx.sequence
    begin = np.array([s.first for s in sites], dtype=np.int64)
    end = np.array([s.last for s in sites], dtype=np.int64)
    made = seq.made_in_backward(begin, end)
    backward = np.flatnonzero(made >= 0)
    backward = backward[np.argsort(made[backward], kind="stable")]
    bounds = np.searchsorted(made[backward], np.arange(len(sites) + 1))
    nodes, stretch = seq.backward_nodes(begin, end)
    after: dict[int, int] = {}
    gone_begin: list[int] = []
    gone_end: list[int] = []
    now = then = 0.0
    for number, site in enumerate(sites):
        back = backward[bounds[number] : bounds[number + 1]]
        for places, is_backward in ((site.places, False), (back, True)):
            ns = _fused_ns(ctx, seq, site, places, is_backward)
            present = float(seq.ns[places].sum())
            if not len(places) or ns >= present:
                continue
            now, then = now + present, then + ns
            # The replay takes no row for longer than it is: the fused time is shared out over all.
            after.update(zip(seq.rows[places].tolist(), (seq.ns[places] * (ns / present)).astype(int).tolist(), strict=True))
            starts, ends = _backward_gone(ctx, nodes[stretch == number]) if is_backward else _gone(ctx, site, places)
            gone_begin += starts
            gone_end += ends
    if not after:
        return None
    rows = np.array(sorted(after, key=lambda r: -int(ctx.gpu_ns[r])), dtype=np.int64)
    cpu = union(np.array(gone_begin, dtype=np.int64), np.array(gone_end, dtype=np.int64))
    return Fusion(Change(gpu=after, cpu=cpu), now, then, rows, len(rows), len(sites))


def _fused_ns(ctx: Context, seq: Sequence, site: Site, places: Array, backward: bool) -> float:
    """Time of the fused kernel. On unknown cards and without shapes that of the products alone, which a fused kernel does as
    well; fp32 products on CUDA cores at the rate of fused kernels."""
    ns = None if site.sizes is None else attention_ns(ctx, site.sizes, backward)
    if ns is not None:
        return ns
    total = 0.0
    for place in places[np.isin(seq.kind[places].astype(str), ("gemm", "gemv"))]:
        kernel = ctx.kernel(int(seq.rows[place]))
        speedup = fused_speedup(ctx) if kernel.dtype == "fp32" and kernel.tensor_cores is False else 1.0
        total += float(seq.ns[place]) / speedup
    return total


def _gone(ctx: Context, site: Site, places: Array) -> tuple[list[int], list[int]]:
    """CPU time of the stretch that goes: all but as much as the fused call takes."""
    begin, end = int(ctx.trace.ts[site.first]), int(ctx.trace.end[site.last])
    kept = min(1.0, _KEPT_CALLS / len(places))
    return [begin + int((end - begin) * kept)], [end]


def _backward_gone(ctx: Context, nodes: Array) -> tuple[list[int], list[int]]:
    """CPU time of the backward nodes that go, up to where the next one begins: all but the longest, which the fused one takes."""
    ts, stop = ctx.trace.ts, ctx.trace.end
    nodes = nodes[np.argsort(ts[nodes], kind="stable")]
    kept = int(np.argmax(stop[nodes] - ts[nodes]))
    # The nodes of one stretch run one after the other, but for others in between that are ready earlier.
    until = np.r_[ts[nodes[1:]], stop[nodes[-1:]]]
    between = until - stop[nodes]
    usual = np.median(between[:-1]) if len(nodes) > 1 else 0
    end = np.where((between >= 0) & (between <= 2 * usual), until, stop[nodes])
    gone = np.delete(np.arange(len(nodes)), kept)
    return ts[nodes[gone]].tolist(), end[gone].tolist()
