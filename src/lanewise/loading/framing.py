"""Cutting the text of a trace into its header, chunks of whole events, and what follows the events.

Nothing here decodes events. A chunk ends where one event ends and the next begins; such places are recognised by
``}, {"ph": ...``, which inside an event's arguments occurs next to never. Where it does, the chunk fails to decode by itself
and the reader joins it with its neighbour.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "ANY_EVENT_START",
    "EVENT_START",
    "LARGEST_EVENT",
    "TOKEN",
    "AnyChunk",
    "AnyFramer",
    "Chunk",
    "FileFramer",
    "Framer",
    "HeaderScan",
    "ReadError",
    "StoredChunk",
    "last_boundary",
]

# The keys of an event in the Trace Event Format, any of which may come first.
_KEYS = (
    rb"ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts|tdur|cname|id2|bind_id|scope|sf|stack|esf|estack|"
    rb"flow_in|flow_out|tidelta|ticount"
)
# Between two events there is a comma; none or several, and NUL bytes, are damage that this looks past.
EVENT_START = re.compile(rb'\}[\s\0,]*(?=\{\s*"(?:' + _KEYS + rb')"\s*:)')
_OBJECT_START = re.compile(rb'\}[\s\0,]*(?=\{\s*")')
# The beginning of what may be an event, wherever it stands.
ANY_EVENT_START = re.compile(rb'\{\s*"(?:' + _KEYS + rb')"\s*:')
# A string without its end goes up to the end of the text, so that scanning is linear whatever the text holds.
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_AFTER_KEY = re.compile(rb"[\s\0]*:[\s\0]*")
_EVENT_KEYS = frozenset({"ph", "name"})
_EVENTS_KEY = re.compile(rb'"traceEvents"[\s\0]*:[\s\0]*\[')

# A header is some kilobytes; process groups of large jobs and environment dumps make some megabytes.
_LARGEST_HEADER = 256 << 20
# Events within another key of the document are the trace's own when they are that many and no others were seen.
_LARGEST_ASIDE = 1 << 20
# Events are 0.2 to 2 kB, some 100 kB with large arguments; what has no boundary in this much text is no trace.
LARGEST_EVENT = 256 << 20
# Look for an event boundary in the last bytes of a block first.
_BOUNDARY_WINDOW = 16 << 10
# A boundary may lie across two blocks: `}`, white space, `{"tidelta":`.
_OVERLAP = 256


@dataclass(slots=True)
class Chunk:
    """Text of whole events, without the comma between it and the next chunk.

    Attributes:
        wrapped: the text within ``[`` and ``]``, so that it decodes without another copy.
        offset: of the text's first byte in the decompressed file.
        last: nothing follows: the end of the events must be in it, or the file is cut.
    """

    wrapped: bytes
    offset: int
    last: bool

    @property
    def data(self) -> bytes:
        """The text itself."""
        return self.wrapped[1:-1]

    @property
    def view(self) -> memoryview:
        """The text itself, without a copy."""
        return memoryview(self.wrapped)[1:-1]


@dataclass(slots=True)
class StoredChunk:
    """The same while it is in a file only, from which each use reads it.

    Attributes:
        descriptor: of the file, in this process and those that it starts.
        offset: of the text's first byte in the file.
        size: of the text in bytes.
        last: nothing follows.
    """

    descriptor: int
    offset: int
    size: int
    last: bool

    @property
    def data(self) -> bytes:
        """The text itself."""
        return _read_at(self.descriptor, self.offset, self.size)

    @property
    def wrapped(self) -> bytes:
        """The text within ``[`` and ``]``."""
        return b"".join((b"[", self.data, b"]"))

    @property
    def view(self) -> memoryview:
        """The text itself."""
        return memoryview(self.data)


class ReadError(Exception):
    """A file could not be read any more; the message says why."""


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Bytes of a file from a place on; fewer only at its end."""
    try:
        data = os.pread(descriptor, size, offset)
        while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
            data += more
    except OSError as why:
        raise ReadError(why.strerror or str(why)) from why
    return data


