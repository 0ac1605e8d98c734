"""Helpers for tests of rules: what the engine says about a built trace, and about the planted traces."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import lanewise
from builder import TraceBuilder
from lanewise.engine import Diagnosis, diagnose
from lanewise.report import Finding
from lanewise.rules.context import Context
from places import SHARED

UNPROFILED = "lanewise"


def diagnosis(builder: TraceBuilder) -> Diagnosis:
    """All rules on a built trace."""
    return diagnose(Context(builder.load()))


def finding(builder: TraceBuilder, rule: str) -> Finding | None:
    """A rule's first finding on a built trace, None when it found nothing."""
    return next((f for f in diagnosis(builder).findings if f.id == rule), None)


def outcome(builder: TraceBuilder, rule: str) -> str:
    """Outcome of a rule on a built trace."""
    return next(c.outcome for c in diagnosis(builder).checks if c.id == rule)


def timed(builder: TraceBuilder, median_us: float) -> TraceBuilder:
    """Give a trace its step's time outside the profiler."""
    builder.header[UNPROFILED] = {
        "schema": "lanewise.recording/1",
        "unprofiled_step_us": {"median": median_us, "steps": 20},
    }
    return builder


@cache
def truth() -> dict[str, Any]:
    """Planted causes and their measured savings."""
    return {k: v for k, v in json.loads((SHARED / "traces/planted/truth.json").read_text()).items() if not k.startswith("_")}


@cache
def planted(case: str, which: str) -> list[Finding]:
    """Findings on a planted trace."""
    return lanewise.explain(lanewise.load(SHARED / f"traces/planted/{case}/{which}.json.gz")).findings


def claim(case: str, which: str, rule: str) -> float:
    """The largest share of the step that a rule claims on a planted trace; 0 when it found nothing."""
    return max((f.share_ratio or 0.0 for f in planted(case, which) if f.id == rule), default=0.0)
