"""From a trace to its report: runs the analyses and rules and puts their results into the document."""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lanewise import report as doc
from lanewise.analyses.coverage import coverage, coverage_notes, idle_ns, idle_window
from lanewise.analyses.gpu_time import DeviceTime, device_times, true_span
from lanewise.analyses.steps import Steps, steps
from lanewise.analyses.tables import kernel_table, op_table
from lanewise.analyses.unprofiled import unprofiled_step
from lanewise.analyses.versions import versions
from lanewise.engine import diagnose
from lanewise.kernels import decode
from lanewise.loading import load
from lanewise.model.notes import Note
from lanewise.model.trace import Trace
from lanewise.report import us
from lanewise.roofline import roofline
from lanewise.rules.context import Context
from lanewise.translations import LANGUAGES
from lanewise.verdict import verdict, where_time_goes
from lanewise.version import __version__

__all__ = ["explain"]

T = TypeVar("T")


def explain(trace: Trace | str | os.PathLike[str], lang: str = "en") -> doc.Report:
    """Explain a trace.

    Args:
        trace: a trace as `lanewise.load` gives it, or its path.
        lang: language of the texts, ``en`` or ``ja``.

    Raises:
        ValueError: there are no texts in this language.
        LoadError: the path could not be read as a trace.
    """
    if lang not in LANGUAGES:
        raise ValueError(f"lang: {lang!r} is none of {', '.join(LANGUAGES)}")
    if not isinstance(trace, Trace):
        trace = load(trace)
    tables = _Beside(_tables, trace, lang)
    found = trace.analysis(steps)
    notes = [*trace.notes, *coverage_notes(trace)]
    source = unprofiled_step(trace)
    if len(found) and source is None:
        notes.append(Note("profiled-time"))
    context = Context(trace)
    diagnosis = diagnose(context, lang)
    ops, kernels, roofs = tables.result()
    return doc.Report(
        schema=doc.SCHEMA,
        generator=f"lanewise {__version__}",
        lang=lang,
        trace=_trace_section(trace, notes, lang),
        coverage=_coverage_section(trace),
        gpu=[_gpu_row(trace, d) for d in trace.analysis(device_times)],
        step=_step_section(found, source),
        steps=_step_rows(trace, found),
        ops=ops,
        kernels=kernels,
        verdict=verdict(context, diagnosis.findings, lang),
        where=_where_rows(context),
        findings=diagnosis.findings,
        checks=diagnosis.checks,
        roofline=roofs,
    )


def _tables(trace: Trace, lang: str) -> tuple[list[doc.OpRow], list[doc.KernelRow], doc.Roofline]:
    """What is beside the findings."""
    return _op_rows(trace), _kernel_rows(trace, lang), roofline(trace, lang)


