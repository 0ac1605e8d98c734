"""A comparison as one HTML file: two timelines on one scale, and every change with what proves it on both.

All words and numbers of the changes come from where the other forms of `lanewise diff` have them; the page lays them out.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from lanewise.comparison.document import Comparison, KernelGroup, KernelPart, Pair
from lanewise.comparison.finding_changes import dearest
from lanewise.comparison.texts import TEXTS
from lanewise.comparison.wording import group_title
from lanewise.report import Report
from lanewise.timeline import Timeline
from lanewise.timeline.colours import CLASSES

from . import diff_words
from .html import differing, kernel_words, page, words

__all__ = ["ShownSide", "page_data", "render"]

# What the page shows of each trace's own report.
_SECTIONS = ("generator", "lang", "trace", "coverage", "gpu", "step", "steps", "verdict", "where", "findings")
# Counts of which more is neither better nor worse.
_NEUTRAL = ("regions", "graphs")
_TILES = "time"  # the group of figures that stands on top; the others are tables


class ShownSide(Struct, frozen=True):
    """One of the traces on the page.

    Attributes:
        reports: its report in each language.
        picture: its timeline, with `Comparison.group_evidence` after the evidence of the findings.
    """

    reports: Mapping[str, Report]
    picture: Timeline


def render(comparisons: Mapping[str, Comparison], sides: Sequence[ShownSide], lang: str = "en") -> str:
    """The comparison as one HTML file.

    Args:
        comparisons: the comparison in each language of the page.
        sides: the traces, the base first.
        lang: language that it opens in.
    """
    data = zlib.compress(msgspec.json.encode(page_data(comparisons, sides, lang)), 9)
    title = " → ".join(side.name for side in comparisons[lang].sides)
    return page(f"{title} - lanewise", base64.b64encode(data).decode("ascii"), lang, mode="diff")


def page_data(comparisons: Mapping[str, Comparison], sides: Sequence[ShownSide], lang: str) -> dict[str, Any]:
    """What the page is made of; see ``web/src/data.ts``."""
    first = next(iter(comparisons.values()))
    return {
        "lang": lang,
        "texts": {code: {**words(code), **_words(code)} for code in comparisons},
        "classes": CLASSES,
        "sides": [_side(first, sides[i], i) for i in range(len(sides))],
        "diffs": {code: _document(comparison) for code, comparison in comparisons.items()},
        "proofs": [_proofs(first, pair, sides) for pair in first.pairs],
    }


def _words(lang: str) -> dict[str, str]:
    """The words of the comparison that the page itself needs."""
    titles = {key: diff_words.section_title(key, lang) for key in ("h-conditions", "h-needed")}
    return titles | {key: TEXTS(key, lang) for key in ("col-base", "col-new", "withheld-hint", "anyway")}


def _side(comparison: Comparison, side: ShownSide, place: int) -> dict[str, Any]:
    documents = {code: _sections(report) for code, report in side.reports.items()}
    first = next(iter(documents))
    names = {side.picture.strings[name] for lane in side.picture.lanes if lane.kind == "gpu" for name in lane.name}
    return {
        "name": comparison.sides[place].name,
        "step": comparison.sides[place].step,
        "reports": {first: documents[first], **{c: differing(documents[first], documents[c]) for c in list(documents)[1:]}},
        "timeline": side.picture,
        "kernels": kernel_words(sorted(names), list(documents)),
    }


def _sections(report: Report) -> dict[str, Any]:
    document = report.to_dict()
    return {key: document[key] for key in _SECTIONS}


def _proofs(comparison: Comparison, pair: Pair, sides: Sequence[ShownSide]) -> list[tuple[int, int]]:
    """For each change of a pair, the places of its evidence in the base's timeline and in the other's; -1 for none."""
    base, new = (next(iter(side.reports.values())) for side in (sides[0], sides[pair.new]))
    before = sum(len(p.kernels) for p in comparison.pairs[: comparison.pairs.index(pair)])
    out = []
    for i, group in enumerate(pair.kernels):
        left = len(base.findings) + before + i if group.base_evidence else -1
        out.append((left, len(new.findings) + i if group.new_evidence else -1))
    places = [{f.id: report.findings.index(f) for f in dearest(report).values()} for report in (base, new)]
    out += [(places[0].get(c.id, -1), places[1].get(c.id, -1)) for c in diff_words.certain_findings(pair)]
    return out


def _document(comparison: Comparison) -> dict[str, Any]:
    """A comparison in the words of its language."""
    lang = comparison.lang
    many = None
    if len(comparison.pairs) > 1:
        title = TEXTS("title-many", lang, base=comparison.sides[0].name, count=len(comparison.pairs))
        many = {"title": title, "heads": diff_words.ladder_heads(lang), "rows": diff_words.ladder_rows(comparison, lang)}
        many["note"] = diff_words.times_note(comparison, lang)
    return {
        "generator": comparison.generator,
        "anyway": comparison.anyway,
        "many": many,
        "pairs": [_pair(comparison, pair) for pair in comparison.pairs],
    }


def _pair(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    lang = comparison.lang
    figures = [f for f in pair.figures if f.group == _TILES]
    return {
        "new": pair.new,
        "changed": pair.changed,
        "headline": pair.headline,
        "points": pair.points,
        "tiles": [[*row, figure.call] for row, figure in zip(diff_words.figure_rows(figures, lang), figures, strict=True)],
        "compile": _compile(pair, lang),
        "conditions": [[condition.text, bool(condition.spoils)] for condition in pair.conditions],
        "groups": [_group(group, lang) for group in pair.kernels],
        "same": TEXTS("kernels-same", lang, count=diff_words.number_text(pair.kernels_same, lang)) if pair.kernels_same else "",
        "findings": [
            {
                "id": c.id,
                "text": diff_words.finding_text(c, lang),
                "title": c.title,
                "tone": diff_words.tone(c),
                "side": 0 if diff_words.tone(c) == "good" else pair.new,
            }
            for c in diff_words.certain_findings(pair)
        ],
        "remarks": diff_words.finding_remarks(comparison, pair),
        "tables": [*_tables(pair, lang), *_ops(pair, lang)],
        "needed": pair.needed,
    }


def _compile(pair: Pair, lang: str) -> dict[str, Any] | None:
    verdict = pair.compile
    if verdict is None:
        return None
    rows = [[*row, "", ""] for row in diff_words.layer_rows(verdict, lang)]
    heads = diff_words.heads_of(("layer", "base", "new"), lang)
    layers = {"title": diff_words.section_title("h-layers", lang), "heads": heads, "rows": rows, "note": ""} if rows else None
    title = diff_words.section_title("h-compile", lang)
    return {"title": title, "text": verdict.text, "facts": verdict.facts, "layers": layers}


def _group(group: KernelGroup, lang: str) -> dict[str, Any]:
    return {
        "title": group_title(group, lang),
        "numbers": diff_words.group_numbers(group, lang),
        "call": group.call,
        "place": group.place,
        "times": group.times,
        "base": [_part(part, lang) for part in group.base],
        "new": [_part(part, lang) for part in group.new],
    }


def _part(part: KernelPart, lang: str) -> tuple[str, str, str, str]:
    return (diff_words.number_text(part.count, lang), part.label, part.name, part.op or "")


def _tables(pair: Pair, lang: str) -> list[dict[str, Any]]:
    """The figures of a step that differ, by what they are about; those that are the same in a sentence below."""
    out = []
    heads = diff_words.heads_of(("figure", "base", "new", "change"), lang)
    for group, key in diff_words.FIGURE_GROUPS:
        figures = [f for f in pair.figures if f.group == group and group != _TILES]
        shown = [f for f in figures if f.call != "same"]
        tones = ["" if figure.id in _NEUTRAL else figure.call for figure in shown]
        rows = [[*row, call] for row, call in zip(diff_words.figure_rows(shown, lang), tones, strict=True)]
        note = diff_words.shared_counts(figures, lang)
        if rows or note:
            out.append({"title": diff_words.section_title(key, lang), "heads": heads, "rows": rows, "note": note})
    return out


def _ops(pair: Pair, lang: str) -> list[dict[str, Any]]:
    if not pair.ops:
        return []
    rows = [[o.name, diff_words.number_text(o.base, lang), diff_words.number_text(o.new, lang), "", ""] for o in pair.ops]
    heads = diff_words.heads_of(("op", "base", "new"), lang)
    return [{"title": diff_words.section_title("h-ops", lang), "heads": heads, "rows": rows, "note": ""}]
