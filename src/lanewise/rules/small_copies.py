"""small-copies: many tiny tensors are copied to the GPU one by one."""

from __future__ import annotations

import numpy as np

from lanewise.analyses.copies import STAGED_BYTES
from lanewise.analyses.host_syncs import copy_waits
from lanewise.analyses.replay import Change
from lanewise.analyses.sync_feeders import one_block
from lanewise.model.intervals import Intervals, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Array, Context

__all__ = ["RULE"]

# One or two tiny copies a step (a learning rate, a sequence length) are not a pattern; each costs some 20 to 50 us.
_LEAST_TIMES = 3
# What `torch.tensor(..., device="cuda")` does around its copy, beside it in the call tree.
_BEFORE = frozenset({"aten::empty", "aten::detach", "aten::scalar_tensor"})
_AFTER = frozenset({"aten::lift_fresh", "aten::detach_", "aten::alias"})
_USERS = 0.25  # such calls are a pattern when a quarter of the copies have one
# A tensor of so many elements holds a constant or a few, and arithmetic between such tensors belongs on the host.
_FEW = 64


def _check(ctx: Context) -> Outcome:
    copies = ctx.copies
    small = copies.to_gpu & (copies.bytes >= 0) & (copies.bytes <= STAGED_BYTES) & np.isin(copies.row, ctx.rows)
    call = ctx.called.of_row[copies.row]
    chosen = np.flatnonzero(small & (call >= 0) & (copies.call >= 0))
    if ctx.per_step(len(chosen)) < _LEAST_TIMES:
        return Clear()
    makers, inner = _makers(ctx, copies.row[chosen])
    users = _tiny_users(ctx, makers)
    if len(users) < _USERS * len(makers):
        users = users[:0]
    around = _around(ctx, makers)
    place, waits = copy_waits(ctx.trace)
    held = waits[np.isin(place, chosen)]
    rows = np.union1d(np.flatnonzero(np.isin(ctx.called.of_row, makers)), copies.row[chosen])
    more = np.flatnonzero(np.isin(ctx.called.of_row, users))
    events = np.r_[ctx.called.event[makers], inner]
    order = events[np.argsort(-ctx.trace.dur[events], kind="stable")]
    spent = max(0.0, float(ctx.trace.dur[events].sum() - ctx.trace.dur[held].sum()))
    wrapped = _named(ctx, makers + 1, frozenset({"aten::lift_fresh"}))
    return [
        Draft(
            {
                "times": count(ctx.per_step(len(chosen))),
                "size": size(float(np.median(copies.bytes[chosen]))),
                "spent": duration(ctx.per_step(spent)),
                "each": duration(spent / len(events)),
                "users": count(ctx.per_step(len(users))),
            },
            _gone(ctx, np.r_[rows, more], np.r_[makers, around, users], inner, held),
            ctx.per_step(spent),
            first_events(np.r_[order[:4], copies.call[chosen][:4]]),
            variant="users" if len(users) else "",
            fix_variant="tensor" if 2 * len(wrapped) >= len(events) else "",
            confidence="medium" if len(users) else "high",
            low=_gone(ctx, rows, np.r_[makers, around], inner, held),
            where=ctx.where(int(order[0])),
        )
    ]


def _makers(ctx: Context, rows: Array) -> tuple[Array, Array]:
    """(calls that do nothing but such copies, the innermost ops around copies that other calls make on their way)."""
    call = ctx.called.of_row[rows].astype(np.int64)
    calls, n = np.unique(call, return_counts=True)
    pure = calls[n == ctx.called.kernels[calls]]
    return pure, np.unique(ctx.owner[rows[~np.isin(call, pure)]]).astype(np.int64)


def _gone(ctx: Context, rows: Array, calls: Array, inner: Array, held: Array) -> Change:
    """The steps without some GPU ops, the calls and inner ops that make them, and the waits for them."""
    return Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=_intervals(ctx, calls, inner), waits=held)


def _intervals(ctx: Context, calls: Array, inner: Array) -> Intervals:
    """CPU time of calls with the Python that makes them, and of ops inside others."""
    own, more = ctx.call_intervals(calls), ctx.intervals(inner)
    return union(np.r_[own[0], more[0]], np.r_[own[1], more[1]])


