"""From traces to their comparison: conditions first, then structure, then times as far as noise allows."""

from __future__ import annotations

from collections.abc import Sequence as Items
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lanewise.errors import UsageError
from lanewise.model.trace import Trace
from lanewise.report import us
from lanewise.version import __version__

from . import noise
from .comparability import conditions, listed_clock, listed_grids, listed_pace, pace, pace_differs
from .compile_verdict import compile_verdict
from .document import SCHEMA, Comparison, Condition, Figure, FindingChange, OpChange, Pair, Side
from .figures import COUNTS, TraceSide
from .finding_changes import finding_changes
from .gpu_pace import gpu_pace, product_share, scaled
from .headline import headline, needed, points
from .kernel_groups import Groups, kernel_groups, link_share, one_recording, untold, without_cpu
from .texts import TEXTS

__all__ = ["compare", "compare_sides", "pair", "short_names"]

Array = npt.NDArray[Any]
# How long the same CPU calls, and all products, take in the new trace against the base; None where it is not known.
Paces = tuple[float | None, float | None]

# Counts that a trace has without GPU records.
_CPU_COUNTS = frozenset({"launches", "syncs", "ops", "regions", "compilations", "allocations"})
# A part of a step's idle time below this share of it is not worth a line, and a change below it no change.
_LEAST_IDLE = 0.05
# Idle time that is there because the CPU is not further on: it moves with the CPU's pace.
_PACED = tuple(f"idle_{cause}" for cause in ("profiler", "autograd", "dispatch", "python", "launch", "sync", "wait", "unknown"))


def compare(traces: Items[Trace], lang: str = "en", *, anyway: bool = False) -> Comparison:
    """Compare the first trace with each other.

    Args:
        traces: two or more, as `lanewise.load` gives them.
        lang: language of the texts, ``en`` or ``ja``.
        anyway: tell figures too that a difference of the recordings spoils.

    Raises:
        UsageError: fewer than two traces.
    """
    return compare_sides([TraceSide(t, lang) for t in traces], lang, anyway=anyway)


def compare_sides(sides: Items[TraceSide], lang: str = "en", *, anyway: bool = False) -> Comparison:
    """The same as `compare`, for a caller that asks more about the traces: each answer is computed once.

    Args:
        sides: two or more traces, with the language of the texts.
        lang: that language.
        anyway: tell figures too that a difference of the recordings spoils.

    Raises:
        UsageError: fewer than two traces.
    """
    if len(sides) < 2:
        raise UsageError("", TEXTS.message("one-trace"), TEXTS.message("one-trace-next"))
    names = short_names([side.trace.path for side in sides])
    return Comparison(
        schema=SCHEMA,
        generator=f"lanewise {__version__}",
        lang=lang,
        anyway=anyway,
        sides=[_side(s, n) for s, n in zip(sides, names, strict=True)],
        pairs=[pair(sides[0], s, i, (names[0], names[i]), lang, anyway) for i, s in enumerate(sides) if i],
    )


