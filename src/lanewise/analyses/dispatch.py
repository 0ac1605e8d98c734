"""The chain from annotation to op to runtime call to kernel, repeated parts folded.

Two events are alike when their names, their categories, the names of the GPU work that they started and all that is inside
them agree. Events that are alike follow one another in the same order, so all copies of a part are summed position by position,
and only one copy is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.nesting import Nesting
from lanewise.model.schema import CATEGORY_CODES, CATEGORY_NAMES
from lanewise.model.trace import Trace

from .backward import backward
from .call_tree import CALL_CATEGORIES, full_tree, op_tree
from .dispatch_nodes import QUIET, LaneTree, Node, block, chained, node_name, quiet_joined, quiet_times, unwrapped
from .folding import mixed, ordinals, repeats
from .gpu_time import gpu_op_times
from .launches import launches
from .quiet_ops import QUIET_OPS, VIEW_OPS

__all__ = ["deep_calls", "dispatch"]

Array = npt.NDArray[Any]

# Calls that ask or note something and start no work; they would stand between the ops and tell nothing.
_QUIET_CALLS = re.compile(
    r"^(cuda|cu|hip)(Get|Peek|Func|Occupancy|PointerGet|DeviceGet|CtxGet|StreamIs|StreamGet|StreamQuery|Event(Create|Destroy|Query)"
    r"|ThreadExchange|Module|Kernel|DriverGet|DevicePrimary)"
)

_AUTOGRAD = re.compile(r"^(autograd::engine::evaluate_function: .*|torch::autograd::\w+|\w+Backward\d*)$")

_CALLS_A_LEVEL = 5  # `_node`, `folded` once or twice, and what they call
_MOST_LEVELS = 5000  # Python's own limit for programs is 1000 frames; each call here takes half a kilobyte of the stack


def dispatch(trace: Trace, begin: int | None = None, end: int | None = None, *, python: bool = False) -> list[LaneTree]:
    """What each thread ran in a window and what it started, the busiest thread first.

    Args:
        trace: a trace.
        begin, end: outermost events that start in this window, in ns; None for all. Step marks are outermost events.
        python: with Python frames and module calls, as far as they lead to an op or a call.
    """
    forest = _Forest(trace, python)
    lanes = []
    with deep_calls(trace, python=python):
        for lane in np.unique(forest.lane):
            roots = forest.roots(int(lane), begin, end)
            if len(roots):
                nodes = forest.folded([roots[i : i + 1] for i in range(len(roots))])
                lanes.append(LaneTree(int(lane), nodes, sum(n.gpu_ops for n in nodes)))
    return sorted(lanes, key=lambda t: (-t.gpu_ops, -sum(n.cpu_ns for n in t.roots)))


@contextmanager
def deep_calls(trace: Trace, *, python: bool) -> Iterator[None]:
    """With room for functions that call themselves at each level of the tree: recursive programs nest some hundred frames."""
    levels = len(trace.analysis(full_tree if python else op_tree).levels())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _CALLS_A_LEVEL * min(levels, _MOST_LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class _Forest:
    """All events of the call tree in preorder, with what each started, and a number for its shape."""

    def __init__(self, trace: Trace, python: bool) -> None:
        self.trace = trace
        tree = trace.analysis(full_tree if python else op_tree)
        self.launch = self._launches()
        self.tree = self._kept(tree)
        events = self.tree.events
        self.launch = self.launch[events]
        self.lane = trace.lane[events]
        self.size = self.tree.totals(np.ones(len(events), dtype=np.int64))
        self.forward = trace.analysis(backward).forward_of(len(trace))[events]
        self._gpu_rows()
        self.shape = self._shapes()
        child = np.flatnonzero(self.tree.parent >= 0)
        order = np.argsort(self.tree.parent[child], kind="stable")
        self._children = child[order]
        self._first = np.searchsorted(self.tree.parent[child][order], np.arange(len(events) + 1))

    def _launches(self) -> Array:
        """int64 (events,): the launch that each call is, -1 for others."""
        call = self.trace.analysis(launches).call
        out = np.full(len(self.trace), -1, dtype=np.int64)
        out[call] = np.arange(len(call))
        return out

    def _kept(self, tree: Nesting) -> Nesting:
        """The tree without calls inside calls, quiet calls, idle Python frames and the profiler's own time."""
        category, name = self.trace.category[tree.events], self.trace.name[tree.events]
        is_call = np.isin(category, [CATEGORY_CODES[c] for c in CALL_CATEGORIES])
        quiet = self.trace.names_where(lambda s: _QUIET_CALLS.match(s) is not None)[name]
        outer = np.where(tree.parent >= 0, is_call[np.maximum(tree.parent, 0)], False)
        launching = self.launch[tree.events] >= 0
        drop = (is_call & ~launching & (quiet | outer)) | (category == CATEGORY_CODES["overhead"])
        frame = category == CATEGORY_CODES["python_function"]
        if frame.any():  # frames that lead to no op and no call
            drop |= frame & (tree.totals((~frame).astype(np.int64)) == 0)
        keep = ~drop
        up = tree.nearest(keep)
        place = np.cumsum(keep) - 1
        parent = np.where(up >= 0, place[np.maximum(up, 0)], -1)[keep].astype(np.int32)
        return Nesting(tree.events[keep], parent)

    def _gpu_rows(self) -> None:
        """GPU ops by launch and start, and for each event which of them it started, itself and with its parts."""
        links, ops = self.trace.analysis(launches), self.trace.analysis(gpu_op_times)
        known = np.flatnonzero(links.launch >= 0)
        order = known[np.lexsort((ops.ts[known], links.launch[known]))]
        self.gpu_row = order
        self.gpu_ns = ops.end[order] - ops.ts[order]
        self.gpu_name = self.trace.name[self.trace.column("gpu_ops", "event")[order]]
        bounds = np.searchsorted(links.launch[order], np.arange(len(links.call) + 2))  # of the launch -1: none
        at = np.where(self.launch >= 0, self.launch, len(links.call))
        self.gpu_first, self.gpu_count = bounds[at], np.diff(bounds)[at]
        total = np.r_[np.int64(0), np.cumsum(self.gpu_ns)]
        own = total[self.gpu_first + self.gpu_count] - total[self.gpu_first]
        self.gpu_total, self.gpu_ops = self.tree.totals(own), self.tree.totals(self.gpu_count)
        self.calls = self.tree.totals(self._is_call().astype(np.int64))

    def _is_call(self) -> Array:
        category = self.trace.category[self.tree.events]
        found: Array = np.isin(category, [CATEGORY_CODES[c] for c in CALL_CATEGORIES])
        return found

    def _shapes(self) -> Array:
        """uint64 (events,): equal for events that are alike: a hash of name, category, GPU work and parts in order."""
        events = self.tree.events
        with np.errstate(over="ignore"):
            shape = mixed(
                self.trace.name[events].astype(np.uint64) * np.uint64(64) + self.trace.category[events].astype(np.uint64)
            )
            shape += self._gpu_hashes()
            ordinal = ordinals(self.tree.parent)
            weight = mixed(ordinal.astype(np.uint64) + np.uint64(1)) | np.uint64(1)
            for level in reversed(self.tree.levels()[1:]):
                np.add.at(shape, self.tree.parent[level], mixed(shape[level]) * weight[level])
        return shape

    def _gpu_hashes(self) -> Array:
        """uint64 (events,): a hash of the names of the GPU ops that each call started, in order."""
        out = np.zeros(len(self.launch), dtype=np.uint64)
        rows = np.flatnonzero(self.gpu_count)
        if not len(rows):
            return out
        owner = np.repeat(rows, self.gpu_count[rows])
        ordinal = np.arange(len(owner)) - np.repeat(
            np.cumsum(self.gpu_count[rows]) - self.gpu_count[rows], self.gpu_count[rows]
        )
        row = np.repeat(self.gpu_first[rows], self.gpu_count[rows]) + ordinal
        weight = mixed(ordinal.astype(np.uint64) + np.uint64(7)) | np.uint64(1)
        np.add.at(out, owner, mixed(self.gpu_name[row].astype(np.uint64) + np.uint64(3)) * weight)
        return out

    def roots(self, lane: int, begin: int | None, end: int | None) -> Array:
        """Positions of a lane's events that start in a window and are inside none that does, in order."""
        rows = np.flatnonzero(self.lane == lane)
        ts = self.trace.ts[self.tree.events]
        low = np.iinfo(np.int64).min if begin is None else begin
        high = np.iinfo(np.int64).max if end is None else end
        up = self.tree.parent[rows]
        outside = (up < 0) | (ts[np.maximum(up, 0)] < low)
        return rows[(ts[rows] >= low) & (ts[rows] < high) & outside]

    def children(self, position: int) -> Array:
        """Positions of the direct parts of an event, in order."""
        return self._children[self._first[position] : self._first[position + 1]]

    def folded(self, siblings: list[Array]) -> tuple[Node, ...]:
        """Nodes out of siblings, each given by the positions of its copies; what repeats is folded."""
        if not siblings:
            return ()
        shapes = self.shape[np.array([s[0] for s in siblings])]
        out: list[Node] = []
        for begin, period, times in repeats(shapes):
            groups = [np.concatenate([siblings[begin + k * period + i] for k in range(times)]) for i in range(period)]
            if period == 1:
                out.append(self._node(groups[0], times))
                continue
            parts = self.folded(groups)
            if all(p.category in QUIET for p in parts):  # nothing to repeat: the ops are counted
                out += [quiet_times(p, times) for p in parts]
            else:
                out.append(block(parts, times, len(groups[0])))
        return tuple(quiet_joined(out))

    def _node(self, positions: Array, count: int) -> Node:
        """The node of events that are alike."""
        first = int(positions[0])
        event = int(self.tree.events[first])
        inner = self.children(first)
        children = list(self.folded([positions + (child - first) for child in inner]))
        children += self._kernels(positions)
        category = self._category(first)
        node = Node(
            name=self.trace.name_of(event),
            category=category,
            count=count,
            copies=len(positions),
            cpu_ns=int(self.trace.dur[self.tree.events[positions]].sum()),
            gpu_ns=int(self.gpu_total[positions].sum()),
            gpu_ops=int(self.gpu_ops[positions].sum()),
            children=tuple(children),
            forward=self._forward(positions),
            names=self._quiet_names(first, count) if category in QUIET else (),
        )
        return unwrapped(node) if category == "cpu_op" else chained(node)

    def _quiet_names(self, position: int, count: int) -> tuple[tuple[str, int], ...]:
        """An op that starts nothing, and in brackets the ops that it calls."""
        trace = self.trace
        events = self.tree.events[position : position + int(self.size[position])]
        name, *rest = dict.fromkeys(node_name(trace.strings[code]) for code in trace.name[events])
        name = name.removeprefix("torch::autograd::")
        inside = dict.fromkeys(n.removeprefix("torch::autograd::").removeprefix("aten::") for n in rest)
        inside.pop(name, None)
        return ((f"{name} ({', '.join(inside)})" if inside else name, count),)

    def _category(self, position: int) -> str:
        """The event's category; ``views`` or ``quiet`` for an op that starts nothing, not even a call."""
        event = int(self.tree.events[position])
        category = CATEGORY_NAMES[self.trace.category[event]]
        if category != "cpu_op" or self.calls[position] or self.gpu_ops[position]:
            return category
        inside = self.tree.events[position : position + int(self.size[position])]
        names = {self.trace.strings[code] for code in np.unique(self.trace.name[inside])}
        if names <= VIEW_OPS:
            return "views"
        # Without GPU work in the trace, a conversion does its work on the CPU.
        if not len(self.gpu_row):
            return category
        nodes = {n for n in names if _AUTOGRAD.match(n)}
        return "quiet" if names - nodes <= VIEW_OPS | QUIET_OPS else category

    def _forward(self, positions: Array) -> str | None:
        found = self.forward[positions]
        if (found < 0).any():
            return None
        names = np.unique(self.trace.name[found])
        return self.trace.strings[names[0]] if len(names) == 1 else None

    def _kernels(self, positions: Array) -> list[Node]:
        """The GPU ops that some alike calls started, repeated ones folded."""
        n = int(self.gpu_count[positions[0]])
        first = self.gpu_first[positions]
        out = []
        for begin, period, times in repeats(self.gpu_name[first[0] : first[0] + n].astype(np.uint64)):
            nodes = []
            for i in range(period):
                rows = np.concatenate([first + begin + k * period + i for k in range(times)])
                category = CATEGORY_NAMES[self.trace.category[self.trace.column("gpu_ops", "event")[self.gpu_row[rows[0]]]]]
                name = self.trace.strings[self.gpu_name[rows[0]]]
                nodes.append(Node(name, category, 1, len(rows), 0, int(self.gpu_ns[rows].sum()), len(rows)))
            if period == 1:
                out.append(replace(nodes[0], count=times))
            else:
                out.append(block(tuple(nodes), times, len(positions) * times))
        return out
