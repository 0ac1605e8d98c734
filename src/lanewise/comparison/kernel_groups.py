"""Groups of GPU ops that stand for one another in two traces, with their times judged."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lanewise.engine import evidence_of
from lanewise.report import Evidence, us

from .document import KernelGroup, KernelPart
from .figures import TraceSide
from .gpu_pace import product_share, scaled
from .noise import LINK_RUN, MEMORY_RUN, OP_RUN, PRODUCT_RUN, Judgement, judged
from .pairing import Match, aligned, grouped, names_of, products
from .sequence import Sequence, Slot

__all__ = ["Groups", "kernel_groups", "link_share", "one_recording", "run_to_run", "untold", "without_cpu"]

Array = npt.NDArray[Any]

# Kernels' times are kept to 32 ns (CUPTI on an H200), and the shortest ones jitter by a few of these.
_TICK_NS = 100.0
# Between two recordings, what changes a step's GPU time by less says nothing about the program.
_LEAST_SHARE = 0.005
# A call of an op under the profiler takes some microseconds; a smaller difference is of no use to anybody.
_LEAST_CPU_NS = 5_000.0
_RUNS = dict.fromkeys(("collective", "memcpy-htod", "memcpy-dtoh", "memcpy-ptop"), LINK_RUN)
# Inductor numbers its kernels.
_NUMBERED = re.compile(r"^(triton_.*?)_\d+$")


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups of a step.

    Attributes:
        differ: those that differ in name, in number, or in time beyond the margin; the largest difference first.
        same: GPU ops that are the same and take the same time.
        other_grids: part of the GPU time of pairs of one name whose launches have other grids.
        structure_same: whether all of them are pairs of one name.
    """

    differ: list[KernelGroup]
    same: int
    structure_same: bool
    other_grids: float


def one_recording(base: TraceSide, new: TraceSide) -> bool:
    """Whether two files are of one recording: most CPU ops and calls, in order, took the same time to the nanosecond.

    Two runs never do; a file that was cut, edited or written again does.
    """
    a, b = (s.trace.dur[s.trace.rows("cpu_op", "cuda_runtime", "cuda_driver")] for s in (base, new))
    n = min(len(a), len(b))
    return bool(n >= 8 and len(a) == len(b) and float(np.mean(a == b)) > 0.5)


def kernel_groups(
    base: TraceSide, new: TraceSide, lang: str, *, paired: bool, pace: float | None = None, clock: float | None = None
) -> Groups:
    """Pair the usual steps' GPU ops.

    Args:
        base, new: the traces.
        lang: language of the labels.
        paired: whether both are one recording.
        pace: how long the same CPU calls take in the new trace against the base; None where it is not known.
        clock: how long all products take in the new trace against the base, see `gpu_pace`; None for as long.
    """
    a, b = base.sequence, new.sequence
    matches = grouped(aligned(a.slots, b.slots), a.slots, b.slots)
    folded: dict[tuple[Any, ...], list[Match]] = defaultdict(list)
    for match in matches:
        folded[_key(match, a.slots, b.slots)].append(match)
    differ: list[KernelGroup] = []
    same = 0
    structure_same = True
    for found in folded.values():
        group = _with_cpu(_group(base, new, found, lang, paired, clock), base, new, found, pace)
        structure_same &= group.kind == "same"
        if group.kind == "same" and group.call == "not-seen":
            same += group.times
        else:
            differ.append(group)
    differ.sort(key=lambda g: (-abs(g.new_us - g.base_us), g.kind))
    return Groups(differ, same, structure_same, _other_grids(matches, a, b))


def link_share(side: TraceSide) -> float:
    """Part of a step's GPU time in collectives and copies over the host's bus."""
    sequence = side.sequence
    chosen = [i for i, s in enumerate(sequence.slots) if s.kind in _RUNS]
    whole = _step_ns(sequence)
    return _sum_of_medians(sequence.ns, chosen) / whole if whole else 0.0


def _other_grids(matches: list[Match], base: Sequence, new: Sequence) -> float:
    """Part of the time of pairs of one name whose grids differ; 0 where grids were not recorded."""
    pairs = [(m.base[0], m.new[0]) for m in matches if len(m.base) == len(m.new) == 1]
    pairs = [(i, j) for i, j in pairs if base.slots[i].name == new.slots[j].name and base.slots[i].grid > 0]
    ns = [(float(np.median(base.ns[:, i])), base.slots[i].grid != new.slots[j].grid) for i, j in pairs]
    whole = _step_ns(base)
    return sum(t for t, other in ns if other) / whole if whole else 0.0


def without_cpu(groups: Groups) -> Groups:
    """The same without what is said of CPU times."""
    return replace(groups, differ=[msgspec.structs.replace(g, cpu_call=g.cpu_call and "withheld") for g in groups.differ])


def untold(groups: Groups) -> Groups:
    """The same without what is said of times; ops that differ in nothing else are the same."""
    timed = [g for g in groups.differ if g.kind == "same"]
    differ = [msgspec.structs.replace(g, call="withheld", margin_ratio=None) for g in groups.differ if g.kind != "same"]
    return replace(groups, differ=differ, same=groups.same + sum(g.times for g in timed))


def _key(match: Match, base: list[Slot], new: list[Slot]) -> tuple[Any, ...]:
    return (tuple(_unnumbered(base[i].name) for i in match.base), tuple(_unnumbered(new[j].name) for j in match.new))


def _unnumbered(name: str) -> str:
    match = _NUMBERED.match(name)
    return match.group(1) if match else name


