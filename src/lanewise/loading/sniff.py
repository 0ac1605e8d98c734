"""Telling what a file is when it is no PyTorch trace, by its first bytes or by the keys of its JSON object."""

from __future__ import annotations

import re

from lanewise.errors import NotATraceError

from .texts import TEXTS

__all__ = ["kind_of_bytes", "kind_of_keys", "refusal"]

# First bytes of other kinds of files; the names of kinds are keys of their texts.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"SQLite format 3\x00", "sqlite"),
    (b"\x89PNG", "png"),
    (b"%PDF", "pdf"),
    (b"\x7fELF", "elf"),
    (b"\x89HDF", "hdf5"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")

# Keys that only such documents have at the top level.
_KEYS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"nodes"}), "execution-trace"),
    (frozenset({"segments", "device_traces"}), "memory-snapshot"),
    (frozenset({"profiles", "shared"}), "speedscope"),
)


def kind_of_bytes(head: bytes) -> str | None:
    """The kind of a file that cannot be JSON, from its first bytes; None when it may be JSON.

    A pickle is only recognised, never loaded: loading one runs code of whoever wrote it.
    """
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if _PICKLE.match(head):
        return "pickle"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not text:
        return "blank"
    if text[:1] == b"<":
        return "html" if b"<html" in head[:2048].lower() or b"<!doctype" in head[:2048].lower() else "xml"
    if text[:1] not in b"{[":
        printable = sum(32 <= b < 127 or b in b"\t\r\n" for b in head[:512])
        return "text" if printable >= 0.9 * len(head[:512]) else "binary"
    return None


def kind_of_keys(keys: set[str]) -> str | None:
    """The kind of a document, from the keys of a JSON object without ``traceEvents``."""
    found = next((kind for wanted, kind in _KEYS if wanted & keys), None)
    return "report" if found is None and {"schema", "findings"} <= keys else found


def refusal(name: str, kind: str, **slots: object) -> NotATraceError:
    """The error for a file of another kind, with what to do instead."""
    next_step = f"{kind}-next" if f"{kind}-next" in TEXTS.english else "name-trace"
    return NotATraceError(name, TEXTS.message(kind, **slots), TEXTS.message(next_step))
