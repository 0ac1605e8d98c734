"""Where the program waits for the GPU, why, and what would not be there if it did not.

A *site* is one call of an op that waits (`aten::item`, indexing with a mask), or a bare synchronisation. Reading a value that
is computed for nothing else also costs the ops that compute it: a comparison and the reduction under it before an `if`. Which
they are is told from the order of the calls, their names, and the recorded shapes, and doubtful ones are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.orders import stable_order
from lanewise.model.trace import Trace

from .call_tree import op_tree
from .called_ops import CalledOps, called_ops
from .copies import host_copies
from .cpu_activity import activities, blocking_calls, launching_lanes
from .id_sets import among, distinct, first_places
from .launches import launches
from .sync_feeders import feeder_counts

__all__ = ["SYNC_KINDS", "HostSyncs", "copy_waits", "host_syncs"]

Array = npt.NDArray[Any]

# scalar: a value read into Python. shape: an op whose result's size the CPU must know. round_trip: a tensor taken to the CPU,
# worked on there and copied back. to_cpu: a tensor taken to the CPU. explicit: a synchronisation outside any op. other: an op
# that waits for reasons of its own.
SYNC_KINDS = ("scalar", "shape", "round_trip", "to_cpu", "explicit", "other")
_SCALAR = re.compile(r"^aten::(_local_scalar_dense|item)$")
_SHAPE = re.compile(
    r"^aten::(nonzero\w*|argwhere|masked_select|_?unique\w*|unique_consecutive|bincount|histc|repeat_interleave)$"
)
# Ops that wait on their way for a value of their own (whether a matrix is singular, which boxes are left), and whose work does
# not go away without the wait.
_WORKING = re.compile(
    r"^aten::(_?linalg_\w+|inverse|cholesky\w*|lu_\w+|logdet|slogdet|det|pinverse|multinomial)$|^torchvision::\w+$"
)
# What comes back is of the same order of size as what went. Small copies are often sizes, flags and tokens, whose way through
# Python is another matter than a tensor that is worked on there: of those exactly as much must come back, more than a number.
_ROUND_TRIP_BYTES = 4096
_ROUND_TRIP_RATIO = 8
_FREE = re.compile(r"^(?:cuda|hip)Free|^(?:cu|hip)MemUnmap|^cuMemRelease")


@dataclass(frozen=True, slots=True)
class HostSyncs:
    """Sites in order of their call; times in ns.

    Attributes:
        kind: int8 (sites,): place in SYNC_KINDS.
        call: int32 (sites,): call in `called_ops`, -1 for a bare synchronisation.
        event: int64 (sites,): event of that call, or of the synchronisation.
        begin, end: int64 (sites,): CPU time that would not be spent: the call, what it is computed from, what is done with
            its result on the CPU before that goes back; empty for a bare synchronisation.
        feeders: int64 (sites,): calls before it that only compute what is read.
        back: int64 (sites,): row of `gpu_ops` of the copy back of a round trip, -1 for none.
        waits: int64 (waits,): blocking calls.
        site: int64 (waits,): site of each.
    """

    kind: Array
    call: Array
    event: Array
    begin: Array
    end: Array
    feeders: Array
    back: Array
    waits: Array
    site: Array

    def is_kind(self, *kinds: str) -> Array:
        """bool (sites,): whether each site is of one of some kinds."""
        return np.isin(self.kind, [SYNC_KINDS.index(k) for k in kinds])


def copy_waits(trace: Trace) -> tuple[Array, Array]:
    """(places in `host_copies`, blocking calls): what waits for copies to the GPU only: the copying call, or a
    synchronisation made by the op that made the copy."""
    copies, blocking = trace.analysis(host_copies), trace.analysis(blocking_calls)
    tree = trace.analysis(op_tree)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[tree.events] = np.arange(len(tree.events))
    known = np.flatnonzero(copies.to_gpu & (copies.call >= 0))
    maker = tree.parent[place[copies.call[known]]]
    known, maker = known[maker >= 0], maker[maker >= 0]
    order = stable_order(maker)
    known, maker = known[order], maker[order]
    if not len(known) or not len(blocking):
        none = np.empty(0, dtype=np.int64)
        return none, none
    parent = tree.parent[place[blocking]]
    at = np.minimum(np.searchsorted(maker, parent, side="left"), len(maker) - 1)
    mine = maker[at] == parent
    return known[at[mine]], blocking[mine]


def host_syncs(trace: Trace) -> HostSyncs:
    """All sites on threads that launch GPU work."""
    called = trace.analysis(called_ops)
    waits = _waits(trace)
    call = called.of_event[waits].astype(np.int64)
    key = np.where(call >= 0, call, len(called) + np.arange(len(waits)))
    _, first, site = first_places(key)
    call = call[first]
    event = np.where(call >= 0, called.event[np.maximum(call, 0)] if len(called) else -1, waits[first])
    kind = _kinds(trace, called, waits, site, call)
    feeders = np.zeros(len(call), dtype=np.int64)
    reads = np.flatnonzero((kind == SYNC_KINDS.index("scalar")) & (call >= 0))
    feeders[reads] = feeder_counts(trace, called, call[reads])
    begin = trace.ts[called.event[np.maximum(call - feeders, 0)]] if len(called) else trace.ts[event]
    begin, end = np.where(call >= 0, begin, trace.ts[event]), np.where(call >= 0, trace.end[event], trace.ts[event])
    back = np.full(len(call), -1, dtype=np.int64)
    _find_round_trips(trace, kind, call, event, end, back)
    for name in ("explicit", "other"):
        end = np.where(kind == SYNC_KINDS.index(name), begin, end)
    return HostSyncs(kind, call, event, begin, end, feeders, back, waits, site.astype(np.int64))


def _waits(trace: Trace) -> Array:
    """Blocking calls that are the program's own: not of copies to the GPU, of compilation, or of the allocator's frees."""
    waits = trace.analysis(blocking_calls)
    waits = waits[among(trace.lane[waits], trace.analysis(launching_lanes))]
    waits = waits[~among(waits, distinct(trace.analysis(copy_waits)[1]))]
    starts, ends = trace.analysis(activities).by_name["compile"]
    at = np.searchsorted(starts, trace.ts[waits], side="right") - 1
    compiling = (at >= 0) & (trace.ts[waits] < ends[np.maximum(at, 0)]) if len(starts) else np.zeros(len(waits), dtype=np.bool_)
    waits = waits[~compiling]
    waits = waits[~_of_ddp(trace, waits)]
    # The allocator waits before it gives memory back: the next call of the lane is a free.
    calls = trace.rows("cuda_runtime", "cuda_driver")
    frees = trace.names_where(lambda s: _FREE.search(s) is not None)[trace.name[calls]]
    for lane in np.unique(trace.lane[waits]):
        mine = calls[trace.lane[calls] == lane]
        free = frees[trace.lane[calls] == lane]
        rows = np.flatnonzero(trace.lane[waits] == lane)
        nxt = np.searchsorted(mine, waits[rows], side="right")
        before_free = (nxt < len(mine)) & free[np.minimum(nxt, len(mine) - 1)]
        waits[rows[before_free]] = -1
    return waits[waits >= 0]


def _of_ddp(trace: Trace, waits: Array) -> Array:
    """Whether waits are DistributedDataParallel's own: it reads its timers in its first ten steps and every hundredth."""
    tree = trace.analysis(op_tree)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[tree.events] = np.arange(len(tree.events))
    up = tree.parent[place[waits]]
    ddp = trace.names_where(lambda s: s == "DistributedDataParallel.forward")
    result: Array = (up >= 0) & ddp[trace.name[tree.events[np.maximum(up, 0)]]] if len(waits) else np.zeros(0, dtype=np.bool_)
    return result