def _named(ctx: Context, calls: Array, names: frozenset[str]) -> Array:
    """Those of some calls that are of one of some ops and launch nothing."""
    calls = calls[(calls >= 0) & (calls < len(ctx.called))]
    good = ctx.trace.names_where(lambda s: s in names)
    return calls[good[ctx.trace.name[ctx.called.event[calls]]] & (ctx.called.kernels[calls] == 0)]


def _around(ctx: Context, makers: Array) -> Array:
    """Calls that make the tensor on the host before each copy, and that wrap it up after."""
    before = _named(ctx, makers - 1, _BEFORE)
    after = [_named(ctx, makers + by, _AFTER) for by in (1, 2)]
    return np.setdiff1d(np.unique(np.concatenate([before, *after])), makers)


def _tiny_users(ctx: Context, makers: Array) -> Array:
    """Calls between two copies that compute only with tensors of a few elements, directly after a copy."""
    out = []
    few = one_block(ctx.trace, ctx.called)
    skip = ctx.trace.names_where(lambda s: s in _AFTER)
    lane = ctx.trace.lane[ctx.called.event]
    copying = set(makers.tolist())
    for maker in makers.tolist():
        call = maker + 1
        while call < len(ctx.called) and lane[call] == lane[maker] and skip[ctx.trace.name[ctx.called.event[call]]]:
            call += 1
        if (
            call < len(ctx.called)
            and lane[call] == lane[maker]
            and call not in copying
            and _is_tiny(ctx, call, bool(few[call]))
        ):
            out.append(call)
    return np.unique(np.array(out, dtype=np.int64))


def _is_tiny(ctx: Context, call: int, one: bool) -> bool:
    """Whether a call launches something and takes only tensors of a few elements; without shapes, one block tells."""
    if not ctx.called.kernels[call]:
        return False
    if "shapes" not in ctx.trace.capabilities:
        return one
    inputs = ctx.inputs(int(ctx.called.event[call]))
    if inputs is None or not inputs.dims or not inputs.types:
        return False
    shapes = [d for d, t in zip(inputs.dims, inputs.types, strict=False) if t not in ("", "Scalar", "ScalarList")]
    flat = [d for d in shapes if isinstance(d, list) and all(isinstance(n, int) for n in d)]
    return bool(flat) and len(flat) == len(shapes) and all(int(np.prod(d or [1])) <= _FEW for d in flat)


RULE = Rule(
    id="small-copies",
    precedence=26,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Many small copies",
        "title": "{times} copies of {size} to the GPU per step, {each} of CPU time each",
        "text": "Each goes through the whole path of a copy and waits for it: {spent} of CPU time per step for a handful of bytes.",
        "text_users": "Each goes through the whole path of a copy and waits for it: {spent} of CPU time per step for a handful of bytes. "
        "{users} ops per step then compute with these few numbers alone, which Python does at no cost.",
        "fix": "Collect the values in one tensor and copy it once (pinned, `non_blocking=True`), or keep them on the GPU between steps.",
        "fix_tensor": "Create constants once, outside the step; use Python numbers in arithmetic (`x * 0.5`, not `x * torch.tensor(0.5, "
        "device='cuda')`); collect values that change in one tensor and copy it once.",
        "doc_finds": "Copies of up to 64 KiB to the GPU, at least three per step: `torch.tensor(..., device='cuda')`, `.to('cuda')` of "
        "scalars and short lists, Python lists as indices.",
        "doc_why": "The bytes take a microsecond. The call takes 20 to 50: a tensor on the host, one on the GPU, a copy, and a "
        "synchronisation, since the host's memory is pageable.",
        "doc_fix": "    scale = torch.tensor(0.5, device='cuda')           # once, not in every step\n"
        "    y = x * 0.5                                       # a Python number is passed with the launch, no copy\n"
        "    lens = torch.tensor(lengths, pin_memory=True).to('cuda', non_blocking=True)   # one copy for all",
        "doc_fine": "One or two per step. Where the GPU bounds the step their CPU time is hidden, but each wait empties the queue.",
        "doc_measured": "The steps are replayed without the copying calls, what makes and wraps the tensors around them, and their "
        "waits. Where shapes are recorded, ops directly after that take nothing but tensors of up to 64 elements go too; the low end of "
        "the range keeps them.",
    },
)
