"""Whether two recordings can be compared at all: what they do not have in common, and which figures that spoils."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from lanewise import units

from .document import Condition
from .figures import TraceSide
from .noise import LEAST_STEPS
from .pairing import products
from .texts import TEXTS

__all__ = ["conditions", "listed_clock", "listed_grids", "listed_pace", "pace", "pace_differs"]

# What is recorded beside the ops, and costs CPU time for every event of the program.
_DEAR_FLAGS = ("shapes", "stacks", "modules", "memory")
# Work that differs by less may be padding or a batch's last rows; by more, another problem is solved.
_WORK_LISTED, _WORK_SPOILS = 0.02, 0.25
# The same for the GPU time of kernels on other grids: a few are a library's choice, most of them are other shapes.
_GRIDS_LISTED, _GRIDS_SPOIL = 0.05, 0.5
# Clocks of the SMs move by a step or two (15 MHz of 1,980) during a run; a difference beyond what GEMMs may vary by explains
# more than the program does.
_CLOCK_LISTED, _CLOCK_SPOILS = 0.02, 0.05
# The same machine runs the same call at a pace that differs this much from run to run without anyone noticing.
PACE_LISTED = 1.25
# Calls of one name in both traces, for their median to tell the CPU's pace, and distinct names of them.
_PACE_CALLS, _PACE_NAMES = 3, 2


def conditions(base: TraceSide, new: TraceSide, names: tuple[str, str], lang: str) -> list[Condition]:
    """All differences between two recordings, those that spoil something first."""
    found = [
        *_machine(base, new, lang),
        *_flags(base, new, names, lang),
        *_steps(base, new, names, lang),
        *_work(base, new, names, lang),
        *_software(base, new, lang),
    ]
    return sorted(found, key=lambda c: not c.spoils)


def _machine(base: TraceSide, new: TraceSide, lang: str) -> Iterator[Condition]:
    a, b = (_gpu(s) for s in (base, new))
    if a and b and a != b:
        yield Condition("gpu", TEXTS("cond-gpu", lang, a=a, b=b), ["gpu", "cpu", "time"])
    dist_a, dist_b = base.trace.distributed, new.trace.distributed
    if dist_a.world_size and dist_b.world_size and dist_a.world_size != dist_b.world_size:
        yield Condition("world", TEXTS("cond-world", lang, a=dist_a.world_size, b=dist_b.world_size), ["time"])
    elif dist_a.rank is not None and dist_b.rank is not None and dist_a.rank != dist_b.rank:
        yield Condition("rank", TEXTS("cond-rank", lang, a=dist_a.rank, b=dist_b.rank))
    clock_a, clock_b = (_clock(s) for s in (base, new))
    apart = abs(clock_a / clock_b - 1) if clock_a and clock_b else 0.0
    if clock_a and clock_b and apart > _CLOCK_LISTED:
        spoils = ["gpu"] if apart > _CLOCK_SPOILS else []
        yield Condition("clocks", TEXTS("cond-clocks", lang, a=round(clock_a), b=round(clock_b)), spoils)


def _gpu(side: TraceSide) -> str | None:
    used = np.unique(side.trace.column("gpu_ops", "device"))
    return side.trace.device(int(used[0])).name if len(used) else None


def _clock(side: TraceSide) -> float | None:
    """SM clock in MHz during the work, as the recorder noted it."""
    own = side.trace.header.get("lanewise")
    device: Any = own.get("device") if isinstance(own, dict) else None
    value = device.get("sm_clock_mhz") if isinstance(device, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _flags(base: TraceSide, new: TraceSide, names: tuple[str, str], lang: str) -> Iterator[Condition]:
    a, b = (set(s.trace.capabilities) & set(_DEAR_FLAGS) for s in (base, new))
    if not all(s.counts["ops"].any() for s in (base, new)):
        a = b = set()  # a step without ops (a replayed graph) shows no flags
    if not base.with_inputs & new.without_inputs and not new.with_inputs & base.without_inputs:
        a, b = a - {"shapes"}, b - {"shapes"}  # ops of other names only: those of a compiler have no inputs
    for only, name in ((a - b, names[0]), (b - a, names[1])):
        if only:
            things = TEXTS("separator", lang).join(TEXTS(f"flag-{x}", lang) for x in _DEAR_FLAGS if x in only)
            yield Condition("flags", TEXTS("cond-flags", lang, things=things, name=name), ["cpu"])
    if (base.real_ns is None) != (new.real_ns is None):
        yield Condition("real-time", TEXTS("cond-real", lang, name=names[0] if base.real_ns else names[1]))


def _steps(base: TraceSide, new: TraceSide, names: tuple[str, str], lang: str) -> Iterator[Condition]:
    alone = bool(len(base.ctx.steps)) != bool(len(new.ctx.steps))
    for side, name in ((base, names[0]), (new, names[1])):
        n = len(side.ctx.steps)
        if not n:
            # A whole trace against a step: more of everything, which says nothing.
            spoils = ["gpu", "cpu", "time", *(["structure"] if alone else [])]
            yield Condition("no-steps", TEXTS("cond-no-steps-alone" if alone else "cond-no-steps", lang, name=name), spoils)
        elif n < LEAST_STEPS:
            spoils = ["gpu", "cpu"] if side.real_ns else ["gpu", "cpu", "time"]
            yield Condition("few-steps", TEXTS("cond-steps", lang, name=name, count=n, least=LEAST_STEPS), spoils)
        if side.trace.truncated:
            # The profiler writes CPU ops first: what is missing may be of every step.
            yield Condition("cut", TEXTS("cond-cut", lang, name=name), ["gpu", "cpu", "time", "structure"])
        if side.ctx.coverage.gpu_timing == "partial":
            yield Condition("partial", TEXTS("cond-partial", lang, name=name), ["gpu", "counts"])
    for side, other, name in ((base, new, names[0]), (new, base, names[1])):
        if _gpu(side) is None and not side.ctx.coverage.launches and not side.trace.truncated and _gpu(other) is not None:
            yield Condition("cpu-only", TEXTS("cond-cpu-only", lang, name=name), ["gpu", "counts", "time"])
    a, b = len(base.ctx.steps), len(new.ctx.steps)
    if a != b:
        yield Condition("step-count", TEXTS("cond-count", lang, a=a, b=b))
    warm_a, warm_b = (_warming(s) for s in (base, new))
    if warm_a != warm_b:
        yield Condition("warm-up", TEXTS("cond-warm", lang, name=names[0] if warm_a else names[1]))


def _warming(side: TraceSide) -> bool:
    """Whether some, but not all, recorded steps compile: a warm-up that was recorded."""
    compiling = side.counts["compilations"] > 0
    return bool(compiling.any() and not compiling.all())


def _work(base: TraceSide, new: TraceSide, names: tuple[str, str], lang: str) -> Iterator[Condition]:
    a, b = (_product_types(s) for s in (base, new))
    if a and b and a != b:
        yield Condition("dtype", TEXTS("cond-dtype", lang, a=_types_text(a, lang), b=_types_text(b, lang), new=names[1]))
    work_a, work_b = (_weight_flops(s) for s in (base, new))
    if work_a and work_b and abs(work_b / work_a - 1) > _WORK_LISTED:
        spoils = max(work_a, work_b) > (1 + _WORK_SPOILS) * min(work_a, work_b)
        key = "cond-work" if spoils else "cond-work-little"
        text = TEXTS(key, lang, ratio=f"{work_b / work_a:.2f}", new=names[1])
        yield Condition("shapes", text, ["gpu", "cpu", "time"] if spoils else [])
    if not work_a or not work_b:
        yield from _amount(base, new, names, lang)


def _amount(base: TraceSide, new: TraceSide, names: tuple[str, str], lang: str) -> Iterator[Condition]:
    """Without shapes: whether the products that both run, by the same kernels, run more often in one.

    A step may be another piece of work then (eight tokens against one), or the program was changed so: people know which.
    """
    a, b = (Counter(s.name for s in side.sequence.slots if products(s)) for side in (base, new))
    x, y = (sum(n for name, n in found.items() if name in other) for found, other in ((a, b), (b, a)))
    mostly = 2 * x >= a.total() and 2 * y >= b.total()
    if x and y and mostly and max(x, y) > (1 + _WORK_SPOILS) * min(x, y):
        yield Condition("amount", TEXTS("cond-amount", lang, a=units.count(x), b=units.count(y), new=names[1]))


def _product_types(side: TraceSide) -> set[tuple[str, bool]]:
    """Types that a step's products compute in, as far as kernels name them, and whether they do without tensor cores."""
    return {
        (s.kernel.dtype, s.kernel.tensor_cores is False)
        for s in side.sequence.slots
        if s.kind in ("gemm", "conv", "attention") and s.kernel.dtype
    }


