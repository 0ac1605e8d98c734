"""Findings that one trace has and the other has not: gone and new, or there all the time."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from diffing import EAGER, built
from lanewise.comparison.finding_changes import finding_changes
from lanewise.explaining import explain
from lanewise.report import Check, Finding, Report

RULE = "unfused-pointwise"  # rests on which events there are
GENERAL = "launch-bound"


@cache
def bare() -> Report:
    return explain(built(EAGER).load(), "en")


def report(*findings: tuple[str, float], checks: dict[str, tuple[str, str | None]] | None = None, folded: str = "") -> Report:
    """A report with some findings (rule, share of the step) and outcomes of rules, in a step of 1 ms."""
    found = [
        Finding(rule, f"{rule} here", "", "", None, share * 1000, share, "high", folded=[folded] if folded else [])
        for rule, share in findings
    ]
    step = msgspec.structs.replace(bare().step, time_us=1000.0)
    rows = [Check(rule, outcome, reason) for rule, (outcome, reason) in (checks or {}).items()]
    return msgspec.structs.replace(bare(), findings=found, checks=rows, step=step)


def changes(base: Report, new: Report, *, faster: bool = False, lighter: bool = False) -> list[tuple[str, bool]]:
    found = finding_changes(base, new, certain=True, faster=faster, lighter=lighter or faster, spoiled=False)
    return [(c.change, c.certain) for c in found]


def test_a_finding_of_one_trace_is_gone_or_new() -> None:
    clear: dict[str, tuple[str, str | None]] = {RULE: ("clear", None)}
    assert changes(report((RULE, 0.2)), report(checks=clear)) == [("lost", True)]
    assert changes(report(checks=clear), report((RULE, 0.2))) == [("gained", True)]


@pytest.mark.parametrize("outcome", ["not-checked", "failed"])
def test_what_the_other_trace_cannot_tell_is_neither(outcome: str) -> None:
    untold: dict[str, tuple[str, str | None]] = {RULE: (outcome, "shapes were not recorded")}
    assert changes(report(checks=untold), report((RULE, 0.2))) == [("unchecked", False)]
    assert changes(report((RULE, 0.2)), report(checks=untold)) == [("unchecked", False)]


def test_around_the_least_that_is_worth_a_finding_nothing_changed() -> None:
    minor: dict[str, tuple[str, str | None]] = {RULE: ("clear", "there, but fixing it would save less than 1 %")}
    assert changes(report(checks=minor), report((RULE, 0.011))) == []
    assert changes(report((RULE, 0.011)), report(checks=minor)) == []
    assert changes(report(checks=minor), report((RULE, 0.2))) == [("larger", True)]
    assert changes(report((RULE, 0.2)), report(checks=minor)) == [("smaller", True)]


def test_what_was_there_shows_in_a_shorter_step() -> None:
    minor: dict[str, tuple[str, str | None]] = {RULE: ("clear", "there, but fixing it would save less than 1 %")}
    assert changes(report(checks=minor), report((RULE, 0.2)), faster=True) == [("uncovered", True)]


def test_a_part_of_another_finding_is_there() -> None:
    whole = report(("graph-breaks", 0.3), folded=RULE)
    assert (RULE, "lost") not in [(c.id, c.change) for c in finding_changes(report((RULE, 0.2)), whole, **WITHOUT)]
    found = {c.id: c.change for c in finding_changes(whole, report((RULE, 0.2)), **WITHOUT)}
    assert found == {"graph-breaks": "lost", RULE: "uncovered"}


WITHOUT = {"certain": True, "faster": False, "lighter": False, "spoiled": False}


def test_a_gpu_with_less_to_do_uncovers_the_cpu() -> None:
    clear: dict[str, tuple[str, str | None]] = {GENERAL: ("clear", None)}
    assert changes(report(checks=clear), report((GENERAL, 0.5)), lighter=True) == [("uncovered", True)]
    assert changes(report(checks=clear), report((GENERAL, 0.5))) == [("gained", True)]
