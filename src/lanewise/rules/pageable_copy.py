"""pageable-copy: tensors are copied to the GPU from pageable memory, or the CPU waits for the copy."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.copies import STAGED_BYTES
from lanewise.analyses.host_syncs import copy_waits, host_syncs
from lanewise.analyses.id_sets import among, distinct
from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, bandwidth, count, duration, first_events, size
from .context import Array, Context
from .host_link import link_rate

__all__ = ["RULE"]

_LOADER = re.compile(r"^enumerate\(DataLoader\)|DataLoader.*__next__")


def _check(ctx: Context) -> Outcome:
    copies, large = ctx.copies, _large(ctx)
    place, waits = copy_waits(ctx.trace)
    chosen = np.flatnonzero(large & (copies.pageable | (copies.held & ~copies.pinned)))
    variant = ""
    if not len(chosen):
        chosen, variant = np.intersect1d(np.flatnonzero(large), place), "blocking"
    if not len(chosen):
        return Clear()
    rate, measured = link_rate(ctx, to_gpu=True)
    new = {} if rate is None or variant else _at_rate(copies.row[chosen], copies.bytes[chosen], rate)
    held = waits[among(place, chosen)]
    calls = copies.call[chosen]
    order = np.argsort(-copies.ns[chosen], kind="stable")
    moved, time = float(copies.bytes[chosen].sum()), float(copies.ns[chosen].sum())
    return [
        Draft(
            {
                "size": size(ctx.per_step(moved)),
                "times": count(ctx.per_step(len(chosen))),
                "copy": duration(ctx.per_step(time)),
                "wait": duration(ctx.per_step(float(ctx.trace.dur[held].sum()))),
                "rate": bandwidth(moved / time * 1e9 if time else None),
                "pinned": bandwidth(rate),
            },
            Change(gpu=new, waits=held),
            ctx.per_step(time + _beyond(ctx, held, copies.row[chosen])),
            first_events(np.stack([ctx.gpu_event[copies.row[chosen]][order], calls[order]]).T.ravel()),
            variant=variant,
            fix_variant=variant or ("loader" if len(ctx.in_steps(ctx.events_matching(_LOADER))) else ""),
            confidence="high" if measured or variant else "medium",
            high=Change(gpu=new, waits=held, aside=copies.row[chosen]),
            where=ctx.where(int(calls[order[0]])),
        )
    ]


def _large(ctx: Context) -> Array:
    """bool (copies,): copies to the GPU in the steps that are too large to be staged."""
    copies = ctx.copies
    back = ctx.trace.analysis(host_syncs).back  # copies back of round trips are host-sync's: they go altogether
    mine = among(copies.row, distinct(ctx.rows)) & ~among(copies.row, distinct(back))
    found: Array = copies.to_gpu & (copies.bytes > STAGED_BYTES) & (copies.call >= 0) & mine
    return found


def _at_rate(rows: Array, n_bytes: Array, rate: float) -> dict[int, int]:
    """Time of each copy at a rate in bytes per second."""
    return dict(zip(rows.tolist(), (n_bytes / rate * 1e9).astype(np.int64).tolist(), strict=True))


def _beyond(ctx: Context, waits: Array, rows: Array) -> float:
    """Time that the CPU was held beyond the copies themselves in ns."""
    return max(0.0, float(ctx.trace.dur[waits].sum()) - float(ctx.gpu_ns[rows].sum()))


RULE = Rule(
    id="pageable-copy",
    precedence=26,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Copy from pageable memory",
        "title": "{size} per step copied to the GPU from pageable memory, at {rate}",
        "title_blocking": "{size} per step copied to the GPU while the CPU waits",
        "text": "The driver first moves it into a pinned buffer, piece by piece, and the call returns only then: {copy} of copying per "
        "step, {wait} with the CPU held. From pinned memory the link does {pinned}, and the CPU goes on.",
        "text_blocking": "The memory is pinned, but {times} copies per step are waited for: {wait} with the CPU held, in which it could "
        "launch the step's kernels.",
        "fix": "Keep the batch in pinned memory (`x = x.pin_memory()` in the loader, or one buffer from `torch.empty(..., "
        "pin_memory=True)`) and copy it with `x.to(device, non_blocking=True)`.",
        "fix_loader": "`DataLoader(..., pin_memory=True)`, and `x = x.to(device, non_blocking=True)` in the step.",
        "fix_blocking": "`x.to(device, non_blocking=True)`: the memory is pinned already.",
        "doc_finds": "Copies to the GPU of more than 64 KiB from pageable memory, and copies from pinned memory that the program waits "
        "for.",
        "doc_why": "The GPU can fetch only from pinned memory. For anything else the driver copies piece by piece through a buffer of "
        "its own, at a fifth to a half of the link's rate, and the calling thread is held from the moment when the GPU comes to the "
        "copy until the end of it. Nothing is launched meanwhile.",
        "doc_fix": "    loader = DataLoader(data, batch_size=64, num_workers=8, pin_memory=True)\n"
        "    for x, y in loader:\n"
        "        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n\n"
        "`pin_memory=True` pins in a thread of the loader, so that the step does not pay for it. Pin buffers once, not per step: "
        "pinning itself is slow.",
        "doc_fine": "Small copies: up to 64 KiB go along with the command. Copies outside the steps (weights at the start).",
        "doc_measured": "The steps are replayed with each copy at the rate of the trace's own copies from pinned memory, where there "
        "are any of at least 1 MiB; else at 87 % of the PCIe generation of the card (53.7 to 55.5 of 63 GB/s were measured on an "
        "H200), and without the waits. The high end of the range also runs the copies on a stream of their own.",
    },
)
