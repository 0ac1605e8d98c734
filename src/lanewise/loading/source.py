"""Where the bytes of a trace come from: a path, an open file, standard input or an fsspec URL, plain or gzip.

A source is read once, from front to back, in blocks of bounded size. gzip is recognised by its first bytes, never by the name,
and inflated as it streams, over any number of members. A damaged or cut gzip stream ends the data and leaves a note.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from lanewise.errors import EmptyTraceError, LoadError, NotATraceError, UsageError
from lanewise.model.notes import Note

from .texts import TEXTS

_inflater: Any
try:
    from isal import isal_zlib as _inflater
except ImportError:  # no wheel for this platform: the standard library is slower and reads the same
    _inflater = zlib

__all__ = ["BLOCK_BYTES", "Source", "TraceSource", "open_source"]

TraceSource = str | os.PathLike[str] | IO[bytes]

# Decompressed bytes handed on at a time. Larger blocks cost memory (about 12 times this while one is decoded), smaller ones
# cost time per block; between 1 and 16 MiB the speed differs by less than 3 %.
BLOCK_BYTES = 4 << 20
_COMPRESSED_BYTES = 1 << 20
_PIECE_BYTES = 2 << 10  # handed to the decompressor at a time: all before a damaged piece is kept
_TRAILER_BYTES = 8  # checksum and size at the end of a gzip member
_GZIP = b"\x1f\x8b"
_MOST_LISTED = 5000  # files of a folder that are looked at for a hint


class Source:
    """One input, opened.

    Attributes:
        name: what messages call it: the path as given, ``<stdin>``, or the file object's name.
        size: bytes of the input as stored, or None where that is not known (a pipe).
        position: stored bytes read so far.
        compressed: whether the input is gzip.
        notes: what was wrong with the container.
        cut: whether the container ended before its end mark.
        descriptor: of a regular file, for reading at any place of it; None for all else.
    """

    def __init__(self, name: str, stream: IO[bytes], size: int | None, *, close: bool, descriptor: int | None = None) -> None:
        self.name = name
        self.size = size
        self.descriptor = descriptor
        self.position = 0
        self.compressed = False
        self.cut = False
        self.notes: list[Note] = []
        self._stream = stream
        self._close = close

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._close:
            self._stream.close()

    def _read(self, n: int) -> bytes:
        """The next n bytes; fewer only at the end, however little a pipe gives at a time."""
        parts, missing = [], n
        while missing > 0:
            try:
                data: Any = self._stream.read(missing)
            except Exception as why:  # file objects and file systems of others raise what they like
                fact = getattr(why, "strerror", None) or str(why) or type(why).__name__
                raise LoadError(self.name, TEXTS.message("not-read", why=fact)) from why
            if isinstance(data, str):
                raise UsageError(self.name, TEXTS.message("text-mode"), TEXTS.message("text-mode-next"))
            if not data:
                break
            parts.append(bytes(data))
            missing -= len(data)
        self.position += n - missing
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def blocks(self) -> Iterator[bytes]:
        """The decompressed content in blocks of at most about BLOCK_BYTES; raises EmptyTraceError for an empty input."""
        first = self._read(min(_COMPRESSED_BYTES, BLOCK_BYTES))
        if not first:
            raise EmptyTraceError(self.name, TEXTS.message("empty"), TEXTS.message("empty-next"))
        if first[:2] == _GZIP:
            self.compressed = True
            yield from _gathered(self._inflated(first))
            return
        yield first
        while block := self._read(BLOCK_BYTES):
            yield block

    def stored_blocks(self, descriptor: int) -> Iterator[tuple[int, int]]:
        """Begin and end of what `blocks` gave so far of a plain file, then of each block that it would give, unread.

        What `blocks` gives after that follows on it.
        """
        yield 0, self.position
        size = os.fstat(descriptor).st_size
        while self.position < size:
            begin, self.position = self.position, min(self.position + BLOCK_BYTES, size)
            self._stream.seek(self.position)
            yield begin, self.position

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        """Members of a gzip stream one after the other; what still inflates of a damaged one is kept."""
        member, at = _inflater.decompressobj(31), 0
        while data:
            # In small pieces, since one with an error in it gives nothing; the trailer, whose checksum may be wrong, by itself.
            left = len(data) - at
            piece = data[at : at + (min(_PIECE_BYTES, left - _TRAILER_BYTES) if left > _TRAILER_BYTES else 1)]
            try:
                yield member.decompress(piece, BLOCK_BYTES)
                while member.unconsumed_tail:
                    yield member.decompress(member.unconsumed_tail, BLOCK_BYTES)
            except Exception as why:  # noqa: BLE001  zlib.error or isal's own, which share no base class
                self.cut = True
                offset = self.position - len(data) + at
                self.notes.append(Note("gzip-damaged", {"offset": offset, "why": str(why)}))
                return
            at += len(piece)
            if member.eof:
                data = self._next_member(member.unused_data + data[at:])
                member, at = _inflater.decompressobj(31), 0
                if not data:
                    return
            elif at == len(data):
                data, at = self._read(_COMPRESSED_BYTES), 0
        yield member.flush()
        if not member.eof:
            self.cut = True
            self.notes.append(Note("gzip-cut", {"offset": self.position}))

    def _next_member(self, data: bytes) -> bytes:
        """What follows a member, from the beginning of the next one; nothing where there is none."""
        while len(data := data.lstrip(b"\0")) < 2:  # padding of tapes and block devices
            more = self._read(_COMPRESSED_BYTES)
            if not more:
                break
            data += more
        if data[:2] == _GZIP:
            return data
        if data:
            self.notes.append(Note("gzip-trailing", {}))
        return b""


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces joined to blocks."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if size:
        yield b"".join(parts)


def open_source(source: TraceSource) -> Source:
    """Open a trace for reading.

    Args:
        source: a path, ``-`` for standard input, a URL (``s3://...``, with the extra ``lanewise[fsspec]``), or a binary file.

    Raises:
        LoadError: there is no such file, or it cannot be opened.
        NotATraceError: it is a directory.
        UsageError: a URL, and fsspec is not installed.
    """
    if not isinstance(source, str | os.PathLike):
        return Source(str(getattr(source, "name", "<file object>")), source, None, close=False)
    text = os.fspath(source)
    if text == "-":
        if sys.stdin is None:
            raise LoadError("<stdin>", TEXTS.message("no-stdin"), TEXTS.message("name-trace"))
        return Source("<stdin>", sys.stdin.buffer, None, close=False)
    text = os.fsencode(text).decode("utf-8", "replace")  # names that are not UTF-8 would fit into no report
    if "://" in text and not Path(source).exists():
        return _open_url(text)
    path = Path(source)
    if path.is_dir():
        found = _traces_in(path)
        hint = TEXTS.message("directory-next", count=len(found), name=found[0]) if found else TEXTS.message("name-trace")
        raise NotATraceError(text, TEXTS.message("directory"), hint)
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise LoadError(text, TEXTS.message("absent"), _near_names(path)) from None
    except (OSError, ValueError) as why:  # ValueError: a NUL byte in the name
        raise LoadError(text, TEXTS.message("not-opened", why=getattr(why, "strerror", None) or str(why))) from why
    size = path.stat().st_size if path.is_file() else None
    # Files that the system makes up while they are read have no size.
    return Source(text, stream, size, close=True, descriptor=stream.fileno() if size and hasattr(os, "pread") else None)


def _traces_in(folder: Path) -> list[str]:
    """Names of JSON files in a folder, or where it has none in the folders within: TensorBoard's and others' are nested."""
    for pattern in ("*", "*/*", "*/*/*", "*/*/*/*"):
        names = (p.relative_to(folder) for p in islice(folder.glob(pattern), _MOST_LISTED))
        if found := sorted(str(p) for p in names if p.name.endswith((".json", ".json.gz"))):
            return found
    return []


def _near_names(path: Path) -> str:
    """A hint with a name that is like the missing one, if the folder has such a file."""
    import difflib

    folder = path.parent
    if not folder.is_dir():
        return TEXTS.message("no-folder", folder=folder)
    near = difflib.get_close_matches(path.name, [p.name for p in folder.iterdir()], n=1)
    return TEXTS.message("near", name=folder / near[0] if folder != Path(".") else near[0]) if near else ""


def _open_url(url: str) -> Source:
    try:
        import fsspec
    except ImportError:
        raise UsageError(url, TEXTS.message("no-fsspec"), TEXTS.message("no-fsspec-next")) from None
    open_url: Callable[..., Any] = fsspec.open
    try:
        stream: IO[bytes] = open_url(url, "rb").open()
    except Exception as why:  # each file system has errors of its own
        raise LoadError(url, TEXTS.message("not-opened", why=str(why))) from why
    size = getattr(stream, "size", None)
    return Source(url, stream, size if isinstance(size, int) else None, close=True)
