"""From the columns of many chunks to the tables of one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.orders import stable_order

from .columns import ChunkColumns
from .halves import joined
from .values import LARGEST_STREAM, MISSING, MOST_DEVICES

__all__ = ["Assembly", "not_stray"]

Array = npt.NDArray[Any]
Tables = dict[str, dict[str, Array]]

# Columns that hold a chunk's own numbers, by what they number.
_STRING_COLUMNS = frozenset(
    {"name", "spelling", "call_stack", "kind", "collective", "dtype", "group_name", "group_description"}
)
# Everything at timestamp 0 is a stray when the rest begins later than ten times its own length and a second: in a trace whose
# times count from 0, the first event lies within the trace's own span of it.
_STRAY_SPANS = 10
_STRAY_NS = 1_000_000_000


class _Numbering:
    """Numbers of the whole trace for values that chunks number by themselves."""

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {}

    def mapping(self, values: list[Any]) -> Array:
        ids = self.ids
        return np.array([ids.setdefault(v, len(ids)) for v in values], dtype=np.int32)


def _mapped(codes: Array, mapping: Array) -> Array:
    """Codes through a mapping; MISSING stays."""
    if not len(mapping):
        return codes
    out: Array = mapping[codes]
    return np.where(codes < 0, np.int32(MISSING), out) if len(codes) and codes.min() < 0 else out


class Assembly:
    """Collects chunks and makes the tables.

    Attributes:
        counts: sums of the chunks' counts.
        metadata: (pid, tid, kind, value) of the metadata events.
        unknown_categories: events by unknown category.
        n_events: timed events so far.
        n_seen: timed events offered so far, also those that a part of a trace leaves out.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.metadata: list[tuple[Any, Any, str, Any]] = []
        self.unknown_categories: dict[str, int] = {}
        self.n_events = 0
        self.n_seen = 0
        self.n_strays = 0
        self._strings, self._lanes, self._inputs = _Numbering(), _Numbering(), _Numbering()
        self._parts: dict[str, dict[str, list[Array]]] = {}
        self._half_args: list[dict[str, Any] | None] = []

    def add(self, chunk: ChunkColumns) -> None:
        """Take in the next chunk."""
        strings = self._strings.mapping([s.strip() for s in chunk.strings])
        lanes = self._lanes.mapping(chunk.lanes)
        inputs = self._inputs.mapping(chunk.inputs)
        base = self.n_events
        for table, columns in chunk.tables.items():
            parts = self._parts.setdefault(table, {})
            for name, values in columns.items():
                if name == "lane":
                    values = _mapped(values, lanes)
                elif name == "inputs":
                    values = _mapped(values, inputs)
                elif name in _STRING_COLUMNS:
                    values = _mapped(values, strings)
                elif name == "event":
                    values = (values + base).astype(np.int32)
                parts.setdefault(name, []).append(values)
        events = chunk.tables.get("events")
        n = 0 if events is None else len(events["ts"])
        self.n_events += n
        self.n_seen += n
        for key, n in chunk.counts.items():
            self.counts[key] = self.counts.get(key, 0) + n
        for key, n in chunk.unknown_categories.items():
            self.unknown_categories[key] = self.unknown_categories.get(key, 0) + n
        self.metadata += chunk.metadata
        self._half_args += chunk.half_args

    def join_halves(self) -> None:
        """Take in the events that begins and ends are together, once all chunks are there."""
        parts = self._parts.pop("halves", None)
        if parts is None:
            return
        columns = {name: _joined(parts, name) for name in list(parts)}
        args, self._half_args = self._half_args, []
        events, begins, ends = joined(columns, args, self.strings, self.lanes)
        self.counts["begins"], self.counts["ends"] = begins, ends
        self.add_pairs(events)

    def add_pairs(self, events: ChunkColumns) -> None:
        """Take in the events of all pairs."""
        self.add(events)

    @property
    def strings(self) -> list[str]:
        """All names, in the order of their numbers."""
        return list(self._strings.ids)

    @property
    def lanes(self) -> list[tuple[Any, Any]]:
        """All lanes as (pid, tid)."""
        return list(self._lanes.ids)

    @property
    def inputs(self) -> list[tuple[bytes | None, ...]]:
        """All distinct inputs of ops: dims, types, strides, concrete values, as JSON text."""
        return list(self._inputs.ids)

    def tables(self) -> Tables:
        """The tables, events in order of their start, and the rows of the others in order of their events."""
        self.join_halves()
        tables: Tables = {}
        for table in list(self._parts):
            parts = self._parts.pop(table)
            tables[table] = {name: _joined(parts, name) for name in list(parts)}
        events = tables.get("events")
        if events is None:
            return tables
        keep = not_stray(events["ts"], events["dur"])
        self.n_strays = len(keep) - int(keep.sum())
        order = np.flatnonzero(keep)
        order = order[stable_order(events["ts"][order])].astype(np.int32)
        place = np.full(len(keep), MISSING, dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        for name in list(events):
            events[name] = events[name][order]
        for table, columns in tables.items():
            if "event" in columns and table != "events":
                tables[table] = _in_event_order(columns, place)
        _fill_from_lanes(tables, self.lanes)
        return tables


def _joined(parts: dict[str, list[Array]], name: str) -> Array:
    arrays = parts.pop(name)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def not_stray(ts: Array, dur: Array) -> Array:
    """bool (n,): which events are not strays at timestamp 0."""
    zero = ts <= 0
    if not zero.any() or zero.all():
        return np.ones(len(ts), dtype=np.bool_)
    rest = ts[~zero]
    begin, end = int(rest.min()), int((rest + dur[~zero]).max())
    if begin > _STRAY_SPANS * (end - begin) + _STRAY_NS:
        return ~(zero & (ts == 0))
    return np.ones(len(ts), dtype=np.bool_)


def _in_event_order(columns: dict[str, Array], place: Array) -> dict[str, Array]:
    event = place[columns["event"]]
    order = stable_order(event)
    order = order[event[order] >= 0]
    return {name: (event if name == "event" else values)[order] for name, values in columns.items()}


def _fill_from_lanes(tables: Tables, lanes: list[tuple[Any, Any]]) -> None:
    """Device and stream of GPU ops whose arguments lack them are those of their lane."""
    gpu = tables.get("gpu_ops")
    if gpu is None:
        return
    lane = tables["events"]["lane"][gpu["event"]]
    for column, of_lane in (("device", _device_of), ("stream", lambda key: _index(key[1], LARGEST_STREAM))):
        lacking = gpu[column] == MISSING
        if lacking.any():
            known = np.array([of_lane(key) for key in lanes], dtype=np.int64)
            gpu[column] = np.where(lacking, known[lane], gpu[column])


def _device_of(key: tuple[Any, Any]) -> int:
    """The process of a GPU lane is its device; the exporter before Kineto had the device in place of the thread."""
    return _index(key[1] if key[0] == "CUDA functions" else key[0], MOST_DEVICES)


def _index(value: Any, bound: int) -> int:
    """A device or stream number out of a lane's id: 3, "stream 7", "GPU 0"."""
    if isinstance(value, int):
        return value if 0 <= value < bound else MISSING
    digits = "".join(c for c in str(value) if c in "0123456789")
    return int(digits) if digits and len(digits) < 10 and int(digits) < bound else MISSING
