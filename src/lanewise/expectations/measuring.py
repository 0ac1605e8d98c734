"""Expectations of figures: shares of time, memory, and times as parts of other times, with the noise that these have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise import units
from lanewise.analyses.coverage import coverage
from lanewise.analyses.gpu_time import gpu_op_times
from lanewise.analyses.steps import steps
from lanewise.analyses.unprofiled import unprofiled_mad, unprofiled_step
from lanewise.comparison.noise import BUSY_RUN, CPU_RUN, GPU_BOUND_RUN, PROFILED_CPU_RUN, median_error, standard_error
from lanewise.engine import Diagnosis, diagnose
from lanewise.errors import UsageError
from lanewise.expectations.bounds import Bound
from lanewise.expectations.document import Outcome
from lanewise.expectations.items import gpu_rows
from lanewise.expectations.parts import Part, annotation_parts, step_parts, usual_parts
from lanewise.expectations.reading import Baseline, Entry, Ratio
from lanewise.expectations.texts import EXPECT
from lanewise.model.intervals import length, union
from lanewise.model.trace import Trace
from lanewise.roofline import roofline
from lanewise.rules.context import Context

__all__ = ["GPU_BOUND", "Measuring"]

Array = npt.NDArray[Any]
# A value or None, what to know about it or why there is none, and lines of evidence.
Figure = tuple[float | None, str | None, list[str]]
# A median in ns and its standard error.
Measured = tuple[float, float]

# With less of the GPU time known, the share at the limit says more about what is not known than about the rest.
_KNOWN_AT_LEAST = 0.5
# From this share of the step on, the GPU and not the CPU decides a step's time: as in `lanewise diff`.
GPU_BOUND = 0.92
# Standard errors of a median that a figure must be outside by.
_ERRORS = 3.5
_CUDA = 1  # c10's DeviceType, as memory events have it


class Measuring:
    """Figures of one trace."""

    def __init__(self, trace: Trace, lang: str) -> None:
        self.trace, self.lang = trace, lang

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What the rules say."""
        return diagnose(Context(self.trace), self.lang)

    # ---- figures of a section
    def figure(self, where: str, entry: Entry, parts: Sequence[Part]) -> Outcome:
        """A share of time or a size, by its key."""
        answer = {"gpu_busy_share": self.busy_share, "limit_share": self.limit_share, "peak_memory": self.peak_bytes}[
            entry.key.name
        ]
        value, reason, evidence = answer(parts)
        assert entry.bound is not None
        if value is None:
            return Outcome(where, entry.label, entry.wanted, "not-checked", reason=reason)
        text = units.size(value, self.lang) if entry.key.form == "size" else units.percent(value, self.lang)
        status = "held" if entry.bound.holds(value) else "breached"
        return Outcome(where, entry.label, entry.wanted, status, text, evidence if status == "breached" else [], reason)

    def busy_share(self, parts: Sequence[Part]) -> Figure:
        """Median over some steps of GPU busy time over the step's time."""
        found = self.trace.analysis(steps)
        if self.trace.analysis(coverage).gpu_timing != "ok":
            return None, EXPECT("no-timing", self.lang), []
        wanted = np.isin(found.index, [p.step for p in parts if p.step is not None]) & (found.time_ns > 0)
        if not wanted.any():
            return None, EXPECT("no-steps-here", self.lang), []
        value = float(np.median(found.gpu_busy_ns[wanted] / found.time_ns[wanted]))
        from lanewise.verdict import verdict

        text = verdict(Context(self.trace), self.diagnosis.findings, self.lang).text
        return value, None, [text]

    def limit_share(self, parts: Sequence[Part]) -> Figure:
        """Time at the card's limits over time, of a usual step's GPU ops whose limit is known."""
        found = roofline(self.trace, self.lang)
        times = found.step if found is not None else None
        if times is None or not times.known_us or not times.gpu_us:
            return None, EXPECT("no-limit", self.lang), []
        known = times.known_us / times.gpu_us
        if known < _KNOWN_AT_LEAST:
            return None, EXPECT("little-known", self.lang, share=units.percent(known, self.lang)), []
        reason = EXPECT("limit-of", self.lang, share=units.percent(known, self.lang)) if known < 0.995 else None
        assert found is not None
        worst = sorted(found.kernels, key=lambda k: -(k.headroom_us_per_step or 0.0))[:3]
        lines = [
            EXPECT("headroom", self.lang, label=k.label, time=units.duration((k.headroom_us_per_step or 0.0) * 1000, self.lang))
            for k in worst
            if k.headroom_us_per_step
        ]
        return times.limit_us / times.known_us, reason, lines

    def peak_bytes(self, parts: Sequence[Part]) -> Figure:
        """Most bytes allocated on a GPU at a time in some parts."""
        ts, total = self.trace.column("memory", "ts"), self.trace.column("memory", "total_allocated")
        on_gpu = (self.trace.column("memory", "device_type") == _CUDA) & (total >= 0) if len(ts) else np.zeros(0, dtype=bool)
        if not on_gpu.any():
            return None, EXPECT("no-memory", self.lang), []
        best, where = -1, None
        for part in parts:
            mine = on_gpu & (ts >= part.begin) & (ts < part.end)
            if mine.any() and int(total[mine].max()) > best:
                best, where = int(total[mine].max()), part
        if where is None:
            return None, EXPECT("no-memory-here", self.lang), []
        evidence = [] if where.step is None else [EXPECT("peak-in", self.lang, step=where.step)]
        return float(best), None, evidence

    # ---- times as parts of times
    def _times(self, what: str, kind: str) -> Array | None:
        """Times of the usual calls of a step or annotation; several calls in a step count together. None where not known."""
        parts = step_parts(self.trace) if what == "step" else annotation_parts(self.trace, what)
        parts = usual_parts(parts)
        if not parts or (kind == "gpu" and self.trace.analysis(coverage).gpu_timing != "ok"):
            return None
        times = self.trace.analysis(gpu_op_times)
        by_step: dict[int | None, float] = {}
        for part in parts:
            if kind == "wall":
                ns = float(part.end - part.begin)
            else:
                rows = gpu_rows(self.trace, part)
                ns = float(length(union(times.ts[rows], times.end[rows])))
            by_step[part.step] = by_step.get(part.step, 0.0) + ns
        return np.array(list(by_step.values()))

    def ratio(self, wanted: Ratio) -> Outcome:
        """A time as a part of another of the same trace."""
        key = f"{wanted.time}: {wanted.of} / {wanted.to}"
        try:
            part, whole = (_measured(self._times(what, wanted.time)) for what in (wanted.of, wanted.to))
        except UsageError as error:
            return Outcome("ratio", key, wanted.bound.text, "not-checked", reason=error.text(self.lang))
        if part is None or whole is None or not whole[0]:
            return Outcome("ratio", key, wanted.bound.text, "not-checked", reason=EXPECT("no-times", self.lang))
        return self._judged("ratio", key, wanted.bound, part, whole, 0.0)

    def against(self, wanted: Baseline, folder: Path) -> list[Outcome]:
        """Times as parts of those of another trace.

        Raises:
            UsageError, LoadError: that trace cannot be read.
        """
        from lanewise.loading import load

        path = folder / wanted.trace
        if not path.exists():
            raise UsageError(str(path), EXPECT.message("no-baseline"))
        base = Measuring(load(str(path)), self.lang)
        out = []
        for key, bound in wanted.bounds:
            new, old, run = self._beside(base, key)
            if new is None or old is None or not old[0]:
                out.append(Outcome("baseline", key, bound.text, "not-checked", reason=EXPECT("no-times", self.lang)))
                continue
            out.append(self._judged("baseline", key, bound, new, old, run))
        return out

    def _beside(self, base: Measuring, key: str) -> tuple[Measured | None, Measured | None, float]:
        """A time of this trace and of its baseline, and what two recordings of one program differ by in it.

        Steps are compared by their time outside the profiler where both have it.
        """
        if key == "gpu_time":
            new, old = (m._times("step", "gpu") for m in (self, base))
            return _measured(new), _measured(old), BUSY_RUN
        bound_by_gpu = all(m._gpu_bound() for m in (self, base))
        real = self._real_step(), base._real_step()
        if None not in real:
            return (*real, GPU_BOUND_RUN if bound_by_gpu else CPU_RUN)
        new, old = self._step_times(), base._step_times()
        return _measured(new), _measured(old), GPU_BOUND_RUN if bound_by_gpu else PROFILED_CPU_RUN

    def _real_step(self) -> Measured | None:
        """The step's time outside the profiler, as the recorder measured it."""
        timed = unprofiled_step(self.trace)
        if timed is None:
            return None
        count = timed.get("steps")
        error = median_error(unprofiled_mad(timed), count) if isinstance(count, int) and count > 0 else 0.0
        return float(timed["median"]) * 1000, error * 1000

    def _step_times(self) -> Array | None:
        """What each usual step adds to the run."""
        found = self.trace.analysis(steps)
        mine = np.isin(found.index, [p.step for p in usual_parts(step_parts(self.trace)) if p.step is not None])
        return found.time_ns[mine].astype(np.float64) if mine.any() else None

    def _gpu_bound(self) -> bool:
        found = self.trace.analysis(steps)
        known = (found.gpu_busy_ns >= 0) & (found.time_ns > 0)
        return bool(known.any()) and float(np.median(found.gpu_busy_ns[known] / found.time_ns[known])) >= GPU_BOUND

    def _judged(self, where: str, key: str, bound: Bound, part: Measured, whole: Measured, run: float) -> Outcome:
        """A ratio of medians: breached only where it is outside by more than its own noise and that between runs."""
        (a, error_a), (b, error_b) = part, whole
        ratio = a / b
        error = _ERRORS * ratio * math.hypot(error_a / a if a else 0.0, error_b / b)
        margin = ratio * run + error
        text = f"{units.percent(ratio, self.lang)} ({units.duration(a, self.lang)} / {units.duration(b, self.lang)})"
        noise = EXPECT("noise" if run else "spread", self.lang, margin=units.percent(margin, self.lang))
        if bound.holds(ratio):
            return Outcome(where, key, bound.text, "held", text)
        if bound.meets(ratio / (1 + run) - error, ratio + margin):
            # Neither held nor broken: these recordings do not tell.
            return Outcome(where, key, bound.text, "not-checked", text, reason=EXPECT("within-noise", self.lang, noise=noise))
        return Outcome(where, key, bound.text, "breached", text, [noise])


def _measured(values: Array | None) -> Measured | None:
    """Median of some times and its standard error."""
    return None if values is None else (float(np.median(values)), standard_error(values))
