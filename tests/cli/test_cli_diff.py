"""`lanewise diff` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from builder import TraceBuilder
from diffing import COMPILED, EAGER, built
from lanewise import cli


@pytest.fixture
def traces(tmp_path: Path) -> tuple[str, str]:
    base = built(EAGER).write(tmp_path / "base.json")
    new = built(COMPILED, cpu=11).write(tmp_path / "new.json")
    return str(base), str(new)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lanewise", "diff", *words, "--lang", "en"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


def test_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str]) -> None:
    assert run(monkeypatch, *traces) == 0
    out = capsys.readouterr().out
    assert out.startswith("base → new\n")
    assert "gelu + mul → triton_poi_fused_gelu_mul_0" in out


def test_files_by_their_suffix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, traces: tuple[str, str]) -> None:
    assert run(monkeypatch, *traces, "-o", str(tmp_path / "out.json")) == 0
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == "lanewise.diff/1"
    assert run(monkeypatch, *traces, "-o", str(tmp_path / "out.md")) == 0
    assert (tmp_path / "out.md").read_text().startswith("## `base` → `new`")


def test_fail_on_names_each_breach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str], tmp_path: Path
) -> None:
    assert run(monkeypatch, *traces, "--fail-on", "structure") == 1
    err = capsys.readouterr().err
    assert "lanewise: structure: launches 4 → 3" in err
    assert "lanewise: structure: gelu + mul → triton_poi_fused_gelu_mul_0" in err
    assert run(monkeypatch, traces[0], traces[0], "--fail-on", "structure", "--fail-on", "slower") == 0
    slow = built([(op, kernel, ns * 2) for op, kernel, ns in EAGER], cpu=11).write(tmp_path / "slow.json")
    capsys.readouterr()
    assert run(monkeypatch, traces[0], str(slow), "--fail-on", "slower") == 1
    assert "slower: GPU busy" in capsys.readouterr().err
    assert run(monkeypatch, traces[0], str(slow), "--fail-on", "structure") == 0


def test_a_breach_among_several_traces_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str], tmp_path: Path
) -> None:
    same = built(EAGER, cpu=11).write(tmp_path / "same.json")
    assert run(monkeypatch, traces[0], str(same), traces[1], "--fail-on", "structure") == 1
    err = capsys.readouterr().err
    assert "structure: new: launches 4 → 3" in err
    assert "structure: same" not in err


def test_what_does_not_compare_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str], tmp_path: Path
) -> None:
    data = json.loads(Path(traces[0]).read_text())
    data["traceEvents"] = [e for e in data["traceEvents"] if not str(e.get("name")).startswith("ProfilerStep")]
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(data))
    assert run(monkeypatch, str(whole), traces[1], "--fail-on", "structure", "--fail-on", "slower") == 0
    out, err = capsys.readouterr()
    assert "a whole trace does not compare with a step" in " ".join(out.split())
    assert "KERNELS THAT DIFFER" not in out
    assert "structure: not checked" in err
    assert "slower: not checked" in err


def test_a_cut_file_has_not_lost_its_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str], tmp_path: Path
) -> None:
    text = Path(traces[1]).read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: text.rindex('"kernel"')])
    assert run(monkeypatch, traces[0], str(cut), "--fail-on", "structure") == 0
    out, err = capsys.readouterr()
    assert "The file of cut is cut" in " ".join(out.split())
    assert "KERNELS THAT DIFFER" not in out
    assert "structure: not checked" in err


def test_steps_are_a_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str]
) -> None:
    assert run(monkeypatch, *traces, "--steps", "1-4", "--format", "json") == 0
    assert [s["steps"] for s in json.loads(capsys.readouterr().out)["sides"]] == [4, 4]


def test_one_trace_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, traces: tuple[str, str]) -> None:
    assert run(monkeypatch, traces[0]) == 2


def test_a_trace_of_the_cpu_alone_has_no_kernels_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], traces: tuple[str, str], tmp_path: Path
) -> None:
    t = TraceBuilder()
    for i in range(4):
        t.step(i + 1, 1000 * i, 900)
        t.op("aten::linear", 1000 * i + 10, 500)
    cpu = t.write(tmp_path / "cpu.json")
    assert run(monkeypatch, traces[0], str(cpu)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "cpu ran on the CPU: GPU times, GPU counts and step times are not compared." in out
    assert "withheld" in out