class Sliceable(Protocol):
    """Text that can be read in parts."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


def last_boundary(text: Sliceable, *, window: int = _BOUNDARY_WINDOW) -> tuple[int, int] | None:
    """(end of the last event that is followed by another, start of that other), or None.

    Looked for in the last bytes first, `window` of them. Events that begin with a key that is not of the format are only
    recognised where there are no others.
    """
    for pattern in (EVENT_START, _OBJECT_START):
        size = window
        while True:
            start = max(0, len(text) - size)
            found = deque(pattern.finditer(text[start:]), maxlen=1)
            if found:
                return start + found[0].start() + 1, start + found[0].end()
            if start == 0:
                break
            size *= 8
    return None


class HeaderScan:
    """Finds where the events begin, reading the top level of the document token by token.

    Attributes:
        keys: the keys of the top-level object seen so far.
        begin: offset of the first byte after the ``[`` of the events; -1 while not found.
        bare: whether the document is events with no object around them: an array, or one a line.
        lines: whether there is no array around them either.
        nested: whether the object with the events lies in another one.
        header: the header's text, from ``{`` to before ``"traceEvents"``.
        ended: whether the document ended without events.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.begin = -1
        self.bare = False
        self.lines = False
        self.nested = False
        self.ended = False
        self.header = b""
        self._at = 0
        self._depth = 0
        self._opened: list[int] = []
        self._missed: re.Match[bytes] | None = None

    def feed(self, buffer: bytes) -> bool:
        """Scan on with all bytes so far; True when the events were found or the document ended without them."""
        begun = self._at
        found = self._scan(buffer)
        if self.begin < 0:
            # Quotes that are not escaped make the scan take strings for text and text for strings.
            scanned = len(buffer) if self.ended else self._at
            self._missed = self._missed or _EVENTS_KEY.search(buffer, max(0, begun - _OVERLAP), scanned)
            if (missed := self._missed) is not None:
                around = self._around(buffer, missed.start())
                if around and not self.ended and len(buffer) - missed.end() < _LARGEST_ASIDE:
                    return False  # in something else of the document, whose own events may follow
                self.nested = around > 0
                self.begin, self.header, self.ended = missed.end(), buffer[around : missed.start()], False
                return True
        if self.ended and self.keys >= _EVENT_KEYS:
            self.bare, self.lines, self.begin, self.ended = True, True, self._opened[0], False
        return found

    def _scan(self, buffer: bytes) -> bool:
        while match := TOKEN.search(buffer, self._at):
            token = match.group()
            if token[:1] == b'"':
                after = _AFTER_KEY.match(buffer, match.end())
                value = match.end() if after is None else after.end()
                if value >= len(buffer):  # the string, its colon or its value may go on in the next block
                    return False
                if self._depth == 1 and after is not None and self._is_key(token, match.start(), value, buffer):
                    return True
            elif token in b"{[":
                if self._depth == 0 and token == b"[":
                    self.bare, self.begin = True, match.end()
                    return True
                if not self._depth:
                    self._opened.append(match.start())
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    self.ended = True
                    return True
            self._at = match.end()
        return False

    @staticmethod
    def _around(buffer: bytes, end: int) -> int:
        """Where the innermost object begins that is open at a place of sound text; 0 for the outermost."""
        opened = []
        for match in TOKEN.finditer(buffer, 0, end):
            token = match.group()
            if token in (b"{", b"["):
                opened.append(match.start())
            elif token in (b"}", b"]") and opened:
                opened.pop()
        return opened[-1] if len(opened) > 1 and buffer[opened[-1] : opened[-1] + 1] == b"{" else 0

    def _is_key(self, token: bytes, start: int, value: int, buffer: bytes) -> bool:
        key = token[1:-1].decode("utf-8", "replace")
        self.keys.add(key)
        if key != "traceEvents" or buffer[value : value + 1] != b"[":
            return False
        self.begin = value + 1
        self.header = buffer[:start]
        return True

    def too_large(self, buffer: bytes) -> bool:
        """Whether this cannot be a header any more."""
        return len(buffer) > _LARGEST_HEADER


class Framer:
    """Chunks of events out of blocks of text, from where the events begin.

    Args:
        rest: what was read after the ``[`` of the events.
        blocks: the blocks that follow.
        offset: offset of the first byte of `rest` in the text.

    Attributes:
        too_large: whether reading stopped since no event ended within LARGEST_EVENT bytes.
    """

    def __init__(self, rest: bytes, blocks: Iterator[bytes], offset: int) -> None:
        self._pieces = [rest]
        self._blocks = blocks
        self._offset = offset
        self.too_large = False

    def chunks(self) -> Iterator[Chunk]:
        """All chunks. The reader stops asking once it has seen the end of the events."""
        held = len(self._pieces[0])
        for block in self._blocks:
            seam = self._pieces[-1][-_OVERLAP:]
            cut, before = last_boundary(block), held
            if cut is None:
                cut, before = last_boundary(seam + block[:_OVERLAP]), held - len(seam)
            self._pieces.append(block)
            held += len(block)
            if cut is None:
                if held > LARGEST_EVENT:
                    self.too_large = True
                    break
                continue
            end, start = before + cut[0], before + cut[1]
            # The last block is the only one that a cut within it divides, so nothing is copied twice.
            earlier = held - len(block)
            if end >= earlier and start >= earlier:
                parts: list[bytes | memoryview] = [*self._pieces[:-1], memoryview(block)[: end - earlier]]
                self._pieces = [block[start - earlier :]]
            else:  # the cut lies on the seam between two blocks
                buffer = b"".join(self._pieces)
                parts = [memoryview(buffer)[:end]]
                self._pieces = [buffer[start:]]
            held -= start
            yield Chunk(b"".join((b"[", *parts, b"]")), self._offset, last=False)
            self._offset += start
        wrapped = b"".join((b"[", *self._pieces, b"]"))
        self._pieces = []
        yield Chunk(wrapped, self._offset, last=True)

    @property
    def carry(self) -> tuple[bytes, int]:
        """What was read and is in no chunk yet, and its offset."""
        return b"".join(self._pieces), self._offset


class _StoredBlock:
    """A block of a file, unread."""

    def __init__(self, descriptor: int, begin: int, end: int) -> None:
        self._descriptor, self._begin, self._end = descriptor, begin, end

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, part: slice, /) -> bytes:
        begin, end, _ = part.indices(len(self))
        return _read_at(self._descriptor, self._begin + begin, end - begin)


