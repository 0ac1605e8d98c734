"""A comparison as Markdown: it fits a comment on a pull request."""

from __future__ import annotations

from lanewise import units
from lanewise.comparison.document import Comparison, CompileVerdict, Pair
from lanewise.comparison.texts import TEXTS
from lanewise.comparison.wording import group_title

from . import diff_words
from .markdown import code, prose, table

__all__ = ["render"]

_MARKS = {"good": "✅ ", "bad": "❌ ", "": ""}


def render(comparison: Comparison, *, verbose: bool = False, limit: int = 8) -> str:
    """The comparison as Markdown.

    Args:
        comparison: the document; its language is the text's.
        verbose: all groups of kernels.
        limit: groups of kernels, unless `verbose`; 0 for all.
    """
    parts = _many(comparison) if len(comparison.pairs) > 1 else []
    for pair in comparison.pairs:
        parts += _pair(comparison, pair, None if verbose or not limit else limit, len(comparison.pairs) > 1)
    return "\n\n".join(p for p in parts if p) + "\n"


def _heading(key: str, lang: str, level: int = 3) -> str:
    return f"{'#' * level} {diff_words.section_title(key, lang)}"


def _pair(comparison: Comparison, pair: Pair, limit: int | None, many: bool) -> list[str]:
    lang = comparison.lang
    base, new = comparison.sides[0].name, comparison.sides[pair.new].name
    out = [f"## {code(base)} → {code(new)}", f"**{prose(diff_words.summary(pair, lang))}**", _compile(pair.compile, lang)]
    if pair.conditions:
        lines = [f"- {'⚠ ' if c.spoils else ''}{prose(c.text)}" for c in pair.conditions]
        out.append(_heading("h-conditions", lang) + "\n\n" + "\n".join(lines))
    if not many:
        out += _figures(pair, lang)
    out += [_kernels(pair, lang, limit), _ops(comparison, pair, limit), _findings(comparison, pair)]
    if not many:
        out.append(_layers(pair.compile, lang))
    if pair.needed:
        out.append(_heading("h-needed", lang) + "\n\n" + "\n".join(f"- {x}" for x in pair.needed))
    return out


def _figures(pair: Pair, lang: str) -> list[str]:
    out = []
    heads = diff_words.heads_of(("figure", "base", "new", "change"), lang)
    for group, key in diff_words.FIGURE_GROUPS:
        figures = [f for f in pair.figures if f.group == group]
        differing = table(heads, diff_words.figure_rows([f for f in figures if f.call != "same"], lang))
        same = diff_words.shared_counts(figures, lang)
        body = "\n\n".join(x for x in (differing, same) if x)
        if body:
            out.append(_heading(key, lang) + "\n\n" + body)
    return out


def _kernels(pair: Pair, lang: str, limit: int | None) -> str:
    if not pair.kernels:
        return ""
    lines = []
    for group in pair.kernels[:limit]:
        texts = (group_title(group, lang), diff_words.group_numbers(group, lang))
        lines.append(f"- {prose(': '.join(t for t in texts if t))}")
    rest = len(pair.kernels) - len(lines)
    if rest > 0:
        lines.append(f"- {TEXTS('more-groups', lang, count=units.count(rest))}")
    if pair.kernels_same:
        lines += ["", TEXTS("kernels-same", lang, count=units.count(pair.kernels_same))]
    return _heading("h-kernels", lang) + "\n\n" + "\n".join(lines)


def _ops(comparison: Comparison, pair: Pair, limit: int | None) -> str:
    lang = comparison.lang
    if not diff_words.shows_ops(comparison, pair, limit is None):
        return ""
    number = diff_words.number_text
    lines = [f"- {code(o.name)}: {number(o.base, lang)} → {number(o.new, lang)}" for o in pair.ops[:limit]]
    return _heading("h-ops", lang) + "\n\n" + "\n".join(lines)


def _findings(comparison: Comparison, pair: Pair) -> str:
    lang = comparison.lang
    lines = [
        f"- {_MARKS[diff_words.tone(c)]}{prose(f'{diff_words.finding_text(c, lang)}: {c.title}')}"
        for c in diff_words.certain_findings(pair)
    ]
    lines += [f"- {prose(text)}" for text in diff_words.finding_remarks(comparison, pair)]
    return _heading("h-findings", lang) + "\n\n" + "\n".join(lines) if lines else ""


def _compile(verdict: CompileVerdict | None, lang: str) -> str:
    if verdict is None:
        return ""
    return "\n".join(
        [_heading("h-compile", lang), "", f"**{prose(verdict.text)}**", "", *(f"- {prose(x)}" for x in verdict.facts)]
    )


def _layers(verdict: CompileVerdict | None, lang: str) -> str:
    rows = diff_words.layer_rows(verdict, lang)
    return (
        _heading("h-layers", lang) + "\n\n" + table(diff_words.heads_of(("layer", "base", "new"), lang), rows) if rows else ""
    )


def _many(comparison: Comparison) -> list[str]:
    lang = comparison.lang
    title = TEXTS("title-many", lang, base=code(comparison.sides[0].name), count=len(comparison.pairs))
    rows = [[code(row[0]), *row[1:]] for row in diff_words.ladder_rows(comparison, lang)]
    return [f"# {title}", table(diff_words.ladder_heads(lang), rows), diff_words.times_note(comparison, lang)]