def _types_text(types: set[tuple[str, bool]], lang: str) -> str:
    words = [TEXTS("type-without", lang, type=name) if without else name for name, without in sorted(types)]
    return TEXTS("separator", lang).join(words)


def _weight_flops(side: TraceSide) -> float | None:
    """Arithmetic of a step's products with weights (not batched: those of attention may be fused away); None where unknown."""
    owners = {s.owner for s in side.sequence.slots if s.op in ("aten::mm", "aten::addmm", "aten::cudnn_convolution")}
    works = [side.ctx.work(o) for o in owners if o >= 0]
    known = [w.flops for w in works if w is not None and w.flops is not None]
    return float(sum(known)) if known and len(known) == len(works) else None


def _software(base: TraceSide, new: TraceSide, lang: str) -> Iterator[Condition]:
    a, b = base.report.trace.versions, new.report.trace.versions
    for software in [x for x in a if x in b and a[x] != b[x]]:
        yield Condition("versions", TEXTS("cond-versions", lang, software=software, a=a[software], b=b[software]))


def listed_grids(share: float, known: bool, name: str, lang: str) -> list[Condition]:
    """Other shapes as far as the grids of kernels tell; nothing where the recorded shapes tell it.

    Args:
        share: part of the GPU time in kernels of one name on other grids.
        known: whether both traces have shapes.
        name: short name of the new trace.
        lang: language of the text.
    """
    if known or share < _GRIDS_LISTED:
        return []
    spoils = share > _GRIDS_SPOIL
    text = TEXTS("cond-grids" if spoils else "cond-grids-little", lang, share=units.percent(share, lang), new=name)
    return [Condition("shapes", text, ["gpu", "cpu", "time"] if spoils else [])]


