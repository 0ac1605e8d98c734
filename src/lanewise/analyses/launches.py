"""Which call started which GPU work, and which op made the call.

A GPU op belongs to the call with its correlation id, and through it to the op that encloses the call. An id that is missing,
0, -1, or shared by calls that are not one inside the other identifies nothing: such GPU ops stay unlinked and are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.nesting import nest
from lanewise.model.orders import stable_order
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .call_tree import op_tree
from .id_sets import among, distinct

__all__ = ["LAUNCH_KINDS", "Launches", "launches"]

Array = npt.NDArray[Any]

LAUNCH_KINDS = ("kernel", "graph", "copy", "memset")

# Calls that start GPU work, by name; needed only for those without a GPU record, since a shared correlation id tells all
# others. CUDA runtime and driver, HIP, and the Level Zero and SYCL spellings of XPU traces.
_BY_NAME: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("graph", re.compile(r"^(cuda|cu|hip)GraphLaunch")),
    (
        "kernel",
        re.compile(
            r"^(cuda|cu|hip)(Module|Ext|ExtModule)?Launch(Cooperative)?(Kernel|Grid)"
            r"|^(ur|pi)EnqueueKernelLaunch|^zeCommandListAppendLaunch"
        ),
    ),
    ("copy", re.compile(r"^(cuda|cu|hip)Memcpy|^(ur|pi)EnqueueUSMMemcpy|^zeCommandListAppendMemoryCopy")),
    (
        "memset",
        re.compile(r"^(cuda|cu|hip)Memset|^(ur|pi)EnqueueUSM(Fill|Memset)|^zeCommandListAppendMemoryFill"),
    ),
)


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches, and the links of all GPU ops.

    Attributes:
        call: int32 (launches,): the launching calls, by start. A driver call inside a runtime call is not one of its own.
        kind: int8 (launches,): place in LAUNCH_KINDS.
        owner: int32 (launches,): event of the op or annotation that encloses the call, -1 for none.
        gpu_count: int32 (launches,): GPU ops that it started, as far as recorded.
        launch: int32 (gpu ops,): for each row of `gpu_ops`, place of its launch in `call`, -1 when not linked.
        ambiguous: bool (gpu ops,): whether its correlation id identifies nothing, or several calls.
    """

    call: Array
    kind: Array
    owner: Array
    gpu_count: Array
    launch: Array
    ambiguous: Array

    @property
    def linked(self) -> Array:
        """bool (launches,): whether a GPU op of it was recorded."""
        return self.gpu_count > 0

    @property
    def gpu_owner(self) -> Array:
        """int32 (gpu ops,): event of the op or annotation that launched it, -1 where not known."""
        out = np.full(len(self.launch), -1, dtype=np.int32)
        known = self.launch >= 0
        out[known] = self.owner[self.launch[known]]
        return out


def launches(trace: Trace) -> Launches:
    """Link GPU ops to the calls that started them."""
    if "calls" not in trace.tables and not trace.column("flows", "backward").all():
        return _legacy_launches(trace)
    calls, ids = trace.column("calls", "event"), trace.column("calls", "correlation")
    gpu_ids = trace.column("gpu_ops", "correlation")
    valid = gpu_ids > 0
    started = among(ids, distinct(gpu_ids[valid])) & (ids > 0)
    by_name = _kinds_by_name(trace)[trace.name[calls]]
    candidates = np.flatnonzero(started | (by_name >= 0))
    graph = by_name[candidates] == LAUNCH_KINDS.index("graph")
    candidates, shared_ids = _single_calls(trace, calls[candidates], ids[candidates], candidates, started[candidates], graph)

    call = calls[candidates].astype(np.int32)
    correlation = ids[candidates]
    order = stable_order(correlation)
    unique = np.r_[True, np.diff(correlation[order]) != 0] if len(order) else np.empty(0, dtype=np.bool_)
    unique_ids, unique_rows = correlation[order][unique], order[unique]
    usable = valid & ~among(gpu_ids, shared_ids)
    launch = np.full(len(gpu_ids), -1, dtype=np.int32)
    if len(unique_ids):
        place = np.minimum(np.searchsorted(unique_ids, gpu_ids), len(unique_ids) - 1)
        hit = usable & (unique_ids[place] == gpu_ids)
        launch[hit] = unique_rows[place[hit]]
    counts = np.bincount(launch[launch >= 0], minlength=len(call)).astype(np.int32)
    kind = _kinds(trace, by_name[candidates], launch, len(call))
    real = ~_started_nothing(trace, call, kind, counts)
    number = np.cumsum(real, dtype=np.int32) - 1
    launch[launch >= 0] = number[launch[launch >= 0]]
    owners = _owners(trace, call, candidates)
    return Launches(call[real], kind[real], owners[real], counts[real], launch, ~usable)


