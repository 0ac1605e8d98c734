"""Telling what a file is when it is no PyTorch trace, by its first bytes or by the keys of its JSON object."""

from __future__ import annotations

import re

__all__ = ["kind_of_bytes", "kind_of_keys"]

# (first bytes, what the file is, what to do instead)
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive", "Unpack it and name the trace inside."),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "Unpack it with: zstd -d"),
    (b"BZh", "a bzip2 archive", "Unpack it with: bunzip2"),
    (b"\xfd7zXZ\x00", "an xz archive", "Unpack it with: unxz"),
    (
        b"SQLite format 3\x00",
        "an SQLite database, as Nsight Systems exports",
        "lanewise reads PyTorch profiler traces (JSON).",
    ),
    (b"\x89PNG", "a PNG picture", "Name the trace that it shows."),
    (b"%PDF", "a PDF document", "Name a trace file."),
    (b"\x7fELF", "a program", "Name a trace file."),
    (b"\x89HDF", "an HDF5 file", "Name a trace file."),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")

# (keys that only such a document has at the top level, what it is, what to do instead)
_KEYS: tuple[tuple[frozenset[str], str, str], ...] = (
    (
        frozenset({"nodes"}),
        "an execution trace (a graph of nodes, as Chakra and ExecutionTraceObserver write), not a timeline",
        "Name the Kineto trace that was recorded beside it.",
    ),
    (
        frozenset({"segments", "device_traces"}),
        "a CUDA memory snapshot, not a timeline",
        "Open it with PyTorch's memory visualiser.",
    ),
    (
        frozenset({"profiles", "shared"}),
        "a speedscope file of Python stacks, not a PyTorch trace",
        "Name the trace that torch.profiler exported.",
    ),
)


def kind_of_bytes(head: bytes) -> tuple[str, str] | None:
    """(what the file is, what to do) for a file that cannot be JSON, from its first bytes; None when it may be JSON.

    A pickle is only recognised, never loaded: loading one runs code of whoever wrote it.
    """
    for magic, kind, hint in _MAGIC:
        if head.startswith(magic):
            return kind, hint
    if _PICKLE.match(head):
        return (
            "a Python pickle, such as a CUDA memory snapshot, not a JSON trace",
            "Name the trace that torch.profiler exported.",
        )
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "text in UTF-16, as a redirection in Windows PowerShell writes", "Save it as UTF-8."
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not text:
        return "blank: nothing but spaces", "Record the trace again."
    if text[:1] == b"<":
        page = b"<html" in head[:2048].lower() or b"<!doctype" in head[:2048].lower()
        kind = "an HTML page, perhaps an error page saved in place of the trace" if page else "XML, not JSON"
        return kind, "Download the trace again and look at what arrives."
    if text[:1] not in b"{[":
        printable = sum(32 <= b < 127 or b in b"\t\r\n" for b in head[:512])
        if printable >= 0.9 * len(head[:512]):
            return "text, not a JSON trace", "Name the file that torch.profiler exported."
        return "a binary file, not a JSON trace", "Name the file that torch.profiler exported."
    return None


def kind_of_keys(keys: set[str]) -> tuple[str, str] | None:
    """(what the document is, what to do) from the keys of a JSON object without ``traceEvents``."""
    for wanted, kind, hint in _KEYS:
        if wanted & keys:
            return kind, hint
    if {"schema", "findings"} <= keys:
        return "a lanewise report, not a trace", "Name the trace that it was made from."
    return None
