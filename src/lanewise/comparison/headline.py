"""The first sentences of a comparison, and what would be needed to see more."""

from __future__ import annotations

from lanewise import units

from .document import Figure, KernelGroup, Pair
from .noise import CPU_RUN, GPU_BOUND_RUN
from .texts import TEXTS
from .wording import group_parts

__all__ = ["headline", "needed", "paced_percent", "points", "signed_percent", "step_figure"]

_MOST_COUNTS = 3
# A kernel's own time is worth the headline where what runs is the same.
_MOST_KERNELS = 2
_MOST_PARTS = 8
# From here on a factor says more than a percentage.
_FACTOR = 3
# What hides more than this hides what people look for.
_WIDE = 0.1
# From this part of the difference on, one group is most of it.
_MOST_OF = 0.5


def step_figure(pair: Pair) -> Figure | None:
    """The step's time: outside the profiler where both have it."""
    return next((f for f in pair.figures if f.id in ("time_us", "time_profiled_us")), None)


def headline(pair: Pair, names: tuple[str, str], lang: str) -> str:
    """What matters most, in a few sentences."""
    if not pair.changed and not any(f.call == "withheld" for f in pair.figures):
        return TEXTS("nothing", lang)
    parts = [_time(pair, names, lang), *_what(pair, lang)]
    return _sentences([p for p in parts if p], lang)


def _sentences(parts: list[str], lang: str) -> str:
    return ("" if lang == "ja" else " ").join(parts)


def _duration(us: float | None, lang: str) -> str:
    return units.duration(None if us is None else us * 1000, lang)


def signed_percent(a: float | None, b: float | None, lang: str) -> str:
    """The change from a to b as a percentage with its sign; a factor where it is large."""
    if a is None or b is None or not a:
        return units.unknown(lang)
    if b and b / a >= _FACTOR:
        return f"{b / a:.1f}×"
    return ("+" if b > a else "-") + units.percent(abs(b / a - 1), lang)


def paced_percent(figure: Figure, lang: str) -> str:
    """The change of a figure as it is judged: at one pace of the CPU, and said so, where the two traces differ in that."""
    ratio = signed_percent(figure.compared_base, figure.new, lang)
    return ratio if figure.paced_base is None else TEXTS("at-pace", lang, ratio=ratio)


def _time(pair: Pair, names: tuple[str, str], lang: str) -> str:
    step = step_figure(pair)
    if step is None or step.call == "unknown":
        return TEXTS("time-unknown", lang)
    if step.call == "withheld":
        return TEXTS("time-withheld", lang)
    a, b = _duration(step.base, lang), _duration(step.new, lang)
    if step.call == "not-seen":
        if (step.margin_ratio or 0.0) >= 1:
            return TEXTS("time-not-seen-wide", lang, a=a, b=b)
        margin = units.percent(step.margin_ratio, lang)
        if step.paced_base is not None:
            ratio = signed_percent(step.paced_base, step.new, lang)
            return TEXTS("time-not-seen-paced", lang, a=a, b=b, ratio=ratio, margin=margin)
        return TEXTS("time-not-seen", lang, a=a, b=b, margin=margin)
    ratio = paced_percent(step, lang)
    if step.id == "time_profiled_us":
        ratio = f"{ratio}{TEXTS('separator', lang)}{TEXTS('time-profiled', lang)}"
    return TEXTS("faster" if step.call == "less" else "slower", lang, new=names[1], a=a, b=b, ratio=ratio)


def _what(pair: Pair, lang: str) -> list[str]:
    out = []
    gpu = next((f for f in pair.figures if f.id == "gpu_us"), None)
    step = step_figure(pair)
    if gpu is not None and gpu.call in ("less", "more") and (step is None or step.call == "not-seen"):
        out.append(TEXTS(f"gpu-{gpu.call}", lang, a=_duration(gpu.base, lang), b=_duration(gpu.new, lang)))
    if pair.same_recording:
        out.append(TEXTS("same-recording", lang))
    moved = [f for f in pair.figures if f.group == "structure" and f.call in ("less", "more")]
    moved = [f for f in moved if f.id != "ops"] or moved
    called = [g for g in pair.kernels if g.kind == "same" and g.call in ("less", "more")]
    if not moved and pair.structure_same:
        out.append(TEXTS("structure-same" if pair.kernels_same or pair.kernels else "structure-same-cpu", lang))
        out += [*_idle(pair, lang), *(_kernel(g, lang) for g in called[:_MOST_KERNELS])]
    elif moved:
        texts = [
            TEXTS("count-of", lang, name=TEXTS(f"fig-{f.id}", lang), a=_number(f.base), b=_number(f.new))
            for f in moved[:_MOST_COUNTS]
        ]
        out.append(TEXTS("structure-differs", lang, what=TEXTS("separator", lang).join(texts)))
    return out


