"""Reports as files, made through the public steps."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lanewise.explaining import explain
from lanewise.loading import load
from lanewise.rendering import html
from lanewise.report import Report
from lanewise.timeline import Timeline, timeline


@cache
def parts_of(path: Path) -> tuple[dict[str, Report], Timeline]:
    trace = load(str(path))
    reports = {lang: explain(trace, lang) for lang in ("en", "ja")}
    return reports, timeline(trace, reports["en"])


def write(path: Path, out: Path, lang: str = "en") -> Path:
    """Write the report of a trace to a file."""
    reports, picture = parts_of(path)
    out.write_text(html.render(reports, picture, lang), encoding="utf-8")
    return out
