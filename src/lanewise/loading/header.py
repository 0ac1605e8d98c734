"""What a trace's header and file name say: devices, rank, base time, format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from lanewise.model.notes import Note
from lanewise.model.trace import DeviceProperties, Distributed

__all__ = ["base_time", "devices_of", "distributed_of", "rank_in_name"]

_INTEGER = re.compile(r"\s*-?[0-9]{1,19}\s*\Z")
_RANK = re.compile(r"(?<![A-Za-z])rank[-_ .=]?(\d{1,6})(?!\d)", re.IGNORECASE)


def _integer(value: Any) -> int | None:
    """An integer of 64 bits, or None for anything else."""
    if isinstance(value, str) and _INTEGER.match(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def _count(value: Any) -> int | None:
    """An integer that is not negative, or None."""
    number = _integer(value)
    return None if number is None or number < 0 else number


def base_time(header: dict[str, Any]) -> int | None:
    """``baseTimeNanoseconds``: what every timestamp counts from."""
    return _integer(header.get("baseTimeNanoseconds"))


def devices_of(header: dict[str, Any], used: Iterable[int]) -> tuple[DeviceProperties, ...]:
    """The header's devices, and those that have GPU ops and no entry there (as on ROCm with renumbered devices)."""
    found: dict[int, DeviceProperties] = {}
    entries = header.get("deviceProperties")
    for place, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict):
            continue
        index = _integer(entry.get("id"))
        major, minor = _integer(entry.get("computeMajor")), _integer(entry.get("computeMinor"))
        name = entry.get("name")
        device = DeviceProperties(
            index=place if index is None else index,
            name=name.strip() or None if isinstance(name, str) else None,
            sms=_count(entry.get("numSms")),
            memory_bytes=_count(entry.get("totalGlobalMem")),
            compute_capability=None if major is None or minor is None else (major, minor),
            properties=entry,
        )
        found.setdefault(device.index, device)
    for index in used:
        if index >= 0:
            found.setdefault(index, DeviceProperties(index))
    return tuple(found.values())


def rank_in_name(path: str) -> int | None:
    """The rank in a file name like ``trace_rank3.json`` or ``rank-0.pt.trace.json.gz``, if there is one."""
    match = _RANK.search(PurePath(path).name)
    return int(match.group(1)) if match else None


def distributed_of(header: dict[str, Any], path: str, notes: list[Note]) -> Distributed:
    """Rank and world size; the header is the profiler's own word, the file's name only stands in for it."""
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    rank, named = _count(info.get("rank")), rank_in_name(path)
    world = _count(info.get("world_size"))
    backend = info.get("backend")
    backend = backend if isinstance(backend, str) else None
    if rank is not None:
        if named is not None and named != rank:
            notes.append(Note("rank-disagrees", {"name_rank": named, "rank": rank}))
        return Distributed(rank, world, backend, "header")
    if named is not None:
        notes.append(Note("rank-from-name", {"rank": named}))
        return Distributed(named, world, backend, "file name")
    return Distributed(None, world, backend, None)
