"""The report's section on limits: how far the GPU's work is from what the card could do, and what explains it."""

from __future__ import annotations

from lanewise import report as doc
from lanewise import units
from lanewise.analyses.ceilings import PRODUCTS
from lanewise.analyses.limit_table import KernelLimit, StepLimits, kernel_limits, step_limits, used_ceilings
from lanewise.analyses.limits import FILLED_RATIO, NEAR_RATIO, limits
from lanewise.analyses.occupancy import Launch
from lanewise.analyses.steps import steps
from lanewise.devices import Ceiling, Ceilings
from lanewise.model.trace import Trace
from lanewise.report import us
from lanewise.roofline_texts import TEXTS, bound_text

__all__ = ["remark", "roofline"]

# Parts that a reader would not miss.
_LEAST_PART = 0.005
# Recorded shapes leave hardly anything unknown: 97 % of the time of kernels with a launching op (docs/work.md).
_MOST_UNKNOWN = 0.5
# Fewer warps than half of what an SM keeps can be too few to hide the memory's latency; more seldom are.
_LOW_OCCUPANCY = 0.5
# A tail that costs less than steps vary by is not worth a word.
_TAIL_RATIO = 0.2


def roofline(trace: Trace, lang: str = "en") -> doc.Roofline:
    """The section for a trace.

    Args:
        trace: a trace as `lanewise.load` gives it.
        lang: language of the texts.
    """
    times, found = trace.analysis(step_limits), trace.analysis(limits)
    has_work = len(found.ns) > 0
    summary = _summary(times) if has_work else None
    return doc.Roofline(
        text=_text(trace, summary, lang),
        ceilings_text=_ceilings_text(trace, lang),
        hint=_hint(trace, summary, lang),
        ceilings=_ceiling_rows(trace),
        step=summary,
        steps=_step_rows(trace, times),
        kernels=[_kernel_row(row, lang) for row in kernel_limits(trace)],
    )


def _us(ns: float) -> float:
    return round(float(ns) / 1000, 3)


def _summary(times: StepLimits) -> doc.LimitTimes:
    parts = {name: _us(times.mean(values)) for name, values in times.by_bound_ns.items()}
    return doc.LimitTimes(
        gpu_us=_us(times.mean(times.sum_ns)),
        known_us=_us(times.mean(times.known_ns)),
        limit_us=_us(times.mean(times.limit_ns)),
        headroom_us=_us(times.mean(times.headroom_ns)),
        memory_us=parts["memory"],
        compute_us=parts["compute"],
        latency_us=parts["latency"],
        helper_us=parts["helper"],
        unknown_us=parts["unknown"],
    )


def _step_rows(trace: Trace, times: StepLimits) -> list[doc.StepLimitRow]:
    return [
        doc.StepLimitRow(
            index=int(index),
            gpu_us=_us(times.sum_ns[i]),
            known_us=_us(times.known_ns[i]),
            limit_us=_us(times.limit_ns[i]),
            headroom_us=_us(times.headroom_ns[i]),
        )
        for i, index in enumerate(trace.analysis(steps).index)
    ]


def _ceiling_rows(trace: Trace) -> list[doc.CeilingRow]:
    return [
        doc.CeilingRow(device, of, rate.rate, rate.source)
        for device, rates in used_ceilings(trace).items()
        for of, rate in rates.items()
    ]


def _text(trace: Trace, summary: doc.LimitTimes | None, lang: str) -> str:
    if summary is None:
        return TEXTS("nothing-known", lang)
    if not any(trace.analysis(limits).ceilings.values()):
        name = next((d.name for d in trace.devices if d.name), None)
        return TEXTS("no-card-name", lang) if name is None else TEXTS("no-card", lang, name=name)
    if not summary.known_us:
        return TEXTS("nothing-known", lang)
    times = {
        "gpu": summary.gpu_us,
        "known": summary.known_us,
        "limit": summary.limit_us,
        "headroom": summary.headroom_us,
    }
    slots = {key: units.duration(value * 1000, lang) for key, value in times.items()}
    text = TEXTS("step" if len(trace.analysis(steps)) else "whole", lang, **slots)
    parts = [
        TEXTS("part", lang, bound=bound_text(bound, lang), time=units.duration(value * 1000, lang))
        for bound, value in _parts(summary)
        if value >= _LEAST_PART * summary.gpu_us
    ]
    separator = "、" if lang == "ja" else ", "
    more = TEXTS("by-bound", lang, parts=separator.join(parts))
    return text + more if lang == "ja" else f"{text} {more}"


def _parts(summary: doc.LimitTimes) -> list[tuple[str, float]]:
    return [
        ("memory", summary.memory_us),
        ("compute", summary.compute_us),
        ("latency", summary.latency_us),
        ("helper", summary.helper_us),
        ("unknown", summary.unknown_us),
    ]


def _ceilings_text(trace: Trace, lang: str) -> str | None:
    """The rates by card; cards of one name are told once."""
    told: dict[str, str] = {}
    for device, rates in used_ceilings(trace).items():
        known = trace.analysis(limits).ceilings[device]
        if known is not None and rates:
            name = _card_name(known)
            told[name] = TEXTS("ceilings", lang, name=name, rates=_rates_text(rates, lang))
    return (" " if lang == "en" else "").join(told.values()) or None


def _card_name(known: Ceilings) -> str:
    return known.name if known.device is None else known.device.name


