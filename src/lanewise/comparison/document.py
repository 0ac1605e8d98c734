"""The comparison: one versioned document that every form of `lanewise diff` is made from, and nothing else.

Times are microseconds a step with three decimals (`_us`), ratios are new over base, sizes bytes; None is "not known".
"""

from __future__ import annotations

from msgspec import Struct, field

from lanewise.document import Document
from lanewise.report import Evidence

__all__ = [
    "CALLS",
    "SCHEMA",
    "Comparison",
    "CompileVerdict",
    "Condition",
    "Figure",
    "FindingChange",
    "KernelGroup",
    "KernelPart",
    "Layer",
    "OpChange",
    "Pair",
    "Side",
]

SCHEMA = "lanewise.diff/1"

# What is said about a figure: ``same`` (a count that is equal), ``less``, ``more``, ``not-seen`` (no difference beyond what the
# traces' own variation allows), ``withheld`` (a condition spoils it), ``unknown`` (one trace does not have it).
CALLS = ("same", "less", "more", "not-seen", "withheld", "unknown")


class Side(Struct, frozen=True):
    """One of the traces.

    Attributes:
        path: as given.
        name: a short name that tells it from the others.
        gpu: name of its GPU.
        steps: number of steps.
        time_source: ``unprofiled``, ``profiled`` or null.
        recorded: what was recorded (`Report.trace.capabilities`).
        compiled: whether a step calls compiled regions.
        figures: per-step figures by id, as in `Pair.figures`.
        verdict: what bounds the step, in a sentence.
        findings: ids of its findings, the dearest first.
        bound: the same as an id.
        step: number of the step that the evidence of groups is from; null without steps or GPU work.
    """

    path: str
    name: str
    gpu: str | None
    steps: int
    time_source: str | None
    recorded: list[str]
    compiled: bool
    figures: dict[str, float | None]
    verdict: str
    bound: str
    findings: list[str]
    step: int | None = None


class Condition(Struct, frozen=True):
    """Something that the two recordings do not have in common.

    Attributes:
        id: what differs.
        text: in words.
        spoils: figures that say nothing about the program because of it: ``gpu`` (GPU times), ``cpu`` (CPU-side times under
            the profiler), ``time`` (the step), ``counts`` (of GPU ops), ``structure`` (all that a step runs).
    """

    id: str
    text: str
    spoils: list[str] = field(default_factory=list)


class Figure(Struct, frozen=True):
    """One figure of a step in both traces.

    Attributes:
        id: which; times end in ``_us``.
        group: ``time``, ``idle``, ``structure``.
        base, new: medians over the steps.
        call: one of `CALLS`.
        margin_ratio: what the difference had to exceed, as a part of the base (at the new trace's pace, see `Pair.pace_ratio`);
            null for counts and what is withheld.
        paced_base: the base at the new trace's pace, which is what the new value is compared with; null where both are compared
            as they are.
    """

    id: str
    group: str
    base: float | None
    new: float | None
    call: str
    margin_ratio: float | None = None
    paced_base: float | None = None

    @property
    def compared_base(self) -> float | None:
        """What the new value is compared with."""
        return self.base if self.paced_base is None else self.paced_base


class KernelPart(Struct, frozen=True):
    """GPU ops of one name within a group.

    Attributes:
        name: as recorded.
        label: what it is, in short.
        op: the op that launched it.
        count: in one group.
    """

    name: str
    label: str
    op: str | None
    count: int


class KernelGroup(Struct, frozen=True):
    """GPU ops of a step of the base, and what runs in their place in the new trace.

    Attributes:
        kind: ``same`` (one name), ``replaced`` (one for another), ``fused`` (several by fewer), ``split`` (by more),
            ``epilogue`` (into the epilogue of a product), ``removed``, ``added``, ``changed``.
        times: how often this group is in a step.
        base, new: what ran.
        base_us, new_us: GPU time a step, all repetitions together: sums of medians.
        call: one of `CALLS`, about the time.
        margin_ratio: what the difference had to exceed, as a part of the base (of the new time where the base has none).
        base_bytes, new_bytes: least memory traffic of the ops that launched them; null where shapes do not tell.
        place: annotation or module around them, where recorded.
        base_evidence, new_evidence: the GPU ops themselves, in one usual step of each trace (`Side.step`).
        base_cpu_us, new_cpu_us: of ops ``replaced`` by another op: CPU time a step of the ops that launch them, without what
            they call; null for other groups.
        cpu_call: one of `CALLS`, about that time at the new trace's pace; null for other groups.
    """

    kind: str
    times: int
    base: list[KernelPart]
    new: list[KernelPart]
    base_us: float
    new_us: float
    call: str
    margin_ratio: float | None = None
    base_bytes: int | None = None
    new_bytes: int | None = None
    place: str | None = None
    base_evidence: list[Evidence] = field(default_factory=list)
    new_evidence: list[Evidence] = field(default_factory=list)
    base_cpu_us: float | None = None
    new_cpu_us: float | None = None
    cpu_call: str | None = None


