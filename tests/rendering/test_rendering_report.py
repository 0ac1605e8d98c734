"""The report for a terminal and as Markdown, from made-up documents."""

from __future__ import annotations

import re

import msgspec
import pytest
from golden import check_golden
from made_up import cpu_report, full_report
from rich.cells import cell_len

from lanewise.rendering import json, markdown, terminal
from lanewise.rendering.texts import TEXTS, cause_text
from lanewise.report import Report


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_terminal_golden(lang: str) -> None:
    check_golden(f"terminal_{lang}.txt", terminal.render(full_report(lang)))


def test_terminal_verbose_golden() -> None:
    check_golden("terminal_verbose.txt", terminal.render(full_report(), verbose=True))


def test_terminal_wide_colour_golden() -> None:
    check_golden("terminal_colour.txt", terminal.render(full_report(), width=110, color=True))


def test_terminal_cpu_golden() -> None:
    check_golden("terminal_cpu.txt", terminal.render(cpu_report()))


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_markdown_golden(lang: str) -> None:
    check_golden(f"markdown_{lang}.md", markdown.render(full_report(lang)))


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_wider_than_the_terminal(lang: str, width: int, verbose: bool) -> None:
    lines = terminal.render(full_report(lang), width=width, verbose=verbose).splitlines()
    # The next command is there to be copied, and never cut.
    assert [x for x in lines[:-1] if cell_len(x) > width] == []
    assert lines[-1].endswith("gpt_train_rank1.pt.trace.json.gz --step 3") or "#" in lines[-1]


def test_plain_text_has_no_escape_codes_and_coloured_text_the_same_words() -> None:
    plain, coloured = terminal.render(full_report()), terminal.render(full_report(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_everything_that_the_report_knows_is_said() -> None:
    text = terminal.render(full_report(), width=120, verbose=True)
    flat = " ".join(text.split())
    for finding in full_report().findings:
        assert finding.id in flat
        assert finding.title in flat
        assert finding.fix in flat
    for check in full_report().checks:
        assert check.id in flat
    for said in (
        "saves 2.00 ms a step (20 %)",
        "costs 2.10 ms a step",
        "saving between 1.50 ms and 2.30 ms",
        "confidence high",
        "at train.py(42): step",
        "explains small-copies",
        "saves next to nothing",
        "@5185884705018.347",
        "input shapes were not recorded",
        "ZeroDivisionError",
        "10.0 ms a step without the profiler (median of 60), 12.3 ms under it.",
        "12.3 ms to 24.0 ms; longest: ProfilerStep#4",
        "rank 1 of 8",
        "torch 2.11.0",
        "2 × NVIDIA H200",
        "the GPU work of 1,199 of 1,200 launches",
        "The GPU works 40 % of the step (4.00 ms).",
        "GPU work could grow 2.5 times",
    ):
        assert said in flat


def test_evidence_is_two_rows_unless_all_is_wanted() -> None:
    assert terminal.render(full_report()).count("cudaStreamSynchronize") == 1
    assert "3 more with -v" in terminal.render(full_report())
    assert terminal.render(full_report(), verbose=True).count("cudaStreamSynchronize") == 4


def test_kernels_in_evidence_are_named_by_what_they_are() -> None:
    assert "element-wise add fp32" in terminal.render(full_report()).split("FINDINGS")[1].split("GPU TIME")[0]


def test_limit_cuts_the_tables_and_says_so() -> None:
    text = terminal.render(full_report(), limit=1)
    assert "aten::empty" not in text
    assert "2 more: lanewise ops TRACE" in text
    assert "2 more: lanewise kernels TRACE" in text
    assert "aten::empty" in terminal.render(full_report(), limit=0)


def test_annotations_are_no_top_ops_unless_all_is_wanted() -> None:
    assert "train_step" not in terminal.render(full_report())
    assert "train_step" in terminal.render(full_report(), verbose=True)


def test_small_parts_of_a_step_stay_out_of_the_legend() -> None:
    assert "idle: not known why" not in terminal.render(full_report())
    assert "idle: not known why" in terminal.render(full_report(), verbose=True)


def test_the_bar_has_its_whole_width() -> None:
    bar = next(x for x in terminal.render(full_report()).splitlines() if x.startswith("  ███"))
    assert cell_len(bar) == 78
    assert bar.count("█") == round(0.35 * 76)


def test_idle_is_not_claimed_where_it_is_not_known() -> None:
    report = full_report()
    gpu = [msgspec.structs.replace(g, idle_us=None, window_us=None) for g in report.gpu]
    text = terminal.render(msgspec.structs.replace(report, gpu=gpu, where=[]))
    assert "idle time not known" in text
    assert "WHERE A STEP GOES" not in text


def test_japanese_report_has_no_english_sentence() -> None:
    text = terminal.render(full_report("ja"), verbose=True).split("\n次: ")[0]
    text += markdown.render(full_report("ja"), verbose=True)
    names = {o.name for o in full_report().ops} | {k.label for k in full_report().kernels}
    for name in (*names, "thread 415 (python3)", "element-wise add fp32", "NVIDIA H200"):
        text = text.replace(name, "")
    assert re.findall(r"[A-Za-z]+(?: [a-z]{2,}){2,}", text) == []


def test_a_cause_of_a_later_version_stays_as_it_is() -> None:
    assert cause_text("idle_moonlight", "en") == "idle_moonlight"
    assert cause_text("compute", "ja") != "compute"


def test_markdown_tables_survive_bars_and_backticks_in_names() -> None:
    report = full_report()
    ops = [msgspec.structs.replace(report.ops[1], name="a|b`c")]
    row = next(x for x in markdown.render(msgspec.structs.replace(report, ops=ops)).splitlines() if "a\\|b" in x)
    assert row.startswith("| `` a\\|b`c `` | 300 |")


def test_json_is_the_document() -> None:
    report = full_report()
    assert Report.from_json(json.render(report)) == report


def test_every_text_of_the_terminal_is_used() -> None:
    from pathlib import Path

    import lanewise.rendering

    folder = Path(lanewise.rendering.__file__).parent
    code = "".join(p.read_text("utf-8") for p in [*folder.glob("*.py"), *(folder.parent / "cli").glob("*.py")])
    prefixes = ("has-", "cause-", "col-", "level-")  # their keys are put together
    unused = [k for k in TEXTS if not k.startswith(prefixes) and code.count(f'"{k}"') + code.count(f"'{k}'") < 2]
    assert unused == []
