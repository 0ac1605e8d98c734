"""Every figure of the report beside the oracle's, on traces that nobody chose.

LANEWISE_ORACLE sets the number of generated traces, LANEWISE_ORACLE_FIRST the first one's number; a trace that differs is made
again from its number alone: `oracle.traces.trace(number)`.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

import lanewise
from lanewise.loading import source as source_module
from lanewise.model.trace import Trace
from places import CASES, DATA, ROOT, SHARED

from .comparison import differences
from .figures import figures
from .invariants import broken
from .traces import trace

TRACES = int(os.environ.get("LANEWISE_ORACLE", "400"))
FIRST = int(os.environ.get("LANEWISE_ORACLE_FIRST", "0"))
BATCHES = 8
# The oracle compares everything with everything: more than some hundred events take too long.
LARGEST_BYTES = 25_000
# Text that no JSON reader can be made to read, and what is no trace: lanewise mends or refuses it, the oracle cannot.
DAMAGED = (
    "parse-quote-in-name",
    "parse-windows-path",
    "refuse-execution-trace",
    "refuse-memory-snapshot",
    "cases",
)


def _loaded(data: bytes) -> Trace:
    return lanewise.load(io.BytesIO(data), processes=0)


def _wrong(data: bytes) -> list[str]:
    report = lanewise.explain(_loaded(data)).to_json()
    return differences(figures(data), report) + broken(data, report)


def _small(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.json.gz") if p.stat().st_size <= LARGEST_BYTES) if folder.is_dir() else []


@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_traces(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(FIRST + batch, FIRST + TRACES, BATCHES):
        monkeypatch.setattr(source_module, "BLOCK_BYTES", (4 << 20, 1000, 5000)[number % 3])
        wrong = _wrong(trace(number))
        assert not wrong, f"trace {number}:\n" + "\n".join(wrong[:20])


def test_generated_traces_have_what_they_are_for() -> None:
    found = [figures(trace(number)) for number in range(200)]
    timing = [f["coverage"]["gpu_timing"] for f in found]
    assert min(timing.count(t) for t in ("ok", "partial", "none")) >= 5
    assert sum(len(f["gpu"]) > 1 for f in found) >= 10
    assert sum(len(f["steps"]) > 1 for f in found) >= 50
    assert sum(0 < f["coverage"]["gpu_ops_linked"] < f["coverage"]["gpu_ops"] for f in found) >= 10
    for key in ("skipped_events", "repaired_events", "stray_events", "truncated"):
        assert sum(bool(f["trace"][key]) for f in found) >= 3, key
    assert {f["trace"].get("format") for f in found} >= {"kineto", "kineto-legacy", "autograd-legacy"}


def test_a_trace_can_be_made_again() -> None:
    assert [trace(n) for n in range(20)] == [trace(n) for n in range(20)]


@pytest.mark.parametrize("name", [p.name for p in sorted(CASES.iterdir()) if p.name.split(".")[0] not in DAMAGED])
def test_conformance_case(name: str) -> None:
    wrong = _wrong((CASES / name).read_bytes())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", _small(DATA) + _small(ROOT / "examples"), ids=lambda p: str(p.relative_to(ROOT)))
def test_recorded_trace(path: Path) -> None:
    wrong = _wrong(path.read_bytes())
    assert not wrong, "\n".join(wrong)


@pytest.mark.shared
@pytest.mark.parametrize("path", _small(SHARED / "traces"), ids=lambda p: str(p.relative_to(SHARED)))
def test_shared_trace(path: Path) -> None:
    wrong = _wrong(path.read_bytes())
    assert not wrong, "\n".join(wrong)