def _rates_text(rates: dict[str, Ceiling], lang: str) -> str:
    separator = "、" if lang == "ja" else ", "
    groups = []
    for source, key in (("measured", "from-calibration"), ("data sheet", "from-sheet")):
        mine = [_rate_text(of, rate, lang) for of, rate in rates.items() if rate.source == source]
        if mine:
            groups.append(TEXTS(key, lang, rates=separator.join(mine)))
    return separator.join(groups)


def _rate_text(of: str, rate: Ceiling, lang: str) -> str:
    if of == "memory":
        return TEXTS("memory-rate", lang, rate=units.bandwidth(rate.rate, lang))
    return TEXTS("type-rate", lang, dtype=of, rate=units.flops_rate(rate.rate, lang))


def _hint(trace: Trace, summary: doc.LimitTimes | None, lang: str) -> str | None:
    """What would make more known: shapes, where most of the time is without them."""
    if summary is None or "shapes" in trace.capabilities or not any(trace.analysis(limits).ceilings.values()):
        return None
    return TEXTS("no-shapes", lang) if summary.known_us < _MOST_UNKNOWN * summary.gpu_us else None


def _kernel_row(row: KernelLimit, lang: str) -> doc.KernelLimitRow:
    return doc.KernelLimitRow(
        name=row.kernel.name,
        label=row.kernel.label(lang),
        count=row.count,
        total_us=_us(row.total_ns),
        known_us=us(row.known_ns),
        limit_us=us(row.limit_ns),
        headroom_us_per_step=us(row.headroom_ns_per_step),
        flops_per_s=None if row.flops_per_s is None else round(row.flops_per_s),
        bytes_per_s=None if row.bytes_per_s is None else round(row.bytes_per_s),
        share_ratio=None if row.share_ratio is None else round(row.share_ratio, 4),
        bound=row.bound,
        source=row.role,
        at_least=row.at_least,
        launch=None if row.launch is None else _launch_shape(row.launch),
        remark=remark(row, lang),
    )


def _launch_shape(launch: Launch) -> doc.LaunchShape:
    theory = launch.theoretical
    waves, tail = launch.waves, launch.tail_ratio
    return doc.LaunchShape(
        blocks=launch.blocks,
        block_threads=launch.block_threads,
        registers=launch.registers,
        shared_bytes=launch.shared_bytes,
        occupancy_ratio=None if theory is None else round(theory.ratio, 4),
        occupancy_limiter=None if theory is None else theory.limiter,
        recorded_occupancy_ratio=None if launch.is_gap else launch.recorded_ratio,
        waves=None if waves is None else round(waves, 3),
        tail_ratio=None if tail is None else round(tail, 4),
    )


def remark(row: KernelLimit, lang: str = "en") -> str | None:
    """What explains a kernel's figures, in words; None where there is nothing to add."""
    if row.role == "helper":
        return TEXTS("is-helper", lang)
    if row.kernel.kind == "collective":
        return None
    parts = []
    filled = None if row.launch is None else row.launch.filled_ratio
    if row.bound == "latency" and (filled is None or filled >= FILLED_RATIO):
        parts.append(TEXTS("floor", lang))
    if row.launch is not None:
        parts += _launch_remarks(row, row.launch, lang)
    return (" " if lang == "en" else "").join(parts) or None


def _launch_remarks(row: KernelLimit, launch: Launch, lang: str) -> list[str]:
    """Grid, occupancy and tail; of a kernel near its limit only what would be misread."""
    out = []
    theory, filled, tail = launch.theoretical, launch.filled_ratio, launch.tail_ratio
    near = row.share_ratio is not None and row.share_ratio >= NEAR_RATIO
    few = filled is not None and filled < FILLED_RATIO
    if few and not near:
        key = "few-blocks" if filled is not None and filled < 0.5 else "fewer-blocks"
        out.append(TEXTS(key, lang, blocks=units.count(launch.blocks, lang), sms=launch.sms))
    if theory is not None and theory.ratio < _LOW_OCCUPANCY:
        if _by_design(row, launch):
            shared = units.size(launch.shared_bytes, lang)
            out.append(TEXTS("by-design", lang, shared=shared, registers=launch.registers))
        elif not near and not few and theory.limiter != "none":
            out.append(_low_occupancy(launch, lang))
    if launch.is_gap and theory is not None:
        out.append(TEXTS("gap", lang, occupancy=units.percent(theory.ratio, lang)))
    if not near and launch.waves is not None and launch.waves > 1 and tail is not None and tail >= _TAIL_RATIO:
        out.append(TEXTS("tail", lang, waves=f"{launch.waves:.1f}", tail=units.percent(tail, lang)))
    return out


def _by_design(row: KernelLimit, launch: Launch) -> bool:
    """Whether a kernel keeps few warps because it computes products out of large tiles."""
    heavy = launch.theoretical is not None and launch.theoretical.limiter in ("registers", "shared memory")
    return heavy and row.kernel.tensor_cores is not None and row.kernel.kind in PRODUCTS


def _low_occupancy(launch: Launch, lang: str) -> str:
    assert launch.theoretical is not None
    slots = {
        "registers": launch.registers,
        "shared": units.size(launch.shared_bytes, lang),
        "threads": launch.block_threads,
    }
    limiter = TEXTS(launch.theoretical.limiter, lang, **slots)
    return TEXTS("low-occupancy", lang, occupancy=units.percent(launch.theoretical.ratio, lang), limiter=limiter)
