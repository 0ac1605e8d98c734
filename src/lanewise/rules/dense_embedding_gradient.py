"""dense-embedding-gradient: a table whose gradient and optimizer step go over all rows, of which a batch uses few."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import DTYPES, ITEM_BYTES

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, size
from .context import Context
from .limits import stream_ns
from .sequence import Op

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_BACKWARD = "aten::embedding_dense_backward"
_STEP = re.compile(r"^Optimizer\.step#(\w+)\.step$")
# A sparse gradient is sorted and joined by row, and its step gathers and scatters state: some ten passes over the rows that are
# used. It wins where they are a small part of the table; at a sixteenth of its rows they cost a tenth of the dense step.
_LEAST_ROWS_RATIO = 16
_SPARSE_PASSES = 10
# A sparse backward pass and SparseAdam cost the CPU as much as this many calls of one kernel: 1.1 ms more a step for one table,
# where a call cost 15 us (torch 2.11; 36 kernels, 200 events, and a wait where rows are joined).
_SPARSE_CALLS = 70
# How often a dense step of an optimizer touches each 4-byte element: Adam reads four tensors and writes three. Others at least
# read parameter and gradient and write the parameter.
_PASSES = {"Adam": 7, "AdamW": 7, "NAdam": 7, "RAdam": 7, "Adagrad": 5, "RMSprop": 5}
_LEAST_PASSES = 3


@dataclass(frozen=True, slots=True)
class _Table:
    """One table's gradient: its op, rows of the table, rows that the batch names at most, elements of a row and their bytes."""

    event: int
    rows: int
    used: int
    width: int
    item_bytes: int

    @property
    def row_bytes(self) -> int:
        return self.width * self.item_bytes

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    events = ctx.in_steps(ctx.events_named(_BACKWARD))
    tables = [t for t in (_table(ctx, int(e)) for e in events) if t is not None]
    tables = [t for t in tables if t.rows >= _LEAST_ROWS_RATIO * t.used]
    if not tables:
        return Clear()
    after = _fills(ctx, tables) | _steps(ctx, tables)
    rows = np.array(sorted(after), dtype=np.int64)
    now, then = float(ctx.gpu_ns[rows].sum()), float(sum(after.values()))
    largest = max(tables, key=lambda t: t.bytes)
    by_time = rows[np.argsort(-(ctx.gpu_ns[rows] - np.array([after[int(r)] for r in rows])), kind="stable")]
    calls = ctx.per_step(len(tables)) * _SPARSE_CALLS
    return [
        Draft(
            {
                "rows": count(largest.rows),
                "used": count(largest.used),
                "bytes": size(float(largest.bytes)),
                "gpu": duration(ctx.per_step(now - then)),
            },
            Change(gpu=after, extra_cpu_ns=calls * ctx.op_cpu_ns),
            ctx.per_step(now),
            [largest.event, *first_events(ctx.gpu_event[by_time])],
            confidence="medium",
            where=ctx.where(largest.event),
        )
    ]


def _table(ctx: Context, event: int) -> _Table | None:
    """Sizes of a table by the recorded inputs: gradient, indices, rows."""
    found = ctx.inputs(event)
    if found is None or found.dims is None or len(found.dims) < 3 or not found.concrete or len(found.concrete) < 3:
        return None
    gradient, indices, rows = found.dims[0], found.dims[1], str(found.concrete[2])
    if not gradient or not rows.isdigit() or not all(isinstance(n, int) for n in (*gradient, *indices)):
        return None
    used = int(np.prod(indices)) if indices else 1
    kind = DTYPES.get(found.types[0] if found.types else "", "")
    return _Table(event, int(rows), used, gradient[-1], ITEM_BYTES.get(kind, 4))


def _fills(ctx: Context, tables: list[_Table]) -> dict[int, int]:
    """The zeros of each table's gradient, which a sparse gradient has not; and what writes the rows stays."""
    after: dict[int, int] = {}
    for table in tables:
        rows = ctx.launched_in(np.array([table.event]))
        after |= dict.fromkeys(rows[np.isin(ctx.kinds[rows].astype(str), ("memset", "fill"))].tolist(), 0)
    return after


