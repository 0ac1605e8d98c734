"""Figures and groups of a comparison in words, for all forms of it."""

from __future__ import annotations

from collections.abc import Sequence

from lanewise import units
from lanewise.comparison.document import Comparison, CompileVerdict, Figure, FindingChange, KernelGroup, Pair
from lanewise.comparison.headline import paced_percent
from lanewise.comparison.texts import TEXTS
from lanewise.engine import LEAST_SHARE

from .layout import sentence_case
from .page import us_text

__all__ = [
    "FIGURE_GROUPS",
    "certain_findings",
    "change_text",
    "figure_label",
    "figure_rows",
    "finding_remarks",
    "finding_text",
    "group_numbers",
    "heads_of",
    "ladder_heads",
    "ladder_rows",
    "layer_rows",
    "number_text",
    "section_title",
    "shared_counts",
    "shows_ops",
    "summary",
    "times_note",
    "tone",
    "value_text",
]

FIGURE_GROUPS = (("time", "h-times"), ("structure", "h-structure"), ("idle", "h-idle"))
"""Groups of figures and their headings, in the order in which they are shown."""
_TONES = {"lost": "good", "smaller": "good", "gained": "bad", "larger": "bad"}

_ARROW = " → "
_LADDER = ("col-trace", "col-kernels", "fig-launches", "col-copies", "col-syncs", "col-gpu", "col-cpu", "col-time")
# Less memory traffic than this is no reason for anything.
_LEAST_BYTES = 1 << 20


def figure_label(figure: Figure, lang: str) -> str:
    """The figure's name."""
    name = figure.id.removesuffix("_us")
    return TEXTS(name if figure.group == "idle" else f"fig-{name.replace('_', '-')}", lang)


def value_text(figure: Figure, value: float | None, lang: str) -> str:
    """A figure's value with its unit."""
    if figure.id.endswith("_us"):
        return us_text(value, lang)
    return number_text(value, lang)


def number_text(value: float | None, lang: str) -> str:
    """A count, which as a median may be a half."""
    if value is None:
        return units.unknown(lang)
    return units.count(int(value)) if value == int(value) else f"{value:,.1f}"


def change_text(figure: Figure, lang: str) -> str:
    """What is said about a figure."""
    if figure.call in ("less", "more"):
        if figure.group == "structure":
            return ("+" if figure.call == "more" else "-") + number_text(abs((figure.new or 0) - (figure.base or 0)), lang)
        if not figure.base or not figure.new:
            return ("+" if figure.call == "more" else "-") + us_text(abs((figure.new or 0) - (figure.base or 0)), lang)
        return paced_percent(figure, lang)
    if figure.call == "not-seen" and figure.paced_base:
        return TEXTS("not-seen-paced", lang, ratio=paced_percent(figure, lang))
    return _not_seen(figure.margin_ratio, lang) if figure.call == "not-seen" else TEXTS(figure.call, lang)


def _not_seen(margin_ratio: float | None, lang: str) -> str:
    """No difference, and what it would have had to exceed where that is not everything."""
    if margin_ratio and margin_ratio < 1:
        return TEXTS("not-seen-below", lang, margin=units.percent(margin_ratio, lang))
    return TEXTS("not-seen", lang)


def figure_rows(figures: list[Figure], lang: str) -> list[list[str]]:
    """Label, base, new and change of some figures."""
    return [
        [figure_label(f, lang), value_text(f, f.base, lang), value_text(f, f.new, lang), change_text(f, lang)] for f in figures
    ]


def shared_counts(figures: list[Figure], lang: str) -> str:
    """The counts that are the same in both, in one sentence; empty for none."""
    names = [f"{figure_label(f, lang)} {number_text(f.base, lang)}" for f in figures if f.call == "same"]
    return TEXTS("unchanged", lang, names=TEXTS("separator", lang).join(names)) if names else ""


def group_numbers(group: KernelGroup, lang: str) -> str:
    """Times, what is saved, and the memory traffic that goes or comes."""
    out = []
    delta = group.new_us - group.base_us
    if group.base and group.new:
        out.append(f"{us_text(group.base_us, lang)}{_ARROW}{us_text(group.new_us, lang)}")
    if group.call == "less":
        out.append(TEXTS("saved", lang, time=us_text(-delta, lang)))
    elif group.call == "more":
        out.append(TEXTS("added-time", lang, time=us_text(delta, lang)))
    elif group.call == "not-seen":
        out.append(_not_seen(group.margin_ratio, lang))
    moved = None if group.base_bytes is None or group.new_bytes is None else group.new_bytes - group.base_bytes
    if moved is not None and abs(moved) >= _LEAST_BYTES:
        key = "traffic-less" if moved < 0 else "traffic-more"
        out.append(TEXTS(key, lang, size=units.size(abs(moved), lang)))
    if group.cpu_call in ("less", "more"):
        before, after = us_text(group.base_cpu_us, lang), us_text(group.new_cpu_us, lang)
        out.append(TEXTS("launcher", lang, base=before, new=after))
    return TEXTS("separator", lang).join(out)


