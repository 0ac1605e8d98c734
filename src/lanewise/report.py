"""The report: one versioned document that every renderer, the viewer, comparison and expectations read, and nothing else.

Times are microseconds with three decimals (`_us`), ratios 0 to 1 (`_ratio`), sizes bytes; None is "not known", never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

__all__ = [
    "SCHEMA",
    "BoundNumbers",
    "CeilingRow",
    "Check",
    "CoverageSection",
    "Evidence",
    "Finding",
    "GpuRow",
    "KernelLimitRow",
    "KernelRow",
    "LaunchShape",
    "LimitTimes",
    "OpRow",
    "Report",
    "Roofline",
    "StepLimitRow",
    "StepRow",
    "StepSection",
    "StreamRow",
    "TraceSection",
    "TraceWarning",
    "Verdict",
    "WhereRow",
    "us",
    "usual_step",
]

SCHEMA = "lanewise.report/1"


def usual_step(launches: Sequence[int]) -> int:
    """Place of a step that stands for the others, from the launches of each.

    The second that launched work, since the first may still warm up, and a step that launched none is only a mark.
    """
    busy = [i for i, n in enumerate(launches) if n] or list(range(len(launches)))
    return busy[1] if len(busy) > 1 else busy[0]


def us(ns: float | None) -> float | None:
    """Nanoseconds as the report's microseconds; None stays None."""
    return None if ns is None else round(ns / 1000, 3)


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


class StepSection(Struct, frozen=True):
    """What one step costs: medians; `source` says whether the time was measured outside the profiler.

    Attributes:
        count: steps found.
        time_us: what a step adds to the run: the median.
        source: ``unprofiled``: timed outside the profiler by the recorder; ``profiled``: from `steps`.
        wall_us: length of the annotation: the median.
        gpu_busy_us: GPU busy time of a step: the median.
        profiled_time_us: median of `steps`, under the profiler.
        marks: ``ProfilerStep``, ``annotation``, or null without step marks.
        unprofiled_steps: steps that were timed outside the profiler.
    """

    count: int
    time_us: float | None
    source: str | None
    wall_us: float | None
    gpu_busy_us: float | None
    profiled_time_us: float | None
    marks: str | None
    unprofiled_steps: int | None


class StepRow(Struct, frozen=True):
    """One step.

    Attributes:
        name: of the annotation.
        index: its number, by name or else by place.
        wall_us: length of the annotation on the CPU.
        time_us: what the step adds to the run: from the end of the step before to its own end, the later of its CPU end and
            the end of its last GPU op.
        gpu_busy_us: union of the GPU ops that it launched; null where it launched work and none of it was recorded.
        gpu_ops: GPU ops that it launched, whenever they ran.
        kernels: kernels among them.
        copies: copies among them.
        memsets: memsets among them.
        launches: calls that start GPU work.
        start_us: start of the annotation, as in the file.
    """

    name: str
    index: int
    wall_us: float
    time_us: float
    gpu_busy_us: float | None
    gpu_ops: int
    kernels: int
    copies: int
    memsets: int
    launches: int
    start_us: float


