"""host-sync: the program waits for the GPU in the middle of its work."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.host_syncs import SYNC_KINDS, HostSyncs, host_syncs

from .base import Clear, Draft, Outcome, Rule, duration
from .context import Array, Context
from .sync_changes import sync_change

__all__ = ["RULE"]

# A wait in every step is worth knowing below 1 % of it: it forbids CUDA graphs, and costs more as the rest gets faster. Less
# than this is within what the replay can tell (the waiting call itself takes 4 us or more).
_LEAST_SHARE = 0.003
_MOST_NAMED = 500  # sites whose feeders are counted by name


def _check(ctx: Context) -> Outcome:
    syncs = ctx.trace.analysis(host_syncs)
    sites = np.flatnonzero(np.isin(ctx.step_of(syncs.event), ctx.step_numbers))
    if not len(sites):
        return Clear()
    found = sync_change(ctx, syncs, sites)
    waited = _waited(ctx, syncs)[sites]
    cost = waited + (syncs.end - syncs.begin)[sites]
    kind = SYNC_KINDS[int(np.bincount(syncs.kind[sites], weights=cost).argmax())]
    fed = sites[syncs.feeders[sites] > 0]
    variant = "check" if kind == "scalar" and len(fed) else kind
    if kind == "to_cpu" and found.worked_ns > float(waited.sum()):
        variant = "worked"
    order = sites[np.lexsort((-cost, ~syncs.is_kind(kind)[sites]))]
    return [
        Draft(
            {
                "most": _names(ctx, syncs, sites, 1),
                "sites": _names(ctx, syncs, sites, 3),
                "feeders": _feeders(ctx, syncs, fed),
                "wait": duration(ctx.per_step(float(waited.sum()))),
                "spent": duration(ctx.per_step(found.spent_ns)),
                "worked": duration(ctx.per_step(found.worked_ns)),
            },
            found.change,
            ctx.per_step(float(waited.sum()) + found.spent_ns),
            _evidence(syncs, order),
            variant=variant,
            fix_variant=_fix(ctx, syncs, sites, cost, variant),
            confidence="medium" if variant in ("check", "shape", "worked", "other") else "high",
            low=found.least,
            where=ctx.where(int(syncs.event[order[0]])),
            least_share=_LEAST_SHARE,
            symptoms=("python-overhead",) if variant == "worked" else (),
        )
    ]


def _fix(ctx: Context, syncs: HostSyncs, sites: Array, cost: Array, variant: str) -> str:
    if variant == "scalar" and _of_scaler(ctx, syncs, sites, cost):
        return "scaler"
    algebra = ctx.trace.names_where(lambda s: s.startswith(("aten::linalg_", "aten::_linalg_")))
    mine = algebra[ctx.trace.name[syncs.event[sites]]]
    return "algebra" if variant == "other" and 2 * float(cost[mine].sum()) > float(cost.sum()) else ""


def _of_scaler(ctx: Context, syncs: HostSyncs, sites: Array, cost: Array) -> bool:
    """Whether most of it is `GradScaler.step` looking for infinite gradients: a read directly after the op that finds them."""
    before = syncs.call[sites].astype(np.int64) - 1
    if not len(ctx.called.event):
        return False
    scaling = ctx.trace.names_where(lambda s: s.startswith("aten::_amp_"))
    mine = (before >= 0) & scaling[ctx.trace.name[ctx.called.event[np.maximum(before, 0)]]]
    return 2 * float(cost[mine].sum()) > float(cost.sum())


def _waited(ctx: Context, syncs: HostSyncs) -> Array:
    """Time that the CPU stood still at each site in ns, as recorded."""
    return np.bincount(syncs.site, weights=ctx.trace.dur[syncs.waits], minlength=len(syncs.kind))


def _names(ctx: Context, syncs: HostSyncs, sites: Array, most: int) -> str:
    """The waiting calls by name, the most frequent first: ``aten::item ×52, aten::index ×6``."""
    names, n = np.unique(ctx.trace.name[syncs.event[sites]], return_counts=True)
    order = np.argsort(-n, kind="stable")[:most]
    return ", ".join(f"{ctx.trace.strings[names[i]]} ×{max(round(ctx.per_step(float(n[i]))), 1)}" for i in order)


def _feeders(ctx: Context, syncs: HostSyncs, sites: Array) -> str:
    """Names of the calls that only compute what is read, as most of the sites have them."""
    names = [
        ", ".join(ctx.trace.name_of(int(e)) for e in ctx.called.event[syncs.call[s] - syncs.feeders[s] : syncs.call[s]])
        for s in sites[:_MOST_NAMED]
    ]
    return max(names, key=names.count, default="")


def _evidence(syncs: HostSyncs, sites: Array) -> list[int]:
    """The dearest sites, each with what it waits in."""
    out: list[int] = []
    for site in sites[:4].tolist():
        waits = syncs.waits[syncs.site == site]
        out += [int(syncs.event[site]), *(int(w) for w in waits if w != syncs.event[site])]
    return out


RULE = Rule(
    id="host-sync",
    precedence=25,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "CPU waits for the GPU",
        "title": "The CPU waits for the GPU: {most} per step",
        "title_scalar": "GPU values read into Python: {most} per step",
        "title_check": "GPU values read into Python: {most} per step",
        "title_shape": "Sizes that depend on data make the CPU wait: {most} per step",
        "title_round_trip": "A tensor goes to the CPU and back: {most} per step",
        "title_to_cpu": "Blocking copies to the CPU: {most} per step",
        "title_worked": "The CPU works {worked} a step on what it read: {most} per step",
        "title_explicit": "Synchronises with the GPU: {most} per step",
        "text": "{sites} wait for the GPU: {wait} of waiting per step. The queue is empty afterwards, and the GPU idles until it is "
        "filled again.",
        "text_scalar": "{sites} wait until the GPU has caught up: {wait} of waiting and {spent} of CPU work per step. The queue is "
        "empty afterwards, and the GPU idles until it is filled again.",
        "text_check": "{sites} wait until the GPU has caught up, and {feeders} before it seem to run for that value alone: {wait} "
        "of waiting and {spent} of CPU work per step.",
        "text_shape": "{sites}: the CPU must know how many elements there are before it can go on. That is {wait} of waiting and "
        "{spent} of CPU work per step, for what one masked op does without waiting.",
        "text_round_trip": "{sites}: copied out, worked on by the CPU, copied back, with the GPU idle. {wait} of waiting and {spent} "
        "of CPU time per step.",
        "text_to_cpu": "{sites} wait for the copy and for all GPU work before it: {wait} of waiting per step.",
        "text_worked": "{sites} wait for the copy and for all GPU work before it, {wait} a step; then nothing is launched for {worked}, most "
        "likely while Python works on what was copied.",
        "text_explicit": "{sites} outside any op: {wait} of waiting per step. The queue is empty afterwards, and the GPU idles until "
        "it is filled again.",
        "fix": "Find the call under `torch.cuda.set_sync_debug_mode('warn')`, and move it out of the step or make it asynchronous.",
        "fix_scalar": "Keep the value on the GPU (`total += loss.detach()`) and read it every N steps, or copy it with "
        "`.to('cpu', non_blocking=True)` into pinned memory and look at it a step later.",
        "fix_check": "Combine the tests on the GPU and read one flag every N steps; an `if` that must stay becomes `torch.where`, "
        "which computes the test and both sides every time and may cost what the wait did.",
        "fix_scaler": "`GradScaler.step` reads whether gradients are infinite. A fused optimizer (`fused=True`) tests it on the GPU and "
        "needs no read; bf16 needs no scaler at all.",
        "fix_algebra": "Functions of torch.linalg read whether they failed. Their `_ex` forms leave that on the GPU: torch.linalg.inv_ex(a).inverse, "
        "cholesky_ex, solve_ex; and all of them take a batch of matrices in one call.",
        "fix_shape": "Use masks instead of indices: `x = torch.where(mask, f(x), x)` for `x[mask] = f(x[mask])`, `(x * mask).sum()` "
        "for `x[mask].sum()`; `torch.nonzero_static(x, size=n)` where indices are needed.",
        "fix_round_trip": "Run that op on the GPU: `torch` has most of numpy's and scipy's functions on `device='cuda'`. Otherwise "
        "do it once for many steps.",
        "fix_to_cpu": "Copy into pinned memory with `non_blocking=True` and read it a step later, or reduce on the GPU first and "
        "copy every N steps.",
        "fix_worked": "Compute it on the GPU (a confusion matrix is one `index_add_`, a metric a few ops, `torchmetrics` has most) and read the "
        "result every N steps; else copy into pinned memory with `non_blocking=True` and let another thread work on it.",
        "fix_explicit": "Delete `torch.cuda.synchronize()` (and `event.synchronize()`); to time steps, use CUDA events and read them "
        "at the end.",
        "doc_finds": "Calls in the steps that return only when the GPU has come so far: `.item()`, `if` on a GPU value, `.cpu()`, "
        "`nonzero` and indexing with a mask, `unique`, `torch.cuda.synchronize()`. Copies to the GPU are left to `pageable-copy` and "
        "`small-copies`, the allocator's to `allocator`; the profiler's own synchronisation at the end is nobody's fault.",
        "doc_why": "Normally the CPU runs ahead and the GPU always finds work. A wait empties the queue, and the GPU idles until the "
        "next launches arrive. What the wait lasts is not the loss: waiting for useful GPU work costs nothing by itself. The loss is "
        "the idle time after it, the waiting call's own CPU time, and the ops that run only for the value read.",
        "doc_fix": "    total += loss.detach()                        # instead of total += loss.item()\n"
        "    x = torch.where(mask, f(x), x)                # instead of x[mask] = f(x[mask])\n"
        "    bad = torch.stack([g.isnan().any() for g in grads]).any()   # one read instead of one per parameter\n\n"
        "`torch.cuda.set_sync_debug_mode('warn')` names the line of every synchronising call.",
        "doc_fine": "One read at the end of a step that the GPU bounds, or every hundred steps for the log. A step that must have the "
        "value (sampling a token to decide whether to stop) can still ask for it a step later.",
        "doc_measured": "The steps are replayed without the waits, without the waiting calls, and without the calls before them that "
        "compute only what is read: comparisons and at most one reduction directly before, whose output has the shape that the next "
        "one takes and that autograd does not use. For ops whose result's size depends on data the whole op goes, with the ops that "
        "take the indices, and one pointwise op comes instead. For a round trip everything from the copy out to the copy back goes, "
        "and the op costs the time of its bytes on the GPU. After a read of more than 64 KiB "
        "the time until the next launch goes too, from 0.3 ms on. The low end of the range leaves out everything but the waiting calls, and for a "
        "branch adds two ops in its place: the side that was not taken, and the `where` (12 branches made so took 19 % longer than with "
        "their waits).",
    },
)
