"""What bounds the step, where its time goes, which problems were found, and with what evidence."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["BoundNumbers", "Check", "Evidence", "Finding", "Verdict", "WhereRow"]


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
        cpu_us_per_step: CPU work of a step: outside the profiler where its step time is known, else as recorded.
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
    """A part of a step's time on the busiest device, by cause; the parts sum to `step.time_us`.

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
        cost_us_per_step: what it costs a step now, in GPU, CPU or idle time; at least the saving.
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
