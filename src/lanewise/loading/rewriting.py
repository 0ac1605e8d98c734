"""Copying a trace with some of its events on other lanes and more events added; all else is copied as the text that it is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from .decoding import DECODE_ERRORS
from .event_texts import EventTexts, Text
from .exact import NO_TIME, exact_ns
from .reader import Progress
from .source import TraceSource, open_source
from .writing import trace_file

__all__ = ["Key", "rewrite"]

Key = tuple[Any, Any, int, int, str]
"""An event: process, thread, start and duration in ns, name."""


class _Place(Struct, gc=False):
    """What tells an event from others."""

    ph: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: Raw = Raw(b"")
    dur: float | None = None
    name: str | None = None


class _Start(Struct, gc=False):
    ts: Raw = Raw(b"")


_starts = msgspec.json.Decoder(list[_Start])
_place = msgspec.json.Decoder(_Place)
_whole = msgspec.json.Decoder(dict[str, Raw])


def rewrite(
    source: TraceSource,
    out: str | os.PathLike[str],
    header: Mapping[str, Any],
    moved: Mapping[Key, list[Any]],
    added: Iterable[bytes],
    *,
    progress: Progress | None = None,
) -> int:
    """Copy a trace; the number of events that went to another lane.

    Args:
        source: as for `lanewise.load`.
        out: the file to write, gzip when its name ends in ``.gz``. It appears when it is complete.
        header: top-level keys other than the events.
        moved: the threads that events go to; several events may have one key.
        added: texts of events to add.
        progress: called with the stored bytes read.

    Raises:
        LoadError: the source cannot be read.
        OSError: the file cannot be written.
    """
    done: Counter[Key] = Counter()
    moments = np.unique(np.array([key[2] for key in moved], dtype=np.int64))
    with open_source(source) as opened, trace_file(out, header) as write:
        for texts in EventTexts(opened, progress).chunks():
            write(_on_their_lanes(texts, moved, moments, done))
        for text in added:
            write([text])
    return sum(done.values())


def _on_their_lanes(texts: list[Text], moved: Mapping[Key, list[Any]], moments: Any, done: Counter[Key]) -> list[Text]:
    """The texts of a chunk; only those that start when one that moves does are looked at more closely."""
    if not moved:
        return texts
    try:
        ts = exact_ns([e.ts for e in _starts.decode(b"[" + b",".join(texts) + b"]")])
    except DECODE_ERRORS:
        return [_moved(t, moved, done) for t in texts]
    for i in np.flatnonzero(np.isin(ts, moments)).tolist():
        texts[i] = _moved(texts[i], moved, done)
    return texts


def _moved(text: Text, moved: Mapping[Key, list[Any]], done: Counter[Key]) -> Text:
    """An event's text, on its other lane where it has one."""
    try:
        event = _place.decode(text)
    except DECODE_ERRORS:
        return text
    if event.ph != "X" or event.dur is None:
        return text
    ts = int(exact_ns([event.ts])[0])
    key = (event.pid, event.tid, ts, round(event.dur * 1000), event.name or "")
    if ts == NO_TIME or key not in moved or done[key] >= len(moved[key]):
        return text
    whole = _whole.decode(text)
    whole["tid"] = Raw(msgspec.json.encode(moved[key][done[key]]))
    done[key] += 1
    return msgspec.json.encode(whole)
