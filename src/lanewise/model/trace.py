"""A trace in memory: immutable columns, what the file says about itself, and what it cannot tell."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from .notes import Note
from .schema import CATEGORY_CODES, CATEGORY_NAMES, GPU_CATEGORIES, TABLES

if TYPE_CHECKING:
    import polars

__all__ = ["MISSING", "DeviceProperties", "Distributed", "Lane", "Trace"]

Array = npt.NDArray[Any]
T = TypeVar("T")

# Held for a moment only, by threads that ask for analyses.
_LOCK = threading.Lock()

# Stands for "the file does not say" in integer columns; null in the Polars frames.
MISSING = -1


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A GPU as the header describes it; what it does not say is None.

    Attributes:
        index: number of the device, as recorded.
        name: as CUDA or HIP reports it.
        sms: streaming multiprocessors or compute units.
        memory_bytes: size of its memory.
        compute_capability: (major, minor) on CUDA devices.
        properties: all that the header has about it.
    """

    index: int
    name: str | None = None
    sms: int | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Distributed:
    """The place of this process in a distributed job; None is "not known".

    Attributes:
        rank: rank of the process.
        world_size: number of ranks.
        backend: ``nccl``, ``gloo``, ...
        source: where the rank is from: ``header`` or ``file name``.
    """

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One CPU thread or one GPU stream (or a row that the profiler made up).

    Attributes:
        pid: process: a process id, a device index, or a name.
        tid: thread or stream.
        process: the process's name, if the file has it.
        name: the thread's or stream's name, if the file has it.
    """

    pid: Any
    tid: Any
    process: str | None = None
    name: str | None = None


@dataclass(eq=False)
class Trace:
    """A PyTorch profiler trace, read.

    Nothing in it changes after loading; analyses keep their results in it (`analysis`), each computed once.

    Attributes:
        path: where it came from.
        format: ``kineto``, ``kineto-legacy`` (2020 and 2021 spellings) or ``autograd-legacy`` (the exporter before Kineto).
        header: the document's top-level keys but the events.
        base_ns: nanoseconds since 1970 that every ``ts`` counts from; 0 where times are absolute, None where not known.
        tables: table name to column name to array; see `lanewise.model.schema.TABLES`. Int columns have MISSING for null.
        strings: texts of the string columns' codes.
        lanes: CPU threads and GPU streams, by their number.
        inputs: distinct inputs of ops: (dims, types, strides, concrete values) as JSON text, or None.
        devices: GPUs of the header, and those that have work but no entry there.
        distributed: rank and world size.
        notes: what to know before believing the numbers.
        skipped_events: events given up.
        repaired_events: events kept after mending.
        stray_events: events at timestamp 0 that lost their times; in no table.
        truncated: whether the end of the file is missing.
        file_bytes: size of the file as stored; None where not known.
    """

    path: str
    format: str
    header: dict[str, Any]
    base_ns: int | None
    tables: dict[str, dict[str, Array]]
    strings: list[str]
    lanes: list[Lane]
    inputs: list[tuple[bytes | None, ...]]
    devices: tuple[DeviceProperties, ...]
    distributed: Distributed
    notes: list[Note]
    skipped_events: int = 0
    repaired_events: int = 0
    stray_events: int = 0
    truncated: bool = False
    file_bytes: int | None = None
    _results: dict[Any, Any] = field(default_factory=dict, repr=False)
    _running: dict[Any, threading.Event] = field(default_factory=dict, repr=False)
    _rows: dict[tuple[str, ...], Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for columns in self.tables.values():
            for values in columns.values():
                values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        return f"<Trace {self.path}: {len(self):,} events, {', '.join(self.capabilities) or 'no capabilities'}>"

    # ---- columns of `events`
    @property
    def ts(self) -> Array:
        """int64 (events,): starts in ns, ascending."""
        return self.column("events", "ts")

    @property
    def dur(self) -> Array:
        """int64 (events,): durations in ns."""
        return self.column("events", "dur")

    @cached_property
    def end(self) -> Array:
        """int64 (events,): ends in ns."""
        end: Array = self.ts + self.dur
        end.setflags(write=False)
        return end

    @property
    def category(self) -> Array:
        """int8 (events,): codes of `CATEGORY_CODES`."""
        return self.column("events", "category")

    @property
    def name(self) -> Array:
        """int32 (events,): numbers into `strings`."""
        return self.column("events", "name")

    @property
    def lane(self) -> Array:
        """int32 (events,): numbers into `lanes`."""
        return self.column("events", "lane")

    def column(self, table: str, name: str) -> Array:
        """One column as an array; empty when the trace has no such table."""
        columns = self.tables.get(table)
        if columns is None:
            dtype = TABLES[table][name].dtype
            return np.empty(0, dtype=_EMPTY.get(dtype, np.int64))
        return columns[name]

    def rows(self, *categories: str) -> Array:
        """Event numbers of some categories, ascending."""
        rows = self._rows.get(categories)
        if rows is None:
            codes = [CATEGORY_CODES[c] for c in categories]
            wanted = self.category == codes[0]
            for code in codes[1:]:
                wanted |= self.category == code
            rows = self._rows[categories] = np.flatnonzero(wanted)
            rows.setflags(write=False)
        return rows

    def name_of(self, event: int) -> str:
        """Name of an event."""
        return self.strings[self.name[event]]

    def category_of(self, event: int) -> str:
        """Category of an event."""
        return CATEGORY_NAMES[self.category[event]]

    def names_where(self, test: Callable[[str], bool]) -> Array:
        """bool (strings,): which names pass a test, to be indexed with `name`."""
        return np.fromiter((test(s) for s in self.strings), dtype=np.bool_, count=len(self.strings))

    # ---- what there is
    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """What the file contains, whatever its header's flags say.

        ``cpu_ops``, ``gpu_events`` (kernels, copies or memsets), ``shapes``, ``stacks`` (Python frames), ``modules``
        (``nn.Module`` calls), ``memory``, ``sequence`` (links of backward to forward ops), ``collectives``, ``syncs``.
        ``steps`` is added by the report, since what marks a step is an analysis.
        """
        gpu = np.isin(self.category, [CATEGORY_CODES[c] for c in GPU_CATEGORIES]).any() if len(self) else False
        frames = self.tables.get("python_frames")
        modules = frames is not None and (
            bool((frames["python_module"] != MISSING).any())
            or bool(self.names_where(lambda s: s.startswith("nn.Module: "))[self.name[frames["event"]]].any())
        )
        ops = self.tables.get("cpu_ops")
        found = {
            "cpu_ops": ops is not None and len(ops["event"]) > 0,
            "gpu_events": bool(gpu),
            "shapes": self._has_shapes(),
            "stacks": (frames is not None and len(frames["event"]) > 0)
            or bool((self.column("cpu_ops", "call_stack") != MISSING).any()),
            "modules": modules,
            "memory": "memory" in self.tables,
            "sequence": bool((self.column("cpu_ops", "sequence") != MISSING).any()),
            "collectives": len(self.column("collectives", "event")) > 0,
            "syncs": len(self.column("syncs", "event")) > 0,
        }
        return tuple(name for name, there in found.items() if there)

    def _has_shapes(self) -> bool:
        """Whether ops have input shapes; Inductor marks its own kernels' inputs in any recording, which says nothing of ops."""
        known = np.array([i is not None and i[0] is not None for i in self.inputs], dtype=np.bool_)
        rows = self.column("cpu_ops", "inputs")
        rows = rows >= 0 if not known.any() else (rows >= 0) & known[np.maximum(rows, 0)]
        names = np.unique(self.name[self.column("cpu_ops", "event")[rows]]) if known.any() else ()
        return any(not self.strings[n].startswith("triton_") for n in names)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """(start of the first event, end of the last) in ns; None for a trace without events."""
        return (int(self.ts[0]), int(self.end.max())) if len(self) else None

    def device(self, index: int) -> DeviceProperties:
        """A GPU by its number; one without properties when the header does not have it."""
        return next((d for d in self.devices if d.index == index), DeviceProperties(index))

    def analysis(self, function: Callable[[Trace], T]) -> T:
        """The result of a pure function of the trace, computed at most once, whatever threads ask for it."""
        if function not in self._results:
            with _LOCK:
                begun = self._running.get(function)
                if begun is None:
                    self._running[function] = threading.Event()
            if begun is not None:
                begun.wait()
                return self.analysis(function)
            try:
                if function not in self._results:
                    self._results[function] = function(self)
            finally:
                with _LOCK:
                    self._running.pop(function).set()
        result: T = self._results[function]
        return result

    # ---- Polars frames
    def frame(self, table: str) -> polars.DataFrame:
        """A table as a Polars frame with the columns of `lanewise.model.schema.TABLES`; empty when the file has none."""
        from .frames import table_frame

        return table_frame(self, table)

    @cached_property
    def events(self) -> polars.DataFrame:
        """All timed events."""
        return self.frame("events")

    @cached_property
    def gpu_ops(self) -> polars.DataFrame:
        """Kernels, copies and memsets with their launch geometry."""
        return self.frame("gpu_ops")

    @cached_property
    def calls(self) -> polars.DataFrame:
        """Runtime and driver calls."""
        return self.frame("calls")

    @cached_property
    def cpu_ops(self) -> polars.DataFrame:
        """CPU ops and annotations with their inputs."""
        return self.frame("cpu_ops")

    @cached_property
    def python_frames(self) -> polars.DataFrame:
        """Python frames and module calls."""
        return self.frame("python_frames")

    @cached_property
    def memory(self) -> polars.DataFrame:
        """Allocations and frees."""
        return self.frame("memory")


_EMPTY: dict[str, Any] = {
    "Int64": np.int64,
    "Int32": np.int32,
    "Float32": np.float32,
    "Boolean": np.bool_,
    "Categorical": np.int32,
}


def lanes_of(keys: Sequence[tuple[Any, Any]], metadata: Sequence[tuple[Any, Any, str, Any]]) -> list[Lane]:
    """Lanes with the names that the metadata events give."""
    processes: dict[Any, str] = {}
    threads: dict[tuple[Any, Any], str] = {}
    for pid, tid, kind, value in metadata:
        if kind == "process_name":
            processes[pid] = str(value).strip()
        elif kind == "thread_name":
            threads[pid, tid] = str(value).strip()
    return [Lane(pid, tid, processes.get(pid), threads.get((pid, tid))) for pid, tid in keys]
