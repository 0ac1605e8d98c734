"""The GPU ops of a usual step in the order of their launches, each with the medians of its times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.called_ops import called_ops
from lanewise.analyses.gpu_time import gpu_op_times
from lanewise.analyses.launches import launches
from lanewise.kernels import Kernel, decode
from lanewise.model.schema import CATEGORY_CODES
from lanewise.rules.context import Context

__all__ = ["Sequence", "Slot", "step_sequence"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One GPU op of a step.

    Attributes:
        name: as recorded.
        kernel: what the name says.
        kind: its kind; ``memset`` and the directions of copies among them.
        op: the op that launched it, the innermost; None where not known.
        called: the outermost op around it, as the program called it.
        place: innermost annotation or module around it that is no step mark.
        owner: event of `op` in the usual step, -1 for none.
        bytes: memory traffic of a copy; None for others.
        grid: blocks of the launch, -1 where not recorded.
        event: the GPU op itself in the usual step, -1 for none.
    """

    name: str
    kernel: Kernel
    kind: str
    op: str | None
    called: str | None
    place: str | None
    owner: int
    bytes: int | None
    grid: int
    event: int = -1


@dataclass(frozen=True, slots=True)
class Sequence:
    """A usual step.

    Attributes:
        slots: its GPU ops in the order of their launches.
        ns: float (steps, slots): their times in all steps that ran the same ops in the same order.
        steps: number of those steps.
        all_steps: number of steps looked at.
        place: which of the trace's steps `slots` are from, -1 where the trace has no steps.
        rows: int (steps, slots): their rows of `gpu_ops`.
    """

    slots: list[Slot]
    ns: Array
    steps: int
    all_steps: int
    place: int = -1
    rows: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))


def step_sequence(ctx: Context) -> Sequence:
    """The most frequent sequence of GPU ops among the steps (but the first, where there are more than two)."""
    rows_of = _rows_by_step(ctx)
    name = ctx.trace.name[ctx.gpu_event]
    shapes: dict[bytes, list[Array]] = {}
    for rows in rows_of:
        shapes.setdefault(name[rows].tobytes(), []).append(rows)
    if not shapes:
        return Sequence([], np.zeros((0, 0)), 0, 0)
    # Of equally frequent ones the last: steps settle.
    usual = max(reversed(list(shapes.values())), key=len)
    ns = np.stack([ctx.gpu_ns[rows] for rows in usual]).astype(np.float64)
    place = int(ctx.steps.gpu_step[usual[-1][0]]) if len(ctx.steps) else -1
    return Sequence(_slots(ctx, usual[-1]), ns, len(usual), len(rows_of), place, np.stack(usual))


def _rows_by_step(ctx: Context) -> list[Array]:
    """Rows of `gpu_ops` of each step, by launch; the whole trace as one step where there are none."""
    links, ops = ctx.trace.analysis(launches), ctx.trace.analysis(gpu_op_times)
    called = np.where(links.launch >= 0, ctx.trace.ts[links.call[links.launch]] if len(links.call) else 0, ops.ts)
    order = np.lexsort((ops.ts, called))
    if not len(ctx.steps):
        return [order] if len(order) else []
    step = ctx.steps.gpu_step[order]
    numbers = ctx.step_numbers if len(ctx.steps) > LONG else np.arange(len(ctx.steps))
    found = [order[step == i] for i in numbers]
    return [rows for rows in found if len(rows)]


# With few steps the first stays: a median of three withstands it, and a median of two is no median.
LONG = 4


def _slots(ctx: Context, rows: Array) -> list[Slot]:
    trace, called = ctx.trace, ctx.trace.analysis(called_ops)
    owner = ctx.owner[rows]
    call = called.of_row[rows]
    n_bytes = trace.column("gpu_ops", "bytes")[rows]
    grid = np.prod([trace.column("gpu_ops", f"grid_{axis}")[rows].astype(np.int64) for axis in "xyz"], axis=0)
    places = _places(ctx, rows)
    memset = trace.category[ctx.gpu_event[rows]] == CATEGORY_CODES["gpu_memset"]
    out = []
    for i, row in enumerate(rows.tolist()):
        name = trace.name_of(int(ctx.gpu_event[row]))
        kernel = decode(name)
        kind = "memset" if memset[i] else kernel.kind or "other"
        moved = int(n_bytes[i]) if n_bytes[i] >= 0 else None
        if moved is not None and kind == "memcpy-dtod":
            moved *= 2  # read and written
        out.append(
            Slot(
                name=name,
                kernel=kernel,
                kind=kind,
                op=trace.name_of(int(owner[i])) if owner[i] >= 0 else None,
                called=trace.name_of(int(called.event[call[i]])) if call[i] >= 0 else None,
                place=places[i],
                owner=int(owner[i]),
                bytes=moved,
                grid=int(grid[i]) if grid[i] > 0 else -1,
                event=int(ctx.gpu_event[row]),
            )
        )
    return out


def _places(ctx: Context, rows: Array) -> list[str | None]:
    """Innermost annotation or module around the launch of each row."""
    trace, tree = ctx.trace, ctx.full_tree
    names = trace.name[tree.events]
    marks = np.isin(tree.events, ctx.steps.event)
    named = trace.names_where(lambda s: not s.startswith(("ProfilerStep#", "##")))[names]
    annotation = (trace.category[tree.events] == CATEGORY_CODES["user_annotation"]) & named & ~marks
    module = trace.names_where(lambda s: s.startswith("nn.Module: "))[names]
    near = tree.nearest(annotation | module)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[tree.events] = np.arange(len(tree.events))
    links = ctx.launches
    known = links.launch[rows] >= 0
    call = np.where(known, links.call[links.launch[rows]] if len(links.call) else 0, 0)
    if not len(near):  # nothing of the CPU was recorded
        return [None] * len(rows)
    at = np.where(known & (place[call] >= 0), near[place[call]], -1)
    return [trace.name_of(int(tree.events[a])).removeprefix("nn.Module: ") if a >= 0 else None for a in at]