class _Beside(Generic[T]):
    """What a function of a trace gives, computed in a thread of its own: NumPy lets two threads work at once."""

    def __init__(self, function: Callable[[Trace, str], T], trace: Trace, lang: str) -> None:
        self._function, self._trace, self._lang = function, trace, lang
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function(self._trace, self._lang)
        except BaseException as error:  # noqa: BLE001  raised where the result is asked for
            self._error = error

    def result(self) -> T:
        """Wait for it; raises what the function raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value


def _trace_section(trace: Trace, notes: list[Note], lang: str) -> doc.TraceSection:
    span = trace.analysis(true_span)
    capabilities = list(trace.capabilities)
    if len(trace.analysis(steps)):
        capabilities.append("steps")
    rank = trace.distributed.rank
    return doc.TraceSection(
        path=trace.path,
        format=trace.format,
        events=len(trace) + trace.stray_events,
        skipped_events=trace.skipped_events,
        repaired_events=trace.repaired_events,
        stray_events=trace.stray_events,
        truncated=trace.truncated,
        span_us=None if span is None else us(span[1] - span[0]),
        ranks=[] if rank is None else [rank],
        world_size=trace.distributed.world_size,
        devices=[doc.Device(d.index, d.name, d.sms) for d in trace.devices],
        capabilities=capabilities,
        warnings=[doc.TraceWarning(n.id, n.text(lang)) for n in notes],
        file_bytes=trace.file_bytes,
        versions=trace.analysis(versions),
    )


def _coverage_section(trace: Trace) -> doc.CoverageSection:
    c = trace.analysis(coverage)
    return doc.CoverageSection(c.launches, c.linked, c.gpu_ops, c.gpu_ops_linked, c.gpu_timing)


def _known(ns: int) -> float:
    return round(ns / 1000, 3)


def _gpu_row(trace: Trace, d: DeviceTime) -> doc.GpuRow:
    window = trace.analysis(idle_window)
    return doc.GpuRow(
        device=d.device,
        name=trace.device(d.device).name,
        ops=d.ops,
        busy_us=_known(d.busy_ns),
        idle_us=us(idle_ns(trace, d.device)),
        window_us=None if window is None else us(window[1] - window[0]),
        sum_us=_known(d.sum_ns),
        compute_us=_known(d.by_kind["compute"]),
        communication_us=_known(d.by_kind["communication"]),
        copy_us=_known(d.by_kind["copy"]),
        memset_us=_known(d.by_kind["memset"]),
        exposed_communication_us=_known(d.exposed_communication_ns),
        streams=[doc.StreamRow(s.stream, s.ops, _known(s.busy_ns)) for s in d.streams],
    )


def _median(values: Any) -> float | None:
    return statistics.median(int(v) for v in values) if len(values) else None


def _step_section(found: Steps, unprofiled: dict[str, Any] | None) -> doc.StepSection:
    busy = found.gpu_busy_ns[found.gpu_busy_ns >= 0]
    profiled = us(_median(found.time_ns))
    n = unprofiled.get("steps") if unprofiled else None
    return doc.StepSection(
        count=len(found),
        time_us=profiled if unprofiled is None else round(float(unprofiled["median"]), 3),
        source="unprofiled" if unprofiled else "profiled" if len(found) else None,
        wall_us=us(_median(found.wall_ns)),
        gpu_busy_us=us(_median(busy)),
        profiled_time_us=profiled,
        marks=found.marks,
        unprofiled_steps=n if isinstance(n, int) else None,
    )


def _step_rows(trace: Trace, found: Steps) -> list[doc.StepRow]:
    gpu_ops = found.gpu_ops
    return [
        doc.StepRow(
            name=trace.name_of(int(found.event[i])),
            index=int(found.index[i]),
            wall_us=_known(int(found.wall_ns[i])),
            time_us=_known(int(found.time_ns[i])),
            gpu_busy_us=None if found.gpu_busy_ns[i] < 0 else _known(int(found.gpu_busy_ns[i])),
            gpu_ops=int(gpu_ops[i]),
            kernels=int(found.kernels[i]),
            copies=int(found.copies[i]),
            memsets=int(found.memsets[i]),
            launches=int(found.launches[i]),
            start_us=_known(int(found.start[i])),
        )
        for i in range(len(found))
    ]


def _op_rows(trace: Trace) -> list[doc.OpRow]:
    return [
        doc.OpRow(
            r.name,
            r.cat,
            r.count,
            _known(r.cpu_total_ns),
            _known(r.cpu_self_ns),
            _known(r.gpu_total_ns),
            _known(r.gpu_self_ns),
            r.gpu_ops,
        )
        for r in op_table(trace)
    ]


def _kernel_rows(trace: Trace, lang: str) -> list[doc.KernelRow]:
    return [
        doc.KernelRow(
            name=r.name,
            kind=r.kind,
            label=decode(r.name).label(lang) if r.kind is not None else r.name[:40],
            count=r.count,
            total_us=_known(r.total_ns),
            mean_us=round(r.mean_ns / 1000, 3),
            median_us=round(r.median_ns / 1000, 3),
            ops=list(r.ops),
        )
        for r in kernel_table(trace)
    ]


def _where_rows(context: Context) -> list[doc.WhereRow]:
    where = where_time_goes(context)
    if where is None or not where.step_ns:
        return []
    return [doc.WhereRow(c, round(ns / 1000, 3), round(ns / where.step_ns, 4)) for c, ns in where.causes.items() if ns > 0]
