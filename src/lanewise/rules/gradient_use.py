"""Which gradients that the backward pass accumulates the optimizers update parameters with, by the sizes of both.

Tensors have no names in a trace: parameters are told by their sizes, so many of each. Lists of more than 30 tensors are
recorded without sizes; then the blocks of their kernels, one for each 65536 elements of a tensor, tell whether all gradients
are in the list, or else exactly those that each step begins anew, or exactly those of some sizes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from .context import Context

__all__ = ["Gradients", "Uncertain", "gradients", "unused_shapes"]

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

STEP_MARK = re.compile(r"^Optimizer\.step#.+\.step$")
_ACCUMULATE = "torch::autograd::AccumulateGrad"
# ATen's kernels over lists give each block one chunk of one tensor (aten/src/ATen/native/cuda/MultiTensorApply.cuh).
_CHUNK = 65536
_LIST_KERNEL = "multi_tensor_apply_kernel"
# Sizes that are tried in all combinations: parameters of a model have some ten.
_MOST_SIZES = 14


class Uncertain(Exception):  # noqa: N818 - a signal inside the rules, not an error of the user
    """What the trace does not tell, by its key in `lanewise.rules.reasons`."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients accumulated during the steps, in order.

    Attributes:
        event: int64 (n,): autograd's function that accumulates each.
        shape: the sizes of each, by number in `shapes`.
        shapes: distinct sizes.
        run: int64 (n,): number of the backward pass, equal for those of one `backward()`.
        kept: bool (n,): whether it is added to one that was there before.
    """

    event: Array
    shape: Array
    shapes: list[Shape]
    run: Array
    kept: Array

    def per_run(self) -> Counter[Shape]:
        """How many gradients of each size one backward pass gives: the most that any gives."""
        return self._most(np.ones(len(self.event), dtype=np.bool_))

    def begun_anew(self) -> Counter[Shape]:
        """Of those, how many are not added to earlier ones."""
        return self._most(~self.kept)

    def _most(self, chosen: Array) -> Counter[Shape]:
        out: Counter[Shape] = Counter()
        _, run = np.unique(self.run, return_inverse=True)
        for k, shape in enumerate(self.shapes):
            out[shape] = int(np.bincount(run[chosen & (self.shape == k)], minlength=1).max())
        return +out


def gradients(ctx: Context, lane: int) -> Gradients:
    """Gradients of the steps.

    Args:
        ctx: the trace's context; shapes are needed.
        lane: thread of the program, which waits while the backward pass runs: its ops come between two of them.
    """
    event = ctx.in_steps(ctx.events_named(_ACCUMULATE)).astype(np.int64)
    event = event[ctx.input_row[event] >= 0]
    event = event[np.argsort(ctx.trace.ts[event], kind="stable")]
    recorded, inverse = np.unique(ctx.input_row[event], return_inverse=True)
    found = [_first_shape(ctx, int(r)) for r in recorded]
    shapes = list(dict.fromkeys(found))
    number = np.array([shapes.index(s) for s in found], dtype=np.int64)[inverse]
    forward = ctx.called.event[ctx.sequence.is_forward(ctx.called.event)]
    begins = np.sort(ctx.trace.ts[forward[ctx.trace.lane[forward] == lane]])
    adds = ctx.events_named("aten::add_", "aten::add")
    up = ctx.tree.parent[ctx.place[adds]]
    kept = np.isin(event, ctx.tree.events[up[up >= 0]])
    return Gradients(event, number, shapes, np.searchsorted(begins, ctx.trace.ts[event]), kept)


def _first_shape(ctx: Context, row: int) -> Shape:
    dims = ctx.inputs_at(row).dims
    return tuple(dims[0]) if dims and all(isinstance(n, int) for n in dims[0]) else ()


def unused_shapes(ctx: Context, marks: Array, found: Gradients) -> Counter[Shape]:
    """How many gradients of each size no optimizer of any step updates a parameter with.

    Args:
        ctx: the trace's context.
        marks: events of the optimizers' steps.
        found: gradients of the same steps.

    Raises:
        Uncertain: the trace does not tell.
    """
    every = found.per_run()
    calls = np.flatnonzero(np.isin(ctx.called.event, ctx.inside(marks)))
    updated, seen = _updated(ctx, calls, marks)
    if not seen:
        return _by_blocks(every, found.begun_anew(), *_blocks(ctx, calls, marks))
    if not updated:
        raise Uncertain("unseen-parameters")
    if any(shape not in every for shape in updated if _numel(shape) > 1):
        raise Uncertain("other-tensors")  # an optimizer that works on shards, or on flat copies
    return every - updated


def _updated(ctx: Context, calls: Array, marks: Array) -> tuple[Counter[Shape], bool]:
    """(tensors by size that the optimizers update in a step, whether all lists have sizes).

    Of each optimizer's step the op that takes most tensors of a size; the optimizers of a step together; the most of any step.
    """
    event = ctx.called.event[calls]
    marks = marks[np.argsort(ctx.trace.ts[marks], kind="stable")]
    mark = np.searchsorted(ctx.trace.ts[marks], ctx.trace.ts[event], side="right") - 1
    keys = np.c_[mark, ctx.trace.name[event], ctx.input_row[event]]
    distinct, counts = np.unique(keys[keys[:, 2] >= 0], axis=0, return_counts=True)
    taken: dict[tuple[int, int], Counter[Shape]] = {}
    seen = True
    for (number, name, row), n in zip(distinct.tolist(), counts.tolist(), strict=True):
        inputs = ctx.inputs_at(row)
        if not inputs.dims or not inputs.types:
            continue
        first = inputs.dims[0]
        if inputs.types[0] == "TensorList" and not first:
            seen = False
        shapes = first if first and isinstance(first[0], list) else [first]
        counted = taken.setdefault((number, name), Counter())
        for shape in shapes:
            counted[tuple(shape)] += n
    of_mark: dict[int, Counter[Shape]] = {}
    for (number, _), counted in taken.items():
        of_mark[number] = of_mark.get(number, Counter()) | counted
    of_step: dict[int, Counter[Shape]] = {}
    for number, step in enumerate(ctx.step_of(marks).tolist()):
        of_step[step] = of_step.get(step, Counter()) + of_mark.get(number, Counter())
    updated: Counter[Shape] = Counter()
    for counted in of_step.values():
        updated |= counted
    return Counter({s: n for s, n in updated.items() if _numel(s) > 1}), seen


def _blocks(ctx: Context, calls: Array, marks: Array) -> tuple[int, bool]:
    """(blocks a step of the list op that ends each optimizer's step, whether that is a fused one).

    The last op of a step updates the parameters; those before may work on some of them only, as weight decay does.
    """
    rows = np.flatnonzero(np.isin(ctx.called.of_row, calls))
    rows = rows[ctx.trace.names_where(lambda s: _LIST_KERNEL in s)[ctx.trace.name[ctx.gpu_event[rows]]]]
    grid = ctx.trace.column("gpu_ops", "grid_x")[rows].astype(np.int64)
    event = ctx.called.event[ctx.called.of_row[rows]]
    if not len(rows) or (grid <= 0).any():
        raise Uncertain("unseen-parameters")
    order = np.argsort(ctx.trace.ts[event], kind="stable")
    event, grid = event[order], grid[order]
    marks = np.sort(marks)
    mark = np.searchsorted(ctx.trace.ts[marks], ctx.trace.ts[event], side="right")
    last = np.r_[np.flatnonzero(np.diff(mark) != 0), len(mark) - 1]
    name = ctx.trace.name[event]
    ending = name[last][np.searchsorted(mark[last], mark)]
    fused = all(ctx.trace.strings[n].startswith("aten::_fused_") for n in np.unique(ending))
    total = np.bincount(ctx.step_of(event) + 1, weights=np.where(name == ending, grid, 0))
    return int(total.max()), fused


def _by_blocks(every: Counter[Shape], anew: Counter[Shape], blocks: int, fused: bool) -> Counter[Shape]:
    # An op of a step that is not fused may be called twice: for the momentum, and for the parameters.
    may_be = {blocks} if fused else {blocks, blocks // 2}
    if _chunks(every) in may_be:
        return Counter()
    kept = every - anew
    if kept and _chunks(anew) in may_be:
        return kept
    sizes = {shape: _chunks(Counter({shape: n})) for shape, n in every.items()}
    fitting = [
        chosen
        for n in range(1, len(sizes))
        for chosen in combinations(sizes, n)
        if fused and len(sizes) <= _MOST_SIZES and sum(sizes[s] for s in chosen) == blocks
    ]
    if len(fitting) != 1:
        raise Uncertain("unseen-parameters")
    return Counter({s: n for s, n in every.items() if s not in fitting[0]})


def _chunks(tensors: Counter[Shape]) -> int:
    return sum(n * -(-_numel(shape) // _CHUNK) for shape, n in tensors.items())


def _numel(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))
