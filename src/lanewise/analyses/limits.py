"""How far each GPU op is from what the card could do: its work, what time that takes at the ceilings, and what bounds it.

Whose work a kernel does:

- An op call's work goes to the kernels that do it: of a matrix product, convolution or attention those whose names say a
  product, of other ops those of the op's own kind, or all where the names do not tell. Several share it in proportion to their
  time, so all of them show the rate of the call. The rest (the reduction of a split product, a change of layout) are helpers:
  the ideal kernel needs none, so their time at the limit is 0.
- Copies and memsets count their own bytes, twice within a device (read and written).
- Kernels without recorded inputs, or out of a CUDA graph, count what name and grid tell (`lanewise.analyses.grid_work`).
- What is not known stays not known, and so does the work of a call of which a launch left no GPU record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.devices import Ceilings
from lanewise.kernels import Kernel, decode
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace
from lanewise.work import Work

from .call_work import call_work
from .ceilings import PRODUCTS, arithmetic_ceiling, device_ceilings
from .gpu_time import gpu_op_times
from .grid_work import bytes_per_thread, certain_grid
from .id_sets import first_places, numbered
from .launches import LAUNCH_KINDS, launches
from .occupancy import filled_ratio, total_blocks

__all__ = ["BOUNDS", "FILLED_RATIO", "FLOOR_NS", "NEAR_RATIO", "ROLES", "GpuNames", "Limits", "gpu_names", "limits"]

Array = npt.NDArray[Any]

BOUNDS = ("memory", "compute", "latency")

ROLES = ("op", "shared", "helper", "own", "grid")
"""Where a row's work is from: its call alone; its call, with other kernels; none, it helps another; its own bytes; its grid."""

FLOOR_NS = 2_000.0
"""Time at the limit below which starting and ending take most of a kernel: kernels of one block, which do next to nothing, take
0.7 to 2 us on recorded traces of H200, A100 and V100."""

FILLED_RATIO = 0.85
"""A grid fills the card from this share of the SMs on. Not from all of them: kernels that put clusters of blocks on groups of
SMs leave out what does not divide (120 and 128 of an H200's 132 are usual)."""

NEAR_RATIO = 0.5
"""Whoever spends more than half of the time on what the ceiling demands is bound by it, however small."""

# How often a copy's bytes pass through the GPU's memory, by the decoded kind. Copies over a link have no ceiling here: the
# trace does not say what the link could do.
_PASSES = {"memset": 1.0, "memcpy-dtod": 2.0}
_OP, _SHARED, _HELPER, _OWN, _GRID = range(len(ROLES))


@dataclass(frozen=True, slots=True)
class Limits:
    """Work and limits of every row of `gpu_ops`; NaN and -1 are "not known".

    Attributes:
        ceilings: by device, None where the card is not known.
        works: distinct amounts of work of op calls.
        work: int32 (gpu ops,): place in `works` of what the call that launched it stands for, also for helpers.
        role: int8 (gpu ops,): place in ROLES.
        ns: int64 (gpu ops,): its duration.
        flops, bytes: float64 (gpu ops,): operations and traffic; a helper has none. A copy over a link has the bytes moved.
        arithmetic_ns, memory_ns: float64 (gpu ops,): time of each at the ceilings.
        limit_ns: float64 (gpu ops,): the larger; 0 for helpers.
        bound: int8 (gpu ops,): place in BOUNDS.
    """

    ceilings: dict[int, Ceilings | None]
    works: list[Work]
    work: Array
    role: Array
    ns: Array
    flops: Array
    bytes: Array
    arithmetic_ns: Array
    memory_ns: Array
    limit_ns: Array
    bound: Array

    @property
    def headroom_ns(self) -> Array:
        """float64 (gpu ops,): time above the limit. Never below 0: data in a cache and short bursts can beat a ceiling."""
        return np.maximum(self.ns - self.limit_ns, 0.0)

    @property
    def is_helper(self) -> Array:
        """bool (gpu ops,): whether its call's work is counted with other kernels."""
        return self.role == _HELPER


@dataclass(frozen=True, slots=True)
class GpuNames:
    """The distinct names of GPU ops.

    Attributes:
        kernels: what each says.
        of_row: int64 (gpu ops,): place in `kernels` of each row.
    """

    kernels: list[Kernel]
    of_row: Array

    def spread(self, value: Callable[[Kernel], Any], dtype: Any) -> Array:
        """(gpu ops,): a value of each name, for every row."""
        return np.array([value(k) for k in self.kernels] or [0], dtype=dtype)[self.of_row]


