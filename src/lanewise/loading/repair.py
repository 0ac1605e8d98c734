"""Reading a chunk that is not sound JSON: event by event, mending what can be mended and counting what cannot.

A chunk is split where events begin, whatever its strings hold, so damage stays within its event. Each piece is decoded as it
stands, else mended step by step (encoding, control characters, backslashes, numbers, commas, quotes), else given up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .framing import EVENT_START
from .records import ARGS_FIELDS, NOTHING, Args, TextEvent

__all__ = ["TRAILING", "Damage", "Mended", "end_before", "mend_chunk", "mend_object", "silent_backslash"]

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STRING_OR_BARE = re.compile(rb'("(?:[^"\\]|\\.)*")|([^\s,:{}\[\]"]+)', re.DOTALL)
_STRING_OR_COMMAS = re.compile(rb'("(?:[^"\\]|\\.)*")|,(?:\s*,)+|,(?=\s*[}\]])|(?<=[{\[])\s*,', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z|true\Z|false\Z|null\Z")
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_DRIVE = re.compile(rb"(?<![A-Za-z])[A-Za-z]:\\(?![\\/])")
_ANY_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_KEY_AND_QUOTE = re.compile(rb'"[^"\\\n]{1,64}"\s*:\s*"')
_CLOSING_QUOTE = re.compile(rb'"(?=\s*(?:,\s*"[^"\\\n]{1,64}"\s*:|\}))')
_END_OF_EVENTS = re.compile(rb'[\s\0]*(?:,[\s\0]*"|\}|\Z)')

TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_MERGE_PIECES = 16  # an event with objects in its arguments may be split; more than this many are not joined again


@dataclass(slots=True)
class Damage:
    """One event that was mended or given up."""

    offset: int
    kept: bool
    what: str
    text: bytes = b""


@dataclass(slots=True)
class Mended:
    """What a damaged chunk gave."""

    events: list[TextEvent] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    end: int | None = None  # where in the chunk the array of events was closed
    cut: bytes = b""  # an unfinished event at the very end


def silent_backslash(data: bytes) -> bool:
    r"""Whether a Windows path with single backslashes is in there: ``C:\new`` decodes, and reads as a line feed."""
    return b"\\" in data and b":\\" in data and _DRIVE.search(data) is not None


def mend_chunk(data: bytes, offset: int, last: bool) -> Mended:
    """Decode a damaged chunk event by event.

    Args:
        data: text of the chunk.
        offset: of its first byte in the whole text, for messages.
        last: whether nothing follows it, so that an unfinished event at its end is a cut file.
    """
    out = Mended()
    starts = [0, *(m.end() for m in EVENT_START.finditer(data))]
    ends = [*(m.start() + 1 for m in EVENT_START.finditer(data)), len(data)]
    i = 0
    while i < len(starts):
        taken = _piece(data, offset, starts, ends, i, out)
        if taken == 0:  # nothing fits: give this piece up, or take it for the end of a cut file
            piece = data[starts[i] : ends[i]]
            if i == len(starts) - 1 and last:
                out.cut = piece
            elif piece.strip(b" \t\r\n\0,"):
                out.damage.append(Damage(offset + starts[i], False, "unreadable", piece))
            taken = 1
        if out.end is not None:
            break
        i += taken
    return out


def _piece(data: bytes, offset: int, starts: list[int], ends: list[int], i: int, out: Mended) -> int:
    """Decode the event that begins at piece `i`; how many pieces it took, 0 when it is beyond repair."""
    piece = data[starts[i] : ends[i]]
    for attempt in (_decoded, _mended):
        # A sound event may have been split at objects within its arguments, so whole joins come before any mending.
        for n in range(1, _MERGE_PIECES if attempt is _decoded else 2):
            if i + n > len(starts):
                break
            joined = piece if n == 1 else data[starts[i] : ends[i + n - 1]]
            found = attempt(joined)
            if found is None:
                if attempt is _decoded and n == 1 and not _unbalanced(joined):
                    break
                continue
            event, how, used = found
            out.events.append(event)
            if how:
                out.damage.append(Damage(offset + starts[i], True, how))
            if used is not None:
                _after_event(data, starts[i] + used, out, offset)
            return n
    if piece.lstrip(b" \t\r\n\0,")[:1] == b"]":
        out.end = starts[i] + data[starts[i] :].index(b"]") + 1
        return 1
    return 0


def _unbalanced(piece: bytes) -> bool:
    return piece.count(b"{") > piece.count(b"}")


def _after_event(data: bytes, at: int, out: Mended, offset: int) -> None:
    """What stands after an event's closing brace within its piece: the end of the array, or rubbish."""
    rest = data[at:].lstrip(b" \t\r\n\0,")
    if rest[:1] == b"]":
        close = len(data) - len(rest) + 1
        if _END_OF_EVENTS.match(data, close):
            out.end = close
            return
    if rest:
        out.damage.append(Damage(offset + at, False, "rubbish between events", rest[:200]))