class FileFramer:
    """The same chunks as those of a `Framer`, of a file of which only the ends of blocks are read.

    Args:
        descriptor: of the file.
        offset: where the events begin.
        blocks: begin and end of each block of the file from the one on in which the events begin.

    Attributes:
        too_large: as that of a `Framer`.
    """

    def __init__(self, descriptor: int, offset: int, blocks: Iterator[tuple[int, int]]) -> None:
        self._descriptor, self._offset, self._blocks = descriptor, offset, blocks
        self._end = offset
        self.too_large = False

    def chunks(self) -> Iterator[StoredChunk]:
        """All chunks."""
        _, self._end = next(self._blocks)
        for begin, end in self._blocks:
            cut, before = last_boundary(_StoredBlock(self._descriptor, begin, end)), begin
            if cut is None:
                before = max(begin - _OVERLAP, self._offset)
                cut = last_boundary(_StoredBlock(self._descriptor, before, min(begin + _OVERLAP, end)))
            self._end = end
            if cut is None:
                if end - self._offset > LARGEST_EVENT:
                    self.too_large = True
                    break
                continue
            yield self._next(before + cut[0], before + cut[1], last=False)
        yield self._next(self._end, self._end, last=True)

    def _next(self, end: int, start: int, *, last: bool) -> StoredChunk:
        """The chunk that ends at a place, when the next one starts at another."""
        chunk = StoredChunk(self._descriptor, self._offset, end - self._offset, last)
        self._offset = start
        return chunk

    @property
    def carry(self) -> tuple[bytes, int]:
        """As that of a `Framer`."""
        return _read_at(self._descriptor, self._offset, self._end - self._offset), self._offset


AnyChunk = Chunk | StoredChunk
AnyFramer = Framer | FileFramer
