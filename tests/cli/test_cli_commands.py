"""The command line as its users meet it: explain, tables, tree, slice, errors, help."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
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


# ---- explain
def test_explain_prints_a_report_for_a_terminal(lanewise: Run, trace: Path) -> None:
    done = lanewise("explain", trace)
    assert done.status == 0
    assert done.err == ""
    assert "\x1b" not in done.out
    assert max(cell_len(x) for x in done.out.splitlines() if "lanewise tree" not in x) <= 80
    for said in ("STEPS  3", "GPU TIME", "aten::linear", "TOP KERNELS", f"Next: lanewise tree {trace} --step 3"):
        assert said in done.out


def test_explain_json_is_the_document(lanewise: Run, trace: Path) -> None:
    report = Report.from_json(lanewise("explain", trace, "--format", "json").out)
    assert [s.name for s in report.steps] == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
    assert report.trace.file_bytes == trace.stat().st_size


@pytest.mark.parametrize(("suffix", "begin"), [("json", "{"), ("md", "# `trace.json`"), ("txt", "")])
def test_the_suffix_decides_the_form(lanewise: Run, trace: Path, tmp_path: Path, suffix: str, begin: str) -> None:
    out = tmp_path / f"report.{suffix}"
    done = lanewise("explain", trace, "-o", out)
    assert (done.status, done.out) == (0, "")
    assert out.read_text("utf-8").startswith(begin)
    assert not list(tmp_path.glob("*.partial"))


def test_a_suffix_that_says_nothing_is_refused(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    done = lanewise("explain", trace, "-o", tmp_path / "report.docx")
    assert done.status == 2
    assert "End it in .html, .json, .md, .txt, or give --format." in done.err


def test_files_are_not_replaced_without_force(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    out.write_text("mine")
    done = lanewise("explain", trace, "-o", out)
    assert done.status == 2
    assert done.err == f"lanewise: {out}: the file exists. Give another name, or --force to replace it.\n"
    assert out.read_text() == "mine"
    assert lanewise("explain", trace, "-o", out, "--force").status == 0
    assert out.read_text() != "mine"


def test_a_folder_that_is_not_there_is_said(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    done = lanewise("explain", trace, "-o", tmp_path / "no" / "report.md")
    assert done.status == 2
    assert "cannot be written" in done.err


def test_japanese(lanewise: Run, trace: Path) -> None:
    done = lanewise("explain", trace, "--lang", "ja")
    assert "次: lanewise tree" in done.out
    assert "STEPS" not in done.out
    assert max(cell_len(x) for x in done.out.splitlines() if "lanewise tree" not in x) <= 80


def test_windows_reach_the_report(lanewise: Run, trace: Path) -> None:
    report = Report.from_json(lanewise("explain", trace, "--format", "json", "--steps", "3-4").out)
    assert [s.index for s in report.steps] == [3, 4]
    assert "window" in {w.id for w in report.trace.warnings}


def test_colours_only_where_wanted(lanewise: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in lanewise("explain", trace).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in lanewise("explain", trace).out


def test_the_width_of_the_terminal_counts(lanewise: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    lines = lanewise("explain", GPT).out.splitlines()
    assert 100 < max(cell_len(x) for x in lines if "lanewise tree" not in x) <= 110


# ---- --fail-on
def test_fail_on_passes_where_nothing_is_found(lanewise: Run, trace: Path) -> None:
    done = lanewise("explain", trace, "--fail-on", "unfused-optimizer", "--fail-on", "99%", "--fail-on", "10s")
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("host-sync", ["host-sync was found: The loss is read back"]),
        ("20%", ["host-sync would save 20 % of the step, which is 20% or more"]),
        ("2ms", ["host-sync would save 2.00 ms a step, which is 2ms or more"]),
        ("200us", ["host-sync"]),
        ("21%", []),
        ("2.1ms", []),
        ("compiled-fusion", []),  # good news fails nothing
        ("data-starvation", []),  # checked, and fine
    ],
)
def test_each_breach_is_named(limit: str, said: list[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "rendering"))
    from made_up import full_report

    from lanewise.cli.explain import _breaches, _limit

    found = list(_breaches(full_report(), _limit(limit), "en"))
    assert len(found) == len(said)
    for text, wanted in zip(found, said, strict=True):
        assert wanted in text


@pytest.mark.parametrize("text", ["5 %%", "12", "Launch Bound", "-3%", ""])
def test_an_unreadable_limit_is_refused_before_anything_is_read(lanewise: Run, text: str) -> None:
    done = lanewise("explain", "no-such-file.json", f"--fail-on={text}")
    assert done.status == 2
    assert "neither the id of a finding nor a saving" in done.err


# ---- tables
def test_steps(lanewise: Run, trace: Path) -> None:
    rows = json.loads(lanewise("steps", trace, "--format", "json").out)
    assert [(r["name"], r["index"], r["launches"], r["kernels"], r["copies"]) for r in rows] == [
        ("ProfilerStep#2", 2, 3, 2, 1),
        ("ProfilerStep#3", 3, 3, 2, 1),
        ("ProfilerStep#4", 4, 3, 2, 1),
    ]
    assert rows[0]["gpu_busy_us"] == 520.0


def test_ops_sorted_and_limited(lanewise: Run, trace: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(lanewise("ops", trace, "--format", "csv", "--sort", "name").out)))
    assert [r["name"] for r in rows] == sorted(r["name"] for r in rows)
    rows = list(csv.DictReader(io.StringIO(lanewise("ops", trace, "--format", "csv", "--limit", "1").out)))
    assert [(r["name"], r["count"], r["gpu_self_us"]) for r in rows] == [("aten::linear", "3", "900.0")]


def test_ops_by_shape(lanewise: Run, trace: Path) -> None:
    rows = json.loads(lanewise("ops", trace, "--by-shape", "--format", "json").out)
    assert sorted(r["shapes"] for r in rows if r["name"] == "aten::linear") == [
        "[[8, 16], [16, 4]]",
        "[[8, 16], [16, 5]]",
        "[[8, 16], [16, 6]]",
    ]


def test_shapes_that_were_not_recorded_are_not_invented(lanewise: Run, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::add", 0, 5)
    done = lanewise("ops", t.write(tmp_path / "t.json"), "--by-shape")
    assert done.status == 2
    assert "record_shapes=True" in done.err


def test_kernels_keep_their_whole_names_in_files(lanewise: Run, tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, " + "very_long, " * 40 + "x>"
    t = TraceBuilder()
    t.op("aten::add", 0, 50)
    t.launch(10, 5, gpu=(30, 20), name=name)
    path = t.write(tmp_path / "t.json")
    rows = list(csv.DictReader(io.StringIO(lanewise("kernels", path, "--format", "csv").out)))
    assert [(r["name"], r["ops"], r["share_ratio"]) for r in rows] == [(name, "aten::add", "1.0")]
    assert max(len(x) for x in lanewise("kernels", path).out.splitlines()) <= 80


def test_parquet(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    import polars as pl

    assert lanewise("kernels", trace, "-o", tmp_path / "k.parquet").status == 0
    frame = pl.read_parquet(tmp_path / "k.parquet")
    assert frame.filter(pl.col("name") == "ampere_sgemm_128x64_tn").row(0, named=True)["total_us"] == 900.0
    assert frame["ops"].dtype == pl.List(pl.String)


def test_kernels_of_a_window_are_those_launched_in_it(lanewise: Run, trace: Path) -> None:
    done = lanewise("kernels", trace, "--steps", "3", "--format", "json")
    assert {r["count"] for r in json.loads(done.out)} == {1}
    assert "Only a part of the trace was read: ProfilerStep#3" in done.err
    assert lanewise("kernels", trace, "--steps", "3", "--format", "json", "--quiet").err == ""


def test_an_unknown_column_names_the_known_ones(lanewise: Run, trace: Path) -> None:
    done = lanewise("ops", trace, "--sort", "colour")
    assert done.status == 2
    assert "Sort by name, category, count, cpu_self" in done.err


@pytest.mark.parametrize("command", ["steps", "ops", "kernels"])
def test_tables_of_nothing(lanewise: Run, tmp_path: Path, command: str) -> None:
    t = TraceBuilder()
    t.frame("main.py(1): main", 0, 10)
    path = t.write(tmp_path / "t.json")
    done = lanewise(command, path)
    assert (done.status, done.out) == (0, "none in this trace\n")
    assert lanewise(command, path, "--format", "csv").out.count("\n") == 1
    assert json.loads(lanewise(command, path, "--format", "json").out) == []


def test_the_terminal_shows_twenty_rows_and_says_how_many_more(lanewise: Run) -> None:
    short, whole = lanewise("kernels", GPT).out, lanewise("kernels", GPT, "--limit", "0").out
    assert len(short.splitlines()) == 22
    hidden = int(short.splitlines()[-1].split(" more")[0])
    assert len(whole.splitlines()) == 21 + hidden


# ---- tree
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


# ---- slice
def test_slice_says_what_it_kept(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.json.gz"
    done = lanewise("slice", trace, "--steps", "3", "-o", out)
    assert (done.status, done.out) == (0, "")
    assert "9 of 27 events kept (ProfilerStep#3, 1.00 ms - 2.00 ms)." in done.err
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


# ---- errors and help
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explian"], "there is no command 'explian'. Did you mean explain?"),
        (["frobnicate"], "there is no command 'frobnicate'. See: lanewise --help"),
        (["trace.json.gz"], "trace.json.gz is a file, not a command. To explain it: lanewise explain trace.json.gz"),
        (["explain"], "TRACE is missing. See: lanewise explain --help"),
        (["explain", "x.json", "--limt", "3"], "--limit"),
        (["explain", "no-such-file.json"], "no-such-file.json: no such file."),
        (["explain", "x.json", "--steps", "b"], "--steps: 'b' is not a step"),
    ],
)
def test_errors_are_one_message_and_status_2(lanewise: Run, words: list[str], said: str) -> None:
    done = lanewise(*words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("lanewise: ")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_errors_speak_the_language_asked_for(lanewise: Run, trace: Path) -> None:
    assert "というコマンドはありません" in lanewise("explian", "--lang", "ja").err
    assert "という列はこの表にありません" in lanewise("ops", trace, "--sort", "x", "--lang=ja").err


@pytest.mark.parametrize("command", ["explain", "steps", "ops", "kernels", "tree", "slice"])
def test_help_teaches_with_an_example(lanewise: Run, command: str) -> None:
    done = lanewise(command, "--help")
    assert done.status == 0
    assert f"lanewise {command} " in done.out.split("Options:")[0].split("\n\n", 1)[1]


def _python(*words: str) -> list[str]:
    return [sys.executable, "-m", "lanewise", *words]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, lanewise.cli as c\n"
        "sys.argv = ['lanewise', '--help']\n"
        "try:\n    c.main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'polars', 'rich', 'msgspec', 'torch'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX process times")
def test_help_answers_at_once() -> None:
    best = 9.0
    for _ in range(3):
        # Time of the processor: the clock on the wall also counts what else the machine does.
        before = os.times()
        subprocess.run(_python("--help"), capture_output=True, check=True)
        after = os.times()
        best = min(best, after.children_user - before.children_user + after.children_system - before.children_system)
    assert best < 0.25


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m lanewise tree {GPT} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("ProfilerStep#")
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_130_and_no_traceback(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.json"
    os.mkfifo(pipe)
    process = subprocess.Popen(_python("explain", str(pipe)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w") as stream:  # opens once the command reads
        stream.write('{"traceEvents": [\n')
        stream.flush()
        while process.poll() is None:
            # Once may be too early: a signal between Python's last look and the read is seen when the read returns.
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (130, "", "lanewise: interrupted.")


# ---- progress
def test_progress_is_for_terminals_and_slow_loads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from lanewise.cli import options

    with options.reading("x.json", quiet=False, lang="en") as progress:
        assert progress is None  # standard error is no terminal here
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with options.reading("x.json", quiet=True, lang="en") as progress:
        assert progress is None
    with options.reading("x.json", quiet=False, lang="en") as progress:
        assert progress is not None
        progress(10, 100)
    assert capsys.readouterr().err == ""  # it was done at once
    monkeypatch.setattr(options, "_PATIENCE_S", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    with options.reading("folder/x.json", quiet=False, lang="en", passes=2) as progress:
        assert progress is not None
        for at in (10, 60, 100, 5, 100):  # twice over the file
            progress(at, 100)
        assert progress._bar.tasks[0].completed == 200  # type: ignore[union-attr]
        assert progress._bar.tasks[0].total == 200  # type: ignore[union-attr]
    assert "reading x.json" in capsys.readouterr().err
