"""What was read, and how much of the GPU's work it shows."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["CoverageSection", "Device", "TraceSection", "TraceWarning"]


class Device(Struct, frozen=True):
    """A GPU: number, name and streaming multiprocessors (or compute units).

    Attributes:
        index: number, as recorded.
        name: as CUDA or HIP reports it.
        sms: streaming multiprocessors, or compute units.
    """

    index: int
    name: str | None
    sms: int | None


class TraceWarning(Struct, frozen=True):
    """Something to know before believing the numbers.

    Attributes:
        id: what kind of thing it is, the same in every language.
        text: what is so, where, and what was done about it.
    """

    id: str
    text: str


class TraceSection(Struct, frozen=True):
    """What was read.

    Attributes:
        path: as given; `-` for standard input.
        format: ``kineto``, ``kineto-legacy`` (2020 and 2021) or ``autograd-legacy`` (the exporter before Kineto).
        events: timed events kept.
        skipped_events: events given up: unreadable, without a start, or with a duration below 0.
        repaired_events: events kept after mending.
        stray_events: events at timestamp 0 that lost their times; counted in `events`, in no other figure.
        truncated: whether the end of the file is missing.
        span_us: from the start of the first event to the end of the last, strays left out.
        ranks: rank of the process, where known.
        world_size: processes of the distributed job.
        devices: GPUs of the header, and those with work.
        capabilities: what the file contains, whatever its header says.
        warnings: what to know before believing the numbers.
        file_bytes: size as stored.
        versions: versions of the software that made it, by name.
    """

    path: str
    format: str
    events: int
    skipped_events: int
    repaired_events: int
    stray_events: int
    truncated: bool
    span_us: float | None
    ranks: list[int]
    world_size: int | None
    devices: list[Device]
    capabilities: list[str]
    warnings: list[TraceWarning]
    file_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=dict)


class CoverageSection(Struct, frozen=True):
    """How much of the GPU's work the trace shows.

    Attributes:
        launches: calls that start GPU work; a driver call inside a runtime call is part of it.
        launches_linked: launches of which a GPU op was recorded.
        gpu_ops: kernels, copies and memsets.
        gpu_ops_linked: GPU ops whose launch is in the trace.
        gpu_timing: ``ok``, ``partial`` (idle time is not known) or ``none`` (no GPU op).
    """

    launches: int
    launches_linked: int
    gpu_ops: int
    gpu_ops_linked: int
    gpu_timing: str
