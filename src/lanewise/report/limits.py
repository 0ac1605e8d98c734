"""How far the GPU's work is from what the card could do."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CeilingRow", "KernelLimitRow", "LaunchShape", "LimitTimes", "Roofline", "StepLimitRow"]


class CeilingRow(Struct, frozen=True):
    """A rate that GPU work was compared with.

    Attributes:
        device: number of the GPU.
        of: ``memory``, or the type of a product's operands.
        per_s: bytes/s of the memory, reads and writes together; FLOP/s of a type, dense, a multiply-add counted as two.
        source: ``measured`` by `lanewise calibrate`, or ``data sheet``.
    """

    device: int
    of: str
    per_s: float
    source: str


class LimitTimes(Struct, frozen=True):
    """GPU time of a usual step against what it would take at the ceilings; without steps, of the whole trace.

    Plain sums over the GPU ops that the step launched: overlapping streams count each. Means over the steps but the first,
    where there are more than two.

    Attributes:
        gpu_us: all GPU ops.
        known_us: those whose limit is known.
        limit_us: what those would take at the ceilings.
        headroom_us: time above the limit, op by op.
        memory_us, compute_us, latency_us: time of the ops that are bound by traffic, by arithmetic, and by being too small to
            fill the card.
        helper_us: time of kernels whose op's work is counted with another kernel.
        unknown_us: time of ops without a known bound; the five sum to `gpu_us`.
    """

    gpu_us: float
    known_us: float
    limit_us: float
    headroom_us: float
    memory_us: float
    compute_us: float
    latency_us: float
    helper_us: float
    unknown_us: float


class StepLimitRow(Struct, frozen=True):
    """One step's GPU time against its limit, summed as in `LimitTimes`.

    Attributes:
        index: number of the step.
        gpu_us: all GPU ops.
        known_us: those whose limit is known.
        limit_us: what those would take at the ceilings.
        headroom_us: time above the limit, op by op.
    """

    index: int
    gpu_us: float
    known_us: float
    limit_us: float
    headroom_us: float


class LaunchShape(Struct, frozen=True):
    """How the ops of a kernel's name that take most of its time were launched.

    Attributes:
        blocks: blocks of the grid.
        block_threads: threads of a block.
        registers: registers of a thread.
        shared_bytes: shared memory of a block.
        occupancy_ratio: warps that an SM can keep over the most that it keeps, by registers, shared memory and slots.
        occupancy_limiter: ``registers``, ``shared memory``, ``warps``, ``blocks``; ``none`` where all warp slots are used.
        recorded_occupancy_ratio: the profiler's own figure, which counts the grid too; null where there is none, or where its 0
            is a gap of the measurement.
        waves: blocks over those that the card keeps at a time.
        tail_ratio: share of the time lost since the last wave is not full, if all blocks take equally long.
    """

    blocks: int
    block_threads: int
    registers: int | None
    shared_bytes: int | None
    occupancy_ratio: float | None
    occupancy_limiter: str | None
    recorded_occupancy_ratio: float | None
    waves: float | None
    tail_ratio: float | None


class KernelLimitRow(Struct, frozen=True):
    """All GPU ops of one name against their limit.

    Attributes:
        name: as recorded.
        label: what the name says, in short.
        count: GPU ops.
        total_us: their time.
        known_us: time of those whose limit is known.
        limit_us: what those would take at the ceilings; 0 for helpers.
        headroom_us_per_step: time above the limit in a usual step; without steps, in the whole trace.
        flops_per_s: operations reached.
        bytes_per_s: least traffic that the work needs, over the time; copies within the GPU count twice, read and written.
        share_ratio: time at the limit over time; above 1 where data came from a cache. Null for helpers.
        bound: ``memory``, ``compute``, or ``latency``: too small to fill the card.
        source: where the work is from: ``op`` (its op call's inputs), ``shared`` (these, with other kernels of the call, in
            proportion to time), ``helper`` (counted with another kernel), ``own`` (a copy's bytes), ``grid`` (name and grid).
        at_least: whether traffic is a lower bound.
        launch: how it was launched; null for copies, and where it was not recorded.
        remark: what explains the figures, in words; null where there is nothing to add.
    """

    name: str
    label: str
    count: int
    total_us: float
    known_us: float | None
    limit_us: float | None
    headroom_us_per_step: float | None
    flops_per_s: float | None
    bytes_per_s: float | None
    share_ratio: float | None
    bound: str | None
    source: str | None
    at_least: bool
    launch: LaunchShape | None
    remark: str | None


class Roofline(Struct, frozen=True):
    """How far the GPU's work is from what the card could do.

    Attributes:
        text: the figures of a step in words, or why there are none.
        ceilings_text: what was compared with, in words; null for an unknown card.
        hint: what would make more known; null where little is missing.
        ceilings: the rates that work was compared with.
        step: a usual step; null where there is no GPU work.
        steps: each step.
        kernels: one row a GPU op name, by total time.
    """

    text: str
    ceilings_text: str | None
    hint: str | None
    ceilings: list[CeilingRow]
    step: LimitTimes | None
    steps: list[StepLimitRow]
    kernels: list[KernelLimitRow]
