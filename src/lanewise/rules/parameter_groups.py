"""Parameter groups of an optimizer, by the calls of its fused kernel: each group is a call, with its options as recorded numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .context import Context, Inputs

__all__ = ["Groups", "parameter_groups"]

Array = npt.NDArray[Any]

_FUSED = re.compile(r"^aten::_fused_\w+_$")


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


def parameter_groups(ctx: Context, marks: Array) -> list[Groups]:
    """Groups of the marked steps whose fused calls have their options and their tensors' sizes recorded, one step after the other."""
    called = ctx.called.event
    inner = ctx.inside(marks)
    event = np.sort(called[np.isin(called, inner)])
    event = event[ctx.trace.names_where(lambda s: _FUSED.match(s) is not None)[ctx.trace.name[event]]].astype(np.int64)
    marks = marks[np.argsort(ctx.trace.ts[marks], kind="stable")]
    event = event[np.argsort(ctx.trace.ts[event], kind="stable")]
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
    inputs = Inputs(ctx.trace.inputs[row]) if row >= 0 else None
    if inputs is None or not inputs.dims or not inputs.types or not inputs.concrete or not inputs.dims[0]:
        return None
    if any(t not in ("TensorList", "Scalar", "ScalarList", "") for t in inputs.types[:-2]):
        return None
    shapes = inputs.dims[0]
    if not isinstance(shapes[0], list):
        return None
    return tuple(inputs.concrete), len(shapes), sum(int(np.prod(s, dtype=np.int64)) for s in shapes)
