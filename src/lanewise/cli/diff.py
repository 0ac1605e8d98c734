"""``lanewise diff``: what changed between two traces, or along several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from lanewise.cli import options

if TYPE_CHECKING:
    from lanewise.comparison import Comparison, TraceSide
    from lanewise.comparison.document import Pair
    from lanewise.loading import Window

__all__ = ["command"]


@click.command("diff", short_help="What changed between two traces, and what noise does not let one see.")
@click.argument("base", metavar="BASE")
@click.argument("others", metavar="NEW...", nargs=-1, required=True)
@options.form_option("terminal", "html", "json", "md", default=None)
@click.option("-o", "--out", metavar="FILE", help="Write to a file; .html, .json, .md or .txt decides the format.")
@options.force_option
@click.option("-v", "--verbose", is_flag=True, help="All groups of kernels, and figures that are the same.")
@click.option("--limit", type=click.IntRange(0), default=8, show_default=True, help="Groups of kernels, 0 for all.")
@click.option("--anyway", is_flag=True, help="Compare times too where the recordings differ (other GPU, flags, shapes).")
@click.option(
    "--fail-on",
    "fail_on",
    type=click.Choice(["slower", "structure"]),
    multiple=True,
    help="Exit 1 when a time is seen to be longer, or when what a step runs differs. May be repeated.",
)
@options.window_options
@options.lang_option
@options.quiet_option
def command(
    base: str,
    others: tuple[str, ...],
    form: str | None,
    out: str | None,
    force: bool,
    verbose: bool,
    limit: int,
    anyway: bool,
    fail_on: tuple[str, ...],
    window: Window | None,
    lang: str,
    quiet: bool,
) -> None:
    """Compare the steps of BASE with those of one or more other traces.

    Counts are exact and come first; times are called different only where they differ by more than the traces' own
    steps do, and than two recordings of one program do. With several traces, a table with BASE as its first row.

    \b
    lanewise diff a.json.gz b.json.gz
    lanewise diff a.json.gz b.json.gz -o diff.html         with both timelines
    lanewise diff a.json.gz b.json.gz -o comment.md        for a pull request
    lanewise diff a.json.gz b.json.gz --fail-on structure  for CI: exit 1
    lanewise diff a.json.gz b.json.gz c.json.gz            a ladder in one view
    """
    chosen = options.form_of(out, form, options.REPORT_SUFFIXES, "terminal")
    if out is not None:
        options.check_writable(out, force=force)
    traces = [options.open_trace(path, quiet=quiet, lang=lang, window=window) for path in (base, *others)]
    from lanewise.comparison import TraceSide, compare_sides

    sides = [TraceSide(trace, lang) for trace in traces]
    comparison = compare_sides(sides, lang, anyway=anyway)
    text = _page(comparison, sides) if chosen == "html" else _rendered(comparison, chosen, out, verbose, limit)
    options.write_text(text, out, force=force)
    breaches = [text for what in dict.fromkeys(fail_on) for text in _breaches(comparison, what)]
    for text in [*breaches, *(text for what in dict.fromkeys(fail_on) for text in _unjudged(comparison, what))]:
        click.echo(f"lanewise: {text}", err=True)
    if breaches:
        sys.stdout.flush()
        sys.exit(1)


def _page(comparison: Comparison, sides: Sequence[TraceSide]) -> str:
    """The comparison as HTML, which holds the texts in every language."""
    from lanewise.comparison import compare_sides
    from lanewise.rendering import diff_html
    from lanewise.timeline import BUDGET, timeline
    from lanewise.translations import LANGUAGES

    spoken = {code: [s if code == comparison.lang else s.spoken(code) for s in sides] for code in LANGUAGES}
    comparisons = {
        code: comparison if code == comparison.lang else compare_sides(spoken[code], code, anyway=comparison.anyway)
        for code in LANGUAGES
    }
    # The file stays as small as with two traces.
    budget = min(BUDGET, 2 * BUDGET // len(sides))
    shown = []
    for place, side in enumerate(sides):
        reports = {code: spoken[code][place].report for code in LANGUAGES}
        more, step = comparison.group_evidence(place), comparison.sides[place].step
        shown.append(diff_html.ShownSide(reports, timeline(side.trace, side.report, more=more, step=step, budget=budget)))
    return diff_html.render(comparisons, shown, comparison.lang)


def _rendered(comparison: Comparison, form: str, out: str | None, verbose: bool, limit: int) -> str:
    if form == "json":
        return comparison.to_json(indent=2) + "\n"
    if form == "md":
        from lanewise.rendering import diff_markdown

        return diff_markdown.render(comparison, verbose=verbose, limit=limit)
    from lanewise.rendering import diff_terminal

    width, color = options.screen() if out is None else (80, False)
    return diff_terminal.render(comparison, width=width, color=color, verbose=verbose, limit=limit)


def _unjudged(comparison: Comparison, what: str) -> Iterator[str]:
    """One line for each pair of which what is asked about is withheld or not known: that it passes means nothing."""
    from lanewise.comparison.texts import TEXTS

    group = "time" if what == "slower" else "structure"
    for pair in comparison.pairs:
        calls = {figure.call for figure in pair.figures if figure.group == group}
        if calls <= {"withheld", "unknown"}:
            yield TEXTS("fail-unjudged", comparison.lang, what=what, name=comparison.sides[pair.new].name)


def _breaches(comparison: Comparison, what: str) -> Iterator[str]:
    """One line for each time that is longer, or for each count and kernel that differs; of several traces with which it is."""
    from lanewise.comparison.texts import TEXTS

    told = _longer if what == "slower" else _differing
    for pair in comparison.pairs:
        name = f"{comparison.sides[pair.new].name}: " if len(comparison.pairs) > 1 else ""
        for text in told(pair, comparison.lang):
            yield TEXTS(f"fail-{what}", comparison.lang, text=name + text)


def _longer(pair: Pair, lang: str) -> Iterator[str]:
    from lanewise.rendering.diff_words import figure_rows

    for label, a, b, change in figure_rows([f for f in pair.figures if f.group == "time" and f.call == "more"], lang):
        yield f"{label} {a} → {b} ({change})"


def _differing(pair: Pair, lang: str) -> Iterator[str]:
    from lanewise.comparison.wording import group_title
    from lanewise.rendering.diff_words import figure_rows

    counts = [f for f in pair.figures if f.group == "structure" and f.call in ("less", "more")]
    yield from (f"{label} {a} → {b}" for label, a, b, _ in figure_rows(counts, lang))
    yield from (group_title(group, lang) for group in pair.kernels if group.kind != "same")
