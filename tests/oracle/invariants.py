"""What must hold between the figures of any report, and between a report and its trace, whatever the rules found."""

from __future__ import annotations

import json
from typing import Any

from .reading import read

Report = dict[str, Any]
# Sums of values that are rounded to three decimals each.
SLACK_US = 0.05


def _near(a: float | None, b: float | None, slack: float = SLACK_US) -> bool:
    return a is not None and b is not None and abs(a - b) <= slack + 1e-9 * abs(b)


def broken(data: bytes, text: str) -> list[str]:
    """Everything in a report of these bytes that cannot be, in a line each."""
    report: Report = json.loads(text)
    out = _where(report) + _findings(report) + _roofline(report)
    out += [f"checks[{c['id']}]: failed: {c['reason']}" for c in report["checks"] if c["outcome"] == "failed"]
    return out + _evidence(data, report)


def _usual(steps: list[float]) -> float | None:
    """Mean over the steps; the first, which warms up, is left out where there are more than two."""
    used = steps[1:] if len(steps) > 2 else steps
    return sum(used) / len(used) if used else None


def _where(report: Report) -> list[str]:
    where, step = report["where"], report["step"]["time_us"]
    out = []
    if where:
        total = sum(r["us"] for r in where)
        if not _near(total, step):
            out.append(f"where: parts sum to {total:.3f}, a step takes {step}")
        if abs(sum(r["ratio"] for r in where) - 1) > 0.001:
            out.append(f"where: ratios sum to {sum(r['ratio'] for r in where)}")
        out += [f"where[{r['cause']}]: {r['us']}" for r in where if r["us"] < 0]
    return out


def _findings(report: Report) -> list[str]:
    out, step = [], report["step"]["time_us"]
    for f in report["findings"]:
        saving, share = f["saving_us_per_step"], f["share_ratio"]
        low, high = f["saving_low_us_per_step"], f["saving_high_us_per_step"]
        if share is not None and not 0 <= share <= 1:
            out.append(f"findings[{f['id']}]: share {share}")
        if low is not None and high is not None and not low <= saving <= high:
            out.append(f"findings[{f['id']}]: saving {saving}, from {low} to {high}")
        if None not in (share, saving, step) and step and abs(share - saving / step) > 0.001:
            out.append(f"findings[{f['id']}]: share {share}, saving {saving} of {step}")
    return out


def _roofline(report: Report) -> list[str]:
    roofline, out = report["roofline"], []
    if roofline is None or roofline["step"] is None:
        return out
    step = roofline["step"]
    parts = sum(step[f"{k}_us"] for k in ("memory", "compute", "latency", "helper", "unknown"))
    if not _near(parts, step["gpu_us"]):
        out.append(f"roofline.step: parts sum to {parts}, all to {step['gpu_us']}")
    counts = {k["name"]: (k["count"], k["total_us"]) for k in report["kernels"]}
    listed = {k["name"]: (k["count"], k["total_us"]) for k in roofline["kernels"]}
    if counts != listed:
        out.append(f"roofline.kernels: {listed}, kernels: {counts}")
    rows = [s["gpu_us"] for s in roofline["steps"]]
    if rows and not _near(step["gpu_us"], _usual(rows)):
        out.append(f"roofline.step.gpu_us: {step['gpu_us']}, steps {rows}")
    if not rows and not _near(step["gpu_us"], sum(d["sum_us"] for d in report["gpu"])):
        out.append(f"roofline.step.gpu_us: {step['gpu_us']}")
    return out


def _evidence(data: bytes, report: Report) -> list[str]:
    """Events named as evidence that are not in the file."""
    events = read(data).events
    known = {(e.start / 1000, e.name) for e in events}
    rows = [e for f in report["findings"] for e in f["evidence"]] + report["verdict"]["evidence"]
    return [f"evidence: {e['name']} at {e['ts_us']}" for e in rows if (e["ts_us"], e["name"]) not in known]
