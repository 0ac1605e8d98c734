"""Findings that one trace has and the other has not."""

from __future__ import annotations

from lanewise.engine import LEAST_SHARE
from lanewise.report import Finding, Report

from .document import FindingChange

__all__ = ["dearest", "finding_changes"]

# Symptoms that follow from what else runs, and that come and go with the CPU's pace.
_GENERAL = frozenset(
    {"launch-bound", "python-overhead", "profiler-overhead", "cold-start", "outlier-step", "gc-pause", "incomplete-trace"}
)
# What is wrong with a recording is no change of the program.
_RECORDING = frozenset({"profiler-overhead", "incomplete-trace"})
# Findings that rest on times; all others on which events there are, which no noise changes.
_TIMED = _GENERAL | {
    "collective-wait",
    "compile-overhead",
    "data-starvation",
    "exposed-communication",
    "single-stream-copy",
}
# A finding in both has become smaller when less than half of its price is left, and that is worth mentioning.
_HALF, _LEAST_SHARE = 0.5, 0.05


def finding_changes(
    base: Report, new: Report, *, certain: bool, faster: bool, lighter: bool, spoiled: bool
) -> list[FindingChange]:
    """Findings lost and gained, smaller and larger; the dearest first, general symptoms last.

    Args:
        base, new: the reports.
        certain: whether a difference of structure or of times is behind them.
        faster: whether the step is seen to be shorter in the new trace.
        lighter: whether that, or the GPU's work in it.
        spoiled: whether CPU times do not compare, on which general symptoms rest.
    """
    a, b = dearest(base), dearest(new)
    out = []
    for rule in [*a, *(r for r in b if r not in a)]:
        change = _change(a.get(rule), b.get(rule), _elsewhere(rule, new if rule in a else base))
        if change is None:
            continue
        if change in ("gained", "larger") and _uncovered(b[rule], change, base, faster=faster, lighter=lighter):
            change = "uncovered"
        backed = certain and not (spoiled and rule in _GENERAL)
        dearer = b[rule] if rule not in a or change in ("gained", "uncovered", "larger") else a[rule]
        out.append(
            FindingChange(
                id=rule,
                change=change,
                title=dearer.title,
                base_ratio=a[rule].share_ratio if rule in a else None,
                new_ratio=b[rule].share_ratio if rule in b else None,
                certain=change != "unchecked" and (backed or (_stands(dearer) and (rule not in a or rule not in b))),
                general=rule in _GENERAL,
                folded=dearer.folded,
            )
        )
    return sorted(out, key=lambda c: (c.general, -max(c.base_ratio or 0.0, c.new_ratio or 0.0)))


def _stands(finding: Finding) -> bool:
    """Whether a finding that is gone or new needs nothing else behind it: it rests on events, and is no borderline case."""
    return finding.id not in _TIMED and (finding.share_ratio or 0.0) >= _LEAST_SHARE


def _elsewhere(rule: str, other: Report) -> str:
    """What a report without a finding says of its rule: ``unchecked``, ``folded`` into another, ``minor`` or ``none``."""
    if any(rule in finding.folded for finding in other.findings):
        return "folded"
    check = next((c for c in other.checks if c.id == rule), None)
    if check is None or check.outcome not in ("clear", "not-checked", "failed"):
        return "none"
    if check.outcome != "clear":
        return "unchecked"
    return "none" if check.reason is None else "minor"


def _uncovered(finding: Finding, change: str, base: Report, *, faster: bool, lighter: bool) -> bool:
    """Whether a finding shows only because the step is shorter: a general symptom, or too cheap for the longer step.

    A general symptom shows too where the GPU has less to do and the step waits for the CPU now.
    """
    if finding.id in _GENERAL:
        return lighter
    there = _elsewhere(finding.id, base) in ("minor", "folded")
    cheap = (finding.saving_us_per_step or 0.0) < LEAST_SHARE * (base.step.time_us or 0.0)
    return faster and (there or (change == "gained" and cheap))


def dearest(report: Report) -> dict[str, Finding]:
    """The dearest finding of each rule; good news is none."""
    out: dict[str, Finding] = {}
    for finding in report.findings:
        if finding.good or finding.id in _RECORDING:
            continue
        if finding.id not in out or (finding.share_ratio or 0) > (out[finding.id].share_ratio or 0):
            out[finding.id] = finding
    return out


def _change(a: Finding | None, b: Finding | None, elsewhere: str) -> str | None:
    """How a finding changed; None for not enough to be said.

    Args:
        a, b: the finding in both.
        elsewhere: where one has none, what that one says of the rule.
    """
    if a is None or b is None:
        return _one_sided(a or b, elsewhere, "lost" if b is None else "gained")
    old, now = a.share_ratio or 0.0, b.share_ratio or 0.0
    if max(old, now) < _LEAST_SHARE:
        return None
    return "smaller" if now < _HALF * old else "larger" if old < _HALF * now else None


def _one_sided(finding: Finding | None, elsewhere: str, change: str) -> str | None:
    """The change of a finding that one trace alone has."""
    if elsewhere == "unchecked":
        return "unchecked"
    if elsewhere == "folded":
        # It is in the other trace too, as a part of another finding.
        return "uncovered" if change == "gained" else None
    if elsewhere == "minor":
        # In both, on the two sides of the least that is worth a finding.
        share = 0.0 if finding is None else finding.share_ratio or 0.0
        return None if share * _HALF < LEAST_SHARE else "smaller" if change == "lost" else "larger"
    return change