def points(pair: Pair, lang: str) -> list[str]:
    """Where most of the GPU's difference is from, and the causes that are gone or new."""
    gpu = next((f for f in pair.figures if f.id == "gpu_us"), None)
    return [*_largest(pair, gpu, lang), *_causes(pair, lang)]


def _idle(pair: Pair, lang: str) -> list[str]:
    """The cause of idle time that changed most."""
    found = [f for f in pair.figures if f.group == "idle" and f.call in ("less", "more")]
    if not found:
        return []
    most = max(found, key=lambda f: abs((f.new or 0.0) - (f.base or 0.0)))
    cause = TEXTS(most.id.removesuffix("_us"), lang)
    return [TEXTS("idle-of", lang, cause=cause, a=_duration(most.base, lang), b=_duration(most.new, lang))]


def _largest(pair: Pair, gpu: Figure | None, lang: str) -> list[str]:
    """The group of kernels that most of a difference in GPU time comes from."""
    if gpu is None or gpu.call not in ("less", "more") or not pair.kernels or pair.structure_same:
        return []
    group = pair.kernels[0]
    whole, part = (gpu.new or 0.0) - (gpu.base or 0.0), group.new_us - group.base_us
    if not whole or part / whole < _MOST_OF:
        return []
    if len(group.base) + len(group.new) > _MOST_PARTS:
        return []  # a list that nobody reads in a sentence
    sign = "+" if part > 0 else "-"
    key = f"largest-{group.kind}" if group.kind in ("removed", "added") else "largest"
    return [TEXTS(key, lang, group=group_parts(group, lang), time=sign + _duration(abs(part), lang))]


def _causes(pair: Pair, lang: str) -> list[str]:
    out = []
    for key, kinds in (("cause-lost", ("lost",)), ("cause-gained", ("gained",))):
        found = [c for c in pair.findings if c.certain and c.change in kinds]
        ids = [c.id for c in found if not c.general] or [c.id for c in found]
        if ids:
            out.append(TEXTS(key, lang, ids=TEXTS("separator", lang).join(ids[:_MOST_COUNTS])))
    return out


def _kernel(group: KernelGroup, lang: str) -> str:
    a, b = _duration(group.base_us, lang), _duration(group.new_us, lang)
    if group.base_us and group.new_us >= _FACTOR * group.base_us:
        times = f"{group.new_us / group.base_us:.1f}"
        return TEXTS("kernel-times", lang, label=group.base[0].label, times=times, a=a, b=b)
    key = "kernel-longer" if group.call == "more" else "kernel-shorter"
    ratio = units.percent(abs(group.new_us / group.base_us - 1) if group.base_us else None, lang)
    return TEXTS(key, lang, label=group.base[0].label, ratio=ratio, a=a, b=b)


def _number(value: float | None) -> str:
    return "" if value is None else units.count(int(value)) if value == int(value) else f"{value:.1f}"


def needed(pair: Pair, lang: str) -> list[str]:
    """What would make smaller differences visible, where none was seen."""
    step = step_figure(pair)
    if step is None or step.call != "not-seen" or pair.same_recording:
        return []
    out = []
    if step.id == "time_profiled_us":
        out.append(TEXTS("need-real", lang, margin=units.percent(CPU_RUN, lang), bound=units.percent(GPU_BOUND_RUN, lang)))
        if pair.spread_ratio is not None and pair.spread_ratio > _WIDE:
            out.append(TEXTS("need-steps", lang, count=pair.steps, margin=units.percent(pair.spread_ratio, lang)))
    if step.id == "time_us" and (step.margin_ratio or 0.0) >= 1:
        out.append(TEXTS("need-calm", lang))
    if step.margin_ratio is not None and step.margin_ratio > _WIDE:
        out.append(TEXTS("need-same-process", lang))
    return out
