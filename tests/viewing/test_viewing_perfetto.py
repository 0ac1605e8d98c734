"""The copy for Perfetto: every event at its own time, none hidden, with findings, names in words and counters."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from builder import TraceBuilder
from lanewise.explaining import explain
from lanewise.loading import load
from lanewise.model.trace import Trace
from lanewise.report import Report
from lanewise.viewing.perfetto_trace import Exported, export
from places import CASES, ROOT


def exported(source: Path, folder: Path) -> tuple[Trace, Report, Exported, list[dict[str, Any]]]:
    trace = load(str(source))
    report = explain(trace)
    out = folder / "out.json"
    done = export(trace, report, out)
    return trace, report, done, json.loads(out.read_text("utf-8"), parse_float=str)["traceEvents"]


def spans(events: list[dict[str, Any]]) -> list[tuple[Any, Any, int, int, str]]:
    """Process, thread, start and end in ns, and name of the timed events."""
    return [
        (e["pid"], e["tid"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e["name"])
        for e in events
        if e.get("ph") == "X" and e.get("cat") not in ("Trace", "lanewise")
    ]


def ns(us: Any) -> int:
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def hidden(slices: list[tuple[int, int]]) -> int:
    stack: list[tuple[int, int]] = []
    count = 0
    for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1][1] <= begin:
            stack.pop()
        if stack and end > stack[-1][1]:
            count += 1
        else:
            stack.append((begin, end))
    return count


def hidden_anywhere(events: list[dict[str, Any]]) -> int:
    lanes: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
    for e in events:
        if e.get("ph") == "X" and e.get("cat") != "Trace":
            lanes.setdefault((e["pid"], e["tid"]), []).append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
    return sum(hidden(slices) for slices in lanes.values())


def overlapping(folder: Path) -> Path:
    t = TraceBuilder()
    t.step(1, 0, 400)
    t.op("aten::mm", 5, 100)
    for i in range(20):
        # Each kernel starts before the one before has ended; two of them are alike in all but their launch.
        t.launch(10 + i, 0.5, gpu=(100 + 10 * i, 12), name="sgemm")
    t.launch(31, 0.5, gpu=(100, 12), name="sgemm")
    return t.write(folder / "in.json")


def test_overlapping_slices_go_to_extra_lanes(tmp_path: Path) -> None:
    source = overlapping(tmp_path)
    before = json.loads(source.read_text("utf-8"), parse_float=str)["traceEvents"]
    trace, _, done, after = exported(source, tmp_path)
    assert hidden_anywhere(before) > 0
    assert hidden_anywhere(after) == 0
    assert done.events == len(trace)
    old, new = spans(before), spans(after)
    # All else is as it was: the same events at the same times in the same order.
    assert [s[2:] for s in new] == [s[2:] for s in old]
    assert sum(a != b for a, b in zip(old, new, strict=True)) == done.hidden == 10
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in after if e.get("name") == "thread_name"}
    assert {names[s[:2]] for s, was in zip(new, old, strict=True) if s != was} == {"7 +1"}


def test_arguments_and_flows_are_kept(tmp_path: Path) -> None:
    source = overlapping(tmp_path)
    before = json.loads(source.read_text("utf-8"))["traceEvents"]
    *_, after = exported(source, tmp_path)
    assert [e.get("args") for e in after[: len(before)]] == [e.get("args") for e in before]
    assert [{k: v for k, v in e.items() if k not in ("tid", "ts", "dur")} for e in after[: len(before)]] == [
        {k: v for k, v in e.items() if k not in ("tid", "ts", "dur")} for e in before
    ]


def test_findings_names_and_steps_are_added(tmp_path: Path) -> None:
    trace, report, done, after = exported(ROOT / "examples" / "gpt_train_sins.json.gz", tmp_path)
    ours = [e for e in after if e.get("cat") == "lanewise"]
    assert report.findings
    for number, finding in enumerate(report.findings, 1):
        shown = [e for e in ours if e["name"] == f"{number}: {finding.title}"]
        assert Counter(ns(e["dur"]) for e in shown) == Counter(round(r.dur_us * 1000) for r in finding.evidence)
    gpu_ops = len(trace.column("gpu_ops", "event"))
    assert len(ours) == gpu_ops + sum(len(f.evidence) for f in report.findings)
    counters = [e for e in after if e.get("ph") == "C" and e["name"] == "step time (ms)"]
    wanted = [*(s.time_us / 1000 for s in report.steps), 0]
    assert [float(e["args"]["value"]) for e in counters] == pytest.approx(wanted)
    assert hidden_anywhere(after) == 0
    assert done.events == len(trace)


@pytest.mark.parametrize(
    "name", ["parse-truncated.json", "parse-stray-commas.json", "parse-legacy-array.json", "coverage-cpu-only.json"]
)
def test_odd_files(tmp_path: Path, name: str) -> None:
    trace, _, _, after = exported(CASES / name, tmp_path)
    assert hidden_anywhere(after) == 0
    assert len(spans(after)) == len(trace)


def test_the_copy_reads_as_the_trace_does(tmp_path: Path) -> None:
    source = ROOT / "examples" / "mlp.json.gz"
    trace = load(str(source))
    out = tmp_path / "copy.json.gz"
    done = export(trace, explain(trace), out)
    assert gzip.decompress(out.read_bytes()).startswith(b"{")
    again = load(str(out))
    assert len(again.rows("cpu_op", "cuda_runtime", "kernel")) == len(trace.rows("cpu_op", "cuda_runtime", "kernel"))
    assert again.ts[again.rows("kernel")].tolist() == trace.ts[trace.rows("kernel")].tolist()
    assert done.events == len(trace)