def gpu_names(trace: Trace) -> GpuNames:
    """The distinct names of GPU ops, decoded."""
    codes, of_row = numbered(trace.name[trace.column("gpu_ops", "event")])
    return GpuNames([decode(trace.strings[code]) for code in codes], of_row)


def limits(trace: Trace) -> Limits:
    """Work, limit and bound of every GPU op."""
    ops = trace.analysis(gpu_op_times)
    ns = ops.end - ops.ts
    works, work, call = _launching_work(trace)
    role, part = _roles(trace, works, work, call, ns)
    flops, moved = _amounts(works, work, part)
    _count_own(trace, role, moved)
    ceilings = device_ceilings(trace)
    arithmetic = _arithmetic_times(trace, works, work, ceilings, flops)
    memory = _memory_times(trace, ceilings, moved)
    limit = np.where(_is_known(works, work, role, arithmetic, memory), np.fmax(arithmetic, memory), np.nan)
    limit[role == _HELPER] = 0.0
    bound = _bounds(trace, ns, role, arithmetic, memory, limit)
    return Limits(ceilings, works, work, role, ns, flops, moved, arithmetic, memory, limit, bound)


def _launching_work(trace: Trace) -> tuple[list[Work], Array, Array]:
    """The works; for each row the place of its call's work and the call, -1 where there is none that would tell.

    A graph's kernels were launched by no op, and a call with a launch without a record has more kernels than the trace shows.
    """
    links, found = trace.analysis(launches), trace.analysis(call_work)
    call = links.gpu_owner
    known = np.flatnonzero(links.launch >= 0)
    call[known[links.kind[links.launch[known]] == LAUNCH_KINDS.index("graph")]] = -1
    lost = np.zeros(len(trace) + 1, dtype=np.bool_)
    lost[links.owner[~links.linked]] = True
    lost[-1] = True
    call[lost[call]] = -1
    return found.works, np.where(call >= 0, found.of_event[call], -1), call


def _roles(trace: Trace, works: list[Work], work: Array, call: Array, ns: Array) -> tuple[Array, Array]:
    """Role of each row, and which part of its call's work it does."""
    role, part = np.full(len(work), -1, dtype=np.int8), np.full(len(work), np.nan)
    is_kernel = trace.category[trace.column("gpu_ops", "event")] == CATEGORY_CODES["kernel"]
    has = work >= 0
    # The copy kernel of a call that a memcpy finishes moves other bytes than the call's inputs say.
    copied = np.zeros(len(trace) + 1, dtype=np.bool_)
    copied[call[has & ~is_kernel]] = True
    is_copy = np.array([w.kind == "cast-copy" for w in works] + [False])[work]
    rows = np.flatnonzero(has & is_kernel & ~(is_copy & copied[call]))
    if not len(rows):
        return role, part
    _, group = numbered(call[rows])
    does = _does_it(trace, works, rows, work[rows])
    carries = does | (np.bincount(group, weights=does) == 0)[group]
    carriers = np.bincount(group, weights=carries)[group]
    role[rows] = np.where(carries, np.where(carriers > 1, _SHARED, _OP), _HELPER)
    # Durations of 0 share alike.
    weight = np.where(carries, np.maximum(ns[rows], 1), 0).astype(np.float64)
    part[rows] = weight / np.bincount(group, weights=weight)[group]
    return role, part


def _does_it(trace: Trace, works: list[Work], rows: Array, work: Array) -> Array:
    """bool (rows,): whether a kernel's name says that it does what its call stands for."""
    names = trace.analysis(gpu_names)
    product = names.spread(lambda k: k.tensor_cores is not None, np.bool_)[rows]
    kind = names.spread(lambda k: k.kind or "", object)[rows]
    wanted = np.array([w.kind for w in works], dtype=object)[work]
    is_product = np.array([w.kind in PRODUCTS for w in works])[work]
    return np.where(is_product, product, kind == wanted).astype(np.bool_)


def _amounts(works: list[Work], work: Array, part: Array) -> tuple[Array, Array]:
    """Operations and traffic of each row."""
    part = np.where(part > 0, part, np.nan)
    flops = np.array([_number(w.flops) for w in works] + [np.nan])
    moved = np.array([_number(w.bytes) for w in works] + [np.nan])
    return flops[work] * part, moved[work] * part


def _number(amount: int | None) -> float:
    """An amount as a number, NaN where it is not known or beyond anything that a GPU does."""
    return float(amount) if amount is not None and 0 <= amount < 2**120 else np.nan


