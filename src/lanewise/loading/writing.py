"""Writing a trace from the texts of its events."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from .event_texts import Text

__all__ = ["trace_file"]

# Text is about ten times as large as its gzip; level 4 takes a third of the time of level 9 and is 5 % larger.
_GZIP_LEVEL = 4


@contextmanager
def trace_file(out: str | os.PathLike[str], header: Mapping[str, Any] | None) -> Iterator[Callable[[Sequence[Text]], None]]:
    """A file that becomes a trace, as the function that writes texts of events into it.

    Args:
        out: the file, gzip when its name ends in ``.gz``. It appears when the block ends, unless by an exception.
        header: top-level keys other than the events; None writes a bare list of events.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(out)
    partial = path.with_name(path.name + ".partial")
    try:
        with _opened(partial, path.suffix == ".gz") as stream:
            stream.write(b"[" if header is None else _head(header))
            separator = b"\n"

            def write(texts: Sequence[Text]) -> None:
                nonlocal separator
                if texts:
                    stream.write(separator + b",\n".join(texts))
                    separator = b",\n"

            yield write
            stream.write(b"\n]" if header is None else b"\n]}")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _head(header: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(dict(header))[:-1] + (b",\n" if header else b"") + b'"traceEvents": ['


def _opened(path: Path, compressed: bool) -> IO[bytes]:
    if not compressed:
        return path.open("wb")
    stream: Any = gzip.GzipFile(path, "wb", compresslevel=_GZIP_LEVEL)
    return stream