def _group(base: TraceSide, new: TraceSide, found: list[Match], lang: str, paired: bool, clock: float | None) -> KernelGroup:
    a, b = base.sequence, new.sequence
    left = [i for m in found for i in m.base]
    right = [j for m in found for j in m.new]
    ns_a, ns_b = a.ns[:, left], b.ns[:, right]
    least = 0.0 if paired else max(_TICK_NS * max(len(left), len(right)), _LEAST_SHARE * _step_ns(a))
    slots_a, slots_b = [a.slots[i] for i in left], [b.slots[j] for j in right]
    verdict = _judged(ns_a, ns_b, slots_a, slots_b, paired, least, scaled(clock, product_share(ns_a, slots_a)))
    first = found[0]
    slots = [a.slots[i] for i in first.base] + [b.slots[j] for j in first.new]
    return KernelGroup(
        kind=_kind(first, a.slots, b.slots),
        times=len(found),
        base=_parts(first.base, a.slots, lang),
        new=_parts(first.new, b.slots, lang),
        base_us=us(_sum_of_medians(a.ns, left)) or 0.0,
        new_us=us(_sum_of_medians(b.ns, right)) or 0.0,
        call=verdict.call,
        margin_ratio=verdict.margin_ratio,
        base_bytes=_bytes(base, left),
        new_bytes=_bytes(new, right),
        place=next((s.place for s in slots if s.place), None),
        base_evidence=_evidence(base, left),
        new_evidence=_evidence(new, right),
    )


def _with_cpu(group: KernelGroup, base: TraceSide, new: TraceSide, found: list[Match], pace: float | None) -> KernelGroup:
    """The same with the CPU time of the ops that launch it, where one op stands in place of another.

    It is judged at one pace, and called only where the numbers as recorded differ in the same direction. What two recordings
    differ by was measured on medians, which have the spread of the steps in them; each must be exceeded, not their sum.
    """
    ops = [{part.op for part in parts} for parts in (group.base, group.new)]
    if group.kind != "replaced" or pace is None or None in ops[0] | ops[1] or ops[0] == ops[1]:
        return group
    a = base.launching_ns([i for m in found for i in m.base])
    b = new.launching_ns([j for m in found for j in m.new])
    middle = float(np.median(a)), float(np.median(b))
    calls = {
        "more" if middle[1] > middle[0] else "less",
        judged(np.array(middle[:1]), np.array(middle[1:]), OP_RUN, pace=pace, least=_LEAST_CPU_NS).call,
        judged(a, b, 0.0, pace=pace).call,
    }
    return msgspec.structs.replace(
        group,
        base_cpu_us=us(middle[0]),
        new_cpu_us=us(middle[1]),
        cpu_call=calls.pop() if len(calls) == 1 else "not-seen",
    )


def _evidence(side: TraceSide, places: list[int]) -> list[Evidence]:
    """The GPU ops at some places of a side's usual step, in the order of their launches."""
    events = (side.sequence.slots[i].event for i in sorted(places))
    return evidence_of(side.trace, [e for e in events if e >= 0], None)


def _sum_of_medians(ns: Array, places: list[int]) -> float:
    return float(np.median(ns[:, places], axis=0).sum()) if places else 0.0


def _judged(
    ns_a: Array, ns_b: Array, left: list[Slot], right: list[Slot], paired: bool, least: float, pace: float
) -> Judgement:
    """Times of a group, of each op in each step; what two runs differ by is that of the side of which it is more."""
    a, b = (x.sum(axis=1) if x.size else np.zeros(1) for x in (ns_a, ns_b))
    if not left or not right:
        # What is gone or new is exact; its time needs no margin.
        return Judgement(float(np.median(a)), float(np.median(b)), "less" if left else "more", 0.0)
    return judged(a, b, max(run_to_run(ns_a, left), run_to_run(ns_b, right)), paired=paired, least=least, pace=pace)


def run_to_run(ns: Array, slots: list[Slot]) -> float:
    """What two runs differ by in the time of some ops, each by its share: a small copy does not hide what a hundred kernels do.

    Args:
        ns: (steps, ops), times of the ops.
        slots: the ops.
    """
    runs = np.array([_RUNS.get(s.kind, PRODUCT_RUN if products(s) else MEMORY_RUN) for s in slots])
    medians = np.median(ns, axis=0)
    whole = float(medians.sum())
    return float((runs * medians).sum()) / whole if whole else float(runs.max())


def _step_ns(sequence: Sequence) -> float:
    return float(np.median(sequence.ns.sum(axis=1))) if sequence.steps else 0.0


def _kind(match: Match, base: list[Slot], new: list[Slot]) -> str:
    n, m = len(match.base), len(match.new)
    if not m:
        return "removed"
    if not n:
        return "added"
    if n == m == 1:
        return "same" if _unnumbered(base[match.base[0]].name) == _unnumbered(new[match.new[0]].name) else "replaced"
    before, after = [base[i].kind for i in match.base], [new[j].kind for j in match.new]
    if before.count("gemm") == after.count("gemm") == 1 and n > 1:
        return "epilogue"
    return "fused" if n > m else "split" if n < m else "changed"


def _parts(places: list[int], slots: list[Slot], lang: str) -> list[KernelPart]:
    return [
        KernelPart(s.name, s.kernel.label(lang) if s.kernel.kind else s.name[:40], s.op, n) for s, n in names_of(places, slots)
    ]


def _bytes(side: TraceSide, places: list[int]) -> int | None:
    """Least traffic of the ops that launched some GPU ops, each once; None where one is not known."""
    slots = [side.sequence.slots[i] for i in places]
    total = sum(s.bytes for s in slots if s.bytes is not None)
    owners = {s.owner for s in slots if s.bytes is None and s.kind != "memset"}
    for owner in owners:
        work = side.ctx.work(owner) if owner >= 0 else None
        if work is None or work.bytes is None:
            return None
        total += work.bytes
    return total if places else 0
