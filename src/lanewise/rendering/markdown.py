"""The report as Markdown, for issues and pull requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lanewise import units
from lanewise.report import Finding, Report
from lanewise.roofline_texts import TEXTS as LIMIT_TEXTS

from .findings import PROOFS, evidence_rows, facts_of, nothing_found, saving_of
from .layout import sentence_case
from .page import us_text
from .roofline import limit_cells, limit_remarks, share_text, worst_kernels
from .terminal import coverage_text, machine_facts, step_texts
from .texts import TEXTS, cause_text

__all__ = ["code", "prose", "render", "table"]

_CODE = re.compile(r"(`[^`]*`)")
# What would begin markup, a link or a mention within a name; an underscore inside of a word is none.
_MARKUP = re.compile(r"[\\*<\[\]~]|&(?=[#\w]+;)|:(?=//)|(?<!\w)@(?=\w)|(?<!\w)_+|_+(?!\w)")


def render(report: Report, *, verbose: bool = False, limit: int = 8) -> str:
    """The report as Markdown.

    Args:
        report: the report; its language is the text's.
        verbose: all evidence, all rows of all tables.
        limit: rows of the tables of ops and kernels, unless `verbose`; 0 for all.
    """
    parts = [
        _head(report),
        _where(report),
        _steps(report),
        *_findings(report, verbose),
        _gpus(report),
        _ops(report, verbose, limit),
        _kernels(report, verbose, limit),
        _limits(report, verbose, limit),
        *_checks(report),
        _notes(report),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _heading(key: str, lang: str, level: int = 2) -> str:
    return _titled(TEXTS(key, lang), level)


def _titled(title: str, level: int = 2) -> str:
    return f"{'#' * level} {sentence_case(title)}"


def code(text: str) -> str:
    """A name as code; one with backticks gets a longer fence."""
    text = " ".join(text.splitlines())
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(len(run) for run in re.findall("`+", text)) + 1)
    return f"{fence} {text} {fence}"


def prose(text: str) -> str:
    """A sentence with names in it as text: what a name brings is shown, and is no markup. Code between backticks stays."""
    parts = _CODE.split(" ".join(text.splitlines()))
    return "".join(part if i % 2 else _MARKUP.sub(_escaped, part) for i, part in enumerate(parts))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{letter}" for letter in found.group())


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are texts and whose others are numbers; empty without rows."""
    if not rows:
        return ""
    rule = [":--" if i < left else "--:" for i in range(len(heads))]
    lines = [heads, rule, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _head(report: Report) -> str:
    trace, lang = report.trace, report.lang
    facts = [] if trace.file_bytes is None else [units.size(trace.file_bytes, lang)]
    facts.append(TEXTS("events", lang, events=units.count(trace.events, lang)))
    if trace.span_us is not None:
        facts.append(TEXTS("spans", lang, span=us_text(trace.span_us, lang)))
    name = trace.path.replace("\\", "/").rpartition("/")[2]
    lines = [", ".join(facts), " · ".join(machine_facts(report)), coverage_text(report)]
    return "\n".join([f"# {code(name)}", "", f"**{prose(report.verdict.text)}**", "", *(f"- {x}" for x in lines if x)])


def _where(report: Report) -> str:
    lang = report.lang
    if not report.where:
        return ""
    rows = [
        [cause_text(r.cause, lang), us_text(r.us, lang), units.percent(r.ratio, lang)]
        for r in sorted(report.where, key=lambda r: -r.ratio)
    ]
    return _heading("where", lang) + "\n\n" + table([TEXTS(f"col-{k}", lang) for k in ("cause", "step-time", "of-step")], rows)


def _steps(report: Report) -> str:
    return _heading("steps", report.lang) + "\n\n" + ("" if report.lang == "ja" else " ").join(step_texts(report))


def _findings(report: Report, verbose: bool) -> list[str]:
    lang = report.lang
    problems, good = [f for f in report.findings if not f.good], [f for f in report.findings if f.good]
    out = [_heading("findings", lang)]
    if not problems:
        out.append(nothing_found(report))
    elif not report.step.count:
        out.append(TEXTS("whole-trace", lang))
    out += [_finding(report, f, f"{i}. ", verbose) for i, f in enumerate(problems, 1)]
    if good:
        out += [_heading("good-news", lang), *(_finding(report, f, "", verbose) for f in good)]
    return out


def _finding(report: Report, finding: Finding, number: str, verbose: bool) -> str:
    lang = report.lang
    saving = saving_of(finding, lang)
    lines = [f"### {number}{code(finding.id)}{' · ' + saving if saving else ''}", "", f"**{prose(finding.title)}**"]
    if finding.text and finding.text != finding.title:
        lines += ["", prose(finding.text)]
    facts = facts_of(finding, lang)
    if facts:
        lines += ["", " · ".join(facts)]
    shown = finding.evidence if verbose else finding.evidence[:PROOFS]
    if shown:
        lines.append("")
    lines += [f"- {code(name)}, {lane}, {time}, {code(at)}" for name, lane, time, at in evidence_rows(shown, report)]
    if finding.fix:
        lines += ["", f"**{TEXTS('fix', lang)}** {finding.fix}"]
    return "\n".join(lines)


def _gpus(report: Report) -> str:
    lang = report.lang
    if not report.gpu:
        return ""
    keys = ("gpu", "gpu-ops", "busy", "window", "compute", "communication", "exposed", "copies", "memsets")
    rows = [
        [
            f"GPU {g.device}",
            units.count(g.ops, lang),
            us_text(g.busy_us, lang),
            us_text(g.window_us, lang),
            us_text(g.compute_us, lang),
            us_text(g.communication_us, lang),
            us_text(g.exposed_communication_us, lang),
            us_text(g.copy_us, lang),
            us_text(g.memset_us, lang),
        ]
        for g in report.gpu
    ]
    return _heading("gpus", lang) + "\n\n" + table([TEXTS(f"col-{k}", lang) for k in keys], rows)


def _ops(report: Report, verbose: bool, limit: int) -> str:
    lang = report.lang
    ops = report.ops if verbose else [r for r in report.ops if r.cat == "cpu_op"][: limit or None]
    keys = ("op", "calls", "cpu-self", "cpu-total", "gpu-self", "gpu-total")
    rows = [
        [
            code(r.name),
            units.count(r.count, lang),
            *(us_text(t, lang) for t in (r.cpu_self_us, r.cpu_total_us, r.gpu_self_us, r.gpu_total_us)),
        ]
        for r in ops
    ]
    return _heading("ops", lang) + "\n\n" + table([TEXTS(f"col-{k}", lang) for k in keys], rows) if rows else ""


def _kernels(report: Report, verbose: bool, limit: int) -> str:
    lang = report.lang
    whole = sum(g.sum_us for g in report.gpu)
    rows = [
        [
            prose(r.label),
            ", ".join(code(o) for o in r.ops[:3]),
            units.count(r.count, lang),
            us_text(r.total_us, lang),
            units.percent(units.ratio_of(r.total_us, whole), lang),
            us_text(r.mean_us, lang),
        ]
        for r in (report.kernels if verbose else report.kernels[: limit or None])
    ]
    keys = ("kernel", "from", "calls", "time", "share", "mean")
    return _heading("kernels", lang) + "\n\n" + table([TEXTS(f"col-{k}", lang) for k in keys], rows, 2) if rows else ""


def _limits(report: Report, verbose: bool, limit: int) -> str:
    """How far the kernels are from what the card could do."""
    found, lang = report.roofline, report.lang
    if found is None or found.step is None:
        return ""
    keys = ("col-kernel", "col-flops", "col-bandwidth", "col-of-limit", "col-bound", "col-headroom")
    rows = worst_kernels(found, verbose, limit)
    share = share_text(found.step, lang)
    parts = [
        _titled(LIMIT_TEXTS("title", lang)) + (f" ({share})" if share else ""),
        *(text for text in (found.text, found.ceilings_text, found.hint) if text),
        table([TEXTS(key, lang) for key in keys], [limit_cells(row, lang) for row in rows]),
        "\n".join(f"- {text}" for text in limit_remarks(rows, verbose, lang)),
    ]
    return "\n\n".join(part for part in parts if part)


def _checks(report: Report) -> list[str]:
    lang = report.lang
    clear = [code(c.id) for c in report.checks if c.outcome == "clear"]
    out = [_heading("healthy", lang) + "\n\n" + ", ".join(clear)] if clear else []
    for outcome in ("not-checked", "failed"):
        rows = [f"- {code(c.id)}: {c.reason or units.unknown(lang)}" for c in report.checks if c.outcome == outcome]
        if rows:
            out.append(_heading(outcome, lang) + "\n\n" + "\n".join(rows))
    return out


def _notes(report: Report) -> str:
    rows = [f"- {prose(w.text)}" for w in report.trace.warnings]
    return _heading("notes", report.lang) + "\n\n" + "\n".join(rows) if rows else ""
