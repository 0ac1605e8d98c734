"""Reading a trace from front to back: header, chunks of events, what follows; then its tables and what to know about it."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lanewise.errors import EmptyTraceError, NotATraceError
from lanewise.model.notes import Note

from .assembly import Assembly
from .chunks import DecodedChunk, decode_chunk
from .framing import TOKEN, Chunk, Framer, HeaderScan
from .repair import Damage, mend_chunk, mend_object
from .sniff import kind_of_bytes, kind_of_keys
from .source import Source
from .workers import Job, Workers

__all__ = ["Document", "Progress", "read_document"]

Progress = Callable[[int, int | None], None]
ChunkFilter = Callable[[DecodedChunk], None]

_WORKERS_FROM_BYTES = 48 << 20  # below this, starting processes costs more than they save
_IN_FLIGHT = 8
_LARGEST_TAIL = 64 << 20


@dataclass(slots=True)
class Document:
    """A trace file, read.

    Attributes:
        header: all top-level keys but the events.
        assembly: the events.
        bare: whether the document was an array with no header.
        truncated: whether the end is missing.
        damage: events mended or given up, in order.
        notes: what to know.
        text_times: whether timestamps were too large for a double.
    """

    header: dict[str, Any]
    assembly: Assembly
    bare: bool
    truncated: bool = False
    damage: list[Damage] = field(default_factory=list)
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
    """
    blocks = source.blocks()
    scan, buffer = _find_events(source, blocks)
    doc = Document({}, Assembly() if assembly is None else assembly, scan.bare)
    framer = Framer(buffer[scan.begin :], blocks, scan.begin)
    rest, at = _read_events(source, framer, doc, progress, workers)
    tail, tail_at = (b"", at) if rest is None else (rest, at)
    if rest is not None:
        tail = _read_tail(tail, blocks)
    _finish_header(doc, scan, tail, tail_at, cut=rest is None)
    _note_damage(doc)
    doc.notes[:0] = source.notes
    doc.truncated = doc.truncated or source.cut
    return doc


def _find_events(source: Source, blocks: Iterator[bytes]) -> tuple[HeaderScan, bytes]:
    """Read until the first event; the scan and all bytes read so far."""
    buffer, scan = b"", HeaderScan()
    for block in blocks:
        if not buffer:
            kind = kind_of_bytes(block[:65536])
            if kind is not None:
                raise NotATraceError(source.name, f"this is {kind[0]}.", kind[1])
        buffer = buffer + block if buffer else block
        if scan.feed(buffer):
            break
        if (kind := kind_of_keys(scan.keys)) is not None or scan.too_large(buffer):
            break
    if scan.begin >= 0:
        return scan, buffer
    kind = kind_of_keys(scan.keys)
    if kind is not None:
        raise NotATraceError(source.name, f"this is {kind[0]}.", kind[1])
    if not buffer:
        raise EmptyTraceError(
            source.name,
            "nothing could be inflated from it.",
            "The file is damaged from its start; copy it again.",
        )
    if scan.ended or scan.too_large(buffer):
        keys = ", ".join(sorted(scan.keys)[:8]) or "none"
        raise NotATraceError(
            source.name,
            f"JSON without traceEvents (its keys: {keys}).",
            "Name the file that torch.profiler exported.",
        )
    raise EmptyTraceError(
        source.name,
        f"the file is cut within its header, after {len(buffer):,} bytes: there is no event in it.",
        "Copy or record it again.",
    )


def _read_events(
    source: Source, framer: Framer, doc: Document, progress: Progress | None, workers: Workers | None
) -> tuple[bytes | None, int]:
    """Decode all chunks; (text after the events, its offset), the text None when the file ends before that."""
    pending: deque[tuple[Chunk, Job | DecodedChunk | None]] = deque()
    chunks = framer.chunks()
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
        if _rejoin(doc, decoded, chunk, pending):
            continue
        _take(doc, decoded)
        if decoded.end is not None:
            # Chunks already cut off behind the end of the events hold what follows them.
            rest = b",".join([chunk.data[decoded.end :], *(c.data for c, _ in pending), framer.carry])
            return rest, chunk.offset + decoded.end
        if chunk.last:
            doc.truncated = True
            at = chunk.offset + len(chunk.data) - len(decoded.cut)
            doc.notes.append(Note("truncated", {"offset": at, "events": doc.assembly.n_seen}))
            return None, at
    return None, 0


def _rejoin(
    doc: Document,
    decoded: DecodedChunk,
    chunk: Chunk,
    pending: deque[tuple[Chunk, Job | DecodedChunk | None]],
) -> bool:
    """Join a chunk whose last event is unreadable with the next one: it may have been cut within an event's arguments."""
    if chunk.last or not pending or not decoded.damage or decoded.damage[-1].kept:
        return False
    last = decoded.damage[-1]
    if last.what != "unreadable" or last.offset + len(last.text) != chunk.offset + len(chunk.data):
        return False
    follower = pending[0][0]
    if not _joins(last.text, follower.data):
        return False
    pending.popleft()
    joined = Chunk(b"[" + chunk.data + b"," + follower.data + b"]", chunk.offset, follower.last)
    pending.appendleft((joined, None))
    return True


def _joins(text: bytes, follower: bytes) -> bool:
    """Whether an unfinished piece becomes an event with the beginning of the next chunk."""
    head = follower[: 256 << 10]
    return not any(not d.kept and d.offset == 0 for d in mend_chunk(text + b"," + head, 0, False).damage)


def _take(doc: Document, decoded: DecodedChunk) -> None:
    doc.assembly.add(decoded.columns)
    doc.damage += decoded.damage


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
    head = scan.header.rstrip(b" \t\r\n\0,") + b"}"
    doc.header.update(_object(doc, head))
    if cut:
        return
    close = _document_end(tail)
    if close is None:
        doc.truncated = True
        doc.notes.append(Note("unfinished", {"offset": tail_at + len(tail)}))
        body = tail.rstrip(b" \t\r\n\0,")
    else:
        body = tail[: close - 1]
        if tail[close:].strip(b" \t\r\n\0"):
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


def _object(doc: Document, text: bytes) -> dict[str, Any]:
    import msgspec

    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        mended = mend_object(text)
        doc.notes.append(Note("header-damaged" if mended is None else "header-repaired"))
        return mended or {}
    return value if isinstance(value, dict) else {}


def _note_damage(doc: Document) -> None:
    """One note for what was mended and one for what was lost, each with its kinds, count and first place."""
    for kept, note in ((True, "repaired"), (False, "skipped")):
        some = [d for d in doc.damage if d.kept is kept]
        if some:
            kinds = Counter(d.what for d in some)
            what = ", ".join(f"{kind}: {n:,}" for kind, n in kinds.most_common(6))
            doc.notes.append(Note(note, {"count": len(some), "what": what, "offset": some[0].offset}))


def workers_for(source: Source) -> int:
    """How many processes are worth starting for a source."""
    size = source.size
    if size is None or size < _WORKERS_FROM_BYTES // (12 if source.name.endswith(".gz") else 1):
        return 0
    return min(4, max(0, len(os.sched_getaffinity(0)) - 1)) if hasattr(os, "sched_getaffinity") else 1