def finding_text(change: FindingChange, lang: str) -> str:
    """How a finding changed: its id, its price before and after."""
    price = change.base_ratio if change.change == "lost" else change.new_ratio
    text = f"{TEXTS(change.change, lang)}: {change.id}"
    detail = TEXTS("would-save", lang, ratio=units.percent(price, lang)) if price is not None else ""
    if change.change in ("smaller", "larger"):
        detail = f"{_share_text(change.base_ratio, lang)}{_ARROW}{_share_text(change.new_ratio, lang)}"
    return TEXTS("with-detail", lang, text=text, detail=detail) if detail else text


def tone(change: FindingChange) -> str:
    """``good`` or ``bad``; empty for what is neither: a finding that was there before."""
    return _TONES.get(change.change, "")


def _share_text(ratio: float | None, lang: str) -> str:
    """What a finding would save; one that is there without being worth a finding has no number."""
    if ratio is None:
        return TEXTS("below-least", lang, ratio=units.percent(LEAST_SHARE, lang))
    return units.percent(ratio, lang)


def finding_remarks(comparison: Comparison, pair: Pair) -> list[str]:
    """Findings whose change may be noise, and those of which one recording cannot tell, in a sentence each."""
    lang = comparison.lang
    out = []
    perhaps = [c for c in pair.findings if not c.certain and c.change != "unchecked"]
    if perhaps:
        out.append(TEXTS("maybe-noise", lang, ids=TEXTS("separator", lang).join(finding_text(c, lang) for c in perhaps)))
    found = [c for c in pair.findings if c.change == "unchecked"]
    for side in (0, pair.new):
        ids = [c.id for c in found if c.id in comparison.sides[side].findings]
        if ids:
            name = comparison.sides[side].name
            out.append(TEXTS("unchecked-in", lang, name=name, ids=TEXTS("separator", lang).join(ids)))
    return out


def heads_of(keys: Sequence[str], lang: str) -> list[str]:
    """Heads of columns."""
    return [TEXTS(f"col-{key}", lang) for key in keys]


def layer_rows(verdict: CompileVerdict | None, lang: str) -> list[list[str]]:
    """Name of each layer, and the CPU time of a step in it in both traces."""
    layers = () if verdict is None else verdict.layers
    return [[TEXTS(f"layer-{x.id}", lang), us_text(x.base_us, lang), us_text(x.new_us, lang)] for x in layers]


def section_title(key: str, lang: str) -> str:
    """A heading of the terminal, where these are in capitals, as a heading elsewhere."""
    return sentence_case(TEXTS(key, lang))


def ladder_heads(lang: str) -> list[str]:
    """Heads of `ladder_rows`."""
    return [TEXTS(key, lang) for key in _LADDER]


def ladder_rows(comparison: Comparison, lang: str) -> list[list[str]]:
    """One row a trace: name, kernels, launches, copies, waits, GPU busy, CPU work, step."""
    rows = []
    for side in comparison.sides:
        f = side.figures
        copies = sum(f.get(f"copies-{way}") or 0 for way in ("htod", "dtoh", "dtod", "ptop", "other"))
        time = f.get("real_us") if f.get("real_us") is not None else f.get("time_us")
        rows.append(
            [
                side.name,
                *(number_text(f.get(k), lang) for k in ("kernels", "launches")),
                number_text(copies, lang),
                number_text(f.get("syncs"), lang),
                *(us_text(t, lang) for t in (f.get("gpu_us"), f.get("cpu_us"), time)),
            ]
        )
    return rows


def summary(pair: Pair, lang: str) -> str:
    """The headline and its points as one text."""
    return ("" if lang == "ja" else " ").join([pair.headline, *pair.points])


def shows_ops(comparison: Comparison, pair: Pair, verbose: bool) -> bool:
    """Whether ops are listed by name: where neither trace has GPU work, or when all is wanted."""
    sides = (comparison.sides[0], comparison.sides[pair.new])
    return bool(pair.ops) and (verbose or not any(s.figures.get("kernels") for s in sides))


def times_note(comparison: Comparison, lang: str) -> str:
    """Which kind of step time a table of several traces has."""
    sources = {s.time_source for s in comparison.sides}
    return "" if sources == {"unprofiled"} else TEXTS("note-profiled" if "unprofiled" not in sources else "note-mixed", lang)


def certain_findings(pair: Pair) -> list[FindingChange]:
    """Findings that changed with something else behind them; of the others `finding_remarks` tells."""
    return [c for c in pair.findings if c.certain]
