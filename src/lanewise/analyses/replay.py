"""What would the step cost if something were different? The steps are replayed as a pipeline of one CPU side and one GPU.

The CPU side makes its launches one after the other; the time between two of them is its work. The GPU runs what it was given
in order, each op when it was launched and the op before it is done. A blocking call holds the CPU until the GPU has run all
that was launched before it. Taking something away (a GPU op, CPU time, a wait) and replaying gives what the step would lose:
GPU time counts only where the GPU is the bottleneck, CPU time only where the CPU is.

The profiler adds about the same time to every event that it records on the CPU. Where the trace carries the step's time
outside the profiler, that time per event is fitted so that the replay takes as long; else it is 0 and CPU-side savings are
upper bounds. GPU ops on several streams are laid end to end by the time that each adds to the device's busy time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.intervals import Intervals, intersection, overlap_with, union
from lanewise.model.trace import Trace

from .cpu_activity import blocking_calls
from .gpu_time import gpu_op_times
from .launches import launches
from .replay_chain import Chain, Pipeline, chain_of
from .steps import Steps, steps
from .unprofiled import unprofiled_step

__all__ = ["PROFILER_EVENT_NS", "PROFILER_STEP_NS", "Change", "Replay", "replay"]

Array = npt.NDArray[Any]

_MOST_STEPS = 12  # more steps of a trace change a median by less than the steps differ among themselves
_ROUNDS = 3  # the first round fills the queue, the later ones are measured
# The part of the CPU time between two launches that is the program's own even where recording is dearest: with shapes on,
# the profiler makes small ops up to 4 times slower.
_LEAST_OWN = 0.2
# What the profiler adds to a recorded event: the middle of what fits gave on 60 traces of CPU-bound steps with shapes on
# (median 3.4 us, quartiles 2.4 and 4.2, torch 2.11 on two kinds of host). Used where the GPU bounds the step, which then does
# not show it.
PROFILER_EVENT_NS = 3_000.0
# From this part of the step on, GPU work explains the step by itself (the rest are gaps between kernels), and the CPU time that
# would also explain it is only the most that it can be.
_GPU_BOUND = 0.88
_EVENT_SPREAD = 0.31  # of the logarithm of those fits: their quartiles lie that times 0.67 apart from the median
_FITTED_NS = 3_400.0  # their median
_UNHEARD_OF_NS = 20_000.0
_MOST_EVENT_NS = 5_000.0  # above the upper quartile of those fits; what more is needed is laid on the time between events
# profiler.step() itself, closing and opening the step's mark, and what the first call after it takes longer: what 19 steps of
# fewer than 25 events took more under the profiler than their events explain (median 77 us, quartiles 32 and 107, torch 2.11).
PROFILER_STEP_NS = 60_000.0
_MOST_SLOWDOWN = 4.0  # as of small ops with shapes on, see `_LEAST_OWN`
_SAME = 0.98  # replays that differ by less count as equal: steps differ by more among themselves
_LATENCY_QUANTILE = 0.1  # the quickest launches, without the odd one out
# Waiting calls return 3 to 4 us after the GPU is done when they follow one another, later where the thread had gone to sleep.
_RETURN_QUANTILE = 0.25
_MOST_LATENCY_NS = 15_000  # kernels start 4 to 12 us after their launch on an idle GPU under the profiler


@dataclass(frozen=True)
class Change:
    """Something taken away from the steps; rows of `gpu_ops`, event numbers, and intervals in ns.

    Attributes:
        gpu: new duration in ns by row of `gpu_ops`; 0 takes the op away (its launch goes too, see `launches`).
        cpu: CPU time that goes: (starts, ends), disjoint, as recorded.
        waits: events of blocking calls that would not wait.
        aside: rows of `gpu_ops` that would run beside the others, on another stream.
        extra_cpu_ns: CPU time per step that comes instead, outside the profiler; below 0, what goes evenly all over the step.
        extra_gpu_ns: GPU time per step that comes instead, spread over the ops.
    """

    gpu: dict[int, int] = field(default_factory=dict)
    cpu: tuple[Array, Array] | None = None
    waits: Array | None = None
    aside: Array | None = None
    extra_cpu_ns: float = 0.0
    extra_gpu_ns: float = 0.0


class Replay:
    """Replays of a trace's steps.

    Attributes:
        chain: what is replayed.
        step_numbers: the steps in it, by place.
        steps: their number.
        latency_ns: from a launch to the start of its op on an idle GPU.
        return_ns: from the moment when the GPU is done to the return of the call that waits for it.
        per_event_ns: what the profiler adds to each recorded event, as fitted; 0 where not known.
        slowdown: by how much it slows what lies between events, where events alone do not account for it.
        real: whether the step's time outside the profiler is known.
        base_ns: replayed time of a step as it is.
        real_ns: the step's time outside the profiler, else as recorded.
    """

    def __init__(
        self,
        chain: Chain,
        step_numbers: list[int],
        latencies_ns: tuple[int, int],
        profiled_ns: float,
        unprofiled_ns: float | None,
    ) -> None:
        self.chain = chain
        self.step_numbers = step_numbers
        self.steps = len(step_numbers)
        self.latency_ns, self.return_ns = latencies_ns
        self.real = unprofiled_ns is not None
        self.profiled_ns = profiled_ns
        self.real_ns = profiled_ns if unprofiled_ns is None else unprofiled_ns
        self.per_event_ns = 0.0
        self.slowdown = 1.0
        if unprofiled_ns is not None:
            self.per_event_ns = self._fit(unprofiled_ns)
        self.base_ns = self.time(Change())

    def saving(self, change: Change) -> float:
        """What a step would lose in ns, scaled to the step's real time; at least 0, and never GPU work that remains."""
        if self.base_ns <= 0:
            return 0.0
        lost = max(0.0, self.base_ns - self.time(change)) / self.base_ns * self.real_ns
        return min(lost, self.most_saving(change))

    def most_saving(self, change: Change) -> float:
        """The time of a step, less the GPU work that remains with a change made."""
        return max(self.real_ns, self.gpu_ns()) - self.gpu_ns(change)

    def usual_ns(self, change: Change) -> float:
        """Replayed time of a step with a change made, where the profiler adds what it usually does to an event."""
        return self._run(self._work(change, PROFILER_EVENT_NS), change)

    def cpu_ns(self, change: Change | None = None) -> float:
        """CPU work of a step outside the profiler, waits left out; with a change made."""
        return float(self._own(change or Change()).sum()) / self.steps

    def recorded_within_ns(self, intervals: Intervals) -> float:
        """CPU work of a step as recorded within some disjoint intervals."""
        return float(overlap_with(self.chain.begin, self.chain.stop, intervals).sum()) / self.steps

    def recorded_cpu_ns(self) -> float:
        """CPU work of a step as recorded, waits left out."""
        return float(self.chain.work.sum()) / self.steps

    def gpu_ns(self, change: Change | None = None) -> float:
        """GPU time of a step, with a change made; what would run beside the rest is left out."""
        gpu = self._gpu(change or Change())
        if change is not None and change.aside is not None:
            gpu = gpu[~np.isin(self.chain.gpu_row, change.aside)]
        return float(gpu.sum()) / self.steps

    def time(self, change: Change) -> float:
        """Replayed time of a step in ns with a change made."""
        return self._run(self._own(change), change)

    def _fit(self, target: float) -> float:
        """Time per event so that the replay takes as long as the step does outside the profiler.

        Where the GPU bounds the step no such time shows; the usual one is taken as long as it changes nothing.
        """
        if self._at(PROFILER_EVENT_NS) >= _SAME * self._at(0.0):
            return PROFILER_EVENT_NS
        if self.gpu_ns() >= _GPU_BOUND * target and self._at(0.0) > target:
            return _likely_above(_last_above(self._at, 0.0, _UNHEARD_OF_NS, target))
        return self._fitted(target)

    def _fitted(self, target: float) -> float:
        if self._at(0.0) <= target:
            return 0.0
        if self._at(_MOST_EVENT_NS) > target:
            # More than any event costs: the profiler also slows what lies between events (Python under its hooks).
            self.slowdown = _last_above(lambda x: self._at(_MOST_EVENT_NS, x), 1.0, _MOST_SLOWDOWN, target)
            return _MOST_EVENT_NS
        return _last_above(self._at, 0.0, _MOST_EVENT_NS, target)

    def _at(self, per_event: float, slowdown: float = 1.0) -> float:
        return self._run(self._work(Change(), per_event) / slowdown, Change())

    def _own(self, change: Change) -> Array:
        """CPU work before each item outside the profiler, with a change made."""
        return self._work(change, self.per_event_ns, self.slowdown)

    def _work(self, change: Change, per_event: float, slowdown: float = 1.0) -> Array:
        c = self.chain
        driver = overlap_with(c.begin, c.stop, c.driver)
        raw = np.maximum(c.work - driver, 0).astype(np.float64)
        marks = np.where((c.event < 0) & self.real, PROFILER_STEP_NS, 0.0)
        own = np.maximum(raw - per_event * c.events - marks, _LEAST_OWN * raw) / slowdown
        if change.cpu is not None:
            cpu = union(*change.cpu)
            unslowed = overlap_with(c.begin, c.stop, intersection(cpu, c.driver))
            gone = overlap_with(c.begin, c.stop, cpu) - unslowed
            driver = driver - unslowed
            # Time taken away shrinks as the rest of its interval did.
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(raw > 0, np.minimum(gone / np.maximum(raw, 1), 1), 0)
            own = own * (1 - part)
        own = own + driver
        if change.extra_cpu_ns > 0:
            firsts = np.flatnonzero(np.r_[True, np.diff(c.step_of) != 0])
            own[firsts] += change.extra_cpu_ns
        elif change.extra_cpu_ns < 0 and own.sum() > 0:
            own *= max(0.0, 1 + change.extra_cpu_ns * self.steps / float(own.sum()))
        return own

    def _gpu(self, change: Change) -> Array:
        """GPU time of each op with a change made."""
        c = self.chain
        gpu = c.gpu_ns.astype(np.float64)
        if not change.gpu:
            return self._with_more(gpu, change)
        rows = np.fromiter(change.gpu, dtype=np.int64, count=len(change.gpu))
        new = np.fromiter(change.gpu.values(), dtype=np.float64, count=len(change.gpu))
        order = np.argsort(rows)
        place = np.minimum(np.searchsorted(rows[order], c.gpu_row), len(rows) - 1)
        hit = rows[order][place] == c.gpu_row
        return self._with_more(np.where(hit, np.minimum(new[order][place], gpu), gpu), change)

    def _with_more(self, gpu: Array, change: Change) -> Array:
        """GPU time of each op with what comes instead spread over all."""
        if not change.extra_gpu_ns or gpu.sum() <= 0:
            return gpu
        return gpu * (1 + change.extra_gpu_ns * self.steps / float(gpu.sum()))

    def _run(self, work: Array, change: Change) -> float:
        c = self.chain
        gpu = self._gpu(change)
        aside = np.zeros(len(gpu), dtype=np.bool_) if change.aside is None else np.isin(c.gpu_row, change.aside)
        side = np.where(aside, gpu, 0.0)
        gpu = np.where(aside, 0.0, gpu)
        blocks = c.blocks.copy()
        if change.waits is not None:
            blocks &= ~np.isin(c.event, change.waits)
        once = Pipeline(work, blocks, c.gpu_item, gpu, self.latency_ns, self.return_ns)
        cpu = ready = 0.0
        marks = []
        for _ in range(_ROUNDS):
            cpu, ready = once.run(cpu, ready)
            marks.append(max(cpu, ready))
        main = (marks[-1] - marks[0]) / (_ROUNDS - 1) / self.steps
        return max(main, float(side.sum()) / self.steps)


