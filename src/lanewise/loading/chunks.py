"""Decoding one chunk of events into columns: fast when the text is sound, event by event when it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .columns import ChunkColumns, Columns, NeedsTextError
from .decoding import DECODE_ERRORS, end_by
from .framing import EVENT_START, AnyChunk, last_boundary
from .mending import mended_backslashes, silently_damaged
from .records import event_decoder, text_event_decoder
from .repair import Damage, mend_chunk

__all__ = ["DecodedChunk", "decode_chunk"]

# A chunk is decoded in pieces whose records fit into a processor's own memory, and which become columns while they are there;
# between 128 KiB and 1 MiB the speed differs by less than 3 %. Where a piece may end is looked for in its last bytes first.
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
        cut: whether the text ends within an event.
    """

    columns: ChunkColumns
    text: bool
    end: int | None = None
    rest: bytes = b""
    damage: list[Damage] = field(default_factory=list)
    cut: bool = False


class _UnsoundError(Exception):
    """What decodes here and is not what was meant."""


def decode_chunk(chunk: AnyChunk, text: bool) -> DecodedChunk:
    """Decode a chunk.

    Args:
        chunk: whole events with commas between them; the last chunk also holds what follows the events.
        text: take timestamps from their text from the start; else only where a double cannot hold them.
    """
    try:
        try:
            columns, end = _by_pieces(chunk.view, text)
            return DecodedChunk(columns.finished(), text, end)
        except (_UnsoundError, *DECODE_ERRORS):  # damage, or a piece that ends within an event's arguments
            return _at_once(chunk, text)
    except NeedsTextError:
        return decode_chunk(chunk, True)


def _at_once(chunk: AnyChunk, text: bool) -> DecodedChunk:
    """Decode a chunk whole, or what is whole of it."""
    wrapped = chunk.wrapped
    found = None if silently_damaged(wrapped) else _sound(wrapped, text)
    damage: list[Damage] = []
    if found is None and b"\\" in wrapped:
        found, damage = _windows(chunk, text)
    if found is not None:
        columns, end = found
        return DecodedChunk(columns.finished(), text, end, damage=damage)
    mended = mend_chunk(chunk.data, chunk.offset, chunk.last)
    return DecodedChunk(_columns(mended.events, True).finished(), text, mended.end, mended.rest, mended.damage, mended.cut)


def _columns(events: list[Any], text: bool) -> Columns:
    columns = Columns(text=text)
    columns.add(events)
    return columns


def _windows(chunk: AnyChunk, text: bool) -> tuple[tuple[Columns, int | None] | None, list[Damage]]:
    """The events of a chunk that only has backslashes to be mended, and those in which they were."""
    wrapped, changed = mended_backslashes(chunk.wrapped)
    found = None if not changed or silently_damaged(wrapped) else _sound(wrapped, text)
    if found is None:
        return None, []
    columns, end = found
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
    return (columns, end), [Damage(chunk.offset + int(at), True, ("backslashes",)) for at in np.unique(places)]


def _sound(wrapped: bytes, text: bool) -> tuple[Columns, int | None] | None:
    """Columns of a sound chunk, and the end of the array within the data; else None."""
    try:
        events, close = _list(wrapped, text)
    except DECODE_ERRORS:
        return None
    return _columns(events, text), None if close is None else close - 1


def _list(wrapped: bytes, text: bool) -> tuple[list[Any], int | None]:
    """The events of a list, and where it is closed if something follows it; raises the decoder's errors."""
    decoder: Any = text_event_decoder if text else event_decoder
    try:
        return decoder.decode(wrapped), None
    except DECODE_ERRORS as why:
        close = end_by(why, wrapped, b"]")
        if close is None or not _AFTER_EVENTS.match(wrapped, close):
            raise
    return decoder.decode(memoryview(wrapped)[:close]), close


def _by_pieces(data: memoryview, text: bool) -> tuple[Columns, int | None]:
    """The same piece by piece; raises _UnsoundError or the decoder's errors."""
    columns, begin = Columns(text=text), 0
    while True:
        stop = begin + _PIECE_BYTES
        cut = None if stop >= len(data) else last_boundary(data[begin:stop], window=_PIECE_WINDOW)
        end, start = (len(data), None) if cut is None else (begin + cut[0], begin + cut[1])
        piece = b"".join((b"[", data[begin:end], b"]"))
        if silently_damaged(piece):
            raise _UnsoundError
        events, close = _list(piece, text)
        columns.add(events)
        if start is None:
            return columns, None if close is None else begin + close - 1
        if close is not None:
            raise _UnsoundError
        begin = start