def _kinds(trace: Trace, called: CalledOps, waits: Array, site: Array, call: Array) -> Array:
    tree = trace.analysis(op_tree)
    place = np.full(len(trace), -1, dtype=np.int64)
    place[tree.events] = np.arange(len(tree.events))
    names = trace.name[tree.events]
    kind = np.full(len(call), SYNC_KINDS.index("other"), dtype=np.int8)
    copies = trace.analysis(host_copies)
    out = among(call, distinct(called.of_event[copies.call[~copies.to_gpu & (copies.call >= 0)]])) & (call >= 0)
    kind[out] = SYNC_KINDS.index("to_cpu")
    for name, pattern in (("scalar", _SCALAR), ("shape", _SHAPE)):
        around = _inside(tree.parent, place[waits], trace.names_where(lambda s, p=pattern: p.search(s) is not None)[names])  # type: ignore[misc]
        kind[np.unique(site[around])] = SYNC_KINDS.index(name)
    if len(called):
        working = trace.names_where(lambda s: _WORKING.search(s) is not None)
        kind[(call >= 0) & working[trace.name[called.event[np.maximum(call, 0)]]]] = SYNC_KINDS.index("other")
    kind[call < 0] = SYNC_KINDS.index("explicit")
    return kind


def _inside(parent: Array, places: Array, chosen: Array) -> Array:
    """Whether each of some places in a tree is below a chosen one."""
    out = np.zeros(len(places), dtype=np.bool_)
    up = parent[places]
    while (up >= 0).any():
        out |= (up >= 0) & chosen[np.maximum(up, 0)]
        up = np.where(up >= 0, parent[np.maximum(up, 0)], -1)
    return out


