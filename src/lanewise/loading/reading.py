"""One reading of a source, or two where only a part of it is wanted."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from lanewise.errors import UsageError

from .assembly import Assembly
from .reader import Document, Progress, read_document, workers_for
from .selection import Selection
from .source import Source, TraceSource, open_source
from .surveying import Survey
from .texts import TEXTS
from .window import Window
from .workers import Workers

__all__ = ["read_once", "survey"]


def read_once(
    source: TraceSource, progress: Progress | None, processes: int | None, assembly: Assembly | None
) -> tuple[Document, Source]:
    """Read a source into an assembly (a fresh one when None), with as many processes as are worth it."""
    with open_source(source) as opened:
        n = workers_for(opened) if processes is None else processes
        workers = Workers(n, opened.descriptor) if n > 0 else None
        try:
            with _no_collections():
                return read_document(opened, progress, workers, assembly), opened
        finally:
            if workers is not None:
                workers.close()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without Python's search for cycles: records are in none, and there are many of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def survey(
    source: TraceSource, window: Window, *, progress: Progress | None = None, processes: int | None = None
) -> tuple[Selection, Document]:
    """Read a source for what belongs to a window of it; the document has the header and what to know about the file.

    A file object is left where it was.

    Raises:
        UsageError: the source can be read only once, or the trace does not have such a window.
    """
    begin = _position(source)
    found = Survey()
    document, opened = read_once(source, progress, processes, found)
    if not isinstance(source, str | os.PathLike):
        source.seek(begin)
    return found.selection(window, opened.name), document


def _position(source: TraceSource) -> int:
    """Where a file object stands; raises a UsageError for what can be read only once."""
    if isinstance(source, str | os.PathLike):
        if os.fspath(source) == "-":
            raise UsageError("-", TEXTS.message("read-once", source=TEXTS.message("stdin")), TEXTS.message("read-once-next"))
        return 0
    if not source.seekable():
        raise UsageError(
            "window", TEXTS.message("read-once", source=TEXTS.message("file-object")), TEXTS.message("read-once-next")
        )
    return source.tell()
