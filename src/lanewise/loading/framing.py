"""Cutting the text of a trace into its header, chunks of whole events, and what follows the events.

Nothing here decodes events. A chunk ends where one event ends and the next begins; such places are recognised by
``}, {"ph": ...``, which inside an event's arguments occurs next to never. Where it does, the chunk fails to decode by itself
and the reader joins it with its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["EVENT_START", "TOKEN", "Chunk", "Framer", "HeaderScan", "last_boundary"]

_KEYS = rb"ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts|cname"
EVENT_START = re.compile(rb'\}[\s\0]*,[\s\0,]*(?=\{\s*"(?:' + _KEYS + rb')"\s*:)')
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_AFTER_KEY = re.compile(rb"[\s\0]*:[\s\0]*")

# A header is some kilobytes; process groups of large jobs and environment dumps make some megabytes.
_LARGEST_HEADER = 256 << 20
# Look for an event boundary in the last bytes of a block first: events are 0.2 to 2 kB, some 100 kB with large arguments.
_BOUNDARY_WINDOW = 16 << 10


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


def last_boundary(buffer: bytes) -> tuple[int, int] | None:
    """(end of the last event that is followed by another, start of that other), or None."""
    window = _BOUNDARY_WINDOW
    while True:
        start = max(0, len(buffer) - window)
        found = list(EVENT_START.finditer(buffer, start))
        if found:
            return found[-1].start() + 1, found[-1].end()
        if start == 0:
            return None
        window *= 8


class HeaderScan:
    """Finds where the events begin, reading the top level of the document token by token.

    Attributes:
        keys: the keys of the top-level object seen so far.
        begin: offset of the first byte after the ``[`` of the events; -1 while not found.
        bare: whether the document is an array of events with no object around it.
        header: the header's text, from ``{`` to before ``"traceEvents"``.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.begin = -1
        self.bare = False
        self.ended = False
        self.header = b""
        self._at = 0
        self._depth = 0

    def feed(self, buffer: bytes) -> bool:
        """Scan on with all bytes so far; True when the events were found or the document ended without them."""
        while match := TOKEN.search(buffer, self._at):
            token = match.group()
            if token[:1] == b'"':
                # A string at the end of the buffer may still lack its colon.
                after = _AFTER_KEY.match(buffer, match.end())
                if match.end() + 64 > len(buffer) and (after is None or after.end() == len(buffer)) and self._depth == 1:
                    if after is not None or not buffer[match.end() :].strip():
                        return False
                if self._depth == 1 and after is not None and self._is_key(token, match.start(), after.end(), buffer):
                    return True
            elif token in b"{[":
                if self._depth == 0 and token == b"[":
                    self.bare, self.begin, self.header = True, match.end(), b""
                    return True
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    self.ended = True
                    return True
            self._at = match.end()
        return False

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
    """

    def __init__(self, rest: bytes, blocks: Iterator[bytes], offset: int) -> None:
        self._pieces = [rest]
        self._blocks = blocks
        self._offset = offset

    def chunks(self) -> Iterator[Chunk]:
        """All chunks. The reader stops asking once it has seen the end of the events."""
        at = self._offset
        for block in self._blocks:
            self._pieces.append(block)
            buffer = b"".join(self._pieces)
            cut = last_boundary(buffer)
            if cut is None:
                self._pieces = [buffer]
                continue
            end, start = cut
            self._pieces = [buffer[start:]]
            yield Chunk(b"".join((b"[", memoryview(buffer)[:end], b"]")), at, last=False)
            at += start
        wrapped = b"".join((b"[", *self._pieces, b"]"))
        self._pieces = []
        yield Chunk(wrapped, at, last=True)

    @property
    def carry(self) -> bytes:
        """What was read and is in no chunk yet."""
        return b"".join(self._pieces)