def _likely_above(least: float) -> float:
    """What the profiler adds to an event where it is at least this: the median of what is above, of all that was fitted.

    The GPU bounds the step, so that the CPU takes less than the step does: at `least` it would take just as long.
    """
    fits = statistics.NormalDist(math.log(_FITTED_NS), _EVENT_SPREAD)
    below = fits.cdf(math.log(max(least, 1.0)))
    return max(math.exp(fits.inv_cdf(min((1 + below) / 2, 0.9999))), least)


def _last_above(time: Callable[[float], float], low: float, high: float, target: float) -> float:
    """Where a falling function reaches a target, by bisection."""
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if time(middle) > target else (low, middle)
    return high


def replay(trace: Trace) -> Replay | None:
    """Set up the replay of a trace's steps; None without steps or launches in them."""
    found = trace.analysis(steps)
    links = trace.analysis(launches)
    if not len(found) or not (links.gpu_count > 0).any():
        return None
    chosen = _chosen(found)
    chain = chain_of(trace, found, chosen)
    if chain is None:
        return None
    timed = unprofiled_step(trace)
    unprofiled = None if timed is None else float(timed["median"]) * 1000
    profiled = float(np.median(found.time_ns))
    return Replay(chain, chosen, (_latency(trace), _return(trace)), profiled, unprofiled)


