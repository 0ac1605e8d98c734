"""What torch.compile did, and whether it is worth it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lanewise import units
from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.report import us

from .document import CompileVerdict, Figure, KernelGroup, Layer
from .figures import LAYERS, TraceSide
from .kernel_groups import Groups
from .pairing import products
from .texts import TEXTS

__all__ = ["compile_verdict"]

# A step whose GPU works this much of the time waits for the GPU.
_GPU_BOUND = 0.92
_COPIES = ("memcpy-dtod", "cast-copy")
_MOST_FUSIONS = 4


def compile_verdict(
    base: TraceSide, new: TraceSide, groups: Groups, times: Sequence[Figure], spoiled: set[str], lang: str
) -> CompileVerdict | None:
    """The verdict where exactly one side is compiled; None otherwise."""
    if base.compiled == new.compiled:
        return None
    if base.compiled and _product_kinds(base) != _product_kinds(new):
        return None  # another algorithm, not the same one without the compiler
    side, plain = (new, base) if new.compiled else (base, new)
    same, other = _products(base, new, groups)
    fused = _fused(groups, new.compiled)
    copies, copies_us = _copies(side, plain)
    verdict, text, size = _verdict(base, new, times, spoiled, lang)
    return CompileVerdict(
        compiled="new" if new.compiled else "base",
        verdict=verdict,
        text=text,
        facts=_facts(side, plain, groups, (same, other), (copies, copies_us), lang),
        layers=[
            Layer(name, us(_median(base, name)) or 0.0, us(_median(new, name)) or 0.0)
            for name in LAYERS
            if _median(base, name) or _median(new, name)
        ],
        same_products=same,
        other_products=other,
        fused=fused,
        copies_added=copies,
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


def _products(base: TraceSide, new: TraceSide, groups: Groups) -> tuple[int, int]:
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


def _copies(side: TraceSide, plain: TraceSide) -> tuple[int, float]:
    """Copies within the GPU that only the compiled side makes, and their time a step in us."""
    a = _copy_ops(plain)
    b = _copy_ops(side)
    more = len(b) - len(a)
    return (more, sum(sorted(b, reverse=True)[:more])) if more > 0 else (0, 0.0)


def _copy_ops(side: TraceSide) -> list[float]:
    sequence = side.sequence
    medians: list[float] = np.median(sequence.ns, axis=0).tolist() if len(sequence.slots) else []
    return [
        float(ns) / 1000
        for slot, ns in zip(sequence.slots, medians, strict=True)
        if slot.kind in _COPIES or (slot.op or "") in ("aten::copy_", "aten::_foreach_copy_")
    ]


def _facts(
    side: TraceSide,
    plain: TraceSide,
    groups: Groups,
    product_counts: tuple[int, int],
    copies: tuple[int, float],
    lang: str,
) -> list[str]:
    out = []
    if sum(product_counts):
        out.append(TEXTS("fact-products", lang, same=product_counts[0], other=product_counts[1]))
    out += _fusions(groups, lang)
    count, time_us = copies
    if count:
        out.append(TEXTS(_copy_key(side, groups), lang, count=count, time=units.duration(time_us * 1000, lang)))
    graphs = float(np.median(side.counts["graphs"])) if len(side.counts["graphs"]) else 0.0
    if graphs:
        launches = side.ctx.launches
        of_graph = launches.kind[np.maximum(launches.launch, 0)] == LAUNCH_KINDS.index("graph")
        ops = int((of_graph & (launches.launch >= 0)).sum() / max(len(side.ctx.steps), 1))
        out.append(TEXTS("fact-graph", lang, ops=ops, count=units.count(int(graphs))))
    fewer = float(np.median(plain.counts["ops"])) - float(np.median(side.counts["ops"]))
    if fewer > 0:
        out.append(TEXTS("fact-views", lang, count=units.count(int(fewer))))
    regions = float(np.median(side.counts["regions"]))
    out.append(TEXTS("fact-regions", lang, count=units.count(int(regions)), frames=side.frames))
    recompiles = float(np.median(side.counts["compilations"]))
    if recompiles:
        out.append(TEXTS("fact-recompiles", lang, count=units.count(int(recompiles))))
    return out


def _fusions(groups: Groups, lang: str) -> list[str]:
    found = [g for g in groups.differ if g.kind in ("fused", "epilogue", "split")]
    return [fusion_text(g, lang) for g in found[:_MOST_FUSIONS]]


def fusion_text(group: KernelGroup, lang: str) -> str:
    """``gelu + mul → triton_poi_fused_gelu_mul_0``."""
    left = " + ".join(short_op(p.label, p.op, p.count) for p in group.base)
    right = " + ".join(p.name if p.name.startswith("triton_") else short_op(p.label, p.op, p.count) for p in group.new)
    times = f" ×{group.times}" if group.times > 1 else ""
    return TEXTS("fact-fused-ops", lang, ops=left, kernel=right) + times


def short_op(label: str, op: str | None, count: int) -> str:
    """The op's name without its library where the label says little, else the label."""
    text = label
    if op is not None and op.startswith("aten::") and not label.startswith(("GEMM", "conv ", "attention")):
        text = op.removeprefix("aten::").rstrip("_")
        text = label if label.startswith(("copy", "memset")) else text
    return f"{count} {text}" if count > 1 else text


