"""Reading a trace from front to back: header, chunks of events, what follows; then its tables and what to know about it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from lanewise.errors import EmptyTraceError, LoadError
from lanewise.model.notes import Note

from .assembly import Assembly
from .chunks import DecodedChunk, decode_chunk
from .decoding import DECODE_ERRORS
from .framing import LARGEST_EVENT, TOKEN, AnyChunk, AnyFramer, Chunk, FileFramer, Framer, HeaderScan, ReadError
from .mending import silently_damaged
from .repair import Tally, members, mend_chunk, mend_object
from .sniff import kind_of_bytes, kind_of_keys, refusal
from .source import Source
from .texts import TEXTS, shown
from .workers import Job, Workers

__all__ = ["Document", "Progress", "read_document"]

Progress = Callable[[int, int | None], None]

_WORKERS_FROM_BYTES = 48 << 20  # below this, starting processes costs more than they save
_IN_FLIGHT = 8  # chunks that workers have or wait for: enough that none is idle, few enough for memory
_SNIFFED_BYTES = 4096  # the beginning of a file says what kind it is
_LARGEST_TAIL = 64 << 20  # text behind the events: the rest of a header, not another file
_JOINED_BYTES = 256 << 10  # of the next chunk, to see whether an event goes on there


@dataclass(slots=True)
class Document:
    """A trace file, read.

    Attributes:
        header: all top-level keys but the events.
        assembly: the events.
        bare: whether the document was events with no header.
        lines: whether it was events one by one, without an array.
        truncated: whether the end is missing.
        mended: events that were mended.
        lost: events that were given up.
        notes: what to know.
        text_times: whether timestamps were too large for a double.
    """

    header: dict[str, Any]
    assembly: Assembly
    bare: bool
    lines: bool = False
    truncated: bool = False
    mended: Tally = field(default_factory=Tally)
    lost: Tally = field(default_factory=Tally)
    notes: list[Note] = field(default_factory=list)
    text_times: bool = False


def read_document(
    source: Source, progress: Progress | None = None, workers: Workers | None = None, assembly: Assembly | None = None
) -> Document:
    """Read a whole trace.

    Args:
        source: an opened source.
        progress: called now and then with the stored bytes read and their total (None where not known).
        workers: processes that decode beside this one.
        assembly: takes in the events; a fresh one that keeps them all when None.

    Raises:
        NotATraceError: the file is something else; the message names what.
        EmptyTraceError: the file is empty or was cut before its first event.
        LoadError: no event ends within a quarter of a gigabyte.
    """
    blocks = source.blocks()
    scan, buffer = _find_events(source, blocks)
    doc = Document({}, Assembly() if assembly is None else assembly, scan.bare, scan.lines)
    try:
        rest, at = _read_events(source, _framer(source, scan.begin, buffer, blocks), doc, progress, workers)
    except ReadError as why:
        raise LoadError(source.name, TEXTS.message("not-read", why=str(why))) from why
    tail, tail_at = (b"", at) if rest is None else (rest, at)
    if rest is not None:
        tail = _read_tail(tail, blocks)
    _finish_header(doc, scan, tail, tail_at, cut=rest is None)
    _refuse_other_lists(source, doc)
    for tally, note in ((doc.mended, "repaired"), (doc.lost, "skipped")):
        if tally.count:
            lost = {} if note == "repaired" else {"bytes": tally.size}
            doc.notes.append(Note(note, {"count": tally.count, "kinds": tally.kinds, "offset": tally.first, **lost}))
    doc.notes[:0] = source.notes
    doc.truncated = doc.truncated or source.cut
    return doc


def _framer(source: Source, begin: int, buffer: bytes, blocks: Iterator[bytes]) -> AnyFramer:
    """Chunks of the events from `begin` on: of a plain file their places are enough."""
    if source.descriptor is None or source.compressed:
        return Framer(buffer[begin:], blocks, begin)
    return FileFramer(source.descriptor, begin, source.stored_blocks(source.descriptor))


def _refuse_other_lists(source: Source, doc: Document) -> None:
    """A JSON array is taken for the events of a trace; one in which nothing is an event is something else."""
    seen = doc.assembly
    no_events = seen.counts.get("?", 0) + doc.lost.count
    if doc.bare and no_events and not seen.n_seen and not seen.metadata and set(seen.counts) <= {"?"}:
        raise refusal(source.name, "other-list")


def _find_events(source: Source, blocks: Iterator[bytes]) -> tuple[HeaderScan, bytes]:
    """Read until the first event; the scan and all bytes read so far."""
    scan, buffer = HeaderScan(), _head(blocks)
    if buffer and (kind := kind_of_bytes(buffer[:_SNIFFED_BYTES])) is not None:
        raise refusal(source.name, kind)
    for block in chain((b"",), blocks):
        buffer = buffer + block if block else buffer
        if scan.feed(buffer):
            break
        if kind_of_keys(scan.keys, buffer[:_SNIFFED_BYTES]) is not None or scan.too_large(buffer):
            break
    if scan.begin >= 0:
        return scan, buffer
    kind = kind_of_keys(scan.keys, buffer[:_SNIFFED_BYTES])
    if kind is not None:
        raise refusal(source.name, kind)
    if not buffer:
        raise EmptyTraceError(source.name, TEXTS.message("not-inflated"), TEXTS.message("not-inflated-next"))
    if scan.ended or scan.too_large(buffer):
        raise refusal(source.name, "other-object", keys=", ".join(map(shown, sorted(scan.keys)[:8])) or "-")
    raise EmptyTraceError(source.name, TEXTS.message("header-cut", count=len(buffer)), TEXTS.message("header-cut-next"))


def _head(blocks: Iterator[bytes]) -> bytes:
    """As much of the text as it takes to tell what it is."""
    parts, size = [], 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size >= _SNIFFED_BYTES:
            break
    return b"".join(parts)


def _read_events(
    source: Source, framer: AnyFramer, doc: Document, progress: Progress | None, workers: Workers | None
) -> tuple[bytes | None, int]:
    """Decode all chunks; (text after the events, its offset), the text None when the file ends before that."""
    pending: deque[tuple[AnyChunk, Job | DecodedChunk | None]] = deque()
    chunks: Iterator[AnyChunk] = framer.chunks()
    more = True
    while more or pending:
        while more and len(pending) < (_IN_FLIGHT if workers else 2):
            chunk = next(chunks, None)
            if chunk is None:
                more = False
                break
            # What no worker takes is decoded here, so that this process works too.
            offered = workers.offer(chunk, doc.text_times) if workers else None
            pending.append((chunk, decode_chunk(chunk, doc.text_times) if workers and offered is None else offered))
            if progress is not None:
                progress(source.position, source.size)
        if not pending:
            break
        chunk, job = pending.popleft()
        decoded = job.result() if isinstance(job, Job) else job or decode_chunk(chunk, doc.text_times)
        doc.text_times = doc.text_times or decoded.text
        if _rejoin(decoded, chunk, pending):
            continue
        _take(doc, decoded)
        if framer.too_large:
            fact = TEXTS.message("no-boundary", mebibytes=LARGEST_EVENT >> 20, offset=chunk.offset)
            raise LoadError(source.name, fact, TEXTS.message("no-boundary-next"))
        if decoded.end is not None:
            return _behind(chunk, decoded.end, [c for c, _ in pending], framer), chunk.offset + decoded.end
        if chunk.last and doc.lines and not decoded.cut:
            return None, 0
        if chunk.last:
            doc.truncated = True
            end = chunk.offset + len(chunk.data)
            doc.assembly.join_halves()
            doc.notes.append(Note("truncated", {"offset": end, "events": doc.assembly.n_seen}))
            return None, end
    return None, 0


def _behind(chunk: AnyChunk, end: int, later: list[AnyChunk], framer: AnyFramer) -> bytes:
    """The text behind the end of the events, also what was already cut off into later chunks."""
    parts, at = [chunk.data[end:]], chunk.offset + len(chunk.data)
    carry, carry_at = framer.carry
    for text, offset in (*((c.data, c.offset) for c in later), (carry, carry_at)):
        if text:
            # The comma and white space between two chunks are in neither; offsets stay true.
            parts += [b",".ljust(offset - at), text]
            at = offset + len(text)
    return b"".join(parts)


def _rejoin(
    decoded: DecodedChunk,
    chunk: AnyChunk,
    pending: deque[tuple[AnyChunk, Job | DecodedChunk | None]],
) -> bool:
    """Join a chunk whose last text gave no event with the next one: it may have been cut within an event's arguments."""
    if chunk.last or not pending or not decoded.rest:
        return False
    follower = pending[0][0]
    if len(chunk.data) > LARGEST_EVENT or not _goes_on(decoded.rest, follower.data):
        return False
    pending.popleft()
    gap = follower.offset - chunk.offset - len(chunk.data)
    joined = Chunk(b"".join((b"[", chunk.data, b",".ljust(gap), follower.data, b"]")), chunk.offset, follower.last)
    pending.appendleft((joined, None))
    return True


