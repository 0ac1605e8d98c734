"""Decoding one chunk of events into columns: fast when the text is sound, event by event when it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from .columns import ChunkColumns, NeedsTextError, chunk_columns
from .decoding import DECODE_ERRORS, end_by
from .framing import EVENT_START, Chunk, last_boundary
from .mending import mended_backslashes, silent_backslash
from .records import event_decoder, text_event_decoder
from .repair import Damage, mend_chunk
from .usual import usual_decoder

__all__ = ["DecodedChunk", "decode_chunk"]

# Between 64 and 512 KiB the speed differs by less than 3 %; where an event is not of the usual form, so much is read in general
# records. An event boundary is looked for in the last bytes of a piece first.
_PIECE_BYTES = 512 << 10
_PIECE_WINDOW = 2 << 10
# What may follow the array of events: another key of the header, the end of the document, the end of the text.
_AFTER_EVENTS = re.compile(rb'[\s\0]*(?:[\s\0,]*(?:"|\]?\Z)|\}|[\[{])')


@dataclass(slots=True)
class DecodedChunk:
    """One chunk, decoded.

    Attributes:
        columns: its events.
        text: whether timestamps were taken from their text.
        end: where in the chunk the array of events was closed; None when it goes on.
        rest: text at its end that gave no event: the event may go on in the next chunk.
        damage: events that were mended or given up.
    """

    columns: ChunkColumns
    text: bool
    end: int | None = None
    rest: bytes = b""
    damage: list[Damage] = field(default_factory=list)


def decode_chunk(chunk: Chunk, text: bool) -> DecodedChunk:
    """Decode a chunk.

    Args:
        chunk: whole events with commas between them; the last chunk also holds what follows the events.
        text: take timestamps from their text from the start; else only where a double cannot hold them.
    """
    found = None if silent_backslash(chunk.wrapped) else _sound(chunk.wrapped, text)
    damage: list[Damage] = []
    if found is None and b"\\" in chunk.wrapped:
        found, damage = _windows(chunk, text)
    if found is None:
        mended = mend_chunk(chunk.data, chunk.offset, chunk.last)
        return DecodedChunk(chunk_columns(mended.events, text=True), text, mended.end, mended.rest, mended.damage)
    events, end = found
    try:
        return DecodedChunk(chunk_columns(events, text=text), text, end, damage=damage)
    except NeedsTextError:
        return decode_chunk(chunk, True)


def _windows(chunk: Chunk, text: bool) -> tuple[tuple[list[Any], int | None] | None, list[Damage]]:
    """The events of a chunk that only has backslashes to be mended, and those in which they were."""
    wrapped, changed = mended_backslashes(chunk.wrapped)
    found = None if not changed or silent_backslash(wrapped) else _sound(wrapped, text)
    if found is None:
        return None, []
    events, end = found
    if end is not None:  # where that is in the chunk as it was
        grown = 0
        for at, added in changed:
            grown += added if at - 1 + grown < end else 0
        end -= grown
        changed = [c for c in changed if c[0] - 1 < end]
    data = chunk.data
    first = len(data) - len(data.lstrip(b" \t\r\n\0,"))
    starts = np.array([first, *(m.end() for m in EVENT_START.finditer(data))])
    places = starts[np.searchsorted(starts, [at - 1 for at, _ in changed], side="right") - 1]
    return (events, end), [Damage(chunk.offset + int(at), True, ("backslashes",)) for at in np.unique(places)]


def _sound(wrapped: bytes, text: bool) -> tuple[list[Any], int | None] | None:
    """(events, end of the array within the data) of a sound chunk, else None."""
    return _by_pieces(wrapped, text) or _whole(wrapped, text)


def _by_pieces(wrapped: bytes, text: bool) -> tuple[list[Any], int | None] | None:
    """The same read in short pieces; None also where a piece ends within an event's arguments."""
    events: list[Any] = []
    end = None
    for begin, piece in _pieces(wrapped):
        decoded = _piece_events(piece, text)
        if isinstance(decoded, Exception):
            close = end_by(decoded, piece, b"]") if begin + len(piece) > len(wrapped) else None
            if close is None or not _AFTER_EVENTS.match(wrapped, begin + close - 1):
                return None
            decoded, end = _piece_events(piece[:close], text), begin + close - 2
            if isinstance(decoded, Exception):
                return None
        events += decoded
    return events, end


def _pieces(wrapped: bytes) -> Iterator[tuple[int, bytes]]:
    """A list of events as shorter lists, with the offset of what is in each: a processor's nearest memory holds one."""
    begin, view = 1, memoryview(wrapped)
    while True:
        stop = begin + _PIECE_BYTES
        cut = None if stop >= len(view) else last_boundary(view[begin:stop], window=_PIECE_WINDOW)
        if cut is None:
            yield begin, b"".join((b"[", view[begin:]))
            return
        yield begin, b"".join((b"[", view[begin : begin + cut[0]], b"]"))
        begin += cut[1]


def _piece_events(piece: bytes, text: bool) -> list[Any] | Exception:
    """The events of a piece; in general records when one of them is not of the usual form."""
    try:
        try:
            return usual_decoder(text).decode(piece)
        except msgspec.ValidationError:
            general: Any = text_event_decoder if text else event_decoder
            return general.decode(piece)
    except DECODE_ERRORS as why:
        return why


def _whole(wrapped: bytes, text: bool) -> tuple[list[Any], int | None] | None:
    """A sound chunk read at once."""
    decoder: Any = text_event_decoder if text else event_decoder
    try:
        return decoder.decode(wrapped), None
    except DECODE_ERRORS as why:
        close = end_by(why, wrapped, b"]")
    if close is None or not _AFTER_EVENTS.match(wrapped, close):
        return None
    try:
        return decoder.decode(memoryview(wrapped)[:close]), close - 1
    except DECODE_ERRORS:
        return None