def _find_round_trips(trace: Trace, kind: Array, call: Array, event: Array, end: Array, back: Array) -> None:
    """Turn a copy to the CPU into a round trip where the next GPU work of its lane is a copy back to the GPU."""
    called, links, copies = trace.analysis(called_ops), trace.analysis(launches), trace.analysis(host_copies)
    copy_of = np.full(len(trace), -1, dtype=np.int64)
    copy_of[copies.call[copies.to_gpu & (copies.call >= 0)]] = copies.row[copies.to_gpu & (copies.call >= 0)]
    out = np.flatnonzero(kind == SYNC_KINDS.index("to_cpu"))
    for lane in np.unique(trace.lane[event[out]]):
        mine = links.call[trace.lane[links.call] == lane]
        rows = out[trace.lane[event[out]] == lane]
        nxt = np.searchsorted(trace.ts[mine], trace.end[event[rows]], side="left")
        there = nxt < len(mine)
        rows, following = rows[there], mine[nxt[there]]
        returns = copy_of[following] >= 0
        rows, following = rows[returns], following[returns]
        similar = _similar(trace, called, call[rows], copy_of[following])
        rows, following = rows[similar], following[similar]
        outer = called.of_event[following]
        kind[rows] = SYNC_KINDS.index("round_trip")
        end[rows] = np.where(outer >= 0, trace.end[called.event[np.maximum(outer, 0)]], trace.end[following])
        back[rows] = copy_of[following]


def _similar(trace: Trace, called: CalledOps, call: Array, back: Array) -> Array:
    """Whether what a call copied out and the copy back are of the same order of size."""
    copies, n_bytes = trace.analysis(host_copies), trace.column("gpu_ops", "bytes")
    out = copies.row[~copies.to_gpu]
    went = np.zeros(len(called), dtype=np.int64)
    mine = out[called.of_row[out] >= 0]
    np.add.at(went, called.of_row[mine], np.maximum(n_bytes[mine], 0))
    a, b = went[call], n_bytes[back]
    least = np.minimum(a, b)
    result: Array = ((least >= _ROUND_TRIP_BYTES) & (np.maximum(a, b) <= _ROUND_TRIP_RATIO * least)) | ((a == b) & (a > 8))
    return result
