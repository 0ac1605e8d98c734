"""Telling what a file is when it is no PyTorch trace: by its first bytes, the keys of its JSON object, or its name."""

from __future__ import annotations

import re
from pathlib import Path

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
    (b"PERFILE2", "perf"),
    (b"\x89PNG", "png"),
    (b"%PDF", "pdf"),
    (b"\x7fELF", "elf"),
    (b"\x89HDF", "hdf5"),
    (b"\x1f\x8b", "gzip-twice"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\0\0\xfe\xff", "utf-16"),
)
_TAR = slice(257, 262), b"ustar"
_WIDE_TEXT = re.compile(rb"\0{0,3}[\[{]\0(?:\0\0)?[ \t\r\n\"{]|\0[\[{]\0")  # UTF-16 or UTF-32 without a mark
_STACKS = re.compile(rb"[^;\n]+(?:;[^;\n]+)+ \d+\r?\n")
_PYTHON_TEXT = re.compile(rb"\s*\[?\s*\{\s*'")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# The first file in the archive that torch.save writes.
_CHECKPOINT = re.compile(
    rb"PK\x03\x04.{26}[^/]{1,255}/(?:data\.pkl|\.format_version|\.data/|byteorder|constants\.pkl)", re.DOTALL
)
# What torch.save wrote before it wrote archives: its magic number, pickled.
_OLD_CHECKPOINT = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
_SCHEMA = re.compile(rb'"schema"\s*:\s*"lanewise\.')
# Kinds that the first bytes do not tell, by the ends of their names; and which kinds by bytes they may have.
_NAMES: tuple[tuple[str, str], ...] = (
    (".nsys-rep", "nsys"),
    (".qdrep", "nsys"),
    (".ncu-rep", "ncu"),
    (".xplane.pb", "xplane"),
    (".pftrace", "perfetto"),
    (".perfetto-trace", "perfetto"),
)
_UNTOLD = frozenset({"binary", "text", "blank", "perfetto"})
_TRACE_SUFFIXES = (".json.gz", ".json", ".pt.trace.json.gz", ".pt.trace.json")

# Keys that only such documents have at the top level.
_KEYS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"nodes"}), "execution-trace"),
    (frozenset({"segments", "device_traces"}), "memory-snapshot"),
    (frozenset({"profiles", "shared"}), "speedscope"),
    (frozenset({"nccl_comm_state", "pg_config"}), "flight-recorder"),
)


def kind_of_bytes(head: bytes) -> str | None:
    """The kind of a file that cannot be JSON, from its first bytes; None when it may be JSON.

    A pickle is only recognised, never loaded: loading one runs code of whoever wrote it.
    """
    if (kind := _kind_of_binary(head)) is not None:
        return kind
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not text:
        return "blank"
    if text[:1] == b"<":
        if b" - lanewise</title>" in head:
            return "own-page"
        return "html" if b"<html" in head[:2048].lower() or b"<!doctype" in head[:2048].lower() else "xml"
    if text[:1] not in b"{[":
        if b"# of Calls" in head:
            return "op-table"
        if _STACKS.match(text):
            return "stacks"
        printable = sum(32 <= b < 127 or b in b"\t\r\n" for b in head[:512])
        return "text" if printable >= 0.9 * len(head[:512]) else "binary"
    return None


def _kind_of_binary(head: bytes) -> str | None:
    """The kind of what is no text in UTF-8, or not that of a JSON document."""
    if _CHECKPOINT.match(head):
        return "checkpoint"
    if (kind := next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)) is not None:
        return kind
    if head[_TAR[0]] == _TAR[1]:
        return "tar"
    if _PICKLE.match(head):
        return _kind_of_pickle(head)
    if _is_protobuf_trace(head):
        return "perfetto"
    if _WIDE_TEXT.match(head):
        return "utf-16"
    return "python-text" if _PYTHON_TEXT.match(head) else None


def _kind_of_pickle(head: bytes) -> str:
    if b"segments" in head or b"device_traces" in head:
        return "memory-snapshot"
    if b"pg_config" in head or b"nccl_version" in head:
        return "flight-recorder"
    return "checkpoint" if _OLD_CHECKPOINT in head or b"_rebuild_tensor" in head else "pickle"


def _is_protobuf_trace(head: bytes) -> bool:
    """Whether this begins with messages of field 1, each with its length, as a Perfetto trace does."""
    at, messages = 0, 0
    while at < len(head) and head[at] == 0x0A and messages < 3:
        size, shift, at = 0, 0, at + 1
        while at < len(head) and shift < 35:
            size |= (head[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if head[at - 1] < 0x80:
                break
        if not size:  # no message: line feeds before JSON
            return False
        at, messages = at + size, messages + 1
    # Text begins with a line feed too, but has no further ones just where the lengths say.
    return messages == 3 or (messages > 0 and at >= len(head) and head[1:2] not in b" \t\r\n{[")


def kind_of_keys(keys: set[str], head: bytes = b"") -> str | None:
    """The kind of a document, from the keys of a JSON object without ``traceEvents``, and its text."""
    found = next((kind for wanted, kind in _KEYS if wanted & keys), None)
    if found is None and "schema" in keys:
        found = "report" if "findings" in keys else "own-document" if _SCHEMA.search(head) else None
    return found


def refusal(name: str, kind: str, **slots: object) -> NotATraceError:
    """The error for a file of another kind, with what to do instead."""
    if kind in _UNTOLD:
        kind = next((named for end, named in _NAMES if name.lower().endswith(end)), kind)
        kind = "tfevents" if ".tfevents." in name else kind
    next_step = TEXTS.message(f"{kind}-next" if f"{kind}-next" in TEXTS.english else "name-trace")
    if kind == "op-table" and (beside := _trace_beside(name)):
        next_step = TEXTS.message("op-table-beside", name=beside)
    return NotATraceError(name, TEXTS.message(kind, **slots), next_step)


def _trace_beside(name: str) -> str | None:
    """The trace that has a table's name, if there is one."""
    path = Path(name)
    found = (path.with_name(path.stem + suffix) for suffix in _TRACE_SUFFIXES)
    return next((str(p) for p in found if path.suffix and p.is_file()), None)
