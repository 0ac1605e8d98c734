"""Events as columns: one chunk's records become small NumPy arrays, and the chunks of a trace become its tables.

A chunk numbers its strings, lanes and input signatures by itself, so chunks can be decoded anywhere, also in other
processes; `Assembly` gives them the trace's numbers.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.schema import CATEGORIES, CATEGORY_CODES, OLD_SPELLINGS, OTHER_CATEGORY, canonical_category

from .arguments import TABLES, Collectives, Table, known_args
from .exact import NO_TIME, exact_ns
from .numbering import Numbering, Numbers, Parts
from .records import EXACT_FLOAT_US, LONGEST_US, Args
from .values import MISSING, Codes, Floats, integers

__all__ = ["ChunkColumns", "Columns", "NeedsTextError"]

Array = npt.NDArray[Any]
_NO_ARGS = Args()
_LANE_NUMBER = re.compile(r"-?[0-9]{1,19}\Z")
# Arrows from calls to GPU ops say what correlation ids say too; they are a third of all entries, and not kept.
_LAUNCH_ARROWS = frozenset({"ac2g", "async_cpu_to_gpu", "async"})


@dataclass(slots=True)
class ChunkColumns:
    """What one chunk holds, as arrays; strings, lanes and inputs by the chunk's own numbers.

    Begins and ends are a table ``halves``, and their arguments `half_args`, until those of the whole file are paired.
    """

    tables: dict[str, dict[str, Array]] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    lanes: list[tuple[Any, Any]] = field(default_factory=list)
    inputs: list[tuple[bytes | None, ...]] = field(default_factory=list)
    metadata: list[tuple[Any, Any, str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    unknown_categories: dict[str, int] = field(default_factory=dict)
    half_args: list[dict[str, Any] | None] = field(default_factory=list)


class NeedsTextError(Exception):
    """These timestamps do not fit a double: decode the chunk again with their text."""


class _Times:
    """Growing timestamps."""

    def __init__(self, text: bool) -> None:
        self._texts: list[bytes] | None = [] if text else None
        self._numbers = Floats()

    def add(self, values: list[Any]) -> None:
        """Take in some more: numbers of microseconds or None; or their texts, empty for None."""
        if self._texts is None:
            self._numbers.add(values)
        else:
            self._texts += map(bytes, values)

    @property
    def column(self) -> Array:
        """int64 (n,): ns; NO_TIME where there is none. Raises NeedsTextError for numbers that are not exact."""
        if self._texts is not None:
            return exact_ns(self._texts)
        us = self._numbers.column
        known = np.isfinite(us)
        if not known.all():
            us = us[known]
        if us.size and np.abs(us).max() >= EXACT_FLOAT_US:
            raise NeedsTextError
        out = np.full(len(known), NO_TIME, dtype=np.int64)
        out[known] = np.rint(us * 1000.0).astype(np.int64)
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


class Columns:
    """Takes in the events of one chunk, some at a time, while they are fresh in the processor's memory.

    Args:
        text: whether their timestamps are text.
    """

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._numbers = Numbers()
        # Categories as in the file, and the number of the table that each goes to; -1 for none.
        self._categories = Numbering()
        self._table_of: list[int] = []
        self._n = 0
        self._ts, self._dur, self._pid, self._tid = _Times(text), Floats(), Parts(), Parts()
        self._names = array("i")
        self._category_parts: list[Array] = []
        self._tables: dict[str, Table] = {}
        self._rows: dict[str, list[Array]] = {}
        self._collectives: dict[str, Collectives] = {"gpu_ops": Collectives(), "cpu_ops": Collectives()}
        self._others: list[Any] = []
        self._out = ChunkColumns()

    def add(self, events: list[Any]) -> None:
        """Take in some more."""
        spans = [e for e in events if e.ph == "X"]
        if len(spans) != len(events):
            self._others += [e for e in events if e.ph != "X" and e.cat not in _LAUNCH_ARROWS]
        if not spans:
            return
        self._ts.add([e.ts for e in spans])
        self._dur.add([e.dur for e in spans])
        self._pid.add([e.pid for e in spans])
        self._tid.add([e.tid for e in spans])
        names = [e.name for e in spans]
        self._names.fromlist(self._numbers.strings.numbers(names if all(names) else [name or "" for name in names]))
        category = self._category(spans)
        self._category_parts.append(category)
        table_of = np.array(self._table_of, dtype=np.int8)[category]
        for number, table in enumerate(TABLES):
            rows = np.flatnonzero(table_of == number)
            if len(rows):
                self._add_args(table, rows, [spans[i].args or _NO_ARGS for i in rows.tolist()])
        self._n += len(spans)

    def _category(self, spans: list[Any]) -> Array:
        """int32 (spans,): numbers of their categories."""
        seen = self._categories
        codes = seen.codes([e.cat for e in spans])
        if None in seen:
            legacy = [_legacy_category(e) if e.cat is None else None for e in spans]
            found = len(spans) - legacy.count(None)
            if found:
                self._out.counts["no category"] = self._out.counts.get("no category", 0) + found
            codes = seen.codes([e.cat or other for e, other in zip(spans, legacy, strict=True)])
        for category in seen.values()[len(self._table_of) :]:
            table = CATEGORIES[canonical_category(category)].table
            self._table_of.append(list(TABLES).index(table) if table else -1)
        return codes

    def _add_args(self, table: str, rows: Array, args: list[Any]) -> None:
        columns = self._tables.get(table)
        if columns is None:
            columns = self._tables[table] = TABLES[table](self._numbers)
        columns.add(args)
        rows = rows + self._n
        self._rows.setdefault(table, []).append(rows)
        if table in self._collectives:
            self._collectives[table].add(rows.tolist(), args)

    def finished(self) -> ChunkColumns:
        """All columns.

        Raises:
            NeedsTextError: the timestamps need `text`.
        """
        out = self._out
        self._finish_others()
        if self._n:
            self._finish_spans()
        out.strings = self._numbers.strings.values()
        out.inputs = self._kept_inputs()
        out.lanes = [_lane_key(*key) for key in self._numbers.lanes.values()]
        return out

    def _finish_spans(self) -> None:
        out, ts, dur = self._out, self._ts.column, self._dur.column
        category, lane = self._category_codes(), self._lane_codes()
        no_duration = np.isnan(dur)
        bad = (ts == NO_TIME) | (dur < 0) | (dur > LONGEST_US)
        own = category == CATEGORY_CODES["Trace"]
        out.counts["skipped"] = out.counts.get("skipped", 0) + int((bad & ~own).sum())
        out.counts["no_duration"] = int((no_duration & ~bad & ~own).sum())
        keep = ~(bad | own)
        out.tables["events"] = {
            "ts": ts[keep],
            "dur": np.rint(np.nan_to_num(dur[keep], nan=0.0) * 1000.0).astype(np.int64),
            "category": category[keep],
            "name": np.frombuffer(self._names, dtype=np.int32)[keep],
            "lane": lane[keep],
        }
        place = None if keep.all() else np.cumsum(keep) - 1
        for table in TABLES:
            if table in self._tables:
                columns = {"event": np.concatenate(self._rows[table]), **self._tables[table].columns()}
                self._finish_table(table, columns, keep, place)
            if table in self._collectives:
                self._finish_table("collectives", self._collectives[table].columns(self._numbers.strings), keep, place)

    def _finish_table(self, table: str, columns: dict[str, Array], keep: Array, place: Array | None) -> None:
        """Keep the rows of those events that are kept."""
        if place is not None and columns:
            rows = keep[columns["event"]]
            columns = {k: place[v[rows]] if k == "event" else v[rows] for k, v in columns.items()}
        if columns and len(columns["event"]):
            old = self._out.tables.get(table)
            if old is not None:  # collectives of both tables
                columns = {k: np.concatenate([old[k], v]) for k, v in columns.items()}
            self._out.tables[table] = columns

    def _kept_inputs(self) -> list[tuple[bytes | None, ...]]:
        """The inputs of the ops that were kept, numbered anew where some were left out."""
        inputs, ops = self._numbers.inputs.values(), self._out.tables.get("cpu_ops")
        kept = len(self._out.tables["events"]["ts"]) if self._n else 0
        if not inputs or kept == self._n:
            return inputs
        if ops is None:
            return []
        codes = ops["inputs"]
        used, first = np.unique(codes[codes >= 0], return_index=True)
        used = used[np.argsort(first)]
        place = np.full(len(inputs) + 1, MISSING, dtype=np.int32)
        place[used] = np.arange(len(used))
        ops["inputs"] = place[codes]  # MISSING takes the last place
        return [inputs[i] for i in used.tolist()]

    def _category_codes(self) -> Array:
        """int8 (spans,): codes of their categories."""
        codes, spellings, out = np.concatenate(self._category_parts), self._categories.values(), self._out
        names = [canonical_category(s) for s in spellings]
        counts = np.bincount(codes, minlength=len(names)).tolist()
        old = sum(n for n, spelling in zip(counts, spellings, strict=True) if spelling in OLD_SPELLINGS)
        if old:
            out.counts["old spelling"] = old
        for n, spelling, name in zip(counts, spellings, names, strict=True):
            if n and name == OTHER_CATEGORY:
                key = "" if spelling is None else str(spelling).strip()
                out.unknown_categories[key] = out.unknown_categories.get(key, 0) + n
        return np.array([CATEGORY_CODES[name] for name in names], dtype=np.int8)[codes]

    def _lane_codes(self) -> Array:
        """Numbers of the lanes of the spans: processes and threads by themselves first, which makes no tuple an event."""
        pid, processes = self._pid.numbered()
        tid, threads = self._tid.numbered()
        width = len(threads)
        pairs = pid * width + tid
        found = np.flatnonzero(np.bincount(pairs)) if width * len(processes) < len(pairs) else np.unique(pairs)
        lanes = self._numbers.lanes.codes([(processes[p // width], threads[p % width]) for p in found.tolist()])
        return lanes[np.searchsorted(found, pairs)]

    def _finish_others(self) -> None:
        """Metadata, flows, memory events, begins and ends; what else there is is only counted."""
        flows, memory, halves, out = [], [], [], self._out
        for e in self._others:
            if e.ph == "M":
                args = e.args or _NO_ARGS
                value = args.name if args.name is not None else args.labels
                if value is not None:
                    out.metadata.append((*_lane_key(e.pid, e.tid), e.name or "", value))
            elif e.ph in ("s", "f", "t") and e.cat in ("fwdbwd", "cpu_to_cuda"):
                flows.append(e)
            elif e.name == "[memory]":
                memory.append(e)
            elif e.ph in ("B", "E"):
                halves.append(e)
            else:
                out.counts[e.ph or "?"] = out.counts.get(e.ph or "?", 0) + 1
        self._finish_flows(flows)
        self._finish_memory(memory)
        self._finish_halves(halves)

    def _finish_flows(self, flows: list[Any]) -> None:
        flows, ts = self._timed(flows)
        if flows:
            self._out.tables["flows"] = {
                "ts": ts,
                "lane": self._numbers.lanes.codes([(e.pid, e.tid) for e in flows]),
                "id": integers([e.id for e in flows]),
                "end": np.array([e.ph != "s" for e in flows], dtype=np.bool_),
                "backward": np.array([e.cat == "fwdbwd" for e in flows], dtype=np.bool_),
            }

    def _finish_memory(self, memory: list[Any]) -> None:
        memory, ts = self._timed(memory)
        if memory:
            args = [e.args or _NO_ARGS for e in memory]
            self._out.tables["memory"] = {
                "ts": ts,
                "lane": self._numbers.lanes.codes([(e.pid, e.tid) for e in memory]),
                "bytes": integers([a.memory_bytes for a in args]),
                "address": integers([a.address for a in args]),
                "device_type": integers([a.device_type for a in args]),
                "device": integers([a.device_id for a in args]),
                "total_allocated": integers([a.total_allocated for a in args]),
                "total_reserved": integers([a.total_reserved for a in args]),
            }

    def _finish_halves(self, halves: list[Any]) -> None:
        halves, ts = self._timed(halves)
        if halves:
            name, spelling = Codes(self._numbers.strings), Codes(self._numbers.strings)
            name.add([(e.name or "").strip() or None for e in halves])
            spelling.add([e.cat or None for e in halves])
            self._out.half_args = [known_args(e.args) for e in halves]
            self._out.tables["halves"] = {
                "ts": ts,
                "lane": self._numbers.lanes.codes([(e.pid, e.tid) for e in halves]),
                "name": name.column,
                "spelling": spelling.column,
                "begin": np.array([e.ph == "B" for e in halves], dtype=np.bool_),
            }

    def _timed(self, events: list[Any]) -> tuple[list[Any], Array]:
        """Those events that have a time, and their times."""
        times = _Times(self._text)
        times.add([e.ts for e in events])
        ts = times.column
        known = ts != NO_TIME
        if known.all():
            return events, ts
        counts = self._out.counts
        counts["skipped"] = counts.get("skipped", 0) + int((~known).sum())
        return list(compress(events, known.tolist())), ts[known]


def _legacy_category(event: Any) -> str | None:
    """The category of an event without one, from the process names that the exporter before Kineto gave."""
    if event.pid == "CPU functions":
        return "cpu_op"
    if event.pid == "CUDA functions":
        name = event.name or ""
        return "gpu_memcpy" if name.startswith("Memcpy") else "gpu_memset" if name.startswith("Memset") else "kernel"
    return None
