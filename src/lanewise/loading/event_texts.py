"""The events of a trace as the texts that they are: for copies, in which only damaged events are rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
from msgspec import Raw

from .decoding import DECODE_ERRORS, end_by
from .framing import EVENT_START, Framer, HeaderScan
from .mending import is_utf8, mended_texts
from .reader import Progress
from .source import Source

__all__ = ["EventTexts", "Text"]

Text = bytes | Raw

_texts = msgspec.json.Decoder(list[Raw])


@dataclass(slots=True)
class EventTexts:
    """The texts of the events of a trace, and how many of them were damaged.

    Attributes:
        source: the trace, from its start.
        progress: called with the stored bytes read.
        mended, lost: damaged events that were mended, and that were left out.
    """

    source: Source
    progress: Progress | None = None
    mended: int = 0
    lost: int = 0

    def chunks(self) -> Iterator[list[Text]]:
        """The texts, chunk by chunk; can be called once. A text keeps all of its chunk in memory."""
        blocks = self.source.blocks()
        scan, buffer = HeaderScan(), b""
        for block in blocks:
            buffer += block
            if scan.feed(buffer):
                break
        if scan.begin < 0:
            return
        unfinished = b""
        for chunk in Framer(buffer[scan.begin :], blocks, scan.begin).chunks():
            if self.progress is not None:
                self.progress(self.source.position, self.source.size)
            wrapped = b"".join((b"[", unfinished, chunk.wrapped[1:])) if unfinished else chunk.wrapped
            texts, unfinished, ended = _event_texts(wrapped, self, last=chunk.last)
            yield texts
            if ended:
                return


def _event_texts(wrapped: bytes, counts: EventTexts, *, last: bool) -> tuple[list[Text], bytes, bool]:
    """(texts of the events of a chunk, an unfinished one that goes on in the next chunk, whether the events ended)."""
    if not is_utf8(wrapped):
        return _damaged_texts(wrapped[1:-1], counts, last=last)
    try:
        return list(_texts.decode(wrapped)), b"", False
    except DECODE_ERRORS as why:
        close = end_by(why, wrapped, b"]")
    if close is not None:
        try:
            return list(_texts.decode(wrapped[:close])), b"", True
        except DECODE_ERRORS:
            close = None
    return _damaged_texts(wrapped[1:-1], counts, last=last)


def _damaged_texts(data: bytes, counts: EventTexts, *, last: bool) -> tuple[list[Text], bytes, bool]:
    """The same for a chunk that is no sound JSON: piece by piece, mended where that helps."""
    bounds = [0, *(m.end() for m in EVENT_START.finditer(data)), len(data)]
    out: list[Text] = []
    for i, (begin, end) in enumerate(pairwise(bounds)):
        piece = data[begin:end].strip(b" \t\r\n\0,")
        final = i == len(bounds) - 2
        text, ended = _sound_text(piece)
        if text is None:
            if final and not last:
                return out, data[begin:end] + b",", False
            text = _mended_text(piece)
            if text is not None:
                counts.mended += 1
            elif piece.strip(b"]}") and not (final and last):
                counts.lost += 1
        if text is not None:
            out.append(text)
        if ended:
            return out, b"", True
    return out, b"", False


def _sound_text(piece: bytes) -> tuple[bytes | None, bool]:
    """(the text of the event that a piece is or begins with, whether the end of the events follows it)."""
    if not is_utf8(piece):
        return None, False
    try:
        msgspec.json.decode(piece, type=dict[str, Raw])
    except DECODE_ERRORS as why:
        end = end_by(why, piece)
    else:
        return piece, False
    if end is None:
        return None, piece[:1] == b"]"
    return piece[:end], piece[end:].lstrip(b" \t\r\n\0,")[:1] == b"]"


def _mended_text(piece: bytes) -> bytes | None:
    for mended, _ in mended_texts(piece):
        text, _ = _sound_text(mended.strip())
        if text is not None:
            return text
    return None
