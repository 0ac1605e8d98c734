"""The tables: GPUs and their streams, ops and kernels."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["GpuRow", "KernelRow", "OpRow", "StreamRow"]


class StreamRow(Struct, frozen=True):
    """A GPU stream.

    Attributes:
        stream: number; numbered for each device.
        ops: GPU ops on it.
        busy_us: union of their time.
    """

    stream: int
    ops: int
    busy_us: float


class GpuRow(Struct, frozen=True):
    """A GPU over the whole trace; `idle_us` is None unless coverage is good.

    Attributes:
        device: number, as recorded.
        name: as CUDA or HIP reports it.
        ops: GPU ops on it.
        busy_us: time in which anything ran: the union over all streams.
        idle_us: window less busy time in it; null unless coverage is good.
        window_us: the steps from the first start to the last end; without steps, from the first launch or GPU op to the end of
            the last.
        sum_us: plain sum of all ops.
        compute_us: union of kernels that are no communication.
        communication_us: union of collectives and the like.
        copy_us: union of copies.
        memset_us: union of memsets.
        exposed_communication_us: communication during which no compute ran.
        streams: its streams, the busiest first.
    """

    device: int
    name: str | None
    ops: int
    busy_us: float
    idle_us: float | None
    window_us: float | None
    sum_us: float
    compute_us: float
    communication_us: float
    copy_us: float
    memset_us: float
    exposed_communication_us: float
    streams: list[StreamRow]


class OpRow(Struct, frozen=True):
    """One op or annotation name.

    Attributes:
        name: of the op or annotation.
        cat: ``cpu_op`` or ``user_annotation``.
        count: calls.
        cpu_total_us: CPU time; of an op nested in itself the outermost only.
        cpu_self_us: the same without child ops, runtime and driver calls, and the profiler's own time.
        gpu_total_us: time of the GPU ops that it and its children launched.
        gpu_self_us: of those that it launched itself.
        gpu_ops: their number, those of children too.
    """

    name: str
    cat: str
    count: int
    cpu_total_us: float
    cpu_self_us: float
    gpu_total_us: float
    gpu_self_us: float
    gpu_ops: int


class KernelRow(Struct, frozen=True):
    """One GPU op name; `ops` are the ops that launched it.

    Attributes:
        name: as recorded.
        kind: what it does, in the vocabulary of `lanewise kernel`.
        label: what the name says, in short.
        count: GPU ops of this name.
        total_us: their time.
        mean_us: mean of one.
        median_us: median of one.
        ops: names of the ops that launched them, the most frequent first.
    """

    name: str
    kind: str | None
    label: str
    count: int
    total_us: float
    mean_us: float
    median_us: float
    ops: list[str]
