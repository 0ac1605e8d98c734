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


def finding_changes(base: Report, new: Report, *, certain: bool, faster: bool, spoiled: bool) -> list[FindingChange]:
    """Findings lost and gained, smaller and larger; the dearest first, general symptoms last.

    Args:
        base, new: the reports.
        certain: whether a difference of structure or of times is behind them.
        faster: whether the step is seen to be shorter in the new trace.
        spoiled: whether CPU times do not compare, on which general symptoms rest.
    """
    a, b = dearest(base), dearest(new)
    out = []
    for rule in [*a, *(r for r in b if r not in a)]:
        change = _change(a.get(rule), b.get(rule))
        if change is None:
            continue
        if change in ("gained", "larger") and faster and _uncovered(b[rule], change, base):
            change = "uncovered"
        dearer = (b if change in ("gained", "uncovered", "larger") else a)[rule]
        out.append(
            FindingChange(
                id=rule,
                change=change,
                title=dearer.title,
                base_ratio=a[rule].share_ratio if rule in a else None,
                new_ratio=b[rule].share_ratio if rule in b else None,
                certain=(certain and not (spoiled and rule in _GENERAL)) or _stands(dearer, change),
                general=rule in _GENERAL,
                folded=dearer.folded,
            )
        )
    return sorted(out, key=lambda c: (c.general, -max(c.base_ratio or 0.0, c.new_ratio or 0.0)))


def _stands(finding: Finding, change: str) -> bool:
    """Whether a finding that is gone or new needs nothing else behind it: it rests on events, and is no borderline case."""
    return change in ("lost", "gained") and finding.id not in _TIMED and (finding.share_ratio or 0.0) >= _LEAST_SHARE


def _uncovered(finding: Finding, change: str, base: Report) -> bool:
    """Whether a finding shows only because the step is shorter: a general symptom, or too cheap for the longer step."""
    if finding.id in _GENERAL or change == "larger":
        return finding.id in _GENERAL
    return (finding.saving_us_per_step or 0.0) < LEAST_SHARE * (base.step.time_us or 0.0)


def dearest(report: Report) -> dict[str, Finding]:
    """The dearest finding of each rule; good news is none."""
    out: dict[str, Finding] = {}
    for finding in report.findings:
        if finding.good or finding.id in _RECORDING:
            continue
        if finding.id not in out or (finding.share_ratio or 0) > (out[finding.id].share_ratio or 0):
            out[finding.id] = finding
    return out


def _change(a: Finding | None, b: Finding | None) -> str | None:
    if b is None:
        return "lost"
    if a is None:
        return "gained"
    old, now = a.share_ratio or 0.0, b.share_ratio or 0.0
    if max(old, now) < _LEAST_SHARE:
        return None
    return "smaller" if now < _HALF * old else "larger" if old < _HALF * now else None