def short_names(paths: Items[str]) -> list[str]:
    """What tells some paths apart: the ends of their names and folders, without what all of them begin with."""
    parts = [p.replace("\\", "/").split("/") for p in paths]
    stems = [[*p[:-1], p[-1].removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace") or p[-1]] for p in parts]
    for depth in range(1, 6):
        tails = [p[-depth:] for p in stems]
        if len({tuple(t) for t in tails}) == len(tails) and len({len(t) for t in tails}) == 1:
            levels = [_told_apart(list(level)) for level in zip(*tails, strict=True)]
            names = ["/".join(x for x in name if x) for name in zip(*levels, strict=True)]
            if len(set(names)) == len(names):
                return names
    return [f"{p[-1]} ({i})" for i, p in enumerate(stems, 1)]


def _told_apart(words: list[str]) -> list[str]:
    """Some names without what all begin with, up to a separator; nothing where they are all the same."""
    if len(set(words)) == 1:
        return [""] * len(words)
    same = next(i for i, letters in enumerate(zip_longest(*words)) if len(set(letters)) > 1)
    start = words[0][:same]
    cut = max(start.rfind(mark) for mark in "_-. ") + 1
    return [w[cut:] for w in words] if all(len(w) > cut for w in words) else words


def _median(values: Array | None) -> float | None:
    return float(np.median(values)) if values is not None and len(values) else None


def _side(side: TraceSide, name: str) -> Side:
    report = side.report
    figures: dict[str, float | None] = {k: _median(v) for k, v in side.counts.items()}
    figures |= {f"{k}_us": us(_median(side.times.get(k))) for k in ("time", "wall", "gpu", "cpu")}
    figures["real_us"] = us(side.real_ns)
    device = next((d.name for d in report.trace.devices if any(g.device == d.index for g in report.gpu)), None)
    return Side(
        path=side.trace.path,
        name=name,
        gpu=device,
        steps=report.step.count,
        time_source=report.step.source,
        recorded=report.trace.capabilities,
        compiled=side.compiled,
        figures=figures,
        verdict=report.verdict.text,
        bound=report.verdict.bound,
        findings=[f.id for f in report.findings if not f.good],
        step=int(side.ctx.steps.index[side.sequence.place]) if side.sequence.place >= 0 else None,
    )


def pair(base: TraceSide, new: TraceSide, place: int, names: tuple[str, str], lang: str, anyway: bool) -> Pair:
    """The base against one other trace; `place` is its place among the sides, `names` are the short names of both."""
    paired = one_recording(base, new)
    ratio = 1.0 if paired else pace(base, new)
    clock = None if paired else gpu_pace(base, new)
    groups = kernel_groups(base, new, lang, paired=paired, pace=ratio, clock=clock)
    found = _conditions(base, new, groups, names, lang)
    spoiled: set[str] = set() if anyway else {s for c in found for s in c.spoils}
    # A pace is taken out of what is compared: where nothing is, it is not told, and neither is a cause for it.
    found += listed_pace(None if {"cpu", "structure"} & spoiled else ratio, names, lang)
    found += listed_clock(None if {"gpu", "structure"} & spoiled else clock, names, lang)
    groups = _told_groups(groups, spoiled)
    counts = _counts(base, new, spoiled)
    times = _all_times(base, new, spoiled, paired, (ratio, clock))
    ops = _ops(base, new) if "structure" not in spoiled else []
    known = not {"structure", "counts"} & spoiled
    structure_same = (
        known
        and groups.structure_same
        and not (ops and not new.sequence.slots)
        and all(f.call in ("same", "not-seen", "unknown") for f in counts)
    )
    told = any(f.call in ("less", "more") for f in [*times, *counts]) or any(g.call in ("less", "more") for g in groups.differ)
    certain = told or (known and not structure_same)
    changes = _finding_changes(base, new, times, found, spoiled, certain)
    found_pair = Pair(
        new=place,
        headline="",
        points=[],
        changed=certain or any(c.certain for c in changes),
        structure_same=structure_same,
        same_recording=paired,
        steps=min(len(base.ctx.steps), len(new.ctx.steps)),
        spread_ratio=_spread(base, new),
        pace_ratio=None if ratio is None else round(ratio, 3),
        conditions=found,
        figures=[*times, *counts],
        kernels=groups.differ,
        kernels_same=groups.same,
        ops=ops,
        findings=changes,
        needed=[],
        compile=compile_verdict(base, new, groups, times, lang),
    )
    return _worded(found_pair, names, lang)


def _conditions(base: TraceSide, new: TraceSide, groups: Groups, names: tuple[str, str], lang: str) -> list[Condition]:
    """What the two recordings do not have in common, what spoils figures first."""
    shapes = all("shapes" in s.trace.capabilities for s in (base, new))
    found = [*conditions(base, new, names, lang), *listed_grids(groups.other_grids, shapes, names[1], lang)]
    return sorted(found, key=lambda c: not c.spoils)


def _told_groups(groups: Groups, spoiled: set[str]) -> Groups:
    """The groups of kernels without what a condition spoils."""
    if {"structure", "counts"} & spoiled:
        return Groups([], 0, structure_same=False, other_grids=0.0)
    if "gpu" in spoiled:
        groups = untold(groups)
    return without_cpu(groups) if {"cpu", "time", "gpu"} & spoiled else groups


def _all_times(base: TraceSide, new: TraceSide, spoiled: set[str], paired: bool, paces: Paces) -> list[Figure]:
    times = _times(base, new, spoiled, paired, paces)
    ratio = paces[0]
    moved = any(f.id in ("cpu_us", "time_us", "time_profiled_us") and f.call in ("less", "more") for f in times)
    return times + _idle(base, new, spoiled, paired, None if moved else _drift(base, ratio))


def _finding_changes(
    base: TraceSide, new: TraceSide, times: Items[Figure], found: Items[Condition], spoiled: set[str], certain: bool
) -> list[FindingChange]:
    less = {f.id for f in times if f.call == "less"}
    faster = bool({"time_us", "time_profiled_us"} & less)
    real = base.real_ns is not None and new.real_ns is not None
    loose = "cpu" in spoiled or (any(c.id == "pace" for c in found) and not real)
    return finding_changes(
        base.report, new.report, certain=certain, faster=faster, lighter=faster or "gpu_us" in less, spoiled=loose
    )


def _spread(base: TraceSide, new: TraceSide) -> float | None:
    """What the steps' spread alone hides of the step's profiled time, as a part of the base."""
    a, b = base.times.get("time"), new.times.get("time")
    if a is None or b is None or not np.median(a):
        return None
    return round(noise.judged(a, b, 0.0).margin / float(np.median(a)), 4)


def _worded(pair: Pair, names: tuple[str, str], lang: str) -> Pair:
    texts = {"headline": headline(pair, names, lang), "points": points(pair, lang), "needed": needed(pair, lang)}
    return msgspec.structs.replace(pair, **texts)


def _counts(base: TraceSide, new: TraceSide, spoiled: set[str]) -> list[Figure]:
    """Counts are exact: they differ where the ranges of the two traces' steps do not touch."""
    out = []
    for key in COUNTS:
        a, b = base.counts[key], new.counts[key]
        if not len(a) or not len(b) or not (a.any() or b.any()):
            continue
        x, y = float(np.median(a)), float(np.median(b))
        if "structure" in spoiled or ("counts" in spoiled and key not in _CPU_COUNTS):
            call = "withheld"
        elif x == y:
            call = "same"
        else:
            apart = b.min() > a.max() or b.max() < a.min()
            call = "not-seen" if not apart else "more" if y > x else "less"
        out.append(Figure(key, "structure", x, y, call))
    return out


def _ops(base: TraceSide, new: TraceSide) -> list[OpChange]:
    """Ops whose calls differ in every step of both."""
    out = []
    none = np.zeros(1, dtype=np.int64)
    for name in base.op_counts.keys() | new.op_counts.keys():
        a, b = base.op_counts.get(name, none), new.op_counts.get(name, none)
        if len(a) and len(b) and (b.min() > a.max() or b.max() < a.min()):
            out.append(OpChange(name, float(np.median(a)), float(np.median(b))))
    return sorted(out, key=lambda o: (-abs(o.new - o.base), o.name))


def _times(base: TraceSide, new: TraceSide, spoiled: set[str], paired: bool, paces: Paces) -> list[Figure]:
    out = []
    gpu_scale = scaled(paces[1], product_share(base.sequence.ns, base.sequence.slots))
    real = base.real_ns is not None and new.real_ns is not None
    links = min(link_share(base), link_share(new))
    gpu_bound = all(s.gpu_share is not None and s.gpu_share >= noise.GPU_BOUND for s in (base, new))
    if real:
        a, b = np.array([base.real_ns]), np.array([new.real_ns])
        run = 0.0 if paired else noise.GPU_BOUND_RUN + links * noise.LINK_RUN if gpu_bound else noise.CPU_RUN
        errors = (0.0, 0.0) if paired else (base.real_error_ns, new.real_error_ns)
        judgement = noise.judged(a, b, run, errors=errors, pace=gpu_scale if gpu_bound else 1.0)
        out.append(_figure("time_us", judgement, bool({"time", "gpu"} & spoiled), clock=True))
    for key in ("time", "wall", "gpu", "cpu"):
        if key == "time" and real:
            continue
        x, y = base.times.get(key), new.times.get(key)
        name = "time_profiled_us" if key == "time" else f"{key}_us"
        if x is None or y is None:
            continue
        spoils = {"gpu"} if key == "gpu" else {"time", "gpu"} if key == "time" and gpu_bound else {"cpu", "time", "gpu"}
        run, scale = _run(base, key, gpu_bound, paired, paces[0])
        clock = key == "gpu" or (key == "time" and gpu_bound)
        if clock and not paired:
            run, scale = run + links * noise.LINK_RUN, gpu_scale
        out.append(_figure(name, noise.judged(x, y, run, pace=scale, paired=paired), bool(spoils & spoiled), clock=clock))
    return out


def _run(base: TraceSide, key: str, gpu_bound: bool, paired: bool, ratio: float | None) -> tuple[float, float]:
    """What two runs differ by in a figure, and the pace by which the base is scaled first."""
    if paired:
        return 0.0, 1.0
    if key == "gpu":
        return noise.BUSY_RUN, 1.0
    if key == "time" and gpu_bound:
        return noise.GPU_BOUND_RUN, 1.0
    return (noise.PROFILED_CPU_RUN, 1.0) if ratio is None else (noise.CPU_PACED_RUN, _scale(base, key, ratio))


def _scale(base: TraceSide, key: str, ratio: float) -> float:
    """How many times as long a figure of the base would take at another pace of the CPU.

    Where the step waits for the GPU, the CPU has room: it may be slower until its work takes as long as the step, and gains
    nothing by being faster. A step is never shorter than the GPU's work in it.
    """
    whole, cpu = (float(np.median(base.times[k])) for k in (key, "cpu"))
    if key == "cpu" or not whole:
        return ratio
    gpu = float(np.median(base.times["gpu"])) if key == "time" and "gpu" in base.times else 0.0
    waits = base.gpu_share is not None and base.gpu_share >= noise.GPU_BOUND and whole > cpu
    return max(ratio * cpu, whole) / whole if waits else max(ratio * whole, min(gpu, whole)) / whole


def _figure(name: str, judgement: noise.Judgement, withheld: bool, group: str = "time", *, clock: bool = False) -> Figure:
    """A figure as it was judged; `clock` where the pace is the GPU's, which is only one where it is to be said."""
    call = "withheld" if withheld else judgement.call
    margin = None if withheld else judgement.margin_ratio
    listed = pace_differs(judgement.pace) or (clock and judgement.pace != 1)
    paced = None if withheld or not listed else us(judgement.base * judgement.pace)
    return Figure(name, group, us(judgement.base), us(judgement.new), call, margin, paced)


def _drift(base: TraceSide, ratio: float | None) -> float:
    """How far idle time may move in ns since the CPU's pace differs, though the program is the same."""
    cpu = base.times.get("cpu")
    share = noise.PROFILED_CPU_RUN if ratio is None else abs(ratio - 1) + noise.CPU_PACED_RUN * max(ratio, 1.0)
    return share * float(np.median(cpu)) if cpu is not None else 0.0


def _idle(base: TraceSide, new: TraceSide, spoiled: set[str], paired: bool, drift: float | None) -> list[Figure]:
    """Idle time by cause, as recorded; causes that are a small part of the step in both are left out.

    Args:
        base, new: the traces.
        spoiled: figures that are withheld.
        paired: whether both are one recording.
        drift: what the CPU's pace alone may change, in ns; None where its work is seen to differ.
    """
    out: list[Figure] = []
    if not base.idle or not new.idle:
        return out
    steps = [float(np.median(s.times["time"])) for s in (base, new)]
    for cause in base.idle.keys() | new.idle.keys():
        a, b = (s.idle.get(cause, np.zeros(1)) for s in (base, new))
        if all(float(np.median(idle)) <= _LEAST_IDLE * step for idle, step in zip((a, b), steps, strict=True)):
            continue
        least = _LEAST_IDLE * max(steps)
        if cause in _PACED and drift is not None and not paired:
            # What the GPU waits for the CPU moves by as much as the CPU's work does, however little there is of it.
            least = max(least, drift)
        judgement = noise.judged(a, b, 0.0 if paired else noise.CPU_RUN, least=least)
        out.append(_figure(f"{cause}_us", judgement, bool({"cpu", "gpu", "time"} & spoiled), "idle"))
    return sorted(out, key=lambda f: -max(f.base or 0.0, f.new or 0.0))
