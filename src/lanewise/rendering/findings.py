"""Findings and checks for a terminal: the price first, then what and why, the proof, and the fix."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from lanewise import units
from lanewise.report import Evidence, Finding, Report

from .layout import Column, columns
from .page import Page, us_text
from .texts import TEXTS

__all__ = [
    "PROOFS",
    "check_lines",
    "evidence_lines",
    "evidence_rows",
    "facts_of",
    "finding_lines",
    "nothing_found",
    "saving_of",
]

PROOFS = 2
"""Events of evidence that are shown of a finding unless all are wanted."""

_INDENT = 5


def finding_lines(page: Page, report: Report) -> None:
    """Add the findings, and good news after them."""
    problems = [f for f in report.findings if not f.good]
    good = [f for f in report.findings if f.good]
    page.heading(TEXTS("findings", page.lang), units.count(len(problems), page.lang) if problems else "")
    if not problems:
        page.paragraph(nothing_found(report), indent=2)
    elif not report.step.count:
        page.paragraph(TEXTS("whole-trace", page.lang), indent=2, style="dim")
    for number, finding in enumerate(problems, 1):
        _finding(page, report, finding, f"{number}.", "bold red" if number == 1 else "bold yellow")
    if good:
        page.heading(TEXTS("good-news", page.lang))
        for finding in good:
            _finding(page, report, finding, "+", "bold green")


def nothing_found(report: Report) -> str:
    """What to say where there are no findings: that all is well only where most rules could look."""
    lang, count = report.lang, len(report.checks)
    checked = sum(c.outcome in ("found", "clear") for c in report.checks)
    if not checked:
        return TEXTS("none-checked", lang)
    if 2 * checked < count:
        return TEXTS("few-checked", lang, checked=checked, missing=count - checked)
    bound = report.verdict.bound
    return TEXTS("no-findings" if bound == "unknown" or bound.startswith("gpu") else "no-other-findings", lang)


def saving_of(finding: Finding, lang: str) -> str:
    """What a finding would save, as text; empty for good news and where it is not known."""
    if finding.good or finding.saving_us_per_step is None:
        return ""
    if finding.saving_us_per_step <= 0:
        return TEXTS("costs-little", lang)
    saving = us_text(finding.saving_us_per_step, lang)
    if finding.share_ratio is None:
        return TEXTS("saves-time", lang, saving=saving)
    return TEXTS("saves", lang, saving=saving, share=units.percent(finding.share_ratio, lang))


def facts_of(finding: Finding, lang: str) -> list[str]:
    """What is known of a finding besides its text: cost, range of the saving, confidence, place, what it explains."""
    out = []
    if finding.cost_us_per_step:
        out.append(TEXTS("costs", lang, cost=us_text(finding.cost_us_per_step, lang)))
    low, high = finding.saving_low_us_per_step, finding.saving_high_us_per_step
    if low is not None and high is not None and low != high:
        out.append(TEXTS("range", lang, low=us_text(low, lang), high=us_text(high, lang)))
    if not finding.good:
        key = f"level-{finding.confidence}"
        level = TEXTS(key, lang) if key in TEXTS.english else finding.confidence
        out.append(TEXTS("confidence", lang, level=level))
    if finding.where:
        out.append(TEXTS("at-place", lang, where=finding.where))
    if finding.folded:
        out.append(TEXTS("explains", lang, ids=", ".join(finding.folded)))
    return out


def evidence_rows(rows: list[Evidence], report: Report) -> list[tuple[str, str, str, str]]:
    """Name (of kernels what it says), lane, duration and moment of each event; the moment as ``--from`` takes it."""
    labels, lang = {k.name: k.label for k in report.kernels}, report.lang
    return [(labels.get(e.name, e.name), e.lane, us_text(e.dur_us, lang), f"@{e.ts_us:.3f}") for e in rows]


def _finding(page: Page, report: Report, finding: Finding, mark: str, style: str) -> None:
    lang = page.lang
    line = Text(f"{mark:>4} ", style="bold").append(finding.id, style=style)
    saving = saving_of(finding, lang)
    if saving:
        room = page.width - line.cell_len - cell_len(saving)
        line.append(" " * max(room, 2)).append(saving, style="bold")
    page.add(line)
    page.paragraph(finding.title, indent=_INDENT, style="bold")
    if finding.text and finding.text != finding.title:
        page.paragraph(finding.text, indent=_INDENT)
    facts = facts_of(finding, lang)
    if facts:
        page.paragraph(" · ".join(facts), indent=_INDENT, style="dim")
    shown = finding.evidence if page.verbose else finding.evidence[:PROOFS]
    if shown:
        page.lines += _evidence(page, report, shown, len(finding.evidence) - len(shown))
    if finding.fix:
        page.item(finding.fix, mark=TEXTS("fix", lang), mark_style="bold green", indent=_INDENT)


def evidence_lines(page: Page, report: Report, rows: list[Evidence], indent: int) -> list[Text]:
    """Events in columns: name, lane, duration, moment."""
    heads = [Column("", least=16), Column("", least=8, optional=True), Column("", right=True), Column("", style="dim")]
    return columns(heads, evidence_rows(rows, report), page.width, indent=indent)[1:]


def _evidence(page: Page, report: Report, shown: list[Evidence], hidden: int) -> list[Text]:
    lines = evidence_lines(page, report, shown, _INDENT + 2)
    if hidden:
        lines.append(Text(" " * (_INDENT + 2)).append(TEXTS("more-evidence", page.lang, count=hidden), style="dim"))
    return lines


def check_lines(page: Page, report: Report) -> None:
    """Add what is fine, what was not checked and why, and what failed."""
    lang = page.lang
    clear = [c.id for c in report.checks if c.outcome == "clear"]
    if clear:
        page.heading(TEXTS("healthy", lang), units.count(len(clear), lang))
        page.paragraph(", ".join(clear), indent=2, style="green")
    for outcome, title in (("not-checked", "not-checked"), ("failed", "failed")):
        rows = [c for c in report.checks if c.outcome == outcome]
        if not rows:
            continue
        page.heading(TEXTS(title, lang), units.count(len(rows), lang))
        # Checks with one reason share its line.
        reasons: dict[str, list[str]] = {}
        for check in rows:
            reasons.setdefault(check.reason or units.unknown(lang), []).append(check.id)
        for reason, ids in reasons.items():
            page.item(f"{', '.join(ids)}: {reason}")
