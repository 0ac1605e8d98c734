"""``lanewise tree`` and ``lanewise slice``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from running import Outcome

from builder import TraceBuilder
from lanewise.report import Report
from places import DATA

Run = Callable[..., Outcome]

GPT = DATA / "05_gpt_train" / "clean_eager.json.gz"


def test_tree_shows_the_second_step_by_itself(lanewise: Run, trace: Path) -> None:
    done = lanewise("tree", trace)
    assert done.status == 0
    lines = [" ".join(x.split()) for x in done.out.splitlines()]
    assert lines[0] == "ProfilerStep#3, GPU ops: 3, 520 µs CPU GPU"
    assert "main" in lines
    assert "cudaLaunchKernel → GEMM fp32 128x64 5.00 µs 300 µs" in lines
    assert "LinearBackward0 ← aten::linear 80.0 µs 200 µs" in lines


def test_tree_of_a_step_by_number(lanewise: Run, trace: Path) -> None:
    assert lanewise("tree", trace, "--step", "4").out.startswith("ProfilerStep#4")
    done = lanewise("tree", trace, "--step", "9")
    assert done.status == 2
    assert "there is no step 9. The trace has 2, 3, 4." in done.err


def test_tree_depth_and_least_time(lanewise: Run, trace: Path) -> None:
    lines = [" ".join(x.split()) for x in lanewise("tree", trace, "--depth", "2").out.splitlines()]
    assert lines[3:6] == ["ProfilerStep#3 1.00 ms 320 µs", "aten::linear 100 µs 300 µs", "… 1 more 5.00 µs 300 µs"]
    lines = [" ".join(x.split()) for x in lanewise("tree", trace, "--min-us", "250").out.splitlines()]
    assert lines[3:6] == [
        "ProfilerStep#3 1.00 ms 320 µs",
        "aten::linear 100 µs 300 µs",
        "cudaLaunchKernel → GEMM fp32 128x64 5.00 µs 300 µs",
    ]
    assert lines[6:] == ["… 1 more 5.00 µs 20.0 µs", "", "100 / 2", "… 1 more 80.0 µs 200 µs"]


def test_tree_of_a_real_training_step_is_folded(lanewise: Run) -> None:
    done = lanewise("tree", GPT)
    assert re.search(r"6× these \d+ in a row", done.out)
    assert "views only" in done.out
    assert "MmBackward0 ← aten::mm" in done.out
    assert max(cell_len(x) for x in done.out.splitlines()) <= 80
    assert len(done.out.splitlines()) < 500


def test_tree_of_a_trace_without_steps(lanewise: Run, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::add", 0, 5)
    path = t.write(tmp_path / "t.json")
    assert lanewise("tree", path).out.startswith("The whole trace")
    assert "Leave out --step" in lanewise("tree", path, "--step", "1").err


def test_slice_says_what_it_kept(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.json.gz"
    done = lanewise("slice", trace, "--steps", "3", "-o", out)
    assert (done.status, done.out) == (0, "")
    assert "9 of 27 events kept (ProfilerStep#3, 1.00 ms – 2.00 ms)." in done.err
    assert f"Next: lanewise explain {out}" in done.err
    assert [s.index for s in Report.from_json(lanewise("explain", out, "--format", "json").out).steps] == [3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "part.json"], "say what to cut out. Give --steps 3-5, or --from and --to."),
        (["--steps", "7", "-o", "part.json"], "It has steps 2-4."),
        (["--steps", "3"], "--out is missing"),
    ],
)
def test_impossible_slices(lanewise: Run, trace: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trace.parent)
    done = lanewise("slice", trace, *words)
    assert done.status == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert [p.name for p in trace.parent.iterdir()] == ["trace.json"]


def test_a_slice_never_replaces_its_trace(lanewise: Run, trace: Path) -> None:
    before = trace.read_bytes()
    done = lanewise("slice", trace, "--steps", "3", "-o", trace, "--force")
    assert done.status == 2
    assert "is the trace itself" in done.err
    assert trace.read_bytes() == before
