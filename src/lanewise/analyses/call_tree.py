"""Which op, annotation, call or frame encloses which on the CPU lanes, with self times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.nesting import Nesting, nest
from lanewise.model.orders import stable_order
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .id_sets import in_groups, numbered

__all__ = ["CALL_CATEGORIES", "OP_CATEGORIES", "OUTSIDE_RANK", "full_tree", "op_tree", "self_times"]

Array = npt.NDArray[Any]

OP_CATEGORIES = ("cpu_op", "user_annotation")
CALL_CATEGORIES = ("cuda_runtime", "cuda_driver")

_MOST_OPS = 2**48
# Of events that cover exactly the same time the one named first is outside: a range is opened before what it marks, a frame
# before the op that it calls, an op before the runtime calls that it makes, a runtime call before the driver's.
_OUTSIDE_FIRST = ("user_annotation", "python_function", "cpu_op", "cuda_runtime", "cuda_driver")
OUTSIDE_RANK: Array = np.full(len(CATEGORY_CODES), len(_OUTSIDE_FIRST), dtype=np.int8)
"""int8, by code of a category: of events that cover exactly the same time, the one with the least rank is outside."""
OUTSIDE_RANK[[CATEGORY_CODES[category] for category in _OUTSIDE_FIRST]] = np.arange(len(_OUTSIDE_FIRST))


def op_tree(trace: Trace) -> Nesting:
    """Nesting of CPU ops, annotations, and runtime and driver calls; Python frames are looked through.

    The profiler's own time (`overhead`) is in it, so that it is nobody's self time, where it can have been one thread's only.
    """
    return _tree(trace, (*OP_CATEGORIES, *CALL_CATEGORIES))


def full_tree(trace: Trace) -> Nesting:
    """The same with Python frames and module calls."""
    if not len(trace.rows("python_function")):
        return trace.analysis(op_tree)
    return _tree(trace, (*OP_CATEGORIES, *CALL_CATEGORIES, "python_function"))


def _tree(trace: Trace, categories: tuple[str, ...]) -> Nesting:
    rows = trace.rows(*categories)
    lane = trace.lane[rows]
    overhead, thread = _overhead_threads(trace)
    if len(overhead):
        rows, lane = np.r_[rows, overhead], np.r_[lane, thread]
        order = stable_order(rows)
        rows, lane = rows[order], lane[order]
    # Ops are numbered as they are opened, whatever their order in the file.
    number = np.zeros(len(trace), dtype=np.int64)
    number[trace.column("cpu_ops", "event")] = np.clip(trace.column("cpu_ops", "external_id"), 0, _MOST_OPS - 1)
    rank = OUTSIDE_RANK[trace.category[rows]] * np.int64(_MOST_OPS) + number[rows]
    return nest(rows, trace.ts[rows], trace.end[rows], lane, rank)


def _overhead_threads(trace: Trace) -> tuple[Array, Array]:
    """Overhead events and the lane of the one thread that each fell on.

    The profiler records its own time without a thread. It is taken for a thread's when one thread, and no other, has an op
    around all of it.
    """
    overhead, ops = trace.rows("overhead"), trace.rows(*OP_CATEGORIES)
    threads = np.zeros(len(overhead), dtype=np.int32)
    thread = np.full(len(overhead), -1, dtype=np.int32)
    if len(overhead):
        for lane in np.unique(trace.lane[ops]):
            mine = ops[trace.lane[ops] == lane]
            reach = np.maximum.accumulate(trace.end[mine])
            before = np.searchsorted(trace.ts[mine], trace.ts[overhead], side="right")
            around = (before > 0) & (reach[np.maximum(before - 1, 0)] >= trace.end[overhead])
            threads += around
            thread[around] = lane
    one = threads == 1
    return overhead[one], thread[one]


def self_times(trace: Trace, tree: Nesting) -> Array:
    """int64 (n,): duration of each event of a tree less the time that its direct children cover.

    Children that overlap (a call that outlives the op before it) are counted once, so self times of a tree sum to the
    durations of its roots.
    """
    ts, end = trace.ts[tree.events], trace.end[tree.events]
    inner = np.flatnonzero(tree.parent >= 0)
    if not len(inner):
        return end - ts
    by_parent = inner[in_groups(tree.parent[inner])]  # children of one parent are in order of their start
    parent, begin, stop = tree.parent[by_parent], ts[by_parent], end[by_parent]
    first = np.ones(len(parent), dtype=np.bool_)
    np.not_equal(parent[1:], parent[:-1], out=first[1:])
    begin = _begun_alone(begin, stop, first)
    firsts = np.flatnonzero(first)
    out: Array = (end - ts).astype(np.int64)
    out[parent[firsts]] -= np.add.reduceat(np.maximum(stop - begin, 0), firsts)
    return out


def _begun_alone(begin: Array, stop: Array, first: Array) -> Array:
    """Where the time of each child begins that no child before it covers; `first` marks the first child of each parent."""
    overlapping = ~first[1:] & (begin[1:] < stop[:-1])
    if not overlapping.any():
        return begin
    group = np.cumsum(first) - 1
    some = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    some[group[1:][overlapping]] = True
    rows = np.flatnonzero(some[group])
    # Running maximum of the ends within each parent: lift each parent's children above those of all before it.
    starts = first[rows]
    number = np.cumsum(starts) - 1
    ends = stop[rows]
    # By the ranks of the ends: the ends themselves, laid end to end, do not fit into int64 in long runs of many ops.
    distinct, rank = numbered(ends)
    lift = number * np.int64(len(distinct))
    reach = distinct[np.maximum.accumulate(rank + lift) - lift]
    before = np.r_[np.int64(0), reach[:-1]]
    alone = begin.copy()
    alone[rows] = np.where(starts, begin[rows], np.maximum(begin[rows], before))
    return alone
