"""Ops and kernels by name: counts and times, as in torch's own ``key_averages()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.kernels import decode
from lanewise.model.nesting import Nesting
from lanewise.model.schema import CATEGORY_CODES, CATEGORY_NAMES
from lanewise.model.trace import MISSING, Trace

from .call_tree import op_tree, self_times
from .gpu_time import gpu_op_times
from .id_sets import in_groups, numbered
from .launches import launches

__all__ = ["KernelRow", "OpRow", "OpTimes", "kernel_table", "op_table", "op_table_by_shape", "op_times"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class OpTimes:
    """Times of every CPU op and annotation; times in ns.

    Attributes:
        event: int32 (ops,): its event.
        total, own: int64 (ops,): CPU time, and without child ops and calls.
        gpu_total, gpu_own: int64 (ops,): time of the GPU ops that it and its children launched, and of its own.
        gpu_ops: int64 (ops,): number of GPU ops that it and its children launched.
        outermost: bool (ops,): not inside an op of the same name, so that it counts in sums of totals.
    """

    event: Array
    total: Array
    own: Array
    gpu_total: Array
    gpu_own: Array
    gpu_ops: Array
    outermost: Array


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op name (and, where asked for, one set of input shapes); times in ns."""

    name: str
    cat: str
    count: int
    cpu_total_ns: int
    cpu_self_ns: int
    gpu_total_ns: int
    gpu_self_ns: int
    gpu_ops: int
    shapes: str | None = None


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One GPU op name; times in ns. `ops` are the names of the launching ops, the most frequent first."""

    name: str
    kind: str | None
    count: int
    total_ns: int
    mean_ns: float
    median_ns: float
    ops: tuple[str, ...]


def op_times(trace: Trace) -> OpTimes:
    """Times of each op from the call tree and the launches in it."""
    tree = trace.analysis(op_tree)
    category = trace.category[tree.events]
    is_op = np.isin(category, [CATEGORY_CODES["cpu_op"], CATEGORY_CODES["user_annotation"]])
    # What needs no launches comes first: another thread may be looking for them.
    own, outermost = self_times(trace, tree), _outermost(tree, _row_names(trace, tree))
    own_gpu, own_count = _own_gpu(trace, tree)
    gpu_total, gpu_ops = tree.totals(own_gpu), tree.totals(own_count)
    rows = np.flatnonzero(is_op)
    return OpTimes(
        event=tree.events[rows],
        total=trace.dur[tree.events[rows]],
        own=own[rows],
        gpu_total=gpu_total[rows],
        gpu_own=own_gpu[rows],
        gpu_ops=gpu_ops[rows],
        outermost=outermost[rows],
    )


def _own_gpu(trace: Trace, tree: Nesting) -> tuple[Array, Array]:
    """GPU time and GPU ops that each event of the tree launched itself."""
    owner = trace.analysis(launches).gpu_owner
    known = np.flatnonzero(owner >= 0)
    ops = trace.analysis(gpu_op_times)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[tree.events] = np.arange(len(tree.events))
    at = place[owner[known]]
    time = np.zeros(len(tree.events), dtype=np.int64)
    np.add.at(time, at, ops.end[known] - ops.ts[known])
    return time, np.bincount(at, minlength=len(tree.events)).astype(np.int64)


def _row_names(trace: Trace, tree: Nesting) -> Array:
    """int64 (n,): number of the row of the ops table that each event of the tree falls into.

    An op, an annotation and a call may have one name: they are different rows, as in torch's table.
    """
    category = trace.category[tree.events]
    kind = np.full(len(category), 2, dtype=np.int64)
    kind[category == CATEGORY_CODES["cpu_op"]] = 0
    kind[category == CATEGORY_CODES["user_annotation"]] = 1
    return trace.name[tree.events].astype(np.int64) * 3 + kind


def _outermost(tree: Nesting, name: Array) -> Array:
    """Which events have no event of the same name around them."""
    # What an event encloses follows it, so one is inside another of its name when that one's last descendant is not before it.
    n = len(name)
    out = np.ones(n, dtype=np.bool_)
    order = in_groups(name)
    last = tree.last[order]
    first = np.ones(n, dtype=np.bool_)
    np.not_equal(name[order][1:], name[order][:-1], out=first[1:])
    group = np.cumsum(first) * n  # lifts each name's events above those of the names before
    reach = np.maximum.accumulate(last + group)
    out[order[1:]] = first[1:] | (reach[:-1] < (order + group)[1:])
    return out


def op_table(trace: Trace) -> list[OpRow]:
    """One row for each name of a CPU op or annotation, by GPU time and then CPU time of its own, largest first."""
    times = trace.analysis(op_times)
    return _op_rows(trace, times, trace.name[times.event].astype(np.int64), None)


def op_table_by_shape(trace: Trace) -> list[OpRow]:
    """The same for each name and set of input shapes; shapes are None where they were not recorded."""
    times = trace.analysis(op_times)
    inputs = np.full(len(trace), MISSING, dtype=np.int64)
    inputs[trace.column("cpu_ops", "event")] = trace.column("cpu_ops", "inputs")
    texts = [None if i is None or i[0] is None else i[0].decode("utf-8", "replace") for i in trace.inputs]
    numbers: dict[str | None, int] = {None: 0}
    shape_of = np.array([numbers.setdefault(t, len(numbers)) for t in texts] or [0], dtype=np.int64)
    rows = inputs[times.event]
    shape = np.where(rows >= 0, shape_of[np.maximum(rows, 0)], 0)
    key = trace.name[times.event].astype(np.int64) * len(numbers) + shape
    return _op_rows(trace, times, key, list(numbers))


def _op_rows(trace: Trace, times: OpTimes, key: Array, shapes: list[str | None] | None) -> list[OpRow]:
    # An annotation and an op may have one name: they are different rows, as in torch's table.
    annotation = trace.category[times.event] == CATEGORY_CODES["user_annotation"]
    groups, inverse = numbered(key * 2 + annotation)
    counts = np.bincount(inverse, minlength=len(groups))

    def summed(values: Array) -> Array:
        out = np.zeros(len(groups), dtype=np.int64)
        np.add.at(out, inverse, values)
        return out

    once = times.outermost
    cpu_total, cpu_self = summed(np.where(once, times.total, 0)), summed(times.own)
    gpu_total, gpu_self = summed(np.where(once, times.gpu_total, 0)), summed(times.gpu_own)
    gpu_ops = summed(np.where(once, times.gpu_ops, 0))
    order = np.lexsort((-cpu_self, -gpu_self))
    width = 1 if shapes is None else len(shapes)
    rows = []
    for g in order:
        code = int(groups[g]) // 2
        rows.append(
            OpRow(
                name=trace.strings[code // width],
                cat="user_annotation" if groups[g] % 2 else "cpu_op",
                count=int(counts[g]),
                cpu_total_ns=int(cpu_total[g]),
                cpu_self_ns=int(cpu_self[g]),
                gpu_total_ns=int(gpu_total[g]),
                gpu_self_ns=int(gpu_self[g]),
                gpu_ops=int(gpu_ops[g]),
                shapes=None if shapes is None else shapes[code % width],
            )
        )
    return rows


def kernel_table(trace: Trace) -> list[KernelRow]:
    """One row for each GPU op name, by total time, largest first."""
    ops, events = trace.analysis(gpu_op_times), trace.column("gpu_ops", "event")
    dur = ops.end - ops.ts
    owners = _owner_names(trace)
    groups, inverse = numbered(trace.name[events])
    order = in_groups(inverse)
    bounds = np.searchsorted(inverse[order], np.arange(len(groups) + 1))
    rows = []
    for g, code in enumerate(groups):
        mine = order[bounds[g] : bounds[g + 1]]
        category = CATEGORY_NAMES[trace.category[events[mine[0]]]]
        name = trace.strings[code]
        rows.append(
            KernelRow(
                name=name,
                kind=decode(name).kind if category == "kernel" else _copy_kind(name, category),
                count=len(mine),
                total_ns=int(dur[mine].sum()),
                mean_ns=float(dur[mine].mean()),
                median_ns=float(np.median(dur[mine])),
                ops=_most_frequent(owners[mine], trace.strings),
            )
        )
    return sorted(rows, key=lambda r: (-r.total_ns, r.name))


def _owner_names(trace: Trace) -> Array:
    """int32 (gpu ops,): name of the op that launched each, MISSING where not known."""
    owner = trace.analysis(launches).gpu_owner
    return np.where(owner >= 0, trace.name[owner], MISSING)


def _most_frequent(codes: Array, strings: list[str]) -> tuple[str, ...]:
    found, counts = np.unique(codes[codes >= 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(strings[code] for code in found[order])


def _copy_kind(name: str, category: str) -> str | None:
    return "memset" if category == "gpu_memset" else decode(name).kind
