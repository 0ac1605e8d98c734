"""The answer of ``lanewise why``: a device at a moment, in words."""

from __future__ import annotations

from collections.abc import Sequence

from lanewise.analyses.moment import Moment
from lanewise.kernels import decode
from lanewise.rendering.layout import shortened
from lanewise.rendering.texts import TEXTS as CAUSES
from lanewise.translations import Catalog
from lanewise.units import duration, percent, ratio_of

__all__ = ["TEXTS", "render"]

_NAME_WIDTH = 56

TEXTS = Catalog(
    "why",
    {
        "busy": "GPU {device} at {moment}: busy.",
        "running": "  stream {stream}: {name}, running for {since}, {left} to go",
        "by": "    launched by {op}",
        "idle": "GPU {device} at {moment}: idle, for {length} from {begin} on.",
        "cause": "  {time}  {share}  {cause}",
        "activity": "  The launching thread was in: {chain}",
        "python": "  The launching thread was in no recorded op: Python, or waiting outside PyTorch.",
        "ended": "  Ended by {name}",
        "called": "    launched by {op} with {call} at {at}",
        "nothing": "  No GPU op follows in this trace.",
        "unlinked": "    its launch is not in the trace, so the cause is not known",
        "no-events": "the trace has no events.",
        "no-device": "the trace has no such GPU.",
        "outside": "the moment lies outside the trace, which spans {span}.",
    },
)


def render(found: Sequence[Moment], lang: str = "en") -> str:
    """The answer as text, a paragraph for each device."""
    return "\n".join(_busy(m, lang) if m.gap is None else _idle(m, lang) for m in found)


def _busy(m: Moment, lang: str) -> str:
    lines = [TEXTS("busy", lang, device=m.device, moment=duration(m.moment_ns, lang))]
    for name, stream, since, left, op in m.running:
        slots = {"stream": stream, "name": _named(name, lang), "since": duration(since, lang), "left": duration(left, lang)}
        lines.append(TEXTS("running", lang, **slots))
        if op is not None:
            lines.append(TEXTS("by", lang, op=op))
    return "\n".join(lines)


def _named(name: str, lang: str) -> str:
    """A kernel's name in words, with the name itself cut to fit a line."""
    label = decode(name).label(lang)
    return label if label == name else f"{label} ({shortened(name, _NAME_WIDTH)})"


def _idle(m: Moment, lang: str) -> str:
    assert m.gap is not None
    length = m.gap.end - m.gap.begin
    slots = {"device": m.device, "moment": duration(m.moment_ns, lang), "length": duration(length, lang)}
    lines = [TEXTS("idle", lang, **slots, begin=duration(m.gap_begin_ns, lang))]
    for cause, ns in sorted(m.gap.causes.items(), key=lambda c: -c[1]):
        share = percent(ratio_of(ns, length), lang)
        lines.append(
            TEXTS("cause", lang, time=f"{duration(ns, lang):>9}", share=f"{share:>6}", cause=CAUSES(f"cause-{cause}", lang))
        )
    lines.append(TEXTS("activity", lang, chain=" > ".join(m.activity)) if m.activity else TEXTS("python", lang))
    if m.ender is None:
        return "\n".join([*lines, TEXTS("nothing", lang)])
    lines.append(TEXTS("ended", lang, name=_named(m.ender, lang)))
    if m.call is None:
        lines.append(TEXTS("unlinked", lang))
    else:
        lines.append(TEXTS("called", lang, op=m.ender_op or "?", call=m.call, at=duration(m.call_ns, lang)))
    return "\n".join(lines)