def _goes_on(rest: bytes, follower: bytes) -> bool:
    """Whether text that gave no event becomes a sound event with the next chunk, or that does not begin with an event."""
    head = follower[:_JOINED_BYTES]
    if all(d.offset for d in mend_chunk(rest + b"," + head, 0, False).damage):
        return True
    first = mend_chunk(head, 0, False).events[:1]
    return bool(first) and first[0].ph is None


def _take(doc: Document, decoded: DecodedChunk) -> None:
    doc.assembly.add(decoded.columns)
    for damage in decoded.damage:
        (doc.mended if damage.kept else doc.lost).add(damage)


def _read_tail(tail: bytes, blocks: Iterator[bytes]) -> bytes:
    """What follows the events, up to a size that no header has."""
    parts, size = [tail], len(tail)
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size > _LARGEST_TAIL:
            break
    return b"".join(parts)


def _finish_header(doc: Document, scan: HeaderScan, tail: bytes, tail_at: int, *, cut: bool) -> None:
    """Read the keys before and after the events; note a missing end and a second document."""
    if scan.bare:
        if tail.strip(b" \t\r\n\0"):
            doc.notes.append(Note("two-documents", {"offset": tail_at}))
        return
    head = scan.header.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n\0,") + b"}"
    doc.header.update(_object(doc, head))
    if cut:
        return
    close = _document_end(tail)
    if close is None:
        doc.truncated = True
        doc.notes.append(Note("unfinished", {"offset": tail_at + len(tail)}))
        body = _whole_members(tail)
    else:
        body = tail[: close - 1]
        if tail[close:].strip(b" \t\r\n\0") and not scan.nested:
            doc.notes.append(Note("two-documents", {"offset": tail_at + close}))
    body = body.strip(b" \t\r\n\0,")
    if body:
        doc.header.update(_object(doc, b"{" + body + b"}"))