class OpRow(Struct, frozen=True):
    """One op or annotation name.

    Attributes:
        name: of the op or annotation.
        cat: ``cpu_op`` or ``user_annotation``.
        count: calls.
        cpu_total_us: CPU time; of an op nested in itself the outermost only.
        cpu_self_us: the same without child ops and without runtime and driver calls.
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


class Evidence(Struct, frozen=True):
    """An event that proves a finding.

    Attributes:
        ts_us: start, as in the file.
        dur_us: duration.
        lane: thread or stream, in words.
        name: of the event.
    """

    ts_us: float
    dur_us: float
    lane: str
    name: str


class BoundNumbers(Struct, frozen=True):
    """The numbers behind the verdict.

    Attributes:
        gpu_us_per_step: GPU work of a step.
        gpu_share_ratio: the step's share in which the GPU worked.
        cpu_us_per_step: CPU work of a step outside the profiler.
        growth_ratio: how much the GPU's work must grow before the CPU stops being the limit: CPU work over GPU work.
        queue_depth_median: launched and unfinished GPU ops at a launch.
        profiler_slowdown_ratio: CPU work under the profiler over CPU work without it.
    """

    gpu_share_ratio: float | None
    gpu_us_per_step: float | None
    cpu_us_per_step: float | None
    growth_ratio: float | None
    queue_depth_median: float | None
    profiler_slowdown_ratio: float | None


class WhereRow(Struct, frozen=True):
    """A part of a usual step's time on the busiest device, by cause; the parts sum to the step.

    Attributes:
        cause: what the time went to.
        us: time a step.
        ratio: share of the step.
    """

    cause: str
    us: float
    ratio: float


class Verdict(Struct, frozen=True):
    """What bounds the step.

    Attributes:
        bound: what limits the step, in one word; ``unknown`` where the trace does not tell.
        text: the same in a sentence with its numbers.
        evidence: events that show it.
        numbers: the numbers behind it.
    """

    bound: str
    text: str
    evidence: list[Evidence] = field(default_factory=list)
    numbers: BoundNumbers | None = None


class Finding(Struct, frozen=True):
    """One problem found, with its price and its proof.

    Attributes:
        id: of the rule.
        title: what is wrong, in a line.
        text: why, with its numbers.
        fix: what to change.
        cost_us_per_step: what it costs a step now, in GPU, CPU or idle time.
        saving_us_per_step: what a step would lose without it, as replayed.
        share_ratio: saving over the time of a step.
        confidence: ``high`` (the trace shows it), ``medium`` or ``low``.
        evidence: events that prove it, the most telling first.
        saving_low_us_per_step: lower end of the saving's range, where there is one.
        saving_high_us_per_step: its upper end.
        good: whether it is good news, which has no saving.
        where: module, annotation or Python line to change, where recorded.
        folded: ids of findings that this one explains.
    """

    id: str
    title: str
    text: str
    fix: str
    cost_us_per_step: float | None
    saving_us_per_step: float | None
    share_ratio: float | None
    confidence: str
    evidence: list[Evidence] = field(default_factory=list)
    saving_low_us_per_step: float | None = None
    saving_high_us_per_step: float | None = None
    good: bool = False
    where: str | None = None
    folded: list[str] = field(default_factory=list)


class Check(Struct, frozen=True):
    """Outcome of one rule: ``found``, ``clear``, ``not-checked`` or ``failed``, the last two with the reason.

    Attributes:
        id: of the rule.
        outcome: ``found``, ``clear``, ``not-checked`` or ``failed``.
        reason: why it was not checked or failed; or why something found is no finding.
    """

    id: str
    outcome: str
    reason: str | None = None


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


class Report(Struct, frozen=True):
    """The whole document.

    Attributes:
        schema: name and version of the document's form.
        generator: ``lanewise`` and its version.
        lang: language of the texts.
        trace: what was read.
        coverage: how much of the GPU's work it shows.
        gpu: one row a GPU with work.
        step: what one step costs.
        steps: one row a step.
        ops: one row an op name.
        kernels: one row a GPU op name.
        verdict: what bounds the step.
        where: where a usual step's time goes.
        findings: one row a problem found, the dearest first.
        checks: one row a rule.
        roofline: distance from the card's limits.
    """

    schema: str
    generator: str
    lang: str
    trace: TraceSection
    coverage: CoverageSection
    gpu: list[GpuRow]
    step: StepSection
    steps: list[StepRow]
    ops: list[OpRow]
    kernels: list[KernelRow]
    verdict: Verdict
    where: list[WhereRow]
    findings: list[Finding]
    checks: list[Check]
    roofline: Roofline | None = None

    def to_json(self, *, indent: int | None = None) -> str:
        """The document as JSON text (no NaN, no Infinity)."""
        data = msgspec.json.encode(self)
        return (data if indent is None else msgspec.json.format(data, indent=indent)).decode()

    def to_dict(self) -> dict[str, Any]:
        """The document as plain dicts and lists."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result

    @staticmethod
    def from_json(text: str | bytes) -> Report:
        """A report out of its JSON text; raises msgspec.ValidationError for another document."""
        return msgspec.json.decode(text, type=Report)
