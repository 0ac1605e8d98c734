"""The same quantity has the same value wherever a report says it, on every recorded trace of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

import lanewise
from lanewise.report import Report
from places import ROOT, SHARED

EXAMPLES = sorted((ROOT / "examples").rglob("*.json.gz"))
PLANTED = sorted((SHARED / "traces").glob("planted/*/bad.json.gz"))


def report_of(path: Path) -> Report:
    return lanewise.explain(lanewise.load(path))


def check(report: Report) -> None:
    step = report.step.time_us
    if step is None:
        return
    if report.where:
        assert sum(part.us for part in report.where) == pytest.approx(step, rel=1e-3)
        numbers = report.verdict.numbers
        assert numbers is not None
        busy = sum(part.us for part in report.where if not part.cause.startswith("idle_"))
        assert numbers.gpu_us_per_step == pytest.approx(busy, rel=1e-3)
        assert numbers.gpu_share_ratio == pytest.approx(busy / step, rel=1e-2)
    problems = [f for f in report.findings if not f.good]
    assert sum(f.saving_us_per_step or 0 for f in problems) <= step * 1.001
    for finding in problems:
        if finding.saving_us_per_step is None:
            continue
        assert finding.share_ratio == pytest.approx(finding.saving_us_per_step / step, abs=1e-3)
        if finding.cost_us_per_step is not None:
            assert finding.cost_us_per_step >= finding.saving_us_per_step - 1e-3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: str(p.relative_to(ROOT / "examples")))
def test_examples(path: Path) -> None:
    check(report_of(path))


@pytest.mark.shared
@pytest.mark.parametrize("path", PLANTED, ids=lambda p: p.parent.name)
def test_planted(path: Path) -> None:
    check(report_of(path))
