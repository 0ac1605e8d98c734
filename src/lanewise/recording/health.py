"""A capture read back: what is in the file, counted without building a model of it.

The file is streamed and only category and name of each event are looked at, so that reading back takes about
as long as decompressing. Counts are exact for files as torch writes them.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

__all__ = ["Health", "health_of"]

_CHUNK_BYTES = 4 * 2**20
# Duration events. Flows, counters and metadata are no work.
_CATEGORIES = frozenset(
    {
        "cpu_op",
        "user_annotation",
        "cuda_runtime",
        "cuda_driver",
        "xpu_runtime",
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
        "python_function",
    }
)
_GPU_OPS = ("kernel", "gpu_memcpy", "gpu_memset")
# torch writes an event's category right before its name, on the same line or the next. The second group finds
# calls that start kernels or graphs (CUDA, HIP, SYCL, Level Zero), the third the marks of steps.
_CATEGORY = rb'"cat": "(\w+)",\s*"name": "'
_LAUNCH = rb"((?:cu|hip|ur|ze)\w*(?:KernelLaunch|LaunchKernel|LaunchCooperative|GraphLaunch)\w*)"
_EVENT = re.compile(_CATEGORY + rb"(?:" + _LAUNCH + rb"|(ProfilerStep#))?")


@dataclass(frozen=True)
class Health:
    """What a trace file holds.

    Attributes:
        path: the file.
        file_bytes: its size on disk.
        json_bytes: its size before compression.
        complete: whether the document has its end.
        events: number of events by category; only categories that occur.
        launches: calls that start kernels or graphs.
        gpu_ops: kernels, copies and memsets that ran on a GPU.
        steps: whole steps, as the CPU marked them.
    """

    path: str
    file_bytes: int
    json_bytes: int
    complete: bool
    events: dict[str, int] = field(default_factory=dict)
    launches: int = 0
    gpu_ops: int = 0
    steps: int = 0

    @property
    def total_events(self) -> int:
        """All events of the categories that are counted."""
        return sum(self.events.values())

    @property
    def gpu_missing(self) -> bool:
        """Whether work was launched and no GPU event came back."""
        return self.launches > 0 and self.gpu_ops == 0

    def metadata(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return asdict(self)


def health_of(path: Path) -> Health:
    """Count what is in a trace that torch wrote.

    Raises:
        OSError, EOFError: the file cannot be read or its compression is damaged.
    """
    counts: Counter[tuple[bytes, bytes, bytes]] = Counter()
    json_bytes = 0
    rest = b""
    with _opened(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            json_bytes += len(chunk)
            text = rest + chunk
            cut = max(text.rfind(b'"cat"'), 0)
            rest = text[cut:]
            counts.update(_EVENT.findall(text, 0, cut))
    counts.update(_EVENT.findall(rest))
    # From here on a handful of kinds of events, not the events.
    events: Counter[str] = Counter()
    for (category, _, _), number in counts.items():
        if category.decode() in _CATEGORIES:
            events[category.decode()] += number
    return Health(
        path=str(path),
        file_bytes=path.stat().st_size,
        json_bytes=json_bytes,
        complete=rest.rstrip().endswith(b"}"),
        events=dict(sorted(events.items())),
        launches=sum(number for (_, launch, _), number in counts.items() if launch),
        gpu_ops=sum(events.get(name, 0) for name in _GPU_OPS),
        steps=sum(number for (category, _, step), number in counts.items() if step and category == b"user_annotation"),
    )


def _opened(path: Path) -> IO[bytes]:
    if path.name.endswith(".gz"):
        try:
            igzip: Any = import_module("isal.igzip")
        except ImportError:  # in the recorded script's interpreter
            igzip = gzip
        return cast("IO[bytes]", igzip.open(path, "rb"))
    return path.open("rb")
