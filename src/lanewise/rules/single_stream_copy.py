"""single-stream-copy: large copies from or to pinned memory queue up between the kernels."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.gpu_time import KINDS
from lanewise.analyses.host_syncs import copy_waits, host_syncs
from lanewise.analyses.replay import Change
from lanewise.model.intervals import overlap_with, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Array, Context

__all__ = ["RULE"]

# Putting a copy on a stream of its own costs two event calls and a switch of streams, some 15 us on the CPU; a shorter copy is
# not worth it.
_LEAST_NS = 20_000


def _check(ctx: Context) -> Outcome:
    copies = ctx.copies
    stream = ctx.trace.column("gpu_ops", "stream")
    rows = copies.row
    alone = _exposed(ctx, rows)
    chosen = ~copies.pageable & ~copies.held & (copies.ns >= _LEAST_NS) & (2 * alone >= copies.ns) & np.isin(rows, ctx.rows)
    chosen &= np.isin(_place(ctx, rows), _computing_streams(ctx))
    waited = np.zeros(len(rows), dtype=np.bool_)
    waited[copy_waits(ctx.trace)[0]] = True
    chosen &= ~waited & ~_read_at_once(ctx)
    found = np.flatnonzero(chosen)
    if not len(found):
        return Clear()
    inward = float(copies.ns[found][copies.to_gpu[found]].sum())
    total = float(copies.ns[found].sum())
    order = found[np.argsort(-copies.ns[found], kind="stable")]
    first = order[:4]
    return [
        Draft(
            {
                "size": size(ctx.per_step(float(np.maximum(copies.bytes[found], 0).sum()))),
                "times": count(ctx.per_step(len(found))),
                "copy": duration(ctx.per_step(total)),
                "stream": str(int(stream[rows[order[0]]])),
            },
            Change(aside=rows[found]),
            ctx.per_step(float(alone[found].sum())),
            first_events(np.stack([ctx.gpu_event[rows[first]], copies.call[first]]).T.ravel()),
            variant="" if 2 * inward >= total else "out",
            where=ctx.where(int(copies.call[order[0]])) if copies.call[order[0]] >= 0 else None,
        )
    ]


def _exposed(ctx: Context, rows: Array) -> Array:
    """Time of each copy in ns during which no kernel of its device ran."""
    device = ctx.trace.column("gpu_ops", "device")
    out = ctx.gpu_ns[rows].copy()
    kernels = ctx.gpu.kind == KINDS.index("compute")
    for d in np.unique(device[rows]):
        mine = device[rows] == d
        busy = union(ctx.gpu.ts[kernels & (device == d)], ctx.gpu.end[kernels & (device == d)])
        out[mine] -= overlap_with(ctx.gpu.ts[rows[mine]], ctx.gpu.end[rows[mine]], busy)
    return out


def _place(ctx: Context, rows: Array) -> Array:
    """One number for device and stream of each row."""
    device, stream = ctx.trace.column("gpu_ops", "device"), ctx.trace.column("gpu_ops", "stream")
    return device[rows] * (int(stream.max(initial=0)) + 2) + stream[rows]


def _computing_streams(ctx: Context) -> Array:
    """Streams that run at least a tenth of the kernel time: a copy there waits for kernels, and they for it."""
    kernels = np.flatnonzero(ctx.gpu.kind == KINDS.index("compute"))
    places, which = np.unique(_place(ctx, kernels), return_inverse=True)
    total = np.bincount(which, weights=ctx.gpu_ns[kernels], minlength=len(places))
    return places[total >= 0.1 * total.sum()]


def _read_at_once(ctx: Context) -> Array:
    """bool (copies,): copies to the CPU that the program waits for in the same call: `host-sync`'s."""
    syncs = ctx.trace.analysis(host_syncs)
    call = ctx.called.of_row[ctx.copies.row]
    return (call >= 0) & np.isin(call, syncs.call[syncs.call >= 0])


RULE = Rule(
    id="single-stream-copy",
    precedence=62,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Copies between the kernels",
        "title": "{copy} of copies to the GPU per step run between the kernels",
        "title_out": "{copy} of copies to the CPU per step run between the kernels",
        "text": "{size} in {times} copies go through stream {stream}, which also runs the kernels: one waits for the other, though the "
        "copy engine works beside the kernels.",
        "fix": "Prefetch the next batch on a second stream: copy it with `non_blocking=True` under `torch.cuda.stream(side)` during "
        "this step, and let the compute stream wait for it (`wait_stream`) before it is used.",
        "fix_out": "Copy on a second stream: `side.wait_stream(torch.cuda.current_stream())`, copy with `non_blocking=True` under "
        "`torch.cuda.stream(side)`, `x.record_stream(side)`, and read it a step later.",
        "doc_finds": "Copies of 20 µs or more between the GPU and pinned memory on a stream that also runs kernels, while no kernel "
        "runs elsewhere.",
        "doc_why": "A stream does one thing after the other. GPUs have copy engines that work beside the kernels, but only for copies "
        "on another stream.",
        "doc_fix": "    side = torch.cuda.Stream()\n"
        "    with torch.cuda.stream(side):\n"
        "        nxt = batch.to(device, non_blocking=True)     # from pinned memory, during the step before\n"
        "    ...\n"
        "    torch.cuda.current_stream().wait_stream(side)\n"
        "    nxt.record_stream(torch.cuda.current_stream())",
        "doc_fine": "Where the copy takes longer than the kernels, only the shorter of the two is saved; where the CPU bounds the step, "
        "nothing. Copies from pageable memory must be pinned first (`pageable-copy`).",
        "doc_measured": "The steps are replayed with these copies beside the kernels: the step then takes as long as the longer of the "
        "two. Copies under 20 µs are left out, since two event calls and a switch of streams cost about as much.",
    },
)