def pace(base: TraceSide, new: TraceSide) -> float | None:
    """How long the same CPU ops and calls take in the new trace against the base: the median over names, weighted by time.

    A process runs all its ops faster or slower than another, and the profiler slows all of them; a change of the program
    shows in which ops run. None where too few names are in both.
    """
    a, b = (_call_times(s) for s in (base, new))
    common = sorted(a.keys() & b.keys())
    if len(common) < _PACE_NAMES:
        return None
    ratios = np.array([b[n][0] / a[n][0] for n in common])
    weight = np.array([min(a[n][1], b[n][1]) for n in common])
    order = np.argsort(ratios)
    half = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    return float(ratios[order][min(half, len(order) - 1)])


def pace_differs(ratio: float) -> bool:
    """Whether a pace differs enough from 1 to be said."""
    return not 1 / PACE_LISTED <= ratio <= PACE_LISTED


def _call_times(side: TraceSide) -> dict[str, tuple[float, float]]:
    """Median own time and sum of each name of ops and calls in the steps, waits left out; in ns."""
    return side.own_times(_PACE_CALLS)


def listed_pace(ratio: float | None, names: tuple[str, str], lang: str) -> list[Condition]:
    """The pace as a condition, where it differs enough to matter."""
    if ratio is None or not pace_differs(ratio):
        return []
    slower, factor = (names[1], ratio) if ratio > 1 else (names[0], 1 / ratio)
    return [Condition("pace", TEXTS("cond-pace", lang, ratio=f"{factor:.2g}", name=slower))]


def listed_clock(ratio: float | None, names: tuple[str, str], lang: str) -> list[Condition]:
    """The GPU's own pace as a condition, where it differs."""
    if ratio is None:
        return []
    slower, factor = (names[1], ratio) if ratio > 1 else (names[0], 1 / ratio)
    return [Condition("gpu-pace", TEXTS("cond-gpu-pace", lang, ratio=f"{factor:.2f}", name=slower))]