def _document_end(tail: bytes) -> int | None:
    """Offset after the brace that closes the document, in the text after its events."""
    depth = 1
    for match in TOKEN.finditer(tail):
        token = match.group()
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def _whole_members(tail: bytes) -> bytes:
    """The members of the document that were written whole before the file was cut."""
    found = [m for m in members(b"{" + tail) if m.strip(b" \t\r\n\0")]
    while found:
        text = b",".join(found)
        try:
            msgspec.json.decode(b"{" + text + b"}")
        except DECODE_ERRORS:
            found.pop()
        else:
            return text
        if len(found) > 1 and len(text) > _LARGEST_TAIL:
            break
    return b""


def _object(doc: Document, text: bytes) -> dict[str, Any]:
    try:
        value = None if silently_damaged(text) else msgspec.json.decode(text)
    except DECODE_ERRORS:
        value = None
    if value is None:
        value, whole = mend_object(text)
        doc.notes.append(Note("header-repaired" if whole else "header-damaged"))
    return value if isinstance(value, dict) else {}


def workers_for(source: Source) -> int:
    """How many processes are worth starting for a source."""
    size = source.size
    if size is None or size < _WORKERS_FROM_BYTES // (12 if source.name.endswith(".gz") else 1):
        return 0
    return min(4, max(0, len(os.sched_getaffinity(0)) - 1)) if hasattr(os, "sched_getaffinity") else 1
