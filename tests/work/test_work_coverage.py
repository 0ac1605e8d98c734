"""Real traces: nearly all GPU time that a recorded op launched has a known amount of work.

Slow path on purpose: one loop over the events of each trace, since this checks the estimates and not the
model.
"""

from __future__ import annotations

import gzip
import json
import os
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from lanewise.work import estimate, list_item_bytes

SHARED = Path(os.environ.get("LANEWISE_SHARED", Path(__file__).parents[2].parent / "shared"))
TRACES = sorted((SHARED / "traces" / "planted").glob("*/bad.json.gz"))

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not TRACES, reason="no shared traces")]


def launched(path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each kernel with the innermost op around its launch, where the trace has both."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        events = json.load(file)["traceEvents"]
    ops = defaultdict(list)
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        category, arguments = event.get("cat"), event.get("args", {})
        if category == "cpu_op":
            ops[event["tid"]].append(event)
        elif category in ("cuda_runtime", "cuda_driver") and "correlation" in arguments:
            calls.setdefault(arguments["correlation"], event)
    for lane in ops.values():
        lane.sort(key=lambda event: (event["ts"], -event["dur"]))
    pairs = []
    for event in events:
        call = calls.get(event.get("args", {}).get("correlation", -1))
        if event.get("cat") != "kernel" or call is None:
            continue
        lane = ops[call["tid"]]
        position = bisect_right(lane, call["ts"], key=lambda op: op["ts"]) - 1
        while position >= 0 and lane[position]["ts"] + lane[position]["dur"] < call["ts"]:
            position -= 1
        if position >= 0:
            pairs.append((event, lane[position]))
    return pairs


def test_nine_tenths_of_launched_kernel_time_is_known() -> None:
    total = known = 0.0
    for path in TRACES:
        for kernel, op in launched(path):
            arguments = op["args"]
            work = estimate(
                op["name"],
                arguments.get("Input Dims"),
                arguments.get("Input type"),
                arguments.get("Input Strides"),
                arguments.get("Concrete Inputs"),
                list_item_bytes=list_item_bytes(kernel["name"]),
            )
            total += kernel["dur"]
            known += kernel["dur"] if work is not None and work.bytes is not None else 0
    assert total > 0
    assert known / total > 0.9


def test_no_kernel_moves_its_least_traffic_faster_than_the_memory_can() -> None:
    """An H200 has 4.8 TB/s, and what fits its L2 cache of 50 MB may come from there: larger traffic must stay
    below.
    """
    peak, cached = 4.8e12, 3 * 50e6
    too_fast = []
    for path in TRACES:
        by_call: dict[tuple[int, float], list[Any]] = {}
        for kernel, op in launched(path):
            entry = by_call.setdefault((op["tid"], op["ts"]), [op, 0.0, kernel["name"]])
            entry[1] += kernel["dur"]
        for op, microseconds, name in by_call.values():
            arguments = op["args"]
            work = estimate(
                op["name"],
                arguments.get("Input Dims"),
                arguments.get("Input type"),
                arguments.get("Input Strides"),
                arguments.get("Concrete Inputs"),
                list_item_bytes=list_item_bytes(name),
            )
            if work is None or work.bytes is None or work.bytes < cached:
                continue
            rate = work.bytes / (microseconds * 1e-6)
            if rate > peak:
                too_fast.append((path.parent.name, op["name"], arguments.get("Input Dims"), rate / 1e12))
    assert too_fast == []