def _copy_key(side: TraceSide, groups: Groups) -> str:
    if side.counts["graphs"].any():
        return "fact-inputs"
    return "fact-seeding" if any(g.kind == "epilogue" for g in groups.differ) else "fact-copies"


def _verdict(
    base: TraceSide, new: TraceSide, times: Sequence[Figure], spoiled: set[str], lang: str
) -> tuple[str, str, float | None]:
    """Verdict, its line, and from how many times the GPU work on compiling pays."""
    gpu = next((f for f in times if f.id == "gpu_us"), None)
    step = next((f for f in times if f.id in ("time_us", "time_profiled_us")), None)
    if gpu is None or step is None or gpu.call == "withheld" or gpu.base is None or gpu.new is None:
        return "unknown", TEXTS("compile-unknown", lang), None
    sign = 1 if new.compiled else -1
    saved = sign * (gpu.base - gpu.new)
    side = new if new.compiled else base
    slower_gpu = gpu.call == ("more" if new.compiled else "less")
    faster_gpu = gpu.call == ("less" if new.compiled else "more")
    gained = sign * ((step.base or 0.0) - (step.new or 0.0))
    faster = step.call == ("less" if new.compiled else "more")
    if faster and not slower_gpu:
        key = "worth-it" if faster_gpu and (side.gpu_share or 0) >= _GPU_BOUND else "worth-it-both"
        amount = saved if key == "worth-it" else gained
        return "worth-it", TEXTS(key, lang, saved=units.duration(amount * 1000, lang)), None
    if slower_gpu:
        return "gpu-slower", TEXTS("gpu-slower", lang, lost=units.duration(-saved * 1000, lang)), None
    if not faster_gpu:
        return "not-worth-it", TEXTS("not-worth-it", lang), None
    share = side.gpu_share
    if share is not None and share >= _GPU_BOUND:
        return "worth-it", TEXTS("worth-it", lang, saved=units.duration(saved * 1000, lang)), None
    cpu = _cpu_us(side)
    work = gpu.new if new.compiled else gpu.base
    ratio = cpu / work if cpu and work else None
    slots = {"saved": units.duration(saved * 1000, lang), "times": "?" if ratio is None else f"{ratio:.1f}"}
    return "not-at-this-size", TEXTS("not-at-this-size", lang, **slots), None if ratio is None else round(ratio, 2)


def _cpu_us(side: TraceSide) -> float | None:
    """CPU work of a step of the compiled side, outside the profiler where that is known."""
    replay = side.ctx.replay
    return None if replay is None else replay.cpu_ns() / 1000
