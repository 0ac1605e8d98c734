"""One event out of text that is sound JSON, whatever the types of its fields, and wherever in the text it ends."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .records import ARGS_FIELDS, NOTHING, Args, TextEvent

__all__ = ["DECODE_ERRORS", "Found", "decoded_event", "end_before", "end_by"]

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Found = tuple[TextEvent, int, tuple[str, ...]]  # event, bytes used, kinds of damage

_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")


def decoded_event(text: bytes) -> Found | None:
    """The event at the beginning of sound text."""
    try:
        return msgspec.json.decode(text, type=TextEvent), len(text), ()
    except msgspec.ValidationError:
        used = _value_end(text)
    except DECODE_ERRORS as why:
        used = end_by(why, text)
    if used is None:
        return None
    text = text[:used]
    try:
        return msgspec.json.decode(text, type=TextEvent), used, ()
    except msgspec.ValidationError:
        found = _coerced(text)
        return None if found is None else (found[0], used, found[1])
    except DECODE_ERRORS:
        return None


def _value_end(text: bytes) -> int | None:
    """Where the object ends that text begins with."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except DECODE_ERRORS as why:
        return end_by(why, text)
    return len(text)


def end_by(why: Exception, text: bytes, closing: bytes = b"}") -> int | None:
    """Where the value ends after which decoding found more text, by its error; None for any other error."""
    trailing = _TRAILING.search(str(why))
    return None if trailing is None else end_before(text, int(trailing.group(1)), closing)


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


def _coerced(text: bytes) -> tuple[TextEvent, tuple[str, ...]] | None:
    """An event whose fields have unusual types: what fits is kept."""
    try:
        fields: Any = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        loose: dict[str, Any] = {
            key: msgspec.json.decode(raw)
            for key, raw in fields.items()
            if key in ("ph", "cat", "name", "pid", "tid", "id", "ts", "dur", "args")
        }
    except DECODE_ERRORS:
        return None
    event, odd = TextEvent(), False
    for key in ("ph", "cat", "name", "pid", "tid", "id"):
        value = loose.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            value, odd = None, True
        if key in ("ph", "cat", "name") and value is not None and not isinstance(value, str):
            value = str(value)
        setattr(event, key, value)
    # The text of a number, so that it stays exact; also out of a string.
    ts, dur = (_number_text(loose.get(key), fields.get(key)) for key in ("ts", "dur"))
    event.ts = msgspec.Raw(ts.encode()) if ts is not None else NOTHING
    event.dur = None if dur is None else float(dur)
    event.args = _coerced_args(loose.get("args"))
    odd = odd or (loose.get("args") is not None and event.args is None)
    odd = odd or any(got is None and loose.get(key) is not None for key, got in (("ts", ts), ("dur", dur)))
    return event, ("types",) if odd else ()


def _number_text(value: Any, raw: msgspec.Raw | None) -> str | None:
    if isinstance(value, bool) or value is None or raw is None:
        return None
    text = value.strip() if isinstance(value, str) else bytes(raw).decode("ascii", "replace").strip()
    return text if _NUMBER.match(text) else None


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
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            setattr(args, name, value)
    return args
