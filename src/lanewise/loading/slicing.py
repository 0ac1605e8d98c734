"""Cutting a window out of a trace into a small file, which other viewers open too.

The source is read twice, front to back, in memory that does not grow with it: a survey finds what belongs to the window, then
events are copied as the text that they are. Only damaged events are rewritten.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from lanewise.model.schema import CATEGORY_CODES, GPU_CATEGORIES, canonical_category

from .decoding import DECODE_ERRORS
from .event_texts import EventTexts, Text
from .exact import NO_TIME, exact_ns
from .numbering import Numbering
from .reader import Progress
from .reading import survey
from .selection import Selection
from .source import TraceSource, open_source
from .values import floats, integers
from .window import Window
from .writing import trace_file

__all__ = ["SliceResult", "slice_trace"]

Array = npt.NDArray[Any]

_GPU_CODES = [CATEGORY_CODES[c] for c in GPU_CATEGORIES]
_CALL_CODES = [CATEGORY_CODES[c] for c in ("cuda_runtime", "cuda_driver")]
_GPU_ANNOTATION, _PROFILER = CATEGORY_CODES["gpu_user_annotation"], CATEGORY_CODES["Trace"]
_FLOWS = frozenset("stf")


class _Args(Struct, gc=False):
    correlation: int | float | str | None = -1


class _Event(Struct, gc=False):
    """What decides whether an event belongs to a window."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    ts: Raw = Raw(b"")
    dur: float | None = None
    id: int | float | str | None = None
    args: _Args | None = None


_events = msgspec.json.Decoder(list[_Event])
_event = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class SliceResult:
    """What a slice holds.

    Attributes:
        selection: the window.
        seen, kept: timed events of the source and of the slice.
        gpu_ops, earlier_gpu_ops: GPU ops of the slice, and those of them that calls before the window launched.
        flows, open_flows: arrows kept, and arrows with only one end in the window, left out.
        mended, lost: damaged events that were mended, and that were left out.
    """

    selection: Selection
    seen: int = 0
    kept: int = 0
    gpu_ops: int = 0
    earlier_gpu_ops: int = 0
    flows: int = 0
    open_flows: int = 0
    mended: int = 0
    lost: int = 0
    _arrows: dict[tuple[Any, Any], _Arrow] = field(default_factory=dict)


@dataclass(slots=True)
class _Arrow:
    """An arrow whose two ends may be far apart in the file."""

    starts: bool = False
    ends: bool = False
    waiting: list[bytes] = field(default_factory=list)