def _steps(ctx: Context, tables: list[_Table]) -> dict[int, int]:
    """The optimizer's kernels without the passes over the tables' rows that no index names."""
    marks = ctx.in_steps(ctx.events_matching(_STEP, "user_annotation"))
    rows = ctx.launched_in(marks) if len(marks) else np.empty(0, dtype=np.int64)
    if not len(rows):
        return {}
    ns = ctx.gpu_ns[rows].astype(np.float64)
    share = _share(ctx, rows, {(t.rows, t.width) for t in tables})
    if share is None:
        match = _STEP.match(ctx.trace.name_of(int(marks[0])))
        passes = _PASSES.get(match.group(1) if match else "", _LEAST_PASSES)
        dense = sum(stream_ns(ctx, t.bytes * passes) or 0.0 for t in tables)
        share = np.full(len(rows), min(dense / float(ns.sum()), 1.0))
    sparse = sum(stream_ns(ctx, t.used * t.row_bytes * _SPARSE_PASSES) or 0.0 for t in tables)
    left = ns * (1 - share)
    left += np.minimum(sparse * share * ns / max(float((share * ns).sum()), 1.0), ns * share)
    return dict(zip(rows.tolist(), left.astype(int).tolist(), strict=True))


def _share(ctx: Context, rows: Array, shapes: set[tuple[int, int]]) -> Array | None:
    """float (rows,): the tables' part of the elements that each kernel's op works on; None where no op lists a table.

    Lists of more than 30 tensors are not recorded.
    """
    seq = ctx.sequence
    parts = [_part(op, shapes) for op in seq.ops]
    place = np.full(len(ctx.gpu_ns), -1, dtype=np.int64)
    place[seq.rows] = np.arange(len(seq))
    at = place[rows]
    found = np.where(at >= 0, np.array([*parts, 0.0])[np.where(at >= 0, seq.op_of[np.maximum(at, 0)], -1)], 0.0)
    return found if found.any() else None


def _part(op: Op, shapes: set[tuple[int, int]]) -> float:
    elements = sum(t.numel for t in op.tensors)
    return sum(t.numel for t in op.tensors if t.shape in shapes) / elements if elements else 0.0


RULE = Rule(
    id="dense-embedding-gradient",
    precedence=20,
    needs=("gpu_events", "launches", "shapes", "steps"),
    check=_check,
    english={
        "name": "Dense gradient of a table",
        "title": "A table of {rows} rows is updated in full for {used} of them: {gpu} a step",
        "text": "The gradient of the embedding fills zeros for the whole table ({bytes}), and the optimizer goes over all rows, though a batch "
        "looks up at most {used}.",
        "fix": "nn.Embedding(..., sparse=True) with torch.optim.SparseAdam for the table and the present optimizer for the rest; for tables of "
        "many GB: TorchRec or FBGEMM, whose backward pass updates the rows in place",
        "doc_finds": "`embedding_dense_backward` in the steps, for tables with at least sixteen times as many rows as the batch has indices.",
        "doc_why": "A dense gradient is as large as the table. It is filled with zeros, a few rows are added, and Adam then reads four and "
        "writes three tensors of that size, all in every step.",
        "doc_fix": "table = nn.Embedding(rows, width, sparse=True)\n"
        "sparse = torch.optim.SparseAdam(list(table.parameters()))\ndense = torch.optim.AdamW(net.parameters(), fused=True)",
        "doc_fine": "Tables that fit the cache or little beside the rest of the step. A sparse step changes only the rows that the batch "
        "names: no weight decay and no momentum for the others, which is another training run.",
        "doc_measured": "The zeros go, and of the optimizer's time the table's part of the elements. Where a list was too long to be recorded (30 "
        "tensors), that part is taken from passes over the table at 88 % of the memory bandwidth: seven for Adam, five for Adagrad and RMSprop, "
        "three for others. Ten passes over the rows in use and the CPU time of 70 calls come instead.",
    },
)
