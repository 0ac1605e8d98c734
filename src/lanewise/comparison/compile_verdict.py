"""What torch.compile did, and whether it is worth it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lanewise import units
from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.kernels import decode
from lanewise.report import us

from .document import CompileVerdict, Figure, Layer
from .figures import LAYERS, TraceSide
from .kernel_groups import Groups
from .noise import GPU_BOUND
from .pairing import products
from .texts import TEXTS
from .wording import group_title

__all__ = ["compile_verdict"]

# A saving below this share of the step is none.
_WORTH_SHARE = 0.01
_COPIES = ("memcpy-dtod", "cast-copy")
_COPYING_OPS = ("aten::copy_", "aten::_foreach_copy_")
_MOST_FUSIONS = 4


def compile_verdict(
    base: TraceSide, new: TraceSide, groups: Groups, times: Sequence[Figure], lang: str
) -> CompileVerdict | None:
    """The verdict where exactly one side is compiled; None otherwise."""
    if base.compiled == new.compiled:
        return None
    if base.compiled and _product_kinds(base) != _product_kinds(new):
        return None  # another algorithm, not the same one without the compiler
    side, plain = (new, base) if new.compiled else (base, new)
    same, other = _products(base, new)
    fused = _fused(groups, new.compiled)
    copies = _copies(groups, side, plain, new.compiled)
    verdict, text, size = _verdict(base, new, times, lang)
    return CompileVerdict(
        compiled="new" if new.compiled else "base",
        verdict=verdict,
        text=text,
        facts=_facts(side, plain, groups, (same, other), copies, lang),
        layers=[
            Layer(name, us(_median(base, name)) or 0.0, us(_median(new, name)) or 0.0)
            for name in LAYERS
            if _median(base, name) or _median(new, name)
        ],
        same_products=same,
        other_products=other,
        fused=fused,
        copies_added=sum(n for n, _ in copies.values()),
        regions=float(np.median(side.counts["regions"])),
        frames=side.frames,
        recompilations=float(np.median(side.counts["compilations"])),
        from_size_ratio=size,
    )


def _product_kinds(side: TraceSide) -> Counter[str]:
    return Counter(s.kind for s in side.sequence.slots if products(s))


def _median(side: TraceSide, layer: str) -> float:
    values = side.layer_times[layer]
    return float(np.median(values)) if len(values) else 0.0


def _products(base: TraceSide, new: TraceSide) -> tuple[int, int]:
    """Products of the base that run by the same kernel, and those that do not."""
    names_a = [s.name for s in base.sequence.slots if products(s)]
    names_b = [s.name for s in new.sequence.slots if products(s)]
    left = list(names_b)
    same = 0
    for name in names_a:
        if name in left:
            left.remove(name)
            same += 1
    return same, len(names_a) - same


def _fused(groups: Groups, forward: bool) -> tuple[int, int]:
    """Kernels that went into fewer, and into how many, on the way to the compiled side."""
    found = [g for g in groups.differ if g.kind in (("fused", "epilogue") if forward else ("split",))]
    before = sum(g.times * sum(p.count for p in (g.base if forward else g.new)) for g in found)
    after = sum(g.times * sum(p.count for p in (g.new if forward else g.base)) for g in found)
    return before, after


def _copies(groups: Groups, side: TraceSide, plain: TraceSide, compiled_new: bool) -> dict[str, tuple[int, float]]:
    """Copies that only the compiled side makes, a step: (number, us) by ``inputs`` of a graph, ``seeding`` and ``copies``."""
    out: dict[str, tuple[int, float]] = {}
    copying = [_copy_count(x) for x in (side, plain)]
    more = copying[0] - copying[1]  # copies that only have other neighbours are not new
    for group in groups.differ:
        mine, other = (group.new, group.base) if compiled_new else (group.base, group.new)
        found = [p for p in mine if decode(p.name).kind in _COPIES or p.op in _COPYING_OPS]
        n = sum(p.count for p in found) - sum(p.count for p in other if decode(p.name).kind in _COPIES)
        if n <= 0:
            continue
        inputs = all(p.op in _COPYING_OPS for p in found) and side.counts["graphs"].any()
        key = "inputs" if inputs else "seeding" if group.kind in ("epilogue", "changed") else "copies"
        if key == "copies":
            n = min(n, more)
            if n <= 0:
                continue
        count, us_ = out.get(key, (0, 0.0))
        out[key] = (count + n * group.times, us_ + _time_of(side, {p.name for p in found}))
    return out


def _copy_count(side: TraceSide) -> int:
    return sum(s.kind in _COPIES for s in side.sequence.slots)


def _time_of(side: TraceSide, names: set[str]) -> float:
    """GPU time of a step's ops of some names, in us."""
    sequence = side.sequence
    medians: list[float] = np.median(sequence.ns, axis=0).tolist() if sequence.slots else []
    return sum(ns for slot, ns in zip(sequence.slots, medians, strict=True) if slot.name in names) / 1000


