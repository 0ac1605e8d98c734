"""Events as columns: one chunk's records become small NumPy arrays, and the chunks of a trace become its tables.

A chunk numbers its strings, lanes and input signatures by itself, so chunks can be decoded anywhere, also in other
processes; `Assembly` gives them the trace's numbers.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.schema import CATEGORIES, CATEGORY_CODES, OLD_SPELLINGS, OTHER_CATEGORY, canonical_category

from .exact import exact_ns
from .records import EXACT_FLOAT_US, NOTHING, Args, Event, TextEvent
from .usual import LAUNCH_ARROWS, kinds
from .values import LARGEST_STREAM, MISSING, MOST_DEVICES, floats, integers, ratios, small, triples, within

__all__ = ["ChunkColumns", "Numbering", "chunk_columns"]

Array = npt.NDArray[Any]
_NO_ARGS = Args()
# A duration beyond a year is none: a negative one as an unsigned number, or a number out of a damaged file. It is left out, so
# that sums of durations fit into int64.
_LONGEST_US = 366 * 86400 * 1e6
_LANE_NUMBER = re.compile(r"-?[0-9]{1,19}\Z")


_NAME, _PID, _TID, _TS, _DUR = map(attrgetter, ("name", "pid", "tid", "ts", "dur"))


class Numbering:
    """Gives each distinct value a number, in order of first sight."""

    def __init__(self) -> None:
        self._ids: defaultdict[Any, int] = defaultdict(count().__next__)

    def codes(self, values: Iterable[Any], dtype: Any = np.int32) -> Array:
        """The numbers of the values."""
        return np.array(list(map(self._ids.__getitem__, values)), dtype=dtype)

    def values(self) -> list[Any]:
        """All values, in the order of their numbers."""
        return list(self._ids)


@dataclass(slots=True)
class Numbers:
    """The three numberings of a chunk."""

    strings: Numbering = field(default_factory=Numbering)
    lanes: Numbering = field(default_factory=Numbering)
    inputs: Numbering = field(default_factory=Numbering)


@dataclass(slots=True)
class ChunkColumns:
    """What one chunk holds, as arrays; strings, lanes and inputs by the chunk's own numbers."""

    tables: dict[str, dict[str, Array]] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    lanes: list[tuple[Any, Any]] = field(default_factory=list)
    inputs: list[tuple[bytes | None, ...]] = field(default_factory=list)
    metadata: list[tuple[Any, Any, str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    unknown_categories: dict[str, int] = field(default_factory=dict)


class NeedsTextError(Exception):
    """These timestamps do not fit a double: decode the chunk again with their text."""


def _times(events: Sequence[Any], text: bool) -> Array:
    """Timestamps in float64 microseconds checked to be exact, or int64 ns from text; NaN / minimum where there is none."""
    if text:
        return exact_ns(list(map(_TS, events)))
    us = np.array(list(map(_TS, events)), dtype=np.float64)  # None becomes NaN
    finite = us[np.isfinite(us)]
    if finite.size and np.abs(finite).max() >= EXACT_FLOAT_US:
        raise NeedsTextError
    return _to_ns(us)


NO_TIME = np.iinfo(np.int64).min


def _to_ns(us: Array) -> Array:
    known = np.isfinite(us)
    out = np.full(len(us), NO_TIME, dtype=np.int64)
    out[known] = np.rint(us[known] * 1000.0).astype(np.int64)
    return out


def _lane_key(pid: Any, tid: Any) -> tuple[Any, Any]:
    return _lane_part(pid), _lane_part(tid)


def _lane_part(value: Any) -> Any:
    """Lane ids as one thing: 25738 and "25738" are the same thread."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if _LANE_NUMBER.match(text) else text
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def chunk_columns(events: Sequence[Any], *, text: bool) -> ChunkColumns:
    """Sort the events of a chunk by kind and take their fields as columns.

    Args:
        events: records of `records` or of `usual`, in any mixture.
        text: whether their timestamps are text.

    Raises:
        NeedsTextError: the timestamps need `text`.
    """
    out = ChunkColumns()
    numbers = Numbers()
    spans, categories, others = _sorted(events)
    _other_phases(others, numbers, out, text)
    if spans:
        _spans(spans, categories, numbers, out, text)
    out.strings = numbers.strings.values()
    out.inputs = numbers.inputs.values()
    out.lanes = [_lane_key(*key) for key in numbers.lanes.values()]
    return out


@dataclass(slots=True)
class _Categories:
    """Categories of some spans: as in the file, and the number of each span's."""

    spellings: list[str | None]
    codes: Array


def _sorted(events: Sequence[Any]) -> tuple[Sequence[Any], _Categories, list[Any]]:
    """Spans, their categories, and what else is kept."""
    known = list(kinds().items())
    places = {record: place for place, (record, _) in enumerate(known)}
    general = len(known)
    places[Event] = places[TextEvent] = general
    place = np.fromiter(map(places.__getitem__, map(type, events)), dtype=np.int32, count=len(events))
    spellings: list[str | None] = [kind.category for _, kind in known]
    is_span = np.array([*(kind.span for _, kind in known), False])[place]
    is_other = np.array([*(kind.kept and not kind.span for _, kind in known), False])[place]
    rows = np.flatnonzero(place == general).tolist()
    if rows:
        numbering: dict[str | None, int] = {}
        for row in rows:
            e = events[row]
            if e.ph == "X":
                category = e.cat if e.cat is not None else _legacy_category(e)
                is_span[row] = True
                place[row] = general + numbering.setdefault(category, len(numbering))
            else:
                is_other[row] = e.cat not in LAUNCH_ARROWS
        spellings += numbering
    if is_span.all():
        return events, _Categories(spellings, place), []
    spans = list(compress(events, is_span.tolist()))
    others = [events[row] for row in np.flatnonzero(is_other).tolist()]
    return spans, _Categories(spellings, place[is_span]), others


def _lane_codes(spans: Sequence[Any], lanes: Numbering) -> Array:
    """Numbers of the lanes of some events: processes and threads by themselves first, which makes no tuple an event."""
    pid, processes = _by_first_sight(list(map(_PID, spans)))
    tid, threads = _by_first_sight(list(map(_TID, spans)))
    width = len(threads)
    pairs, place = np.unique(pid * width + tid, return_inverse=True)
    return lanes.codes([(processes[p // width], threads[p % width]) for p in pairs.tolist()])[place]


def _by_first_sight(values: list[Any]) -> tuple[Array, list[Any]]:
    """int64 (n,): numbers of the values in order of first sight; and the values."""
    try:
        ids = np.frombuffer(array("q", values), dtype=np.int64)
    except (TypeError, OverflowError):
        numbering = Numbering()
        return numbering.codes(values, np.int64), numbering.values()
    codes = np.full(len(ids), -1, dtype=np.int64)
    seen: list[Any] = []
    row = 0
    while codes[row] < 0:  # a chunk has a few processes and threads
        codes[ids == ids[row]] = len(seen)
        seen.append(values[row])
        row = int(codes.argmin())
    return codes, seen


def _spans(spans: Sequence[Any], categories: _Categories, numbers: Numbers, out: ChunkColumns, text: bool) -> None:
    ts = _times(spans, text)
    dur = floats(list(map(_DUR, spans)))
    names = numbers.strings.codes(_names(spans))
    lane = _lane_codes(spans, numbers.lanes)
    category = _category_codes(spans, categories, out)

    no_duration = np.isnan(dur)
    bad = (ts == NO_TIME) | (dur < 0) | (dur > _LONGEST_US)
    own = category == CATEGORY_CODES["Trace"]
    out.counts["skipped"] = out.counts.get("skipped", 0) + int((bad & ~own).sum())
    out.counts["no_duration"] = int((no_duration & ~bad & ~own).sum())
    keep = np.flatnonzero(~(bad | own))
    out.tables["events"] = {
        "ts": ts[keep],
        "dur": np.rint(np.nan_to_num(dur[keep], nan=0.0) * 1000.0).astype(np.int64),
        "category": category[keep],
        "name": names[keep],
        "lane": lane[keep],
    }
    if len(keep) != len(spans):
        spans = [spans[i] for i in keep.tolist()]
        category = category[keep]
    _typed_tables(spans, category, numbers, out)


def _names(spans: Sequence[Any]) -> list[str]:
    names = list(map(_NAME, spans))
    return names if all(names) else [name or "" for name in names]


def _category_codes(spans: Sequence[Any], categories: _Categories, out: ChunkColumns) -> Array:
    """int8 (spans,): codes of their categories; counts those that only some exporters write."""
    spellings, codes = categories.spellings, categories.codes
    names = [canonical_category(s) for s in spellings]
    counts = np.bincount(codes, minlength=len(spellings)).tolist()
    old = sum(n for n, spelling in zip(counts, spellings, strict=True) if spelling in OLD_SPELLINGS)
    if old:
        out.counts["old spelling"] = old
    for n, spelling, name in zip(counts, spellings, names, strict=True):
        if n and name == OTHER_CATEGORY:
            out.unknown_categories[str(spelling)] = n
    without = sum(e.cat is None and _legacy_category(e) is not None for e in spans) if spans[0].cat is None else 0
    if without:
        out.counts["no category"] = without
    return np.array([CATEGORY_CODES[name] for name in names], dtype=np.int8)[codes]


def _legacy_category(event: Any) -> str | None:
    """The category of an event without one, from the process names that the exporter before Kineto gave."""
    if event.pid == "CPU functions":
        return "cpu_op"
    if event.pid == "CUDA functions":
        name = event.name or ""
        return "gpu_memcpy" if name.startswith("Memcpy") else "gpu_memset" if name.startswith("Memset") else "kernel"
    return None


def _typed_tables(spans: Sequence[Any], category: Array, numbers: Numbers, out: ChunkColumns) -> None:
    """The tables that hold the arguments of one group of categories each."""
    table_of = np.array([_TABLE_PLACES.get(CATEGORIES[c].table, -1) for c in CATEGORIES], dtype=np.int8)[category]
    for place, (table, columns) in enumerate(_TABLES.items()):
        rows = np.flatnonzero(table_of == place)
        if not len(rows):
            continue
        args = [spans[i].args or _NO_ARGS for i in rows.tolist()]
        out.tables[table] = {"event": rows, **columns(args, numbers)}
        if table in ("cpu_ops", "gpu_ops"):
            _collectives(rows, args, numbers.strings, out)


def _gpu_columns(args: list[Args], numbers: Numbers) -> dict[str, Array]:
    grid, block = triples([a.grid for a in args]), triples([a.block for a in args])
    return {
        "correlation": integers([a.correlation for a in args]),
        "external_id": _external(args),
        "device": within([a.device for a in args], MOST_DEVICES),
        "stream": within([a.stream for a in args], LARGEST_STREAM),
        "bytes": integers([a.bytes for a in args]),
        "grid_x": grid[:, 0],
        "grid_y": grid[:, 1],
        "grid_z": grid[:, 2],
        "block_x": block[:, 0],
        "block_y": block[:, 1],
        "block_z": block[:, 2],
        "registers": small([a.registers for a in args]),
        "shared_memory": small([a.shared_memory for a in args]),
        "occupancy": ratios([a.occupancy for a in args]),
        "graph_node": integers([a.graph_node for a in args]),
    }


def _external(args: list[Args]) -> Array:
    new = integers([a.external_id for a in args])
    if (new == MISSING).all():  # traces of 2021 spell it in lower case
        return integers([a.old_external_id for a in args])
    return new


def _call_columns(args: list[Args], numbers: Numbers) -> dict[str, Array]:
    return {"correlation": integers([a.correlation for a in args]), "external_id": _external(args)}


def _op_columns(args: list[Args], numbers: Numbers) -> dict[str, Array]:
    if all(values.count(NOTHING) == len(args) for values in ([a.dims for a in args], [a.types for a in args])):
        inputs = np.full(len(args), MISSING, dtype=np.int32)
    else:
        inputs = _signatures(args, numbers)
    return {
        "external_id": _external(args),
        "sequence": integers([a.sequence for a in args]),
        "forward_thread": integers([a.forward_thread for a in args]),
        "inputs": inputs,
        "call_stack": _or_missing([a.call_stack for a in args], numbers.strings),
    }


def _signatures(args: list[Args], numbers: Numbers) -> Array:
    """The distinct inputs of ops, as text; MISSING where nothing was recorded."""
    signatures = [
        None
        if a.dims is NOTHING and a.types is NOTHING
        else (
            bytes(a.dims) or None,
            bytes(a.types) or None,
            bytes(a.strides) or None,
            bytes(a.concrete) or None,
        )
        for a in args
    ]
    return _or_missing(signatures, numbers.inputs)


def _or_missing(values: list[Any], numbering: Numbering) -> Array:
    if values.count(None) == len(values):
        return np.full(len(values), MISSING, dtype=np.int32)
    ids = numbering._ids
    return np.array([MISSING if v is None else ids[v] for v in values], dtype=np.int32)


def _python_columns(args: list[Args], numbers: Numbers) -> dict[str, Array]:
    return {
        "python_id": integers([a.python_id for a in args]),
        "python_parent": integers([a.python_parent for a in args]),
        "python_module": integers([a.python_module for a in args]),
    }


def _sync_columns(args: list[Args], numbers: Numbers) -> dict[str, Array]:
    return {
        "correlation": integers([a.correlation for a in args]),
        "device": within([a.device for a in args], MOST_DEVICES),
        "stream": within([a.stream for a in args], LARGEST_STREAM),
        "kind": _or_missing([a.sync_kind for a in args], numbers.strings),
        "wait_on_stream": integers([a.wait_stream for a in args]),
        "wait_on_record": integers([a.wait_record for a in args]),
    }


_TABLES: dict[str, Callable[[list[Args], Numbers], dict[str, Array]]] = {
    "gpu_ops": _gpu_columns,
    "calls": _call_columns,
    "cpu_ops": _op_columns,
    "python_frames": _python_columns,
    "syncs": _sync_columns,
}


_TABLE_PLACES = {table: place for place, table in enumerate(_TABLES)}


def _collectives(rows: Array, args: list[Args], strings: Numbering, out: ChunkColumns) -> None:
    """Collectives, which carry their sizes on CPU ops (record_param_comms) and, since torch 2.4, on kernels too."""
    found = [i for i, a in enumerate(args) if a.collective is not None]
    if not found:
        return
    some = [args[i] for i in found]
    new = {
        "event": rows[found],
        "collective": strings.codes([a.collective for a in some]),
        "in_elements": integers([a.in_elements for a in some]),
        "out_elements": integers([a.out_elements for a in some]),
        "dtype": _or_missing([a.dtype for a in some], strings),
        "group_size": integers([a.group_size for a in some]),
        "group_name": _or_missing([a.group_name for a in some], strings),
        "group_description": _or_missing([a.group_text for a in some], strings),
    }
    old = out.tables.get("collectives")
    out.tables["collectives"] = new if old is None else {k: np.concatenate([old[k], new[k]]) for k in new}


def _other_phases(events: list[Any], numbers: Numbers, out: ChunkColumns, text: bool) -> None:
    """Metadata, flows and memory events; what else there is is only counted."""
    flows, memory = [], []
    for e in events:
        if e.ph == "M":
            args = e.args or _NO_ARGS
            value = args.name if args.name is not None else args.labels
            if value is not None:
                out.metadata.append((*_lane_key(e.pid, e.tid), e.name or "", value))
        elif e.ph in ("s", "f", "t") and e.cat in ("fwdbwd", "cpu_to_cuda"):
            flows.append(e)
        elif e.name == "[memory]":
            memory.append(e)
        else:
            out.counts[e.ph or "?"] = out.counts.get(e.ph or "?", 0) + 1
    flows, ts = _timed(flows, text, out)
    if flows:
        out.tables["flows"] = {
            "ts": ts,
            "lane": numbers.lanes.codes([(e.pid, e.tid) for e in flows]),
            "id": integers([e.id for e in flows]),
            "end": np.array([e.ph != "s" for e in flows], dtype=np.bool_),
            "backward": np.array([e.cat == "fwdbwd" for e in flows], dtype=np.bool_),
        }
    memory, ts = _timed(memory, text, out)
    if memory:
        args_of = [e.args or _NO_ARGS for e in memory]
        out.tables["memory"] = {
            "ts": ts,
            "lane": numbers.lanes.codes([(e.pid, e.tid) for e in memory]),
            "bytes": integers([a.memory_bytes for a in args_of]),
            "address": integers([a.address for a in args_of]),
            "device_type": integers([a.device_type for a in args_of]),
            "device": integers([a.device_id for a in args_of]),
            "total_allocated": integers([a.total_allocated for a in args_of]),
            "total_reserved": integers([a.total_reserved for a in args_of]),
        }


def _timed(events: list[Any], text: bool, out: ChunkColumns) -> tuple[list[Any], Array]:
    """Those events that have a time, and their times."""
    if not events:
        return events, np.empty(0, dtype=np.int64)
    ts = _times(events, text)
    known = ts != NO_TIME
    if known.all():
        return events, ts
    out.counts["skipped"] = out.counts.get("skipped", 0) + int((~known).sum())
    return [e for e, k in zip(events, known.tolist(), strict=True) if k], ts[known]
