"""The figures of a trace's steps that are compared: one value a step, as far as the trace tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import op_tree, self_times
from lanewise.analyses.compiler_names import REGION
from lanewise.analyses.cpu_activity import allocation_calls
from lanewise.analyses.gpu_time import device_times
from lanewise.analyses.idle import step_times
from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.analyses.quiet_ops import VIEW_OPS
from lanewise.analyses.unprofiled import unprofiled_mad, unprofiled_step
from lanewise.explaining import explain
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace
from lanewise.report import Report
from lanewise.rules.context import Context

from .noise import median_error
from .sequence import LONG, Sequence, step_sequence

__all__ = ["COUNTS", "LAYERS", "TraceSide"]

Array = npt.NDArray[Any]

# Counts of a step, in the order in which they are shown.
COUNTS = (
    "launches",
    "graphs",
    "kernels",
    "copies-htod",
    "copies-dtoh",
    "copies-dtod",
    "copies-ptop",
    "copies-other",
    "memsets",
    "syncs",
    "allocations",
    "ops",
    "regions",
    "compilations",
)
# CPU time by layer: what each event of a lane takes without what is inside it.
LAYERS = ("lookup", "prologue", "wrapper", "graph-call", "views", "autograd", "ops", "calls", "python")
_COMPILATION = re.compile(r"^_compile\.compile_inner|^entire_frame_compile")
_LAYER_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("lookup", re.compile(r"^TorchDynamo Cache Lookup$")),
    ("prologue", re.compile(r"^Pregraph bytecode$|AOTDispatcher Runtime Wrapper Prologue")),
    ("wrapper", re.compile(r"^Torch-Compiled Region|^CompiledFunction|^AOTDispatcher|^AOT")),
    ("graph-call", re.compile(r"^## Call CompiledFxGraph|^CompiledFxGraph|^CUDAGraph")),
    ("autograd", re.compile(r"^autograd::engine::|^torch::autograd::|Backward\d*$")),
)


@dataclass(eq=False)
class TraceSide:
    """One trace with all that a comparison asks about it."""

    trace: Trace
    lang: str

    def spoken(self, lang: str) -> TraceSide:
        """The same side in another language, with what is known already but for the report."""
        other = TraceSide(self.trace, lang)
        vars(other).update({k: v for k, v in vars(self).items() if k not in ("lang", "report")})
        return other

    @cached_property
    def report(self) -> Report:
        """Its report."""
        return explain(self.trace, self.lang)

    @cached_property
    def ctx(self) -> Context:
        """Its analyses."""
        return Context(self.trace)

    @cached_property
    def sequence(self) -> Sequence:
        """A usual step's GPU ops."""
        return step_sequence(self.ctx)

    @cached_property
    def numbers(self) -> Array:
        """Steps that figures are taken over: all, but for the first where there are enough others."""
        return self.ctx.step_numbers if len(self.ctx.steps) > LONG else np.arange(len(self.ctx.steps))

    @cached_property
    def real_ns(self) -> float | None:
        """The step's time outside the profiler, as the recorder measured it."""
        found = unprofiled_step(self.trace)
        return None if found is None else float(found["median"]) * 1000

    @cached_property
    def real_error_ns(self) -> float:
        """Standard error of that time, as far as the recorder noted how the steps varied."""
        found = unprofiled_step(self.trace)
        count = found.get("steps") if found is not None else None
        if found is None or not isinstance(count, int) or count < 1:
            return 0.0
        return median_error(unprofiled_mad(found) * 1000, count)

    @cached_property
    def compiled(self) -> bool:
        """Whether a step calls compiled regions."""
        return bool(self.counts["regions"].any())

    @cached_property
    def frames(self) -> int:
        """Compiled frames whose regions the steps call."""
        rows = self.ctx.in_steps(self.ctx.events_matching(REGION))
        return len({m.group(1) for e in np.unique(self.trace.name[rows]) if (m := REGION.match(self.trace.strings[e]))})

    # ---- times, one value a step, in ns
    @cached_property
    def times(self) -> dict[str, Array]:
        """``time`` and ``wall`` of each step under the profiler, ``gpu`` (busy) and ``cpu`` (work without waits)."""
        steps = self.ctx.steps
        if not len(steps):
            return {}
        out = {"time": steps.time_ns[self.numbers], "wall": steps.wall_ns[self.numbers]}
        busy = steps.gpu_busy_ns[self.numbers]
        if self.ctx.coverage.gpu_timing == "ok" and (busy >= 0).all():
            out["gpu"] = busy
        out["cpu"] = self._cpu()
        return {k: v.astype(np.float64) for k, v in out.items()}

    def _cpu(self) -> Array:
        """Each step's annotation without the waits for the GPU in it."""
        waits = self.ctx.blocking
        step = self.ctx.step_of(waits)
        held = np.zeros(len(self.ctx.steps), dtype=np.int64)
        np.add.at(held, step[step >= 0], self.trace.dur[waits[step >= 0]])
        return np.maximum(self.ctx.steps.wall_ns - held, 0)[self.numbers]

    @cached_property
    def gpu_share(self) -> float | None:
        """The part of a step in which the GPU works, in the step's real time where it is known."""
        if "gpu" not in self.times:
            return None
        whole = self.real_ns or float(np.median(self.times["time"]))
        return float(np.median(self.times["gpu"])) / whole if whole else None

    @cached_property
    def idle(self) -> dict[str, Array]:
        """Parts of each step's time on the busiest device by cause, as recorded."""
        if not len(self.ctx.steps) or self.ctx.coverage.gpu_timing != "ok":
            return {}
        busiest = max(self.trace.analysis(device_times), key=lambda d: d.busy_ns).device
        mine = {s.step: s.causes for s in self.trace.analysis(step_times) if s.device == busiest}
        causes = {c for found in mine.values() for c in found if c.startswith("idle_")}
        return {c: np.array([mine[i].get(c, 0) for i in self.numbers.tolist()], dtype=np.float64) for c in sorted(causes)}

    # ---- counts, one value a step
    @cached_property
    def counts(self) -> dict[str, Array]:
        """Each of `COUNTS`; of the whole trace where there are no steps."""
        ctx, trace = self.ctx, self.trace
        kinds = ctx.kinds
        copy = trace.category[ctx.gpu_event] == CATEGORY_CODES["gpu_memcpy"]
        kernel = trace.category[ctx.gpu_event] == CATEGORY_CODES["kernel"]
        gpu_step, launch_step = ctx.steps.gpu_step, ctx.steps.launch_step
        graph = ctx.launches.kind == LAUNCH_KINDS.index("graph")
        # Where GPU work was recorded, a call that started none of it is a copy of nothing, or lost its record.
        started = ctx.launches.linked if ctx.launches.linked.any() else np.ones(len(launch_step), dtype=np.bool_)
        blocking = ctx.blocking[np.isin(trace.lane[ctx.blocking], ctx.lanes)]
        out = {
            "launches": self._per_step(launch_step[started]),
            "graphs": self._per_step(launch_step[graph]),
            "kernels": self._per_step(gpu_step[kernel]),
            "memsets": self._per_step(gpu_step[~copy & ~kernel]),
            "syncs": self._events(blocking),
            "allocations": self._events(allocation_calls(trace)),
            "ops": self._events(trace.rows("cpu_op")),
            "regions": self._events(ctx.events_matching(REGION)),
            "compilations": self._events(ctx.events_matching(_COMPILATION)),
        }
        for way in ("htod", "dtoh", "dtod", "ptop"):
            out[f"copies-{way}"] = self._per_step(gpu_step[copy & (kinds == f"memcpy-{way}")])
        known = np.isin(kinds, [f"memcpy-{way}" for way in ("htod", "dtoh", "dtod", "ptop")])
        out["copies-other"] = self._per_step(gpu_step[copy & ~known])
        return out

    def _per_step(self, step: Array) -> Array:
        n = len(self.ctx.steps)
        if not n:
            return np.array([len(step)])
        return np.bincount(step[step >= 0], minlength=n)[self.numbers]

    def _events(self, events: Array) -> Array:
        return self._per_step(self.ctx.step_of(events))

    # ---- CPU time by layer
    @cached_property
    def layer_times(self) -> dict[str, Array]:
        """ns of each step by layer, on the threads that launch; waits for the GPU are in none, ``python`` is the rest."""
        ctx, trace, tree = self.ctx, self.trace, self.trace.analysis(op_tree)
        own = self_times(trace, tree)
        layer = _layers(trace)[trace.name[tree.events]]
        category = trace.category[tree.events]
        layer[np.isin(category, [CATEGORY_CODES[c] for c in ("cuda_runtime", "cuda_driver")])] = LAYERS.index("calls")
        plain = (category == CATEGORY_CODES["user_annotation"]) & (layer == LAYERS.index("ops"))
        layer[plain | (category == CATEGORY_CODES["overhead"])] = len(LAYERS)
        layer[ctx.place[ctx.blocking]] = len(LAYERS)
        counted = np.isin(trace.lane[tree.events], ctx.lanes) & (layer < len(LAYERS))
        step = ctx.step_of(tree.events)
        n = len(ctx.steps)
        rows = np.flatnonzero(counted & (step >= 0))
        sums = np.zeros((len(LAYERS), max(n, 1)))
        np.add.at(sums, (layer[rows], step[rows]), own[rows])
        out = {name: sums[i][self.numbers] if n else sums[i] for i, name in enumerate(LAYERS)}
        if n:
            # What no op and no call takes; on a thread of its own the backward pass runs beside Python that waits for it.
            out["python"] = np.maximum(self.times["cpu"] - np.sum(list(out.values()), axis=0), 0)
        return out

    @cached_property
    def with_inputs(self) -> set[str]:
        """Names of the ops of which inputs were recorded."""
        events, inputs = self.trace.column("cpu_ops", "event"), self.trace.column("cpu_ops", "inputs")
        known = np.array([i is not None and i[0] is not None for i in self.trace.inputs] or [False])
        return {self.trace.strings[c] for c in np.unique(self.trace.name[events[(inputs >= 0) & known[np.maximum(inputs, 0)]]])}

    @cached_property
    def without_inputs(self) -> set[str]:
        """Names of the ops of which none were recorded."""
        return self.op_counts.keys() - self.with_inputs

    @cached_property
    def op_counts(self) -> dict[str, Array]:
        """Calls of each CPU op by name, one value a step."""
        rows = self.trace.rows("cpu_op")
        step = self.ctx.step_of(rows) if len(self.ctx.steps) else np.zeros(len(rows), dtype=np.int64)
        rows, step = rows[step >= 0], step[step >= 0]
        names, code = np.unique(self.trace.name[rows], return_inverse=True)
        n = max(len(self.ctx.steps), 1)
        table = np.bincount(code * n + step, minlength=len(names) * n).reshape(len(names), n)
        kept = table[:, self.numbers] if len(self.ctx.steps) else table
        return {self.trace.strings[c]: kept[i] for i, c in enumerate(names.tolist())}

    def launching_ns(self, places: list[int]) -> Array:
        """float (steps,): own CPU time of the ops that launch the GPU ops at some places of the usual step, each op once."""
        tree = self.trace.analysis(op_tree)
        own = self_times(self.trace, tree)
        owners = self.ctx.owner[self.sequence.rows[:, places]]
        found = [np.unique(row[row >= 0]) for row in owners]
        return np.array([own[self.ctx.place[row]].sum() for row in found], dtype=np.float64)

    def own_times(self, least: int) -> dict[str, tuple[float, float]]:
        """(median, sum) in ns of the own times of each op and call name that is called at least so often in the steps.

        On the launching threads; views, regions and calls that wait for the GPU are left out.
        """
        ctx, trace, tree = self.ctx, self.trace, self.trace.analysis(op_tree)
        own = self_times(trace, tree)
        category = trace.category[tree.events]
        chosen = np.isin(category, [CATEGORY_CODES[c] for c in ("cpu_op", "cuda_runtime", "cuda_driver")])
        chosen &= np.isin(trace.lane[tree.events], ctx.lanes)
        chosen[ctx.place[ctx.blocking]] = False
        if len(ctx.steps):
            chosen &= np.isin(ctx.step_of(tree.events), self.numbers)
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(trace.name[tree.events[rows]], kind="stable")]
        names, first = np.unique(trace.name[tree.events[rows]], return_index=True)
        groups = zip(names.tolist(), np.split(own[rows], first[1:]), strict=True) if len(rows) else []
        return {
            trace.strings[n]: (float(np.median(t)), float(t.sum())) for n, t in groups if len(t) >= least and np.median(t) > 0
        }


def _layers(trace: Trace) -> Array:
    """int64 (strings,): place in LAYERS of an event of each name."""
    out = np.full(max(len(trace.strings), 1), LAYERS.index("ops"), dtype=np.int64)
    for i, name in enumerate(trace.strings):
        if name in VIEW_OPS:
            out[i] = LAYERS.index("views")
            continue
        found = next((layer for layer, pattern in _LAYER_NAMES if pattern.search(name)), None)
        if found is not None:
            out[i] = LAYERS.index(found)
    return out
