"""``lanewise explain``, its gates, and its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from running import Outcome

from lanewise.report import Report
from places import DATA

Run = Callable[..., Outcome]

GPT = DATA / "05_gpt_train" / "clean_eager.json.gz"


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