def _decoded(piece: bytes) -> tuple[TextEvent, str, int | None] | None:
    """(event, how it was mended, bytes used where not all) for sound text."""
    if silent_backslash(piece):
        return None
    return _decode_prefix(piece)


def _decode_prefix(piece: bytes) -> tuple[TextEvent, str, int | None] | None:
    try:
        return msgspec.json.decode(piece, type=TextEvent), "", None
    except msgspec.ValidationError:
        return _coerced(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        trailing = TRAILING.search(str(why))
    used = None if trailing is None else end_before(piece, int(trailing.group(1)), b"}")
    if used is None:
        return None
    stripped = piece[:used]
    try:
        return msgspec.json.decode(stripped, type=TextEvent), "", len(stripped)
    except msgspec.ValidationError:
        found = _coerced(stripped)
        return None if found is None else (found[0], found[1], len(stripped))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def end_before(text: bytes, reported: int, closing: bytes) -> int | None:
    """Offset after the value that decoding took before it found more text.

    The decoder reports a place at or one after the first byte that does not belong; between the value's closing bracket and
    that byte there is only white space.
    """
    for at in (reported - 1, reported):
        value = text[:at].rstrip(b" \t\r\n")
        if value.endswith(closing):
            return len(value)
    return None


def _coerced(piece: bytes) -> tuple[TextEvent, str, int | None] | None:
    """An event whose fields have unusual types: what fits is kept."""
    try:
        loose: Any = msgspec.json.decode(piece)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(loose, dict):
        return None
    event, odd = TextEvent(), False
    for key in ("ph", "cat", "name", "pid", "tid", "id"):
        value = loose.get(key)
        if value is not None and not isinstance(value, str | int | float):
            value, odd = None, True
        if key in ("ph", "cat", "name") and value is not None and not isinstance(value, str):
            value = str(value)
        setattr(event, key, value)
    ts, dur = _as_number(loose.get("ts")), _as_number(loose.get("dur"))
    event.ts = msgspec.Raw(ts.encode()) if ts is not None else NOTHING
    event.dur = float(dur) if dur is not None else None
    event.args = _coerced_args(loose.get("args"))
    odd = odd or (loose.get("args") is not None and event.args is None)
    return event, "unusual types" if odd else "", None


def _as_number(value: Any) -> str | None:
    """A number's text, also out of a string."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    return text if _NUMBER.match(text.encode()) and text[:1] not in "tfn" else None


def _coerced_args(loose: Any) -> Args | None:
    if not isinstance(loose, dict):
        return None
    args = Args()
    for key, value in loose.items():
        name = ARGS_FIELDS.get(key)
        if name is None or value is None:
            continue
        if name in ("dims", "types", "strides", "concrete"):
            setattr(args, name, msgspec.Raw(msgspec.json.encode(value)))
        elif name in ("grid", "block", "name", "labels"):
            setattr(args, name, value)
        elif name in ("call_stack", "collective", "dtype", "group_name", "group_text", "sync_kind"):
            setattr(args, name, value if isinstance(value, str) else None)
        elif isinstance(value, int | float | str):
            setattr(args, name, value)
    return args


# ---------------------------------------------------------------- mending, one kind of damage a function


def _utf8(piece: bytes) -> bytes:
    return piece.decode("utf-8", "replace").encode("utf-8")


def _controls(piece: bytes) -> bytes:
    def escaped(match: re.Match[bytes]) -> bytes:
        return _CONTROL.sub(lambda c: b"\\u%04x" % c.group()[0], match.group())

    return _STRING.sub(escaped, piece).replace(b"\0", b" ")


def _backslashes(piece: bytes) -> bytes:
    """Backslashes that were meant as themselves: all of a string's, where one of them is no escape and none is doubled."""

    def doubled(match: re.Match[bytes]) -> bytes:
        text = match.group()
        if _DRIVE.search(text) or (_BAD_ESCAPE.search(text) and b"\\\\" not in text):
            inside = _ANY_ESCAPE.sub(lambda m: m.group() if m.group(1) in b'"\\' else b"\\" + m.group(), text[1:-1])
            return b'"' + inside + b'"'
        return _BAD_ESCAPE.sub(rb"\\\\", text)

    return _STRING.sub(doubled, piece)


def _numbers(piece: bytes) -> bytes:
    """inf, nan, N/A, -1.-660, ... are no numbers: they become null."""

    def fixed(match: re.Match[bytes]) -> bytes:
        bare = match.group(2)
        return match.group() if bare is None or _NUMBER.match(bare) else b"null"

    return _STRING_OR_BARE.sub(fixed, piece)


def _commas(piece: bytes) -> bytes:
    def fixed(match: re.Match[bytes]) -> bytes:
        if match.group(1) is not None:
            return match.group()
        follows = piece[match.end() : match.end() + 64].lstrip()[:1]
        return b"," if match.group().count(b",") > 1 and follows not in (b"}", b"]") else b""

    return _STRING_OR_COMMAS.sub(fixed, piece)


def _quotes(piece: bytes) -> bytes:
    """Quotes inside a string value: the value goes on until a quote that the next key or the closing brace follows."""
    out, at = [], 0
    while match := _KEY_AND_QUOTE.search(piece, at):
        out.append(piece[at : match.end()])
        close = _CLOSING_QUOTE.search(piece, match.end())
        if close is None:
            at = match.end()
            break
        inside = piece[match.end() : close.start()]
        if inside[-1:] == b"\\" and inside[-2:-1] != b"\\":
            inside += b"\\"  # a Windows path that ends in a backslash
        out.append(re.sub(rb'(?<!\\)"', rb'\\"', inside))
        at = close.start()
        out.append(b'"')
        at += 1
    out.append(piece[at:])
    return b"".join(out)


_STEPS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("bytes that are not UTF-8", _utf8),
    ("raw control characters", _controls),
    ("backslashes that are no escapes", _backslashes),
    ("numbers that are none", _numbers),
    ("stray commas", _commas),
    ("unescaped quotes", _quotes),
)


def _mended(piece: bytes) -> tuple[TextEvent, str, int | None] | None:
    """The event after as few mending steps as it takes; a step is named only when it changed something."""
    text, how = piece, []
    for what, step in _STEPS:
        changed = step(text)
        if changed == text:
            continue
        text = changed
        how.append(what)
        found = None if silent_backslash(text) else _decode_prefix(text)
        if found is not None:
            event, _, used = found
            # Offsets moved with the mending: find the end of the array from the back of the original.
            at = None if used is None else len(piece) - (len(text) - used)
            return event, ", ".join(how), at
    found = _decode_prefix(_controls(_quotes(_utf8(piece))))
    if found is not None:
        return found[0], "unescaped quotes", None if found[2] is None else len(piece)
    return None


def mend_object(text: bytes) -> dict[str, Any] | None:
    """A JSON object (a trace's header) out of damaged text, or None."""
    for step in (None, *(s for _, s in _STEPS)):
        text = text if step is None else step(text)
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None
