"""Every category and every column, once: name, type, unit, a sentence. The reference page is made from this file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "CATEGORIES",
    "CATEGORY_CODES",
    "CATEGORY_NAMES",
    "GPU_CATEGORIES",
    "OLD_SPELLINGS",
    "OTHER_CATEGORY",
    "TABLES",
    "Category",
    "Column",
    "canonical_category",
]


@dataclass(frozen=True, slots=True)
class Category:
    """A kind of event, by Kineto's name for it.

    Attributes:
        table: the table that holds the arguments of such events; empty when `events` says all.
        about: what the events are.
        spellings: other names of the same category in older or other exporters, lower case.
    """

    table: str
    about: str
    spellings: tuple[str, ...] = ()


OTHER_CATEGORY: Final = "other"
# As torch 1.8 to 1.11 wrote categories.
OLD_SPELLINGS: Final = frozenset({"Operator", "Runtime", "Kernel", "Memcpy", "Memset", "Python"})

CATEGORIES: Final[dict[str, Category]] = {
    "cpu_op": Category(
        "cpu_ops",
        "An operator on a CPU thread: `aten::mm`, an autograd node, a compiled region.",
        ("operator",),
    ),
    "user_annotation": Category("cpu_ops", "A `record_function` range or a `ProfilerStep#` on a CPU thread."),
    "python_function": Category("python_frames", "A Python frame or an `nn.Module` call (`with_stack`).", ("python",)),
    "cuda_runtime": Category(
        "calls",
        "A call into the CUDA or HIP runtime.",
        ("runtime", "hip_runtime", "xpu_runtime", "privateuse1_runtime"),
    ),
    "cuda_driver": Category("calls", "A call into the CUDA driver.", ("driver", "xpu_driver", "privateuse1_driver")),
    "kernel": Category("gpu_ops", "A kernel on a GPU stream."),
    "gpu_memcpy": Category("gpu_ops", "A copy on a GPU stream.", ("memcpy",)),
    "gpu_memset": Category("gpu_ops", "A memset on a GPU stream.", ("memset",)),
    "gpu_user_annotation": Category("", "The time on a GPU stream that an annotation's work took; no work itself."),
    "cuda_sync": Category("syncs", "A synchronisation as the GPU's record shows it; waiting, no work."),
    "overhead": Category("", "Time that the profiler itself took."),
    "mtia_runtime": Category("", "A call into the MTIA runtime."),
    "Trace": Category("", "The profiler's own span; not kept.", ("trace",)),
    OTHER_CATEGORY: Category("", "A category that lanewise does not know; kept as it is."),
}

CATEGORY_NAMES: Final[tuple[str, ...]] = tuple(CATEGORIES)
CATEGORY_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(CATEGORIES)}
GPU_CATEGORIES: Final = ("kernel", "gpu_memcpy", "gpu_memset")

_SPELLINGS: Final[dict[str, str]] = {
    spelling: name for name, category in CATEGORIES.items() for spelling in (name.lower(), *category.spellings)
}


def canonical_category(raw: str | None) -> str:
    """Kineto's present name for a category as spelled in a file; ``other`` for an unknown one."""
    return OTHER_CATEGORY if raw is None else _SPELLINGS.get(raw.lower(), OTHER_CATEGORY)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        dtype: Polars type as text.
        unit: ``ns``, ``bytes``, ``id`` or empty.
        about: one sentence.
        optional: whether it may be null: the file does not say.
    """

    dtype: str
    unit: str
    about: str
    optional: bool = False


_EVENT = Column("Int64", "id", "Row of the event in `events`.")
_CORRELATION = Column("Int64", "id", "Correlation id: the same on a call and on the GPU work that it started.", True)
_EXTERNAL = Column(
    "Int64",
    "id",
    "External id: of the op, or of the op around the call, in the profiler's own numbering.",
    True,
)
_LANE = Column("Int32", "id", "Row of the lane in `lanes`.")
_TS = Column("Int64", "ns", "Start, as in the file: since `base_ns` where the trace has one, else since 1970 or boot.")

TABLES: Final[dict[str, dict[str, Column]]] = {
    "events": {
        "event": Column("Int64", "id", "Row number; events are in order of their start."),
        "ts": _TS,
        "dur": Column("Int64", "ns", "Duration; 0 where the file gives none."),
        "category": Column("Categorical", "", "Kineto's category, in today's spelling."),
        "name": Column("Categorical", "", "Name of the op, call, kernel, frame or annotation."),
        "lane": _LANE,
    },
    "lanes": {
        "lane": Column("Int32", "id", "Row number."),
        "pid": Column("String", "", "Process as the file has it: a process id, a device index, or a name."),
        "tid": Column("String", "", "Thread or stream as the file has it."),
        "process": Column("String", "", "Name of the process.", True),
        "name": Column("String", "", "Name of the thread or stream.", True),
    },
    "gpu_ops": {
        "event": _EVENT,
        "correlation": _CORRELATION,
        "external_id": _EXTERNAL,
        "device": Column("Int64", "id", "Index of the GPU, as recorded.", True),
        "stream": Column("Int64", "id", "Stream; numbered for each device.", True),
        "bytes": Column("Int64", "bytes", "Size of a copy or memset.", True),
        "grid_x": Column("Int32", "", "Blocks in x.", True),
        "grid_y": Column("Int32", "", "Blocks in y.", True),
        "grid_z": Column("Int32", "", "Blocks in z.", True),
        "block_x": Column("Int32", "", "Threads of a block in x.", True),
        "block_y": Column("Int32", "", "Threads of a block in y.", True),
        "block_z": Column("Int32", "", "Threads of a block in z.", True),
        "registers": Column("Int32", "", "Registers per thread.", True),
        "shared_memory": Column("Int32", "bytes", "Shared memory of a block.", True),
        "occupancy": Column(
            "Float32",
            "",
            "The profiler's estimate of achieved occupancy in per cent; 0 where a launch hid it.",
            True,
        ),
        "graph_node": Column("Int64", "id", "Node within a CUDA graph.", True),
    },
    "calls": {"event": _EVENT, "correlation": _CORRELATION, "external_id": _EXTERNAL},
    "cpu_ops": {
        "event": _EVENT,
        "external_id": _EXTERNAL,
        "sequence": Column("Int64", "id", "Autograd's sequence number: the same on a forward op and its backward node.", True),
        "forward_thread": Column(
            "Int64", "id", "Thread of the forward op, in the profiler's numbering, on backward ops.", True
        ),
        "inputs": Column("Int32", "id", "Row of the inputs in `inputs`.", True),
        "call_stack": Column("Categorical", "", "Python stack, in traces of torch 1.8 to 1.10.", True),
    },
    "inputs": {
        "inputs": Column("Int32", "id", "Row number."),
        "dims": Column("String", "", "Input shapes, as JSON text.", True),
        "types": Column("String", "", "Input types, as JSON text.", True),
        "strides": Column("String", "", "Input strides, as JSON text.", True),
        "concrete": Column("String", "", "Values of scalar inputs, as JSON text.", True),
    },
    "python_frames": {
        "event": _EVENT,
        "python_id": Column("Int64", "id", "Id of the frame.", True),
        "python_parent": Column("Int64", "id", "Id of the calling frame.", True),
        "python_module": Column("Int64", "id", "Id of the `nn.Module`, where the frame is a module's.", True),
    },
    "syncs": {
        "event": _EVENT,
        "correlation": _CORRELATION,
        "device": Column("Int64", "id", "Index of the GPU.", True),
        "stream": Column("Int64", "id", "Stream that waits.", True),
        "kind": Column("Categorical", "", "Kind of synchronisation.", True),
        "wait_on_stream": Column("Int64", "id", "Stream that is waited for.", True),
        "wait_on_record": Column("Int64", "id", "Correlation id of the event record that is waited for.", True),
    },
    "collectives": {
        "event": _EVENT,
        "collective": Column("Categorical", "", "Name of the collective, as the process group has it."),
        "in_elements": Column("Int64", "", "Elements sent.", True),
        "out_elements": Column("Int64", "", "Elements received.", True),
        "dtype": Column("Categorical", "", "Element type.", True),
        "group_size": Column("Int64", "", "Ranks in the process group.", True),
        "group_name": Column("Categorical", "", "Name of the process group.", True),
        "group_description": Column("Categorical", "", "Description of the process group.", True),
    },
    "flows": {
        "ts": _TS,
        "lane": _LANE,
        "id": Column("Int64", "id", "Id of the arrow; within its kind only.", True),
        "end": Column("Boolean", "", "Whether this is the arrow's end."),
        "backward": Column("Boolean", "", "Whether it leads from a forward op to its backward node (`fwdbwd`)."),
    },
    "memory": {
        "ts": _TS,
        "lane": _LANE,
        "bytes": Column("Int64", "bytes", "Size; negative when freed."),
        "address": Column("Int64", "", "Address.", True),
        "device_type": Column("Int64", "", "0 CPU, 1 CUDA or HIP; as c10::DeviceType has it.", True),
        "device": Column("Int64", "id", "Index of the device.", True),
        "total_allocated": Column("Int64", "bytes", "Allocated on the device after it.", True),
        "total_reserved": Column("Int64", "bytes", "Reserved by the allocator after it.", True),
    },
}