def _started_nothing(trace: Trace, call: Array, kind: Array, counts: Array) -> Array:
    """Which calls had nothing to do: copies and memsets of 0 bytes, which libraries make freely.

    They leave no GPU record and return at once. A call that gives the GPU work takes microseconds, so one without a record
    that took less than half of the shortest that has one started nothing; its record was not lost.
    """
    linked = counts > 0
    if not linked.any():
        return np.zeros(len(call), dtype=np.bool_)
    shortest = trace.dur[call[linked]].min()
    sized = np.isin(kind, [LAUNCH_KINDS.index("copy"), LAUNCH_KINDS.index("memset")])
    return ~linked & sized & (2 * trace.dur[call] < shortest)


def _kinds_by_name(trace: Trace) -> Array:
    """int8 (strings,): place in LAUNCH_KINDS of each name that starts GPU work, -1 for others."""
    kinds = np.full(max(len(trace.strings), 1), -1, dtype=np.int8)
    for i, name in enumerate(trace.strings):
        for kind, pattern in _BY_NAME:
            if pattern.match(name):
                kinds[i] = LAUNCH_KINDS.index(kind)
                break
    return kinds


def _single_calls(trace: Trace, events: Array, ids: Array, rows: Array, started: Array, graph: Array) -> tuple[Array, Array]:
    """One call for each launch, of those that lie inside one another; and the ids that several calls share that do not.

    A call inside another launching call, with its id or with no GPU work of its own, is part of it. Where only the driver call
    inside has GPU work, that is the launch, and the runtime call around it is part of it; not so a graph's launch, whose own
    work is then lost.
    """
    part = np.zeros(len(rows), dtype=np.bool_)
    shared = np.flatnonzero(among(ids, _repeated(ids)))
    if len(shared):
        lane = trace.lane[events[shared]]
        _, of_id = np.unique(ids[shared], return_inverse=True)
        part[shared] = _around(trace, events[shared], of_id * (int(lane.max()) + 1) + lane) >= 0
    around = _around(trace, events, trace.lane[events])
    driver = trace.category[events] == CATEGORY_CODES["cuda_driver"]
    outer = around[started & driver & ~part & (around >= 0)]
    part |= ~started & (around >= 0)
    part[outer[~(started | driver | graph)[outer]]] = True
    rows, ids = rows[~part], ids[~part]
    return rows, _repeated(ids)


def _around(trace: Trace, events: Array, lane: Array) -> Array:
    """int64 (n,): for each of some calls the place of the one around it in the same lane, -1 for none."""
    ranks = (trace.category[events] == CATEGORY_CODES["cuda_driver"]).astype(np.int8)
    tree = nest(np.arange(len(events)), trace.ts[events], trace.end[events], lane, ranks)
    around = np.full(len(events), -1, dtype=np.int64)
    inside = tree.parent >= 0
    around[tree.events[inside]] = tree.events[tree.parent[inside]]
    return around


def _repeated(values: Array) -> Array:
    """Numbers that occur more than once, ascending."""
    ordered = np.sort(values)
    return distinct(ordered[1:][ordered[1:] == ordered[:-1]])


def _kinds(trace: Trace, by_name: Array, launch: Array, n: int) -> Array:
    """Kinds by name, and for calls with other names by the first GPU op that they started."""
    kind = by_name.copy()
    unknown = np.flatnonzero(kind < 0)
    if len(unknown):
        category = trace.category[trace.column("gpu_ops", "event")]
        codes = np.zeros(len(CATEGORY_CODES), dtype=np.int8)
        codes[CATEGORY_CODES["gpu_memcpy"]] = LAUNCH_KINDS.index("copy")
        codes[CATEGORY_CODES["gpu_memset"]] = LAUNCH_KINDS.index("memset")
        first = np.zeros(n, dtype=np.int8)
        known = np.flatnonzero(launch >= 0)[::-1]
        first[launch[known]] = codes[category[known]]
        kind[unknown] = first[unknown]
    return kind.astype(np.int8)


