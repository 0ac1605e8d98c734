"""Distance from the limit by kernel name and by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.devices import Ceiling
from lanewise.kernels import Kernel
from lanewise.model.trace import Trace

from .ceilings import PRODUCTS, arithmetic_ceiling, arithmetic_type
from .id_sets import distinct, numbered
from .limits import BOUNDS, ROLES, Limits, gpu_names, limits
from .occupancy import Launch, launch_occupancies
from .steps import steps

__all__ = ["KernelLimit", "StepLimits", "kernel_limits", "step_limits", "used_ceilings"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class KernelLimit:
    """All GPU ops of one name. Times in ns; what is not known of any of them is None.

    Attributes:
        kernel: what the name says.
        count: GPU ops.
        total_ns: their time.
        known_ns: time of those whose limit is known, and of helpers.
        limit_ns: what those would take at the ceilings; helpers nothing.
        headroom_ns: time above the limit, op by op.
        headroom_ns_per_step: the same for a step, as `StepLimits.usual` has them; without steps, for the whole trace.
        flops_per_s, bytes_per_s: reached by those whose work is known.
        share_ratio: time at the limit over time, of those that do the work; above 1 for data in a cache. None for helpers.
        bound: one of BOUNDS, what bounds most of the time.
        role: one of ROLES, where the work of most of the time is from.
        at_least: whether some traffic is a lower bound.
        launch: how those with most time were launched; None for copies and where no grid was recorded.
    """

    kernel: Kernel
    count: int
    total_ns: int
    known_ns: int | None
    limit_ns: float | None
    headroom_ns: float | None
    headroom_ns_per_step: float | None
    flops_per_s: float | None
    bytes_per_s: float | None
    share_ratio: float | None
    bound: str | None
    role: str | None
    at_least: bool
    launch: Launch | None


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Sums over the GPU ops that each step launched; times in ns. Without steps there is one row, for the whole trace.

    Times are plain sums: ops of streams that overlap count each.

    Attributes:
        usual: rows that means are taken over: all but the first where there are more than two, since it pays for what came
            before.
        sum_ns: all GPU ops.
        known_ns: those whose limit is known, and helpers.
        limit_ns: what those would take at the ceilings.
        headroom_ns: time above the limit, op by op.
        by_bound_ns: time of the ops that each of BOUNDS bounds, and of ``helper`` (others do their work) and ``unknown``; these
            sum to `sum_ns`.
    """

    usual: Array
    sum_ns: Array
    known_ns: Array
    limit_ns: Array
    headroom_ns: Array
    by_bound_ns: dict[str, Array]

    def mean(self, values: Array) -> float:
        """A column's mean over the usual steps."""
        return float(values[self.usual].mean()) if len(self.usual) else 0.0


def _step_rows(trace: Trace) -> tuple[Array, Array]:
    """Step of each GPU op (0 for all without steps), and the usual steps."""
    found = trace.analysis(steps)
    n = len(found)
    if not n:
        return np.zeros(len(trace.column("gpu_ops", "event")), dtype=np.int64), np.arange(1)
    return found.gpu_step.astype(np.int64), np.arange(1 if n > 2 else 0, n)


def step_limits(trace: Trace) -> StepLimits:
    """What each step's GPU work takes, and what it would take at the ceilings."""
    found = trace.analysis(limits)
    step, usual = _step_rows(trace)
    n = max(len(trace.analysis(steps)), 1)
    mine = step >= 0

    def summed(values: Array) -> Array:
        return np.bincount(step[mine], weights=np.nan_to_num(values[mine]), minlength=n)

    known = ~np.isnan(found.limit_ns)
    parts = {name: summed(np.where(found.bound == code, found.ns, 0)) for code, name in enumerate(BOUNDS)}
    unbound = found.bound < 0
    parts["helper"] = summed(np.where(unbound & found.is_helper, found.ns, 0))
    parts["unknown"] = summed(np.where(unbound & ~found.is_helper, found.ns, 0))
    return StepLimits(
        usual=usual,
        sum_ns=summed(found.ns),
        known_ns=summed(np.where(known, found.ns, 0)),
        limit_ns=summed(found.limit_ns),
        headroom_ns=summed(found.headroom_ns),
        by_bound_ns=parts,
    )


