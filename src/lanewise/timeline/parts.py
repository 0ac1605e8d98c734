"""The lanes of a picture: GPU streams with their annotations, CPU threads with modules, ops and Python frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import OUTSIDE_RANK
from lanewise.analyses.steps import steps
from lanewise.model.schema import CATEGORY_CODES, GPU_CATEGORIES
from lanewise.model.trace import Trace

from .rows import slice_rows

__all__ = ["LAYERS", "Part", "parts"]

Array = npt.NDArray[Any]

LAYERS = ("marks", "gpu", "modules", "ops", "frames")

# Of events that cover the same time, which is outside; as the call tree has it.


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of one lane.

    Attributes:
        lane: number of the lane in the trace.
        kind: one of LAYERS.
        label: name of the thread or stream.
        device, stream: of GPU lanes.
        events: int64 (n,): its events by start, the outermost first.
        row: int16 (n,): their rows.
    """

    lane: int
    kind: str
    label: str
    device: int | None
    stream: int | None
    events: Array
    row: Array


def parts(trace: Trace) -> list[Part]:
    """All parts, in the order in which they are drawn."""
    layer = _layers(trace)
    order = _drawing_order(trace)
    streams = _streams(trace)
    found = []
    # One sort for all lanes; within a lane by layer, then as nesting wants it.
    key = trace.lane.astype(np.int64) * len(LAYERS) + layer
    by_key = order[np.argsort(key[order], kind="stable")]
    bounds = np.searchsorted(key[by_key], np.arange(len(trace.lanes) * len(LAYERS) + 1))
    for number, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        if end == begin:
            continue
        lane, kind = divmod(number, len(LAYERS))
        events = by_key[begin:end]
        row = slice_rows(trace.ts[events], trace.end[events])
        device, stream = streams.get(lane, (None, None))
        found.append(Part(lane, LAYERS[kind], _label(trace, lane), device, stream, events, row))
    return _sorted(trace, found)


def _layers(trace: Trace) -> Array:
    """int8 (events,): place in LAYERS."""
    on_gpu = np.zeros(len(CATEGORY_CODES), dtype=np.int8)
    on_gpu[:] = LAYERS.index("ops")
    for category in (*GPU_CATEGORIES, "cuda_sync"):
        on_gpu[CATEGORY_CODES[category]] = LAYERS.index("gpu")
    on_gpu[CATEGORY_CODES["gpu_user_annotation"]] = LAYERS.index("marks")
    on_gpu[CATEGORY_CODES["python_function"]] = LAYERS.index("frames")
    layer = on_gpu[trace.category]
    frames = trace.rows("python_function")
    module = trace.names_where(lambda s: s.startswith("nn.Module: "))
    if len(frames):
        layer[frames[module[trace.name[frames]]]] = LAYERS.index("modules")
    return layer


def _drawing_order(trace: Trace) -> Array:
    """Event numbers by start, of those that start together the longest first, then as the call tree nests them."""
    order = np.arange(len(trace))
    tied = np.zeros(len(trace), dtype=np.bool_)
    same = trace.ts[1:] == trace.ts[:-1]
    tied[1:] |= same
    tied[:-1] |= same
    rows = np.flatnonzero(tied)
    order[rows] = rows[np.lexsort((rows, OUTSIDE_RANK[trace.category[rows]], -trace.dur[rows], trace.ts[rows]))]
    return order


def _streams(trace: Trace) -> dict[int, tuple[int | None, int | None]]:
    """Device and stream of each lane with GPU ops."""
    events = trace.column("gpu_ops", "event")
    lanes, first = np.unique(trace.lane[events], return_index=True)
    device, stream = trace.column("gpu_ops", "device")[first], trace.column("gpu_ops", "stream")[first]
    known = zip(lanes.tolist(), device.tolist(), stream.tolist(), strict=True)
    return {lane: (None if d < 0 else d, None if s < 0 else s) for lane, d, s in known}


def _label(trace: Trace, number: int) -> str:
    lane = trace.lanes[number]
    return lane.name or f"{lane.process or lane.pid} / {lane.tid}"


def _sorted(trace: Trace, found: list[Part]) -> list[Part]:
    """GPU streams by number, then CPU threads: that of the steps first, the others by how much they have."""
    gpu = {p.lane for p in found if p.kind in ("gpu", "marks")}
    marks = trace.analysis(steps).event
    main = int(trace.lane[marks[0]]) if len(marks) else -1
    size: dict[int, int] = {}
    for part in found:
        size[part.lane] = size.get(part.lane, 0) + (len(part.events) if part.kind == "ops" else 0)

    def place(part: Part) -> tuple[Any, ...]:
        if part.lane in gpu:
            return (0, part.device or 0, part.stream or 0, part.lane, LAYERS.index(part.kind))
        return (1, part.lane != main, -size[part.lane], part.lane, LAYERS.index(part.kind))

    return sorted(found, key=place)
