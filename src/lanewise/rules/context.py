"""What rules look at: the trace, its analyses, and the questions that many rules ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import full_tree, op_tree
from lanewise.analyses.call_work import call_work, parsed_inputs
from lanewise.analyses.called_ops import CalledOps, called_ops
from lanewise.analyses.ceilings import limit_ns
from lanewise.analyses.copies import HostCopies, host_copies
from lanewise.analyses.coverage import Coverage, coverage
from lanewise.analyses.cpu_activity import Activity, activities, blocking_calls, launching_lanes
from lanewise.analyses.gpu_time import KINDS, GpuOps, gpu_op_times
from lanewise.analyses.id_sets import among, distinct, numbered
from lanewise.analyses.launches import Launches, launches
from lanewise.analyses.replay import Replay, replay
from lanewise.analyses.steps import Steps, steps
from lanewise.devices import Ceilings, Device, find_device
from lanewise.kernels import Kernel, decode
from lanewise.model.intervals import Intervals, union
from lanewise.model.nesting import Nesting
from lanewise.model.orders import stable_order
from lanewise.model.trace import Trace
from lanewise.work import Work
from lanewise.work.inputs import Inputs as Arguments

from .sequence import Sequence

__all__ = ["Context", "Inputs"]

Array = npt.NDArray[Any]
T = TypeVar("T")

# Making a call takes no longer than this many times the median between two calls: 95 % of the pauses between ops are shorter
# than 3 medians, 99 % than 10 (48 traces); longer ones are other work.
_CALLING_AT_MOST = 6


class Inputs:
    """Recorded inputs of one op call.

    Attributes:
        dims, types, strides, concrete: as Kineto has them (lists; a tensor list is a list of lists of lists); None where the
            file does not say.
    """

    def __init__(self, row: tuple[bytes | None, ...]) -> None:
        self.dims, self.types, self.strides, self.concrete = parsed_inputs(row)


class Context:
    """A trace with everything that rules ask about it; each answer is computed once.

    Rows of `gpu_ops` are called *rows*, event numbers *events*. Per-step numbers are means over the steps, leaving out the
    first where there are more than two (it pays for what came before it).
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.steps: Steps = trace.analysis(steps)
        self.launches: Launches = trace.analysis(launches)
        self.gpu: GpuOps = trace.analysis(gpu_op_times)
        self.coverage: Coverage = trace.analysis(coverage)
        self.replay: Replay | None = trace.analysis(replay)
        self.activity: Activity = trace.analysis(activities)
        self._answers: dict[Any, Any] = {}

    def answer(self, question: Callable[[Context], T]) -> T:
        """What a function of the context returns, computed once: for questions that several rules ask."""
        if question not in self._answers:
            self._answers[question] = question(self)
        result: T = self._answers[question]
        return result

    # ---- which work
    @cached_property
    def step_numbers(self) -> Array:
        """Steps that per-step numbers are taken over."""
        n = len(self.steps)
        return np.arange(1 if n > 2 else 0, n)

    @cached_property
    def rows(self) -> Array:
        """Rows of `gpu_ops` of those steps, by start; without steps, all rows."""
        rows = np.arange(len(self.gpu.ts))
        if len(self.steps):
            rows = rows[among(self.steps.gpu_step, distinct(self.step_numbers))]
        return rows[stable_order(self.gpu.ts[rows])]

    def per_step(self, total: float) -> float:
        """A sum over those steps as a mean per step; without steps, the sum."""
        return float(total) / max(len(self.step_numbers), 1)

    def in_steps(self, events: Array) -> Array:
        """Those of some CPU events that begin during those steps (all of them without steps)."""
        if not len(self.steps):
            return events
        return events[np.isin(self.step_of(events), self.step_numbers)]

    def step_of(self, events: Array) -> Array:
        """Step during which each CPU event begins, -1 for none."""
        found = self.steps
        if not len(found):
            return np.full(len(events), -1)
        ts = self.trace.ts[events]
        place = np.searchsorted(found.start, ts, side="right") - 1
        inside = (place >= 0) & (ts < found.start[np.maximum(place, 0)] + found.wall_ns[np.maximum(place, 0)])
        return np.where(inside, place, -1)

    # ---- GPU ops
    @cached_property
    def gpu_event(self) -> Array:
        """Event of each row."""
        return self.trace.column("gpu_ops", "event")

    @cached_property
    def gpu_ns(self) -> Array:
        """Duration of each row in ns."""
        return self.gpu.end - self.gpu.ts

    @cached_property
    def owner(self) -> Array:
        """Event of the op or annotation that launched each row, -1 where not known."""
        return self.launches.gpu_owner

    def kernel(self, row: int) -> Kernel:
        """What the name of a row says."""
        return decode(self.trace.name_of(int(self.gpu_event[row])))

    @cached_property
    def kinds(self) -> Array:
        """Kind of each row in the vocabulary of `lanewise.kernels` (object array of str or None)."""
        codes, inverse = numbered(self.trace.name[self.gpu_event])
        kinds = np.array([decode(self.trace.strings[c]).kind for c in codes] or [None], dtype=object)
        return kinds[inverse] if len(inverse) else np.empty(0, dtype=object)

    def is_kind(self, *kinds: str) -> Array:
        """bool (rows,): whether each row is of one of some coarse kinds (compute, communication, copy, memset)."""
        return np.isin(self.gpu.kind, [KINDS.index(k) for k in kinds])

    def kernels_where(self, test: Callable[[Kernel], bool]) -> Array:
        """bool (rows,): whether what the name of each row says passes a test."""
        codes, inverse = numbered(self.trace.name[self.gpu_event])
        passed = np.array([test(decode(self.trace.strings[c])) for c in codes], dtype=np.bool_)
        return passed[inverse] if len(inverse) else np.empty(0, dtype=np.bool_)

    # ---- CPU side
    @cached_property
    def tree(self) -> Nesting:
        """Nesting of ops, annotations and calls."""
        return self.trace.analysis(op_tree)

    @cached_property
    def full_tree(self) -> Nesting:
        """Nesting with Python frames and modules."""
        return self.trace.analysis(full_tree)

    @cached_property
    def place(self) -> Array:
        """Position of each event in `tree`, -1 for events that are not in it."""
        out = np.full(len(self.trace), -1, dtype=np.int64)
        out[self.tree.events] = np.arange(len(self.tree.events))
        return out

    def parent(self, event: int) -> int:
        """Event around an op, annotation or call; -1 for none."""
        up = self.tree.parent[self.place[event]]
        return int(self.tree.events[up]) if up >= 0 else -1

    def ancestors(self, event: int) -> list[int]:
        """Events around an op or call, the innermost first."""
        out = []
        while (event := self.parent(event)) >= 0:
            out.append(event)
        return out

    def outermost_op(self, event: int) -> int:
        """The outermost `cpu_op` around an event, or the event itself: the call that the user's code made."""
        found = event
        for up in self.ancestors(event):
            if self.trace.category_of(up) == "cpu_op":
                found = up
        return found

    def events_named(self, *names: str) -> Array:
        """Events of CPU ops and annotations with one of some names."""
        wanted = set(names)
        rows = self.trace.rows("cpu_op", "user_annotation")
        return rows[self.trace.names_where(lambda s: s in wanted)[self.trace.name[rows]]]

    def events_matching(self, pattern: re.Pattern[str], *categories: str) -> Array:
        """Events of some categories (CPU ops and annotations by default) whose name a pattern finds."""
        rows = self.trace.rows(*(categories or ("cpu_op", "user_annotation")))
        return rows[self.trace.names_where(lambda s: pattern.search(s) is not None)[self.trace.name[rows]]]

    def intervals(self, events: Array) -> Intervals:
        """Time that some events cover, as disjoint intervals."""
        events = np.asarray(events, dtype=np.int64)
        return union(self.trace.ts[events], self.trace.end[events])

    def inside(self, events: Array) -> Array:
        """Events of `tree` that begin within some events of their lane (those events themselves too)."""
        chosen = np.zeros(len(self.tree.events), dtype=np.bool_)
        chosen[self.place[np.asarray(events, dtype=np.int64)]] = True
        for level in self.tree.levels()[1:]:
            chosen[level] |= chosen[self.tree.parent[level]]
        return self.tree.events[chosen]

    def launched_in(self, events: Array) -> Array:
        """Rows of the GPU ops that calls within some CPU events launched, at any depth."""
        inner = np.zeros(len(self.trace), dtype=np.bool_)
        inner[self.inside(events)] = True
        known = np.flatnonzero(self.launches.launch >= 0)
        return known[inner[self.launches.call[self.launches.launch[known]]]]

    @cached_property
    def called(self) -> CalledOps:
        """The outermost ops, as the program called them."""
        return self.trace.analysis(called_ops)

    @cached_property
    def sequence(self) -> Sequence:
        """The GPU ops of the steps in the order in which each thread launched them."""
        return Sequence(self)

    @cached_property
    def copies(self) -> HostCopies:
        """Copies between host and GPU."""
        return self.trace.analysis(host_copies)

    @cached_property
    def own_cpu_ratio(self) -> float:
        """The part of the recorded CPU time that is the program's own, not the profiler's; 1 where not known."""
        recorded = 0.0 if self.replay is None else float(self.replay.chain.work.sum()) / self.replay.steps
        return self.replay.cpu_ns() / recorded if self.replay is not None and recorded else 1.0

    @cached_property
    def op_cpu_ns(self) -> float:
        """CPU time outside the profiler of a call that launches one kernel: the median of the trace; 0 without any."""
        calls = self.called.event[self.called.kernels == 1]
        return float(np.median(self.trace.dur[calls])) * self.own_cpu_ratio if len(calls) else 0.0

    @cached_property
    def calling_ns(self) -> float:
        """Time as recorded between two calls of ops on one lane, the median: what Python takes to make a call; 0 without any."""
        event = self.called.event
        same = np.diff(self.trace.lane[event]) == 0
        between = (self.trace.ts[event[1:]] - self.trace.end[event[:-1]])[same] if len(event) else np.empty(0)
        return float(np.median(np.maximum(between, 0))) if len(between) else 0.0

    def call_intervals(self, calls: Array) -> Intervals:
        """CPU time that goes with some calls (numbers in `called`): theirs, and the Python before each that makes it.

        Between two calls that both go, all of it goes, unless it is far more than making a call takes.
        """
        calls = distinct(np.asarray(calls, dtype=np.int64))
        event = self.called.event
        begin, end = self.trace.ts[event[calls]], self.trace.end[event[calls]]
        before = np.maximum(calls - 1, 0)
        same = (calls > 0) & (self.trace.lane[event[before]] == self.trace.lane[event[calls]])
        earliest = np.where(same, self.trace.end[event[before]], begin)
        most = int(self.calling_ns) * np.where(np.isin(calls - 1, calls), _CALLING_AT_MOST, 1)
        return union(np.minimum(np.maximum(earliest, begin - most), begin), end)

    @cached_property
    def blocking(self) -> Array:
        """Events of calls that wait for the GPU."""
        return self.trace.analysis(blocking_calls)

    @cached_property
    def lanes(self) -> Array:
        """Lanes that launch GPU work."""
        return self.trace.analysis(launching_lanes)

    # ---- inputs and limits
    @cached_property
    def input_row(self) -> Array:
        """Row of `Trace.inputs` of each event; -1 where none were recorded."""
        out = np.full(len(self.trace), -1, dtype=np.int64)
        out[self.trace.column("cpu_ops", "event")] = self.trace.column("cpu_ops", "inputs")
        return out

    @cached_property
    def _inputs(self) -> dict[int, Inputs]:
        return {}

    def inputs(self, event: int) -> Inputs | None:
        """Recorded inputs of an op; None where not recorded."""
        row = int(self.input_row[event])
        return None if row < 0 else self.inputs_at(row)

    def inputs_at(self, row: int) -> Inputs:
        """Recorded inputs by their row of `Trace.inputs`."""
        if row not in self._inputs:
            self._inputs[row] = Inputs(self.trace.inputs[row])
        return self._inputs[row]

    def arguments(self, event: int) -> Arguments | None:
        """Recorded inputs of an op as typed arguments; None where sizes or types were not recorded."""
        found = self.inputs(event)
        if found is None or found.dims is None or found.types is None:
            return None
        return Arguments(found.dims, found.types, found.strides, found.concrete)

    def work(self, event: int) -> Work | None:
        """Arithmetic and memory traffic that an op call stands for; None where its inputs do not tell."""
        return self.trace.analysis(call_work).of(event)

    @cached_property
    def device(self) -> Device | None:
        """The GPU of the trace, where it is a known card."""
        used = np.unique(self.trace.column("gpu_ops", "device"))
        properties = self.trace.device(int(used[0])) if len(used) else None
        if properties is None or properties.name is None:
            return None
        return find_device(properties.name, properties.sms, properties.memory_bytes)

    def memory_ns(self, n_bytes: float) -> float | None:
        """Time in ns that moving some bytes takes at the card's memory bandwidth; None for an unknown card.

        By the data sheet, as `limit_ns`: prices do not depend on whether somebody has run `lanewise calibrate`.
        """
        return None if self.device is None else n_bytes / self.device.memory_bandwidth * 1e9

    def limit_ns(self, work: Work, dtype: str | None = None) -> float | None:
        """Time in ns at the card's limit: the larger of arithmetic at the peak rate of the type and traffic at the bandwidth."""
        return None if self.device is None else limit_ns(Ceilings(self.device.name, self.device, None), work, dtype)

    # ---- where in the code
    @cached_property
    def _full_place(self) -> Array:
        out = np.full(len(self.trace), -1, dtype=np.int64)
        out[self.full_tree.events] = np.arange(len(self.full_tree.events))
        return out

    def where(self, event: int) -> str | None:
        """The module, Python line or annotation around an event, the most telling that was recorded; None for none."""
        module = line = annotation = None
        at = int(self._full_place[event])
        while at >= 0 and (at := int(self.full_tree.parent[at])) >= 0:
            up = int(self.full_tree.events[at])
            name, category = self.trace.name_of(up), self.trace.category_of(up)
            if name.startswith("nn.Module: "):
                module = module or name.removeprefix("nn.Module: ")
            elif category == "python_function" and line is None and _own_code(name):
                line = name
            elif category == "user_annotation" and annotation is None and not name.startswith("ProfilerStep#"):
                annotation = name
        return line or module or annotation


def _own_code(frame: str) -> bool:
    """Whether a frame is the user's own: not torch, not the standard library, not a built-in."""
    return not (
        frame.startswith(("<", "torch/", "/usr/lib/python", "threading.py", "contextlib.py")) or "site-packages/torch/" in frame
    )
