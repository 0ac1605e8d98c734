"""A comparison for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from lanewise import units
from lanewise.comparison.document import Comparison, CompileVerdict, Pair
from lanewise.comparison.texts import TEXTS
from lanewise.comparison.wording import group_title

from . import diff_words
from .layout import Column, columns, printed
from .page import Page

__all__ = ["render"]

# Groups of kernels of each of several traces.
_MOST_GROUPS = 3
# Cells for a trace's name before columns are left out, in a usual and in a narrow terminal.
_NAME, _SHORT_NAME, _WIDE = 26, 12, 76
_TONES = {"good": ("✓", "green"), "bad": ("✗", "red"), "": ("·", "")}
_CALL_STYLE = {"less": "green", "more": "red"}


def render(comparison: Comparison, *, width: int = 80, color: bool = False, verbose: bool = False, limit: int = 8) -> str:
    """The comparison as text.

    Args:
        comparison: the document; its language is the text's.
        width: cells of a line.
        color: whether escape codes are wanted.
        verbose: all groups of kernels, all figures.
        limit: groups of kernels, unless `verbose`; 0 for all.
    """
    page = Page(comparison.lang, width, verbose=verbose, limit=limit)
    if len(comparison.pairs) == 1:
        _one(page, comparison, comparison.pairs[0])
    else:
        _many(page, comparison)
    return printed(page.lines, color=color)


def _title(comparison: Comparison, pair: Pair) -> str:
    return TEXTS("title", comparison.lang, base=comparison.sides[0].name, new=comparison.sides[pair.new].name)


def _one(page: Page, comparison: Comparison, pair: Pair) -> None:
    page.add(Text(_title(comparison, pair), style="bold"))
    page.paragraph(diff_words.summary(pair, page.lang))
    _compile(page, pair.compile)
    _conditions(page, comparison, pair)
    _figures(page, pair)
    _kernels(page, pair)
    _ops(page, comparison, pair)
    _findings(page, comparison, pair)
    _layers(page, pair.compile)
    if pair.needed:
        page.heading(TEXTS("h-needed", page.lang))
        for text in pair.needed:
            page.item(text)


def _conditions(page: Page, comparison: Comparison, pair: Pair) -> None:
    if not pair.conditions:
        return
    page.heading(TEXTS("h-conditions", page.lang))
    for condition in pair.conditions:
        page.item(condition.text, mark="!" if condition.spoils else "-", mark_style="yellow" if condition.spoils else "")
    if any(c.spoils for c in pair.conditions):
        page.paragraph(TEXTS("anyway" if comparison.anyway else "withheld-hint", page.lang), indent=2, style="dim")


def _figures(page: Page, pair: Pair) -> None:
    lang = page.lang
    heads = _numbers(("figure", "base", "new", "change"), lang)
    for group, key in diff_words.FIGURE_GROUPS:
        figures = [f for f in pair.figures if f.group == group]
        shown = [f for f in figures if f.call != "same" or page.verbose]
        same = diff_words.shared_counts(figures, lang)
        if not shown and not same:
            continue
        page.heading(TEXTS(key, lang))
        if shown:
            page.lines += columns(heads, diff_words.figure_rows(shown, lang), page.width)
        if same and not page.verbose:
            page.paragraph(same, indent=2, style="dim")


def _kernels(page: Page, pair: Pair) -> None:
    lang = page.lang
    if not pair.kernels and not pair.kernels_same:
        return
    if pair.kernels:
        page.heading(TEXTS("h-kernels", lang))
    for group in pair.kernels[: page.limit]:
        page.item(group_title(group, lang))
        numbers = diff_words.group_numbers(group, lang)
        if numbers:
            page.paragraph(numbers, indent=4, style=_CALL_STYLE.get(group.call, "dim"))
    rest = len(pair.kernels) - page.limit
    if rest > 0:
        page.paragraph(TEXTS("more-groups", lang, count=units.count(rest)), indent=2, style="dim")
    if pair.kernels_same and pair.kernels:
        page.paragraph(TEXTS("kernels-same", lang, count=units.count(pair.kernels_same)), indent=2, style="dim")


def _ops(page: Page, comparison: Comparison, pair: Pair) -> None:
    """Ops by name: where no GPU work tells what a step does, or when all is wanted."""
    if not diff_words.shows_ops(comparison, pair, page.verbose):
        return
    page.heading(TEXTS("h-ops", page.lang))
    for op in pair.ops[: page.limit]:
        page.item(f"{op.name} {diff_words.number_text(op.base, page.lang)} → {diff_words.number_text(op.new, page.lang)}")
    if len(pair.ops) > page.limit:
        page.paragraph(TEXTS("more-groups", page.lang, count=units.count(len(pair.ops) - page.limit)), indent=2, style="dim")


def _findings(page: Page, comparison: Comparison, pair: Pair) -> None:
    lang = page.lang
    sure, remarks = diff_words.certain_findings(pair), diff_words.finding_remarks(comparison, pair)
    if not sure and not remarks:
        return
    page.heading(TEXTS("h-findings", lang))
    for change in sure:
        mark, style = _TONES[diff_words.tone(change)]
        page.item(diff_words.finding_text(change, lang), mark=mark, mark_style=style)
        page.paragraph(change.title, indent=4, style="dim")
    for text in remarks:
        page.paragraph(text, indent=2, style="dim")


def _compile(page: Page, verdict: CompileVerdict | None) -> None:
    if verdict is None:
        return
    page.heading(TEXTS("h-compile", page.lang))
    page.paragraph(verdict.text, indent=2, style="bold")
    for fact in verdict.facts:
        page.item(fact)


def _layers(page: Page, verdict: CompileVerdict | None) -> None:
    rows = diff_words.layer_rows(verdict, page.lang)
    if rows:
        page.heading(TEXTS("h-layers", page.lang))
        page.lines += columns(_numbers(("layer", "base", "new"), page.lang), rows, page.width)


def _numbers(keys: Sequence[str], lang: str) -> list[Column]:
    """A column of names, and columns of numbers beside it; what changed may be words, which give way in a narrow terminal."""
    name, *numbers = diff_words.heads_of(keys, lang)
    words = [None if key != "change" else 16 for key in keys[1:]]
    return [
        Column(name, least=16),
        *(Column(head, right=True, least=least) for head, least in zip(numbers, words, strict=True)),
    ]


def _many(page: Page, comparison: Comparison) -> None:
    lang = page.lang
    base = comparison.sides[0].name
    page.add(Text(TEXTS("title-many", lang, base=base, count=len(comparison.pairs)), style="bold"))
    page.blank()
    heads = [
        Column(TEXTS("col-trace", lang), least=_NAME if page.width >= _WIDE else _SHORT_NAME),
        Column(TEXTS("col-kernels", lang), right=True),
        Column(TEXTS("fig-launches", lang), right=True, optional=True),
        Column(TEXTS("col-copies", lang), right=True),
        Column(TEXTS("col-syncs", lang), right=True, optional=True),
        Column(TEXTS("col-gpu", lang), right=True),
        Column(TEXTS("col-cpu", lang), right=True),
        Column(TEXTS("col-time", lang), right=True),
    ]
    page.lines += columns(heads, diff_words.ladder_rows(comparison, lang), page.width, indent=0)
    note = diff_words.times_note(comparison, lang)
    if note:
        page.paragraph(note, style="dim")
    page.heading(TEXTS("h-reveals", lang))
    page.item(f"{base}: {comparison.sides[0].verdict}")
    for pair in comparison.pairs:
        _reveal(page, comparison, pair)
    # The CPU's pace is in every pair of recordings, and what it spoils is taken out.
    found = [c.text for pair in comparison.pairs for c in pair.conditions if page.verbose or c.id != "pace"]
    if found:
        page.heading(TEXTS("h-conditions", lang))
        for text in dict.fromkeys(found):
            page.item(text)


def _reveal(page: Page, comparison: Comparison, pair: Pair) -> None:
    """What one of several traces shows against the base."""
    lang, name = page.lang, comparison.sides[pair.new].name
    page.item(pair.headline if name in pair.headline else f"{name}: {pair.headline}")
    for group in pair.kernels[: None if page.verbose else _MOST_GROUPS]:
        texts = [t for t in (group_title(group, lang), diff_words.group_numbers(group, lang)) if t]
        page.item(TEXTS("separator", lang).join(texts), mark="·", indent=4)
    if pair.compile is not None:
        page.paragraph(pair.compile.text, indent=4)
    sure = [diff_words.finding_text(c, lang) for c in pair.findings if c.certain and not c.general]
    if sure:
        page.paragraph(TEXTS("separator", lang).join(sure), indent=4, style="dim")