class FindingChange(Struct, frozen=True):
    """A finding that only one trace has, or that became much cheaper or dearer.

    Attributes:
        id: of the finding.
        change: ``lost``, ``gained``, ``smaller``, ``larger``; ``uncovered``: gained, since the step around it became shorter,
            or the GPU has less to do; ``unchecked``: in one trace only, and the other could not be checked for it.
        title: the finding's title in the trace where it is dearer.
        base_ratio, new_ratio: share of the step that it would save; null where there is no such finding, or none worth 1 %.
        certain: whether a difference of the structure, or a called difference of times, is behind it; otherwise it may come
            and go with the noise of the recordings.
        general: a general symptom.
        folded: ids of findings that it explains.
    """

    id: str
    change: str
    title: str
    base_ratio: float | None
    new_ratio: float | None
    certain: bool
    general: bool = False
    folded: list[str] = field(default_factory=list)


class OpChange(Struct, frozen=True):
    """An op that a step calls more or less often: its name and the medians of its calls a step."""

    name: str
    base: float
    new: float


class Layer(Struct, frozen=True):
    """CPU time of a step in one layer, as recorded, waits for the GPU left out: what is in no layer below it."""

    id: str
    base_us: float
    new_us: float


class CompileVerdict(Struct, frozen=True):
    """What compiling did.

    Attributes:
        compiled: which side is compiled: ``base`` or ``new``.
        verdict: ``worth-it``, ``not-worth-it``, ``not-at-this-size``, ``gpu-slower``, ``not-seen`` or ``unknown``.
        text: the verdict in one line.
        facts: what it did, in words.
        layers: CPU time by layer.
        same_products: products (GEMM, conv, attention) that run by the same kernels, and those that do not.
        other_products: products whose kernel is another.
        fused: kernels that went into fewer, and into how many.
        copies_added: copies that only the compiled side makes, a step.
        regions: compiled regions called a step.
        frames: frames that they belong to; above 1 graphs may break.
        recompilations: compilations a step during the recorded steps.
        from_size_ratio: by how much the GPU work of a step must grow for compiling to pay; null where it pays, or never.
    """

    compiled: str
    verdict: str
    text: str
    facts: list[str]
    layers: list[Layer]
    same_products: int
    other_products: int
    fused: tuple[int, int]
    copies_added: int
    regions: float
    frames: int
    recompilations: float
    from_size_ratio: float | None = None


class Pair(Struct, frozen=True):
    """The base against one other trace.

    Attributes:
        new: place of the other trace in `Comparison.sides`.
        headline: the most important of it: the step's time, and what a step runs.
        points: where most of the difference is from, and the findings gone and new, in sentences.
        changed: whether any difference is called.
        structure_same: whether the GPU ops of a step and all counts are the same; false where a condition spoils that.
        same_recording: both files are of one recording, so that nothing varies between them by itself.
        steps: steps of the trace that has fewer.
        spread_ratio: what the spread of the profiled step times alone would hide, as a part of the base.
        pace_ratio: how long the same CPU ops and calls took in the new trace against the base; null where too few are common.
        conditions: what makes them less than comparable.
        figures: per-step figures.
        kernels: groups of GPU ops that differ in name or number, or whose time differs; the largest difference first.
        kernels_same: GPU ops of a step that are the same and take the same time.
        ops: CPU ops whose number of calls differs, the largest difference first.
        findings: findings gained and lost.
        needed: what would be needed to see smaller differences, in words.
        compile: the compile verdict, where one side is compiled.
    """

    new: int
    headline: str
    points: list[str]
    changed: bool
    structure_same: bool
    same_recording: bool
    steps: int
    spread_ratio: float | None
    pace_ratio: float | None
    conditions: list[Condition]
    figures: list[Figure]
    kernels: list[KernelGroup]
    kernels_same: int
    ops: list[OpChange]
    findings: list[FindingChange]
    needed: list[str]
    compile: CompileVerdict | None = None


class Comparison(Document, frozen=True):
    """The whole document.

    Attributes:
        schema: name and version of the document's form.
        generator: ``lanewise`` and its version.
        lang: language of the texts.
        anyway: whether figures are told that a condition spoils.
        sides: the traces, the base first.
        pairs: the base against each other trace, in order.
    """

    schema: str
    generator: str
    lang: str
    anyway: bool
    sides: list[Side]
    pairs: list[Pair]

    def group_evidence(self, place: int) -> list[list[Evidence]]:
        """The evidence of every group of kernels on one side (a place in `sides`), in the order of `pairs` and their groups.

        Groups of pairs that do not have the side are left out.
        """
        if place == 0:
            return [group.base_evidence for pair in self.pairs for group in pair.kernels]
        return [group.new_evidence for pair in self.pairs if pair.new == place for group in pair.kernels]
