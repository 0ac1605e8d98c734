"""What the CPU was doing: calls that block, that allocate, that compile; waiting for data.

One place for the names that tell, so that idle time, rules and the replay speak of the same things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, union
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .copies import STAGED_BYTES, host_copies
from .id_sets import among, distinct
from .launches import launches

__all__ = ["LOADING", "RELEASE", "Activity", "activities", "allocation_calls", "blocking_calls", "launching_lanes"]

Array = npt.NDArray[Any]

# Calls that return only when the GPU has come so far. cudaMemcpyAsync to pageable memory also blocks and is told by its copy.
_SYNC = re.compile(
    r"^(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx)Synchronize|^(?:cuda|hip)Memcpy(?:2D|3D)?(?:_v\d+|_ptds)?$"
    r"|^cuMemcpy(?:HtoD|DtoH|DtoD)?_v2$|^hipMemcpyWithStream$|^(?:ur|pi)(?:QueueFinish|EventsWait)$|^zeCommandQueueSynchronize"
)
_ALLOCATION = re.compile(
    r"^(?:cuda|cu|hip)(?:Mem)?(?:Malloc|Alloc|Free|HostAlloc|HostFree|FreeHost|HostRegister|MemCreate|MemMap|MemUnmap)"
)
_NOT_ALLOCATION = re.compile(r"Async|GetInfo|GetAddressRange|PointerGet")
# torch.compile at work, as dynamo and inductor mark it; the cache lookup and the guards of a compiled call are no compilation.
_COMPILE = re.compile(
    r"\(dynamo_timed\)|^_compile\b|compile_inner|compile_fx|call_user_compiler|create_aot_dispatcher|aot_(?:module|function)"
    r"|GraphLowering|PyCodeCache|async_compile|Scheduler\.codegen|triton_compile|^backend_compile"
)
LOADING = re.compile(
    r"^enumerate\(DataLoader\)|DataLoader.*__next__|^(?:fetch|load|get)_(?:next_)?batch\b|DataLoaderIter", re.IGNORECASE
)
"""Ops and annotations around the wait for a batch."""

RELEASE = re.compile(r"Free|Unmap|Release")
"""Of `allocation_calls`, those that give memory back."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the launching threads were doing; disjoint intervals in ns, by name.

    ``profiler`` (its own overhead), ``compile``, ``data`` (waiting for the next batch), ``allocation``, ``sync`` (calls that
    wait for the GPU), ``pageable_copy`` (copies from or to pageable memory), ``autograd`` (inside autograd's engine),
    ``dispatch`` (inside any other op). What is in none of them is Python.
    """

    by_name: dict[str, Intervals]


def launching_lanes(trace: Trace) -> Array:
    """Lanes that launch GPU work; without any, those with CPU ops."""
    calls = trace.analysis(launches).call
    if len(calls):
        return np.unique(trace.lane[calls])
    return np.unique(trace.lane[trace.rows("cpu_op")])


def blocking_calls(trace: Trace) -> Array:
    """Events of the calls that wait for the GPU, by start: synchronisations, blocking copies, copies out to pageable memory,
    and large copies in from it that are seen to wait (the GPU must first come to the copy)."""
    calls = trace.rows("cuda_runtime", "cuda_driver")
    by_name = trace.names_where(lambda s: _SYNC.search(s) is not None)[trace.name[calls]]
    links = trace.analysis(launches)
    gpu = trace.column("gpu_ops", "event")
    blocks = trace.names_where(lambda s: s.startswith("Memcpy DtoH") and "Pageable" in s)[trace.name[gpu]]
    rows = np.flatnonzero(blocks & (links.launch >= 0))
    copies = trace.analysis(host_copies)
    held = copies.call[copies.to_gpu & copies.held & (copies.bytes > STAGED_BYTES)]
    return distinct(np.r_[calls[by_name], links.call[links.launch[rows]], held]).astype(np.int64)


def allocation_calls(trace: Trace) -> Array:
    """Events of calls that take memory from the driver or give it back, by start."""
    calls = trace.rows("cuda_runtime", "cuda_driver")
    good = trace.names_where(lambda s: _ALLOCATION.search(s) is not None and _NOT_ALLOCATION.search(s) is None)
    result: Array = calls[good[trace.name[calls]]]
    return result


def activities(trace: Trace) -> Activity:
    """Intervals of each activity on the launching threads."""
    lanes = trace.analysis(launching_lanes)
    mine = among(trace.lane, lanes)
    ops = trace.rows("cpu_op", "user_annotation")
    ops = ops[mine[ops]]
    calls = trace.rows("cuda_runtime", "cuda_driver")
    calls = calls[mine[calls]]
    links = trace.analysis(launches)
    pageable = trace.names_where(lambda s: s.startswith("Memcpy") and "Pageable" in s)[
        trace.name[trace.column("gpu_ops", "event")]
    ]
    copies = links.call[links.launch[np.flatnonzero(pageable & (links.launch >= 0))]]
    to_gpu = trace.analysis(host_copies)

    def named(rows: Array, pattern: re.Pattern[str], unless: re.Pattern[str] | None = None) -> Array:
        good = trace.names_where(lambda s: pattern.search(s) is not None and not (unless and unless.search(s)))
        return rows[good[trace.name[rows]]]

    chosen = {
        "profiler": trace.rows("overhead"),
        "compile": named(ops, _COMPILE),
        "data": named(ops, LOADING),
        "sync": _without(blocking_calls(trace), to_gpu.call[to_gpu.to_gpu]),
        "allocation": named(calls, _ALLOCATION, _NOT_ALLOCATION),
        "pageable_copy": distinct(copies),
        "autograd": ops[trace.names_where(lambda s: s.startswith("autograd::engine::"))[trace.name[ops]]],
        "dispatch": ops[trace.category[ops] == CATEGORY_CODES["cpu_op"]],
    }
    return Activity({name: union(trace.ts[rows], trace.end[rows]) for name, rows in chosen.items()})


def _without(events: Array, others: Array) -> Array:
    """Some events but for others, ascending."""
    events = distinct(events)
    return events[~among(events, distinct(others))]