def _owners(trace: Trace, call: Array, candidates: Array) -> Array:
    """The op or annotation around each call.

    A call that begins inside an op and ends just after it (its end is stamped by another clock) is inside whatever encloses
    both, unless its External id, the profiler's own word, names the op that it began in.
    """
    tree = trace.analysis(op_tree)
    is_op = np.isin(trace.category[tree.events], [CATEGORY_CODES["cpu_op"], CATEGORY_CODES["user_annotation"]])
    nearest = tree.nearest(is_op)
    place = np.full(len(trace), -1, dtype=np.int32)
    place[tree.events] = np.arange(len(tree.events), dtype=np.int32)
    up = nearest[place[call]]
    owner = np.where(up >= 0, tree.events[up], -1).astype(np.int32)
    named = _named_ops(trace, trace.column("calls", "external_id")[candidates])
    known = np.flatnonzero(named >= 0)
    op = named[known]
    began_in = (
        (trace.lane[op] == trace.lane[call[known]])
        & (trace.ts[op] <= trace.ts[call[known]])
        & (trace.ts[call[known]] < trace.end[op])
        & (trace.end[op] < trace.end[call[known]])
    )
    owner[known[began_in]] = op[began_in]
    return owner


def _named_ops(trace: Trace, external: Array) -> Array:
    """int32: event of the one op that has each External id; -1 for none or several."""
    ops, ids = trace.column("cpu_ops", "event"), trace.column("cpu_ops", "external_id")
    order = stable_order(ids)
    sorted_ids = ids[order]
    left, right = np.searchsorted(sorted_ids, external), np.searchsorted(sorted_ids, external, side="right")
    single = (right - left == 1) & (external > 0)
    out = np.full(len(external), -1, dtype=np.int32)
    out[single] = ops[order[left[single]]]
    return out


def _legacy_launches(trace: Trace) -> Launches:
    """Links of the exporter before Kineto: arrows from ops to kernels, and no runtime calls. The op is the launch."""
    flows = trace.tables["flows"]
    arrows = np.flatnonzero(~flows["backward"])
    tails, heads = arrows[~flows["end"][arrows]], arrows[flows["end"][arrows]]
    gpu, ops = trace.column("gpu_ops", "event"), trace.rows("cpu_op")
    op = _at(trace, ops, flows["lane"][tails], flows["ts"][tails])
    target = _at(trace, gpu, flows["lane"][heads], flows["ts"][heads])
    started = op >= 0
    ids, owners = flows["id"][tails][started], op[started]
    arrow = _last_place(ids, flows["id"][heads])
    linked = (arrow >= 0) & (target >= 0)
    call, place = np.unique(owners[arrow[linked]], return_inverse=True)
    launch = np.full(len(gpu), -1, dtype=np.int32)
    launch[np.searchsorted(gpu, target[linked])] = place
    counts = np.bincount(launch[launch >= 0], minlength=len(call)).astype(np.int32)
    call = call.astype(np.int32)
    return Launches(call, np.zeros(len(call), dtype=np.int8), call.copy(), counts, launch, launch < 0)


def _at(trace: Trace, events: Array, lane: Array, ts: Array) -> Array:
    """The event of some that starts at each (lane, moment), the last of several, -1 for none."""
    if not len(events):
        return np.full(len(ts), -1, dtype=np.int64)
    # Starts by their rank, so that lane and start make one number.
    starts = np.unique(trace.ts[events])
    rank = np.minimum(np.searchsorted(starts, ts), len(starts) - 1)
    keys = trace.lane[events].astype(np.int64) * len(starts) + np.searchsorted(starts, trace.ts[events])
    place = _last_place(keys, lane.astype(np.int64) * len(starts) + rank)
    return np.where((place >= 0) & (starts[rank] == ts), events[place], -1).astype(np.int64)


def _last_place(keys: Array, wanted: Array) -> Array:
    """Place of the last of some keys that equals each wanted one, -1 for none."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = stable_order(keys)
    last = np.searchsorted(keys[order], wanted, side="right") - 1
    place = order[np.maximum(last, 0)]
    return np.where((last >= 0) & (keys[place] == wanted), place, -1)
