"""The report as the versioned JSON document."""

from __future__ import annotations

from lanewise.report import Report

__all__ = ["render"]


def render(report: Report) -> str:
    """The document, indented, with a newline at its end."""
    return report.to_json(indent=2) + "\n"
