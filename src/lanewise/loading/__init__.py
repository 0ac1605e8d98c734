"""From a file to a `Trace`: any shape of PyTorch profiler trace, sound or damaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanewise.model.notes import Note
from lanewise.model.trace import Trace, lanes_of

from .assembly import Assembly
from .header import base_time, devices_of, distributed_of
from .inputs import sound_inputs
from .reader import Document, Progress
from .reading import read_once, survey
from .selection import WindowAssembly, window_note
from .source import Source, TraceSource
from .texts import shown
from .window import Window

__all__ = ["Progress", "TraceSource", "Window", "load"]

_LARGEST_ID = 2**40  # of calls: they are counted from 1


def load(
    source: TraceSource, *, progress: Progress | None = None, processes: int | None = None, window: Window | None = None
) -> Trace:
    """Read a PyTorch profiler trace, or a window of it.

    Args:
        source: a path, ``-`` for standard input, a binary file object, or a URL (extra ``lanewise[fsspec]``); gzip or plain.
        progress: called now and then with the stored bytes read and their total (None where not known).
        processes: worker processes that decode beside this one; None decides by the size of the file, 0 uses none.
        window: the part that is wanted; the file is then read twice, and only this part is kept in memory.

    Returns:
        The trace. What was damaged, lost or cannot be known is in its ``notes``.

    Raises:
        LoadError: the file cannot be read; NotATraceError: it is something else; EmptyTraceError: it is empty.
        UsageError: a URL without fsspec, a file object in text mode, or a window that the trace does not have.
    """
    if window is None:
        return _trace(*read_once(source, progress, processes, None))
    selection, _ = survey(source, window, progress=progress, processes=processes)
    return _trace(*read_once(source, progress, processes, WindowAssembly(selection)))


def _trace(document: Document, source: Source) -> Trace:
    assembly, notes = document.assembly, document.notes
    tables = assembly.tables()
    notes += _notes_of(assembly)
    if "events" not in tables and not document.truncated:
        notes.append(Note("no-events"))
    _note_integer_times(tables, notes)
    _note_merged(tables, assembly, notes)
    if isinstance(assembly, WindowAssembly):
        notes.append(window_note(assembly.selection))
    used = np.unique(tables["gpu_ops"]["device"]).tolist() if "gpu_ops" in tables else []
    base = base_time(document.header)
    return Trace(
        path=source.name,
        format=_format(assembly),
        header=document.header,
        base_ns=0 if base is None and document.text_times else base,
        tables=tables,
        strings=assembly.strings,
        lanes=lanes_of(assembly.lanes, assembly.metadata),
        inputs=[sound_inputs(row) for row in assembly.inputs],
        devices=devices_of(document.header, used),
        distributed=distributed_of(document.header, source.name, notes),
        notes=notes,
        skipped_events=assembly.counts.get("skipped", 0) + document.lost.count,
        repaired_events=document.mended.count,
        stray_events=assembly.n_strays,
        truncated=document.truncated,
        file_bytes=source.position if source.size is None else source.size,
    )


def _notes_of(assembly: Assembly) -> list[Note]:
    """What there is to know of the events that were taken in, and of those that were not."""
    counts = assembly.counts
    found = {
        "no-time": counts.get("skipped", 0),
        "no-duration": counts.get("no_duration", 0),
        "strays": assembly.n_strays,
        "async": sum(counts.get(phase, 0) for phase in "beSF"),
    }
    notes = [Note(key, {"count": count}) for key, count in found.items() if count]
    begins, ends = counts.get("begins", 0), counts.get("ends", 0)
    if begins or ends:
        notes.append(Note("begin-end", {"begins": begins, "ends": ends}))
    unknown = dict(assembly.unknown_categories)
    if bare := unknown.pop("", 0):
        notes.append(Note("no-category", {"count": bare}))
    if unknown:
        names = ", ".join(shown(name) for name in sorted(unknown)[:6])
        notes.append(Note("unknown-category", {"count": sum(unknown.values()), "names": names}))
    return notes


def _note_merged(tables: dict[str, Any], assembly: Assembly, notes: list[Note]) -> None:
    """Every process counts correlation ids from 1, so traces merged into one file share most of them."""
    calls, lanes = tables.get("calls"), assembly.lanes
    if calls is None:
        return
    processes = {pid: number for number, pid in enumerate(dict.fromkeys(pid for pid, _ in lanes))}
    used = np.unique(tables["events"]["lane"][calls["event"]])
    if len({lanes[lane][0] for lane in used.tolist()}) < 2:
        return
    known = (calls["correlation"] > 0) & (calls["correlation"] < _LARGEST_ID)
    process = np.array([processes[pid] for pid, _ in lanes])[tables["events"]["lane"][calls["event"][known]]]
    pairs = np.unique(calls["correlation"][known] * len(processes) + process)
    _, callers = np.unique(pairs // len(processes), return_counts=True)
    if 2 * int((callers > 1).sum()) > len(callers):
        notes.append(Note("merged", {"count": len(np.unique(process))}))


def _format(assembly: Assembly) -> str:
    """Which exporter wrote the file, as far as its events tell."""
    counts = assembly.counts
    if counts.get("no category"):
        return "autograd-legacy"
    return "kineto-legacy" if counts.get("old spelling") else "kineto"


def _note_integer_times(tables: dict[str, Any], notes: list[Note]) -> None:
    """Traces of torch before 2.3 have whole microseconds."""
    gpu = tables.get("gpu_ops")
    if gpu is None or len(gpu["event"]) < 2:
        return
    events = gpu["event"]
    ts, dur = tables["events"]["ts"][events], tables["events"]["dur"][events]
    if not (ts % 1000).any() and not (dur % 1000).any():
        notes.append(Note("integer-times"))