def kernel_limits(trace: Trace) -> list[KernelLimit]:
    """One row for each GPU op name, by total time, largest first."""
    found, names = trace.analysis(limits), trace.analysis(gpu_names)
    launches = trace.analysis(launch_occupancies)
    sums = _Sums(names.of_row, len(names.kernels))
    columns, at_least = _columns(trace, found, sums)
    bound, role = sums.most(found.bound, found.ns, len(BOUNDS)), sums.most(found.role, found.ns, len(ROLES))
    launch = sums.most(launches.of_row, found.ns, len(launches.launches))
    rows = [
        KernelLimit(
            kernel=kernel,
            count=int(columns["count"][i]),
            total_ns=int(columns["total"][i]),
            known_ns=None if np.isnan(columns["known"][i]) else int(columns["known"][i]),
            limit_ns=_known(columns["limit"][i]),
            headroom_ns=_known(columns["headroom"][i]),
            headroom_ns_per_step=_known(columns["usual"][i]),
            flops_per_s=_known(columns["flops"][i]),
            bytes_per_s=_known(columns["bytes"][i]),
            share_ratio=_known(columns["share"][i]),
            bound=BOUNDS[bound[i]] if bound[i] >= 0 else None,
            role=ROLES[role[i]] if role[i] >= 0 else None,
            at_least=bool(at_least[i]),
            launch=launches.launches[launch[i]] if launch[i] >= 0 else None,
        )
        for i, kernel in enumerate(names.kernels)
    ]
    return sorted(rows, key=lambda r: (-r.total_ns, r.kernel.name))


def _columns(trace: Trace, found: Limits, sums: _Sums) -> tuple[dict[str, Array], Array]:
    """(float (names,) by figure, NaN where not known; bool (names,): whether any traffic is a lower bound)."""
    step, usual = _step_rows(trace)
    known, one = ~np.isnan(found.limit_ns), np.ones(len(found.ns))
    works = ~found.is_helper & known
    lower = np.array([w.at_least for w in found.works] + [False])[found.work] & (found.role >= 0)
    of_known = {
        "known": sums.of(found.ns, known),
        "limit": sums.of(found.limit_ns, known),
        "headroom": sums.of(found.headroom_ns, known),
        "usual": sums.of(found.headroom_ns, known & np.isin(step, usual)) / len(usual),
    }
    has_known = sums.of(one, known) > 0
    columns = {
        "count": sums.of(one),
        "total": sums.of(found.ns),
        **{name: np.where(has_known, values, np.nan) for name, values in of_known.items()},
        "share": sums.ratio(found.limit_ns, found.ns, works),
        "flops": sums.ratio(found.flops, found.ns, found.flops > 0) * 1e9,
        "bytes": sums.ratio(found.bytes, found.ns, found.bytes > 0) * 1e9,
    }
    return columns, sums.of(one, lower & works) > 0


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over the rows of each group."""

    group: Array
    n: int

    def of(self, values: Array, rows: Array | None = None) -> Array:
        """Sum of some values, of all rows or of some."""
        chosen = slice(None) if rows is None else rows
        return np.bincount(self.group[chosen], weights=values[chosen].astype(np.float64), minlength=self.n)

    def ratio(self, part: Array, whole: Array, rows: Array) -> Array:
        """Sum over sum, NaN where a group has none of these rows, or only durations of 0."""
        below = self.of(whole, rows)
        return np.divide(self.of(part, rows), below, out=np.full(self.n, np.nan), where=below > 0)

    def most(self, codes: Array, weight: Array, n_codes: int) -> Array:
        """The code with most weight in each group; -1 where rows without one weigh more than all with one."""
        rows = np.flatnonzero(codes >= 0)
        if not len(rows):
            return np.full(self.n, -1)
        key = self.group[rows].astype(np.int64) * n_codes + codes[rows]
        keys, place = numbered(key)
        heavy = np.bincount(place, weights=np.maximum(weight[rows], 1))
        order = np.argsort(heavy, kind="stable")
        out = np.full(self.n, -1)
        out[keys[order] // n_codes] = keys[order] % n_codes
        without = self.of(np.maximum(weight, 1), codes < 0)
        out[without > self.of(np.maximum(weight, 1), codes >= 0)] = -1
        return out


def used_ceilings(trace: Trace) -> dict[int, dict[str, Ceiling]]:
    """For each device the ceilings that some GPU op was compared with: ``memory`` in bytes/s, and FLOP/s by type.

    Of types those of products; all other ops are bound by their traffic, or so nearly that the rate of the ordinary units
    decides nothing.
    """
    found, names = trace.analysis(limits), trace.analysis(gpu_names)
    device = trace.column("gpu_ops", "device")
    out: dict[int, dict[str, Ceiling]] = {}
    for index, known in found.ceilings.items():
        if known is None:
            continue
        mine = out.setdefault(index, {})
        if known.memory_bandwidth is not None and not np.isnan(found.memory_ns[device == index]).all():
            mine["memory"] = known.memory_bandwidth
        rows = np.flatnonzero((device == index) & (found.work >= 0) & ~np.isnan(found.arithmetic_ns))
        pairs = distinct(found.work[rows].astype(np.int64) * len(names.kernels) + names.of_row[rows])
        for pair in pairs.tolist():
            work, kernel = found.works[pair // len(names.kernels)], names.kernels[pair % len(names.kernels)]
            rate, dtype = arithmetic_ceiling(known, work, kernel), arithmetic_type(work, kernel)
            if work.kind in PRODUCTS and rate is not None and dtype is not None:
                mine.setdefault(dtype, rate)
    return out
