"""``lanewise explain``: the report of a trace."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lanewise import units
from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.loading import Window
    from lanewise.model.trace import Trace
    from lanewise.report import Finding, Report

__all__ = ["command"]

_RULE = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*\Z")
_SAVING = re.compile(r"(\d+(?:\.\d+)?)\s*(%|ns|us|µs|ms|s)\Z")
_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}


@click.command("explain", short_help="What this trace shows, and why the step takes as long as it does.")
@options.trace_argument
@options.form_option("terminal", "html", "json", "md", default=None)
@click.option("-o", "--out", metavar="FILE", help="Write to a file; .html, .json, .md or .txt decides the format.")
@options.force_option
@click.option("-v", "--verbose", is_flag=True, help="All evidence, and all rows of all tables.")
@click.option(
    "--limit", type=click.IntRange(0), default=8, show_default=True, help="Rows of the tables of ops and kernels, 0 for all."
)
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    metavar="ID|SAVING",
    help="Exit 1 when this finding is there (launch-bound), or one that would save as much (5%, 200us). May be repeated.",
)
@options.window_options
@options.lang_option
@options.quiet_option
def command(
    trace: str,
    form: str | None,
    out: str | None,
    force: bool,
    verbose: bool,
    limit: int,
    fail_on: tuple[str, ...],
    window: Window | None,
    lang: str,
    quiet: bool,
) -> None:
    """Say what bounds the step, what is wrong, what fixing it would save, and what this trace cannot tell.

    TRACE is what torch.profiler exported: a .json or .json.gz of any age, "-" for standard input.

    \b
    lanewise explain trace.json.gz                 read it in the terminal
    lanewise explain trace.json.gz --steps 3-5     only these steps
    lanewise explain trace.json.gz -o report.html  one file, with the timeline
    lanewise explain trace.json.gz -o report.md    for an issue or pull request
    lanewise explain trace.json.gz --fail-on 5%    for CI: exit 1 if 5% can go
    """
    limits = [_limit(text) for text in fail_on]
    chosen = options.form_of(out, form, options.REPORT_SUFFIXES, "terminal")
    if out is not None:
        options.check_writable(out, force=force)
    loaded = options.open_trace(trace, quiet=quiet, lang=lang, window=window)
    from lanewise.explaining import explain

    report = explain(loaded, lang)
    text = _page(loaded, report) if chosen == "html" else _rendered(report, chosen, out, verbose, limit)
    options.write_text(text, out, force=force)
    breaches = [text for limit_ in limits for text in _breaches(report, limit_, lang)]
    for text in breaches:
        click.echo(f"lanewise: {text}", err=True)
    if breaches:
        sys.stdout.flush()
        sys.exit(1)


def _page(trace: Trace, report: Report) -> str:
    """The HTML report, which holds the texts in every language."""
    from lanewise.explaining import explain
    from lanewise.rendering import html
    from lanewise.timeline import timeline
    from lanewise.translations import LANGUAGES

    reports = {code: report if code == report.lang else explain(trace, code) for code in LANGUAGES}
    return html.render(reports, timeline(trace, report), report.lang)


def _rendered(report: Report, form: str, out: str | None, verbose: bool, limit: int) -> str:
    if form == "json":
        from lanewise.rendering import json

        return json.render(report)
    if form == "md":
        from lanewise.rendering import markdown

        return markdown.render(report, verbose=verbose, limit=limit)
    from lanewise.rendering import terminal

    width, color = options.screen() if out is None else (80, False)
    return terminal.render(report, width=width, color=color, verbose=verbose, limit=limit)


@dataclass(frozen=True, slots=True)
class _Limit:
    """What fails: a finding by its id, or a saving as a share of the step or in us per step."""

    text: str
    rule: str | None = None
    share: float | None = None
    saving_us: float | None = None


def _limit(text: str) -> _Limit:
    saving = _SAVING.match(text.strip())
    if saving is not None:
        number, unit = float(saving.group(1)), saving.group(2)
        return _Limit(text, share=number / 100) if unit == "%" else _Limit(text, saving_us=number * _US[unit])
    if _RULE.match(text) is None:
        raise UsageError("--fail-on", TEXTS.message("fail-on-form", text=text), TEXTS.message("fail-on-form-next"))
    return _Limit(text, rule=_rule_named(text))


def _rule_named(text: str) -> str:
    """A gate on a rule that does not exist would never fail."""
    from lanewise.rules import rules

    ids = [rule.id for rule in rules()]
    if text in ids:
        return text
    near = difflib.get_close_matches(text, ids, n=1)
    next_step = TEXTS.message("fail-on-near", near=near[0]) if near else TEXTS.message("fail-on-list")
    raise UsageError("--fail-on", TEXTS.message("fail-on-unknown", text=text), next_step)


def _breaches(report: Report, limit: _Limit, lang: str) -> Iterator[str]:
    """One line for each finding that a limit names, or that would save at least as much."""
    for finding in report.findings:
        if not finding.good:
            text = _breach(finding, limit, lang)
            if text is not None:
                yield text


def _breach(finding: Finding, limit: _Limit, lang: str) -> str | None:
    if limit.rule is not None:
        return TEXTS("breach-id", lang, id=finding.id, title=finding.title) if finding.id == limit.rule else None
    if limit.share is not None:
        if finding.share_ratio is None or finding.share_ratio < limit.share:
            return None
        share = units.percent(finding.share_ratio, lang)
        return TEXTS("breach-share", lang, id=finding.id, share=share, limit=limit.text, title=finding.title)
    saving = finding.saving_us_per_step
    if saving is None or limit.saving_us is None or saving < limit.saving_us:
        return None
    text = units.duration(saving * 1000, lang)
    return TEXTS("breach-saving", lang, id=finding.id, saving=text, limit=limit.text, title=finding.title)
