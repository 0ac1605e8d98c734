"""Does the report name the planted cause first, at the right price, and stay silent once it is fixed?

    python benchmarks/causes/score.py [--dir benchmarks/causes/traces] [--round N] [--only TEXT] [-v]

For each pair of `truth.json`: *top1* when the planted cause has the largest price among the specific findings, *priced* when
its share of the step is within 15 points of the measured one, a *false alarm* when the fixed trace still shows it at 5 % or
more, or a trace with nothing planted shows anything at 20 % or more; an *overclaim* when a cause that costs under 5 % is priced
at 12 % or more. General symptoms (launch-bound and its like) are left out of the order unless planted.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lanewise
from lanewise.report import Finding
from lanewise.rules import rules

HERE = Path(__file__).parent


def findings(path: Path) -> list[Finding]:
    """The findings on a trace."""
    return lanewise.explain(lanewise.load(path)).findings


def share(found: list[Finding], causes: set[str]) -> float:
    """The largest share of the step that one of some causes claims."""
    return max((f.share_ratio or 0.0 for f in found if f.id in causes), default=0.0)


def ids(causes: Iterable[str]) -> set[str]:
    """Rules' ids of causes."""
    return {cause.replace("_", "-") for cause in causes}


def judged(folder: Path, truth: dict[str, Any], general: set[str]) -> tuple[dict[str, float], list[str]]:
    """(scores, remarks) of one pair."""
    cause, measured = truth["cause"].replace("_", "-"), truth["saving_pct"] / 100
    right, also = ids({truth["cause"], *truth.get("accept", ())}), ids(truth.get("also", ()))
    bad, fixed = findings(folder / "bad.json.gz"), findings(folder / "fixed.json.gz")
    if cause == "none":
        loud = [f.id for f in (*bad, *fixed) if (f.share_ratio or 0) >= 0.2 and f.id not in right]
        return {"alarms": bool(loud)}, loud
    ordered = sorted(bad, key=lambda f: -(f.share_ratio or 0))
    order = [f.id for f in ordered if f.id in right or f.id not in general | also]
    claimed = share(bad, {cause}) or share(bad, right)
    alarm = share(fixed, {cause}) >= 0.05
    if measured < 0.05:
        return {"overclaims": claimed >= 0.12, "alarms": alarm}, [f"claims {claimed:.0%}, measured {measured:.0%}"]
    error = abs(claimed - measured)
    top = [found in right for found in order[:3]]
    scores = {"n": 1, "top1": top[:1] == [True], "top3": any(top), "priced": error <= 0.15, "alarms": alarm}
    return {**scores, "error": error}, [*order[:3], f"claims {claimed:.0%}, measured {measured:.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=HERE / "traces")
    parser.add_argument("--round", type=int, help="only pairs of this round (README.md)")
    parser.add_argument("--only", default="")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    truth = json.loads((options.dir / "truth.json").read_text())
    general = {r.id for r in rules() if r.general}
    total: dict[str, float] = dict.fromkeys(("n", "top1", "top3", "priced", "alarms", "overclaims"), 0)
    errors = []
    for name, known in truth.items():
        if name.startswith("_") or "error" in known or options.only not in name or not (options.dir / name).exists():
            continue
        if options.round not in (None, known.get("round")):
            continue
        scores, remarks = judged(options.dir / name, known, general)
        errors += [scores.pop("error")] if "error" in scores else []
        for key, value in scores.items():
            total[key] += value
        if options.verbose or not scores.get("top1", True) or not scores.get("priced", True) or scores["alarms"]:
            print(f"{name:28} {known['cause']:22} {'; '.join(remarks)}")
    error = f"{100 * statistics.median(errors):.0f} points" if errors else "none"
    print(", ".join(f"{key} {value:.0f}" for key, value in total.items()) + f", median price error {error}")


if __name__ == "__main__":
    main()