def _count_own(trace: Trace, role: Array, moved: Array) -> None:
    """Fill in copies and memsets, and kernels whose name and grid tell."""
    names, size = trace.analysis(gpu_names), trace.column("gpu_ops", "bytes")
    is_kernel = trace.category[trace.column("gpu_ops", "event")] == CATEGORY_CODES["kernel"]
    copies = np.flatnonzero(~is_kernel & (size >= 0))
    role[copies] = _OWN
    moved[copies] = size[copies] * names.spread(lambda k: _PASSES.get(k.kind or "", 1.0), np.float64)[copies]
    left = np.flatnonzero(is_kernel & (role < 0))
    if not len(left):
        return
    blocks = total_blocks(trace)[left]
    told = names.spread(lambda k: bytes_per_thread(k) or np.nan, np.float64)[left]
    told = told * blocks * trace.column("gpu_ops", "block_x")[left]
    sure = certain_grid(blocks) & ~np.isnan(told)
    role[left[sure]] = _GRID
    moved[left[sure]] = told[sure]


def _arithmetic_times(
    trace: Trace, works: list[Work], work: Array, ceilings: dict[int, Ceilings | None], flops: Array
) -> Array:
    """float64 (gpu ops,): ns of the operations at the ceilings; one look-up for each device, work and kernel name."""
    out = np.full(len(work), np.nan)
    rows = np.flatnonzero(~np.isnan(flops))
    if not len(rows):
        return out
    names, device = trace.analysis(gpu_names), trace.column("gpu_ops", "device")
    key = (device[rows].astype(np.int64) + 1) * len(works) + work[rows]
    _, first, place = first_places(key * len(names.kernels) + names.of_row[rows])
    rates = np.full(len(first), np.nan)
    for i, row in enumerate(rows[first].tolist()):
        known = ceilings[int(device[row])]
        rate = None if known is None else arithmetic_ceiling(known, works[work[row]], names.kernels[names.of_row[row]])
        rates[i] = np.nan if rate is None else rate.rate
    out[rows] = flops[rows] / rates[place] * 1e9
    return out


def _memory_times(trace: Trace, ceilings: dict[int, Ceilings | None], moved: Array) -> Array:
    """float64 (gpu ops,): ns of the traffic at the memory's ceiling; none for copies over a link."""
    device = trace.column("gpu_ops", "device")
    rate = np.full(len(moved), np.nan)
    for index, known in ceilings.items():
        if known is not None and known.memory_bandwidth is not None:
            rate[device == index] = known.memory_bandwidth.rate
    link = ("memcpy-htod", "memcpy-dtoh", "memcpy-ptop")
    rate[trace.analysis(gpu_names).spread(lambda k: k.kind in link, np.bool_)] = np.nan
    return moved / rate * 1e9


def _is_known(works: list[Work], work: Array, role: Array, arithmetic: Array, memory: Array) -> Array:
    """bool (gpu ops,): whether what decides is known: the arithmetic of products, the traffic of all else."""
    is_product = np.array([w.kind in PRODUCTS for w in works] + [False])[work] & (role != _OWN) & (role != _GRID)
    return np.where(is_product, ~np.isnan(arithmetic), ~np.isnan(memory))


def _bounds(trace: Trace, ns: Array, role: Array, arithmetic: Array, memory: Array, limit: Array) -> Array:
    """int8 (gpu ops,): what bounds each row, -1 where that is not known.

    Latency: too small to fill the card. The grid leaves more than a seventh of the SMs without a block, or the time at the
    limit is shorter than a kernel takes to start and end; unless the limit is more than half of the time taken. Kernels between
    GPUs wait for each other and have no bound here, helpers only where their grid tells it.
    """
    names = trace.analysis(gpu_names)
    filled = filled_ratio(trace)
    helper = role == _HELPER
    # A comparison with NaN is False: an unknown grid is not small, an unknown limit not near.
    near = (limit > NEAR_RATIO * ns) & ~helper
    small = (filled < FILLED_RATIO) | ((limit < FLOOR_NS) & ~helper)
    by_work = np.where(np.nan_to_num(arithmetic) > np.nan_to_num(memory), BOUNDS.index("compute"), BOUNDS.index("memory"))
    bound = np.where(np.isnan(limit) | helper, -1, by_work)
    bound[small & ~near] = BOUNDS.index("latency")
    bound[names.spread(lambda k: k.kind == "collective", np.bool_)] = -1
    return bound.astype(np.int8)
