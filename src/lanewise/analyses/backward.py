"""Which forward op each backward node belongs to.

An autograd node carries the sequence number that its forward op had, and the profiler's number of the thread on which that op
ran. Several forward ops share one number, since it grows only when a node is made: the last of them to start made the node
(so has it torch's own profiler, `generateForwardBackwardLinks` in torch/csrc/profiler). Where the file has the arrows that the
profiler drew from that (`fwdbwd`), they decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.trace import Trace

__all__ = ["Backward", "backward"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Backward:
    """Backward nodes by start.

    Attributes:
        node: int32 (nodes,): the node's event: an autograd function, or the engine's call around it.
        forward: int32 (nodes,): event of its forward op; -1 where it is not in the trace, or not known.
    """

    node: Array
    forward: Array

    def forward_of(self, n_events: int) -> Array:
        """int32 (events,): the forward op of each event, -1 for those that are no backward node or have none."""
        out = np.full(n_events, -1, dtype=np.int32)
        out[self.node] = self.forward
        return out


def backward(trace: Trace) -> Backward:
    """Link backward nodes to forward ops."""
    event, sequence = trace.column("cpu_ops", "event"), trace.column("cpu_ops", "sequence")
    thread = trace.column("cpu_ops", "forward_thread")
    nodes = np.flatnonzero((sequence >= 0) & (thread > 0))
    made = np.flatnonzero((sequence >= 0) & (thread <= 0))
    tails, heads = _arrows(trace)
    lane_of = _forward_lanes(trace, nodes, made, tails, heads)
    lane = np.array([lane_of.get(int(t), -1) for t in thread[nodes]], dtype=np.int64)
    forward = _last_before(trace, event, sequence, made, nodes, lane)

    node = event[nodes].astype(np.int32)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[node] = np.arange(len(node))
    # Arrows to ops without numbers (exporters that leave them out) make nodes of them.
    extra = place[heads] < 0
    node = np.r_[node, heads[extra]].astype(np.int32)
    forward = np.r_[forward, tails[extra]].astype(np.int32)
    drawn = place[heads[~extra]]
    forward[drawn] = tails[~extra]
    order = np.argsort(node, kind="stable")
    return Backward(node[order], forward[order])


def _arrows(trace: Trace) -> tuple[Array, Array]:
    """(forward ops, backward nodes) that the file's arrows connect, where both ends are ops of the trace."""
    flows = trace.tables.get("flows")
    none = np.empty(0, dtype=np.int64)
    if flows is None or not flows["backward"].any():
        return none, none
    some = flows["backward"]
    ids, end = flows["id"][some], flows["end"][some]
    op = _innermost_at(trace, flows["lane"][some], flows["ts"][some])
    starts, stops = np.flatnonzero(~end & (op >= 0)), np.flatnonzero(end & (op >= 0))
    unique, first, counts = np.unique(ids[starts], return_index=True, return_counts=True)
    if not len(unique) or not len(stops):
        return none, none
    place = np.minimum(np.searchsorted(unique, ids[stops]), len(unique) - 1)
    # An id that several forward ops have says nothing.
    sound = (unique[place] == ids[stops]) & (counts[place] == 1)
    return op[starts[first[place[sound]]]], op[stops[sound]]


def _innermost_at(trace: Trace, lane: Array, ts: Array) -> Array:
    """int64: of the ops that begin at each (lane, moment) the shortest, -1 for none."""
    ops = trace.rows("cpu_op")
    out = np.full(len(ts), -1, dtype=np.int64)
    if not len(ops):
        return out
    order = np.lexsort((-trace.dur[ops], trace.ts[ops], trace.lane[ops]))
    ops = ops[order]
    key_lane, key_ts = trace.lane[ops].astype(np.int64), trace.ts[ops]
    for one in np.unique(lane):
        begin, stop = np.searchsorted(key_lane, one), np.searchsorted(key_lane, one, side="right")
        mine = np.flatnonzero(lane == one)
        at = begin + np.searchsorted(key_ts[begin:stop], ts[mine], side="right") - 1
        hit = (at >= begin) & (key_ts[np.maximum(at, 0)] == ts[mine])
        out[mine[hit]] = ops[at[hit]]
    return out


def _forward_lanes(trace: Trace, nodes: Array, made: Array, tails: Array, heads: Array) -> dict[int, int]:
    """The lane behind each number that the profiler gave to a forward thread: the one that most nodes point to."""
    event, sequence = trace.column("cpu_ops", "event"), trace.column("cpu_ops", "sequence")
    thread = np.full(len(trace), -1, dtype=np.int64)
    thread[event[nodes]] = trace.column("cpu_ops", "forward_thread")[nodes]
    if len(heads):
        pairs = np.stack([thread[heads], trace.lane[tails]], axis=1)
    else:
        # A sequence number that only one lane's forward ops have tells the lane of the nodes with it.
        lanes = np.unique(np.stack([sequence[made], trace.lane[event[made]]], axis=1), axis=0)
        numbers, first, counts = np.unique(lanes[:, 0], return_index=True, return_counts=True)
        single, single_lane = numbers[counts == 1], lanes[first[counts == 1], 1]
        if not len(single):
            return {}
        place = np.minimum(np.searchsorted(single, sequence[nodes]), len(single) - 1)
        hit = single[place] == sequence[nodes]
        pairs = np.stack([thread[event[nodes[hit]]], single_lane[place[hit]]], axis=1)
    found, votes = np.unique(pairs, axis=0, return_counts=True)
    out: dict[int, int] = {}
    for i in np.argsort(votes, kind="stable"):  # the most frequent comes last and stays
        out[int(found[i, 0])] = int(found[i, 1])
    return out


def _last_before(trace: Trace, event: Array, sequence: Array, made: Array, nodes: Array, lane: Array) -> Array:
    """int32 (nodes,): the last forward op of a lane with a node's number that started before the node; -1 for none."""
    rows = np.r_[made, nodes]
    is_node = np.r_[np.zeros(len(made), dtype=np.bool_), np.ones(len(nodes), dtype=np.bool_)]
    lanes = np.r_[trace.lane[event[made]].astype(np.int64), lane]
    order = np.lexsort((is_node, trace.ts[event[rows]], sequence[rows], lanes))
    # Carry the position of the last forward op along each group of one lane and number.
    numbers, groups = sequence[rows][order], lanes[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(numbers) != 0) | (np.diff(groups) != 0)
    position = np.where(~is_node[order], np.arange(len(order)), -1)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    last = np.maximum.accumulate(position)
    valid = (last >= begin) & (groups >= 0)
    found = np.where(valid, event[rows[order[np.maximum(last, 0)]]], -1)
    out = np.full(len(rows), -1, dtype=np.int32)
    out[order] = found
    return out[len(made) :]