def _facts(
    side: TraceSide,
    plain: TraceSide,
    groups: Groups,
    product_counts: tuple[int, int],
    copies: dict[str, tuple[int, float]],
    lang: str,
) -> list[str]:
    out = []
    if sum(product_counts):
        out.append(TEXTS("fact-products", lang, same=product_counts[0], other=product_counts[1]))
    out += _fusions(groups, lang)
    for key, (count, time_us) in copies.items():
        out.append(TEXTS(f"fact-{key}", lang, count=count, time=units.duration(time_us * 1000, lang)))
    graphs = float(np.median(side.counts["graphs"])) if len(side.counts["graphs"]) else 0.0
    if graphs:
        launches = side.ctx.launches
        of_graph = launches.kind[np.maximum(launches.launch, 0)] == LAUNCH_KINDS.index("graph")
        ops = int((of_graph & (launches.launch >= 0)).sum() / max(len(side.ctx.steps), 1))
        out.append(TEXTS("fact-graph", lang, ops=ops, count=units.count(int(graphs))))
    views = [_median(x, "views") for x in (plain, side)]
    if views[0] > views[1]:
        a, b = (units.duration(v, lang) for v in views)
        x, y = (units.count(int(np.median(t.counts["ops"]))) for t in (plain, side))
        out.append(TEXTS("fact-views", lang, a=a, b=b, x=x, y=y))
    out.append(TEXTS("fact-wrapper", lang, time=units.duration(_wrapping(side), lang)))
    regions = float(np.median(side.counts["regions"]))
    out.append(TEXTS("fact-regions", lang, count=units.count(int(regions)), frames=side.frames))
    recompiles = float(np.median(side.counts["compilations"]))
    if recompiles:
        out.append(TEXTS("fact-recompiles", lang, count=units.count(int(recompiles))))
    return out


def _fusions(groups: Groups, lang: str) -> list[str]:
    found = [g for g in groups.differ if g.kind in ("fused", "epilogue", "split")]
    return [group_title(g, lang) for g in found[:_MOST_FUSIONS]]


def _wrapping(side: TraceSide) -> float:
    """CPU time of a step in what compiling adds around the ops, in ns as recorded."""
    return sum(_median(side, layer) for layer in ("lookup", "prologue", "wrapper", "graph-call"))


def _verdict(base: TraceSide, new: TraceSide, times: Sequence[Figure], lang: str) -> tuple[str, str, float | None]:
    """Verdict, its line, and from how many times the GPU work on compiling pays."""
    gpu = next((f for f in times if f.id == "gpu_us"), None)
    step = next((f for f in times if f.id in ("time_us", "time_profiled_us")), None)
    sign = 1 if new.compiled else -1
    if gpu is None and step is not None and not (base.sequence.slots or new.sequence.slots):
        return (*_of_step_alone(new if new.compiled else base, step, sign, lang), None)
    if gpu is None or step is None or gpu.call == "withheld" or gpu.base is None or gpu.new is None:
        return "unknown", TEXTS("compile-unknown", lang), None
    saved = sign * (gpu.base - gpu.new)
    side = new if new.compiled else base
    slower_gpu = gpu.call == ("more" if new.compiled else "less")
    faster_gpu = gpu.call == ("less" if new.compiled else "more")
    gained = sign * ((step.compared_base or 0.0) - (step.new or 0.0))
    faster = step.call == ("less" if new.compiled else "more")
    slower = step.call == ("more" if new.compiled else "less")
    if faster and not slower_gpu:
        key = "worth-it" if faster_gpu and (side.gpu_share or 0) >= GPU_BOUND else "worth-it-both"
        return "worth-it", TEXTS(key, lang, saved=_us_text(saved if key == "worth-it" else gained, lang)), None
    if slower_gpu:
        return "gpu-slower", TEXTS("gpu-slower", lang, lost=_us_text(-saved, lang)), None
    if not faster_gpu or saved < _WORTH_SHARE * (step.base or 0.0):
        key, slots = ("not-worth-it-slower", {"lost": _us_text(-gained, lang)}) if slower else ("not-worth-it", {})
        return "not-worth-it", TEXTS(key, lang, cost=units.duration(_wrapping(side), lang), **slots), None
    if side.gpu_share is not None and side.gpu_share >= GPU_BOUND:
        return "worth-it", TEXTS("worth-it", lang, saved=_us_text(saved, lang)), None
    return _later(side, gpu.new if new.compiled else gpu.base, saved, gained if slower else None, lang)


def _of_step_alone(side: TraceSide, step: Figure, sign: int, lang: str) -> tuple[str, str]:
    """The verdict where neither trace has GPU work: by the step's time."""
    if step.call == "withheld":
        return "unknown", TEXTS("compile-unknown", lang)
    gained = sign * ((step.compared_base or 0.0) - (step.new or 0.0))
    cost = units.duration(_wrapping(side), lang)
    if step.call not in ("less", "more"):
        return "not-seen", TEXTS("cpu-not-seen", lang, cost=cost)
    if gained > 0:
        return "worth-it", TEXTS("worth-it-both", lang, saved=_us_text(gained, lang))
    return "not-worth-it", TEXTS("cpu-not-worth-it", lang, lost=_us_text(-gained, lang), cost=cost)


def _later(side: TraceSide, gpu_us: float, saved: float, gained: float | None, lang: str) -> tuple[str, str, float | None]:
    """The GPU saves, and the CPU is the limit: compiling pays once the GPU's work takes longer than the CPU's."""
    cpu = _cpu_us(side)
    ratio = None if not cpu or not gpu_us else round(cpu / gpu_us, 2)
    slots = {"saved": _us_text(saved, lang), "times": units.unknown(lang) if ratio is None else f"{ratio:.1f}"}
    if side.real_ns is None:
        return "not-at-this-size", TEXTS("not-at-this-size-profiled", lang, **slots), ratio
    if gained is None:
        return "not-at-this-size", TEXTS("not-at-this-size", lang, **slots), ratio
    return "not-at-this-size", TEXTS("not-at-this-size-slower", lang, lost=_us_text(-gained, lang), **slots), ratio


def _us_text(us_: float, lang: str) -> str:
    return units.duration(us_ * 1000, lang)


def _cpu_us(side: TraceSide) -> float | None:
    """CPU work of a step of the compiled side, outside the profiler where that is known."""
    replay = side.ctx.replay
    return None if replay is None else replay.cpu_ns() / 1000