def slice_trace(
    source: TraceSource,
    out: str | os.PathLike[str],
    window: Window,
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> SliceResult:
    """Write a window of a trace to a file.

    Kept: the header, names of processes and threads, what `window` describes as belonging to a window, and arrows both of
    whose ends are in it. The header gains a key ``lanewiseSlice`` that says what was cut out.

    Args:
        source: as for `lanewise.load`; a pipe cannot be read twice and is refused.
        out: the file to write, gzip when its name ends in ``.gz``. It appears when it is complete.
        window: what to cut out.
        progress: called with the stored bytes read; twice over the file.
        processes: as for `lanewise.load`, for the first reading.

    Raises:
        LoadError: the source cannot be read. UsageError: the trace does not have such a window.
        OSError: the file cannot be written.
    """
    selection, document = survey(source, window, progress=progress, processes=processes)
    result = SliceResult(selection, seen=selection.n_pairs, kept=len(selection.begins))
    header = {**document.header, "lanewiseSlice": _about(selection)}
    with open_source(source) as opened, trace_file(out, None if document.bare else header) as write:
        events = EventTexts(opened, progress)
        for texts in events.chunks():
            write(_chosen(texts, result))
    result.mended, result.lost = events.mended, events.lost
    whole = sum(1 for a in result._arrows.values() if a.starts and a.ends)
    result.flows, result.open_flows = whole, len(result._arrows) - whole
    return result


def _about(selection: Selection) -> dict[str, Any]:
    """What the slice says about itself; times in microseconds, as the trace counts them."""
    return {
        "begin_us": selection.begin / 1000,
        "end_us": selection.end / 1000,
        "steps": [m[3] for m in selection.marks],
    }


def _chosen(texts: list[Text], result: SliceResult) -> list[Text]:
    """Those of a chunk's events that belong to the window."""
    if not texts:
        return []
    events = _decoded(texts)
    ts = exact_ns([e.ts for e in events])
    phase = [e.ph for e in events]
    span = np.array([p == "X" for p in phase], dtype=np.bool_)
    keep = _spans_kept(events, ts, span, result)
    flow = np.array([p in _FLOWS if p else False for p in phase], dtype=np.bool_)
    metadata = np.array([p == "M" for p in phase], dtype=np.bool_)
    timed = ts != NO_TIME
    begin, end = (np.array([p == half for p in phase], dtype=np.bool_) for half in "BE")
    keep |= (begin & np.isin(ts, result.selection.begins)) | (end & np.isin(ts, result.selection.ends))
    other = ~(span | flow | metadata | begin | end)
    keep |= metadata | (other & timed & result.selection.on_cpu(ts, ts))
    flow &= timed & result.selection.holds_end(ts)
    out = [texts[i] for i in np.flatnonzero(keep).tolist()]
    for i in np.flatnonzero(flow).tolist():
        out += _arrow(events[i], texts[i], result)
    return out


def _decoded(texts: list[Text]) -> list[_Event]:
    try:
        return _events.decode(b"[" + b",".join(texts) + b"]")
    except DECODE_ERRORS:
        return [_decoded_one(t) for t in texts]


def _decoded_one(text: Text) -> _Event:
    """An event whose fields have unusual types decides by those that it can be judged by."""
    try:
        return _event.decode(text)
    except DECODE_ERRORS:
        try:
            loose = msgspec.json.decode(text, type=dict[str, Raw])
        except DECODE_ERRORS:  # an entry that is no event
            return _Event()
        return _Event(ph="X" if bytes(loose.get("ph", Raw(b""))) == b'"X"' else None, ts=loose.get("ts", Raw(b"")))


def _spans_kept(events: list[_Event], ts: Array, span: Array, result: SliceResult) -> Array:
    """bool (events,): timed events that belong to the window."""
    keep = np.zeros(len(events), dtype=np.bool_)
    rows = np.flatnonzero(span & (ts != NO_TIME))
    if not len(rows):
        return keep
    some = [events[i] for i in rows.tolist()]
    begin = ts[rows]
    end = begin + np.rint(np.nan_to_num(floats([e.dur for e in some])) * 1000).astype(np.int64)
    categories = Numbering()
    raw = categories.codes([e.cat if e.cat is not None else _category(e) for e in some])
    code = np.array([CATEGORY_CODES[canonical_category(c)] for c in categories.values()], dtype=np.int16)[raw]
    ids = integers([-1 if e.args is None else e.args.correlation for e in some])
    selection = result.selection
    chosen = selection.on_cpu(begin, end)
    gpu, call = np.isin(code, _GPU_CODES), np.isin(code, _CALL_CODES)
    chosen[gpu] = selection.on_gpu(begin[gpu], end[gpu], ids[gpu])
    chosen[call] |= np.isin(ids[call], selection.before)
    annotation = code == _GPU_ANNOTATION
    chosen[annotation] = selection.in_gpu_time(begin[annotation], end[annotation])
    if selection.foreign:
        names = Numbering()
        name = names.codes([e.name or "" for e in some])
        chosen &= ~selection.foreign_marks(names.values(), name, begin)
    profiler = code == _PROFILER
    chosen &= ~profiler
    result.seen += int((~profiler).sum())
    result.kept += int(chosen.sum())
    result.gpu_ops += int((chosen & gpu).sum())
    result.earlier_gpu_ops += int((chosen & gpu & ~np.isin(ids, selection.calls)).sum())
    keep[rows[chosen]] = True
    return keep


def _category(event: _Event) -> str | None:
    """The category of an event of the exporter before Kineto, which has none."""
    if event.pid == "CUDA functions":
        return "kernel"
    return "cpu_op" if event.pid == "CPU functions" else None


def _arrow(event: _Event, text: Text, result: SliceResult) -> list[bytes]:
    """The texts that can be written now that another end of an arrow has come."""
    arrow = result._arrows.setdefault((event.cat, event.id), _Arrow())
    if event.ph == "s":
        arrow.starts = True
    else:
        arrow.ends = True
    arrow.waiting.append(bytes(text))  # a copy, since the text of a chunk keeps all of the chunk
    if not (arrow.starts and arrow.ends):
        return []
    out, arrow.waiting = arrow.waiting, []
    return out
