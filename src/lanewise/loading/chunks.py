"""Decoding one chunk of events into columns: fast when the text is sound, event by event when it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .columns import ChunkColumns, NeedsTextError, chunk_columns
from .decoding import DECODE_ERRORS, end_by
from .framing import Chunk
from .mending import silent_backslash
from .records import event_decoder, text_event_decoder
from .repair import Damage, mend_chunk

__all__ = ["DecodedChunk", "decode_chunk"]

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
    if found is not None:
        events, end = found
        try:
            return DecodedChunk(chunk_columns(events, text=text), text, end)
        except NeedsTextError:
            return decode_chunk(chunk, True)
    mended = mend_chunk(chunk.data, chunk.offset, chunk.last)
    return DecodedChunk(chunk_columns(mended.events, text=True), text, mended.end, mended.rest, mended.damage)


def _sound(wrapped: bytes, text: bool) -> tuple[list[Any], int | None] | None:
    """(events, end of the array within the data) of a sound chunk, else None."""
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