def _chosen(found: Steps) -> list[int]:
    """The steps to replay: usual ones, in order.

    The first is left out where there are more than two, since it pays for what came before it; so are steps that take
    more than a quarter longer or shorter than the median, as long as one remains.
    """
    n = len(found)
    later = np.arange(1 if n > 2 else 0, n)
    median = float(np.median(found.time_ns))
    far = np.abs(found.time_ns[later] - median)
    usual = later[far <= 0.25 * median]
    if not len(usual):
        usual = later[[int(far.argmin())]]
    return [int(i) for i in usual[:_MOST_STEPS]]


def _latency(trace: Trace) -> int:
    """From a launch to the start of its op when the GPU has nothing else to do, as the quickest launches show.

    Where the GPU always had something to do, no launch shows it, and it does not matter; it is capped at what an idle GPU
    takes at most.
    """
    links = trace.analysis(launches)
    known = np.flatnonzero(links.launch >= 0)
    lead = trace.ts[trace.column("gpu_ops", "event")[known]] - trace.ts[links.call[links.launch[known]]]
    lead = lead[lead > 0]
    return int(min(np.quantile(lead, _LATENCY_QUANTILE), _MOST_LATENCY_NS)) if len(lead) else 0


def _return(trace: Trace) -> int:
    """From the moment when the GPU is done to the return of a call that waits, as the quicker ones show; 0 without any."""
    calls = trace.analysis(blocking_calls)
    ends = np.sort(trace.analysis(gpu_op_times).end)
    if not len(calls) or not len(ends):
        return 0
    done = ends[np.maximum(np.searchsorted(ends, trace.end[calls], side="right") - 1, 0)]
    rest = trace.end[calls] - np.maximum(trace.ts[calls], done)
    return int(np.clip(np.quantile(rest, _RETURN_QUANTILE), 0, _MOST_LATENCY_NS))
