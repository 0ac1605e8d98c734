"""Parameter groups of an optimizer, by the calls of its fused kernel: each group is a call, with its options as recorded numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .context import Context

__all__ = ["Groups", "foreach_groups", "parameter_groups"]

Array = npt.NDArray[Any]

_FUSED = re.compile(r"^aten::_fused_\w+_$")
_FOREACH = re.compile(r"^aten::_foreach_\w+$")


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that one marked step of an optimizer goes through.

    Attributes:
        mark: event of the step.
        calls: int64 (groups,): events of the fused calls, in order.
        options: how many different sets of options they have.
        tensors: int64 (groups,): tensors of each.
        elements: of all tensors.
    """

    mark: int
    calls: Array
    options: int
    tensors: Array
    elements: int


def foreach_groups(ctx: Context, marks: Array) -> tuple[int, int] | None:
    """(groups that an optimizer's step goes through with foreach calls, different sets of options that they have); None without any.

    The op that ends the step updates the parameters, once for each group; where it also updates the momentum, another op is called
    half as often. Options are the numbers among the inputs of a group's calls. Of several steps the one with most calls is taken.
    """
    event = _inner(ctx, marks, _FOREACH)
    if not len(event):
        return None
    ts = np.sort(ctx.trace.ts[marks])
    of = np.searchsorted(ts, ctx.trace.ts[event], side="right")
    event = event[of == np.bincount(of).argmax()]
    name = ctx.trace.name[event]
    names, counts = np.unique(name, return_counts=True)
    last = counts[np.searchsorted(names, name[-1])]
    half = names[2 * counts == last]
    ends = name == (half[0] if len(half) else name[-1])
    group = np.cumsum(np.r_[0, ends[:-1]])
    rows, row = np.unique(ctx.input_row[event], return_inverse=True)
    texts = [None if r < 0 else ctx.trace.inputs[int(r)][3] for r in rows]
    if any(text is None for text in texts):
        return None
    kinds = [texts.index(text) for text in texts]
    call = list(zip(name.tolist(), np.array(kinds)[row.reshape(-1)].tolist(), strict=True))
    bounds = np.r_[np.flatnonzero(np.diff(group, prepend=-1)), len(group)]
    options = {tuple(call[a:b]) for a, b in pairwise(bounds.tolist()) if ends[a:b].any()}
    return int(ends.sum()), len(options)


def _inner(ctx: Context, marks: Array, pattern: re.Pattern[str]) -> Array:
    """Events of called ops within some events whose name a pattern matches, by start."""
    called = ctx.called.event
    event = called[np.isin(called, ctx.inside(marks))].astype(np.int64)
    event = event[ctx.trace.names_where(lambda s: pattern.match(s) is not None)[ctx.trace.name[event]]]
    ordered: Array = event[np.argsort(ctx.trace.ts[event], kind="stable")]
    return ordered


def parameter_groups(ctx: Context, marks: Array) -> list[Groups]:
    """Groups of the marked steps whose fused calls have their options and their tensors' sizes recorded, one step after the other."""
    event = _inner(ctx, marks, _FUSED)
    marks = marks[np.argsort(ctx.trace.ts[marks], kind="stable")]
    of = np.searchsorted(ctx.trace.ts[marks], ctx.trace.ts[event], side="right") - 1
    recorded = ctx.input_row[event]
    known = {int(r): _group(ctx, int(r)) for r in np.unique(recorded)}
    found = []
    for k in np.unique(of):
        mine = np.flatnonzero(of == k)
        rows, counts = np.unique(recorded[mine], return_counts=True)
        groups = [known[int(r)] for r in rows]
        if any(g is None for g in groups):
            continue
        sizes = {int(r): g for r, g in zip(rows, groups, strict=True) if g is not None}
        names = {int(r): int(ctx.trace.name[event[mine[recorded[mine] == r][0]]]) for r in rows}
        options = {(names[r], g[0]) for r, g in sizes.items()}
        tensors = np.array([sizes[int(r)][1] for r in recorded[mine]], dtype=np.int64)
        elements = sum(sizes[int(r)][2] * int(n) for r, n in zip(rows, counts, strict=True))
        found.append(Groups(int(marks[k]), event[mine], len(options), tensors, elements))
    return found


def _group(ctx: Context, row: int) -> tuple[tuple[str, ...], int, int] | None:
    """(options, tensors, elements) of a fused call; None where the trace does not tell them.

    A learning rate that is a tensor hides its value; the last two arguments, of a gradient scaler, are no options.
    """
    inputs = ctx.inputs_at(row) if row >= 0 else None
    if inputs is None or not inputs.dims or not inputs.types or not inputs.concrete or not inputs.dims[0]:
        return None
    if any(t not in ("TensorList", "Scalar", "ScalarList", "") for t in inputs.types[:-2]):
        return None
    shapes = inputs.dims[0]
    if not isinstance(shapes[0], list):
        return None
    return tuple(inputs.concrete), len(shapes), sum(int(np.prod(s, dtype=np.int64)) for s in shapes)
