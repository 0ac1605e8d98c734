"""A copy of a trace for ui.perfetto.dev, in which nothing is hidden, and which says what lanewise found.

That viewer shows slices of one track as nested, and drops those that overlap otherwise: they go to extra lanes, at their own
times. Added, in a process of its own: the findings, the decoded names of GPU ops, and the steps as counters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import OUTSIDE_RANK
from lanewise.analyses.steps import steps
from lanewise.kernels import decode
from lanewise.loading.rewriting import Key, rewrite
from lanewise.model.schema import GPU_CATEGORIES
from lanewise.model.trace import Lane, Trace
from lanewise.report import Report
from lanewise.timeline.drawing import evidence_events
from lanewise.timeline.extra_lanes import extra_lanes

from .texts import TEXTS

__all__ = ["Exported", "export"]

Array = npt.NDArray[Any]

# Metadata events have a time too, which no viewer looks at.
_NO_ARGS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export did.

    Attributes:
        events: timed events of the trace.
        hidden: those that would have been dropped, now on extra lanes.
        lanes: extra lanes.
    """

    events: int
    hidden: int
    lanes: int


def export(trace: Trace, report: Report, path: str | os.PathLike[str], *, source: str | None = None) -> Exported:
    """Write the copy.

    Args:
        trace: the trace, read from a file.
        report: its report, whose language is that of the added names.
        path: the file to write, gzip when its name ends in ``.gz``.
        source: the file to copy; that of the trace where not given.

    Raises:
        LoadError: the file cannot be read again.
        OSError: the copy cannot be written.
    """
    threads = _free_threads(trace)
    moved, names, lanes = _moved(trace, threads)
    header = {key: value for key, value in trace.header.items() if key != "traceEvents"}
    header["lanewiseExport"] = {"for": "perfetto", "moved": sum(len(v) for v in moved.values()), "lanes": lanes}
    added = (msgspec.json.encode(event) for event in (*names, *_tracks(trace, report, threads)))
    hidden = rewrite(trace.path if source is None else source, path, header, moved, added)
    return Exported(len(trace), hidden, lanes)


def _free_threads(trace: Trace) -> Iterator[int]:
    """Numbers that no process and no thread of the trace has."""
    used = [value for lane in trace.lanes for value in (lane.pid, lane.tid) if isinstance(value, int | float)]
    # Viewers hold them in 32 bits.
    first = int(max([v for v in used if 0 <= v < 2**31 - 2**20] or [0])) + 1
    return iter(range(first, 2**31))


def _moved(trace: Trace, threads: Iterator[int]) -> tuple[dict[Key, list[Any]], list[dict[str, Any]], int]:
    """The events that change their lane with their new threads, the names of these, and how many lanes that makes."""
    moved: dict[Key, list[Any]] = {}
    names: list[dict[str, Any]] = []
    order = np.argsort(trace.lane, kind="stable")
    bounds = np.searchsorted(trace.lane[order], np.arange(len(trace.lanes) + 1))
    for number, lane in enumerate(trace.lanes):
        events = order[bounds[number] : bounds[number + 1]]
        extra = extra_lanes(trace.ts[events], trace.end[events], OUTSIDE_RANK[trace.category[events]])
        tids = [next(threads) for _ in range(int(extra.max(initial=0)))]
        names += [_thread(lane.pid, tid, f"{_label(lane)} +{i + 1}") for i, tid in enumerate(tids)]
        for event, place in zip(events[extra > 0].tolist(), extra[extra > 0].tolist(), strict=True):
            key = (lane.pid, lane.tid, int(trace.ts[event]), int(trace.dur[event]), trace.name_of(event))
            moved.setdefault(key, []).append(tids[place - 1])
    return moved, names, len(names)


def _label(lane: Lane) -> str:
    return lane.name or str(lane.tid)


def _thread(pid: Any, tid: Any, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _tracks(trace: Trace, report: Report, threads: Iterator[int]) -> Iterator[dict[str, Any]]:
    """The process of lanewise: findings, decoded names by stream, counters of the steps."""
    pid = next(threads)
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "lanewise"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": -1}}
    yield from _findings(trace, report, pid, threads)
    yield from _decoded(trace, report.lang, pid, threads)
    yield from _counters(trace, report.lang, pid)


def _findings(trace: Trace, report: Report, pid: int, threads: Iterator[int]) -> Iterator[dict[str, Any]]:
    rows = [
        (event, f"{number}: {f.title}", {"id": f.id, "text": f.text, "fix": f.fix, "evidence": trace.name_of(event)})
        for number, f in enumerate(report.findings, 1)
        for event in evidence_events(trace, f.evidence)
        if event >= 0
    ]
    rows.sort(key=lambda row: row[0])  # events are in order of their start
    events = np.array([row[0] for row in rows], dtype=np.int64)
    name = TEXTS("track-findings", report.lang)
    yield from _slices(trace, events, [(text, args) for _, text, args in rows], name, pid, threads)


def _decoded(trace: Trace, lang: str, pid: int, threads: Iterator[int]) -> Iterator[dict[str, Any]]:
    gpu = trace.rows(*GPU_CATEGORIES)
    labels = {int(code): decode(trace.strings[code]).label(lang) for code in np.unique(trace.name[gpu])}
    for number in np.unique(trace.lane[gpu]).tolist():
        events = gpu[trace.lane[gpu] == number]
        words = [(labels[code], _NO_ARGS) for code in trace.name[events].tolist()]
        name = TEXTS("track-decoded", lang, lane=_label(trace.lanes[number]))
        yield from _slices(trace, events, words, name, pid, threads)


def _slices(
    trace: Trace, events: Array, words: list[tuple[str, Mapping[str, Any]]], name: str, pid: int, threads: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """A track with a slice for each event, on as many lanes as it takes."""
    if not len(events):
        return
    extra = extra_lanes(trace.ts[events], trace.end[events], np.arange(len(events)))
    tids = [next(threads) for _ in range(int(extra.max()) + 1)]
    for place, tid in enumerate(tids):
        yield _thread(pid, tid, name if not place else f"{name} +{place}")
    times = zip(trace.ts[events].tolist(), trace.dur[events].tolist(), extra.tolist(), words, strict=True)
    for ts, dur, place, (text, args) in times:
        yield {
            "ph": "X",
            "cat": "lanewise",
            "name": text,
            "pid": pid,
            "tid": tids[place],
            "ts": _us(ts),
            "dur": _us(dur),
            **({"args": args} if args else {}),
        }


def _counters(trace: Trace, lang: str, pid: int) -> Iterator[dict[str, Any]]:
    """What each step costs, from its start on; to zero behind the last."""
    found = trace.analysis(steps)
    if not len(found):
        return
    columns = (
        ("step-time", found.time_ns / 1e6),
        ("step-gpu", np.maximum(found.gpu_busy_ns, 0) / 1e6),
        ("step-launches", found.launches),
    )
    for key, values in columns:
        known = found.gpu_busy_ns >= 0 if key == "step-gpu" else np.ones(len(found), dtype=np.bool_)
        points = zip(found.start[known].tolist(), values[known].tolist(), strict=True)
        for ts, value in (*points, (int(found.end[-1]), 0)):
            yield {
                "ph": "C",
                "name": TEXTS(f"track-{key}", lang),
                "pid": pid,
                "tid": 0,
                "ts": _us(ts),
                "args": {"value": value},
            }


def _us(ns: int) -> msgspec.Raw:
    """Nanoseconds as microseconds, exact: a double would not hold them."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return msgspec.Raw(f"{sign}{ns // 1000}.{ns % 1000:03d}".encode("ascii"))
