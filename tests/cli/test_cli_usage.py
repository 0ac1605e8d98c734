"""What is said about a mistyped command line, in both languages, and about outputs that cannot be written."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Outcome

from places import ROOT

Run = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("words", "english", "japanese"),
    [
        (
            ["explain"],
            "TRACE is missing. See: lanewise explain --help",
            "TRACE を指定してください。使い方: lanewise explain --help",
        ),
        (
            ["slice", "x"],
            "--out is missing. See: lanewise slice --help",
            "--out を指定してください。使い方: lanewise slice --help",
        ),
        (["export", "x"], "--for is missing.", "--for を指定してください。"),
        (["explain", "x", "--stesp", "3"], "there is no option --stesp. Did you mean --steps?", "もしかして: --steps。"),
        (["explain", "x", "y"], "too many arguments: y.", "引数が多すぎます: y。"),
        (["explain", "x", "--steps"], "--steps needs a value.", "--steps には値が必要です。"),
        (["explain", "x", "--force=1"], "--force takes no value.", "--force に値は指定できません。"),
        (
            ["explain", "x", "--format", "pdf"],
            "--format: 'pdf' is none of 'terminal', 'html', 'json', 'md'.",
            "のいずれでもありません。",
        ),
        (["tree", "x", "--depth", "0"], "--depth: 0 is not in the range x>=1.", "--depth: 0 は範囲外です（x>=1）。"),
        (["tree", "x", "--depth", "few"], "--depth: 'few' is not a number.", "--depth: 'few' は数値ではありません。"),
    ],
)
def test_usage_errors_in_both_languages(lanewise: Run, words: list[str], english: str, japanese: str) -> None:
    for lang, wanted in (("en", english), ("ja", japanese)):
        done = lanewise("--lang", lang, *words)
        assert (done.status, done.out) == (2, "")
        assert wanted in done.err


def test_the_language_may_stand_before_the_command(lanewise: Run, trace: Path) -> None:
    assert lanewise("--lang", "ja", "steps", trace).out == lanewise("steps", trace, "--lang", "ja").out
    assert lanewise("--lang", "ja", "steps", trace, "--lang", "en").out == lanewise("steps", trace).out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("launch_bound", "there is no rule 'launch_bound'. Did you mean launch-bound?"),
        ("zzz", "there is no rule 'zzz'. All rules:"),
    ],
)
def test_a_gate_on_a_rule_that_does_not_exist_is_refused(lanewise: Run, trace: Path, text: str, wanted: str) -> None:
    done = lanewise("explain", trace, "--fail-on", text)
    assert (done.status, done.out) == (2, "")
    assert wanted in done.err


def test_a_window_that_ends_before_it_begins_is_called_so(lanewise: Run, trace: Path) -> None:
    done = lanewise("explain", trace, "--from", "3s", "--to", "2s")
    assert done.status == 2
    assert "the window ends before it begins." in done.err
    outside = lanewise("explain", trace, "--from", "3s")
    assert "It runs from 0 to 3.00 ms, absolute from @0.000 to @3000.000." in outside.err


def test_a_moment_is_named_by_its_own_option(lanewise: Run, trace: Path) -> None:
    assert "--at: 'noon' is not a time." in lanewise("why", trace, "--at", "noon").err


def test_sentences_in_japanese_have_no_space_between(lanewise: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.touch()
    err = lanewise("explain", empty, "--lang", "ja").err
    assert "。" in err
    assert "。 " not in err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["record"], "記録するコマンドがありません。例: lanewise record -- python train.py"),
        (["record", "--", "no-such-program-here"], "no-such-program-here: 起動できませんでした"),
        (["record", "--limit", "much", "--", "x"], "--limit: 'much' はサイズではありません。"),
        (["run", "99"], "99: この名前の題材はありません。"),
    ],
)
def test_recording_speaks_japanese_too(lanewise: Run, words: list[str], wanted: str) -> None:
    done = lanewise("--lang", "ja", *words)
    assert done.status == 2
    assert wanted in done.err


def test_a_folder_is_no_output(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    for words in (["explain", trace, "-o", tmp_path], ["ops", trace, "-o", tmp_path, "--format", "json", "--force"]):
        done = lanewise(*words)
        assert done.status == 2
        assert f"{tmp_path}: is a folder. Name a file in it." in done.err


def test_a_link_stays_a_link(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("before", "utf-8")
    link = tmp_path / "link.md"
    link.symlink_to("there.md")
    assert lanewise("explain", trace, "-o", link, "--force").status == 0
    assert link.is_symlink()
    assert (tmp_path / "there.md").read_text("utf-8").startswith("# `trace.json`")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_into_not_replaced(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-c", f"print(open({str(pipe)!r}).read(1))"], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert lanewise("explain", trace, "--format", "json", "-o", pipe).status == 0
        assert reader.communicate(timeout=60)[0] == "{\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["explain", "TRACE"], ["ops", "TRACE", "--format", "csv"], ["rule"], ["--help"]])
def test_a_full_disk_is_an_error_message(trace: Path, words: list[str]) -> None:
    words = [str(trace) if w == "TRACE" else w for w in words]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lanewise", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "lanewise: standard output: cannot be written (No space left on device)."
    assert "Traceback" not in done.stderr


def test_a_rule_is_wrapped_for_a_terminal_and_kept_as_markdown(lanewise: Run) -> None:
    shown = lanewise("rule", "unfused-optimizer")
    assert shown.out.startswith("Unfused optimizer (unfused-optimizer)\n\nWhat it finds\n\n  Optimizer steps")
    assert "    optimizer = torch.optim.AdamW(model.parameters(), fused=True)\n" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    assert lanewise("rule", "unfused-optimizer", "--format", "md").out.startswith("# Unfused optimizer (`unfused-optimizer`)\n")


def test_a_trace_of_another_program_is_called_so(lanewise: Run, tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "RunTask", "cat": "toplevel", "ts": 10.5 * i, "dur": 5, "pid": 1, "tid": 2} for i in range(9)]
    path = tmp_path / "chrome.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    out = " ".join(lanewise("explain", path).out.split())
    assert "No event of PyTorch's profiler is in this file: another program wrote this trace." in out
    assert re.search(r"Nothing found by the \d rules that could look at this trace; \d+ could not\.", out)
    assert "Next:" not in out


@pytest.mark.parametrize(("encoding", "time"), [("ascii", " us"), ("cp932", " μs"), ("utf-8", " µs")])
def test_an_encoding_without_a_character_shows_its_nearest(encoding: str, time: str) -> None:
    mlp = ROOT / "examples" / "mlp.json.gz"
    for words in (
        ["explain", mlp],
        ["explain", mlp, "--lang", "ja"],
        ["kernel", "ncclDevKernel_x", "--lang", "ja"],
        ["--lang", "ja", "-h"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lanewise", *map(str, words)],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding, "LANEWISE_LANG": "en"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        out = done.stdout.decode(encoding, errors="replace")  # click takes an ASCII stream for a misread one
        if words == ["explain", mlp]:
            assert time in out
            assert "?" not in out
            assert ("#####" in out) == (encoding != "utf-8")


def test_a_cut_trace_is_not_called_cpu_only(lanewise: Run, trace: Path) -> None:
    text = trace.read_text("utf-8")
    trace.write_text(text[: text.index('"cuda_runtime"') - 80], "utf-8")
    out = lanewise("explain", trace).out
    assert "No GPU work and no launches in the part that could be read." in out
    assert "CPU only" not in out


def test_no_finding_does_not_take_the_verdict_back(lanewise: Run) -> None:
    small = ROOT / "examples" / "ladder_h200" / "01_matmul_add" / "64_bf16_warm_eager.json.gz"
    out = lanewise("explain", small).out
    assert "Launch-bound" in out
    assert "Beyond the verdict, nothing found that would be worth fixing." in out
    large = small.with_name("4096_bf16_warm_eager.json.gz")
    assert "\n  Nothing found that would be worth fixing." in lanewise("explain", large).out
