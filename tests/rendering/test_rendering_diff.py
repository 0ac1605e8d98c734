"""The comparison for a terminal and as Markdown, from built traces."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

from diffing import COMPILED, EAGER, FUSED, built, named
from lanewise.comparison import Comparison, compare
from lanewise.comparison.texts import TEXTS
from lanewise.rendering import diff_markdown, diff_terminal, markdown


@cache
def two(lang: str = "en", anyway: bool = False) -> Comparison:
    other = built(COMPILED * 3, cpu=11, steps=4)
    other.header["deviceProperties"][0]["name"] = "NVIDIA A100"
    return compare([named(built(EAGER * 3), "eager"), named(other, "compiled")], lang, anyway=anyway)


@cache
def three(lang: str = "en") -> Comparison:
    builders = {"eager": built(EAGER, real=300), "compiled": built(COMPILED, cpu=11), "short": built(EAGER[:2], cpu=12)}
    return compare([named(b, name) for name, b in builders.items()], lang)


@cache
def slower_machine(lang: str = "en") -> Comparison:
    return compare([named(built(EAGER, cpu=100), "one"), named(built(EAGER, cpu=190), "other")], lang)


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("made", [two, three, slower_machine])
def test_no_line_is_wider_than_the_terminal(made: object, width: int, lang: str) -> None:
    comparison = made(lang)  # type: ignore[operator]
    lines = diff_terminal.render(comparison, width=width, verbose=True).splitlines()
    assert [x for x in lines if cell_len(x) > width] == []


def test_a_figure_at_another_pace_says_so() -> None:
    text = diff_terminal.render(slower_machine(), width=80)
    assert re.search(r"CPU work, profiled +\S+ µs +\S+ µs +not seen \([+-]\S+ % at one pace\)", text)


def test_a_fusion_is_one_line_with_what_it_saves() -> None:
    text = " ".join(diff_terminal.render(two(anyway=True)).split())
    assert f"gelu + mul → {FUSED} × 3 180 µs → 105 µs, 75.1 µs saved" in text
    assert "kernels 12 9 -3" in text
    assert "Other GPU: NVIDIA H200 and NVIDIA A100" in text
    assert "Compared all the same (--anyway)." in text


def test_what_a_condition_spoils_is_withheld() -> None:
    text = diff_terminal.render(two())
    assert re.search(r"GPU busy +\S+ µs +\S+ µs +withheld", text)
    assert "--anyway compares what is withheld." in text
    assert "saved" not in text


def test_several_traces_are_a_table_with_the_base_first() -> None:
    text = diff_terminal.render(three(), width=100)
    rows = [x.split() for x in text.splitlines()[3:6]]
    assert [row[1] for row in rows] == ["4", "3", "2"]
    assert "outside the profiler where known" in text
    markdown = diff_markdown.render(three())
    assert markdown.count("\n| `") == 3
    assert markdown.count("\n## ") == 2


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_markdown_tables_are_whole(lang: str) -> None:
    for comparison in (two(lang), three(lang)):
        tables = [x for x in diff_markdown.render(comparison).splitlines() if x.startswith("|")]
        assert tables
        assert all(x.endswith("|") for x in tables)


def test_japanese_has_no_english_sentence() -> None:
    for comparison in (two("ja"), three("ja")):
        for text in (diff_terminal.render(comparison, verbose=True), diff_markdown.render(comparison, verbose=True)):
            assert re.findall(r"[A-Za-z]+(?: [a-z]{2,}){2,}", text) == []


def test_colour_adds_no_words() -> None:
    plain, coloured = diff_terminal.render(two()), diff_terminal.render(two(), color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_every_text_is_used() -> None:
    import lanewise

    package = Path(lanewise.__file__).parent
    files = [*(package / "comparison").glob("*.py"), *(package / "rendering").glob("diff_*.py"), package / "cli" / "diff.py"]
    code = "".join(p.read_text("utf-8") for p in files)
    # Their keys are put together.
    prefixes = (
        "fail-",
        "fig-",
        "idle_",
        "layer-",
        "flag-",
        "fact-",
        "was-",
        "gpu-",
        "kernel-",
        "cause-",
        "h-",
        "col-",
        "largest-",
    )
    unused = [k for k in TEXTS if not k.startswith(prefixes) and code.count(f'"{k}"') + code.count(f"'{k}'") < 2]
    assert unused == []


def test_names_are_no_markup() -> None:
    hostile = "evil<img src=x>*bold*_under_[link](http://x.example)@someone"
    comparison = compare([named(built(EAGER), "a"), named(built(((hostile, hostile, 50.0), *EAGER)), "b")])
    text = diff_markdown.render(comparison)
    outside = re.sub(r"`[^`]*`", "", text)
    assert "evil" in outside
    assert re.findall(r"(?<!\\)(?:<|\[link|\*bold|_under|://|@someone)", outside) == []
    assert r"\<img" in outside


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("3 _foreach_mul + aten::mul_", r"3 \_foreach_mul + aten::mul\_"),
        ("triton_red_fused__to_copy_vi… + __a", r"triton_red_fused__to_copy_vi… + \_\_a"),
        ("select_… + b", r"select\_… + b"),
        ("set `x_` and *y*", r"set `x_` and \*y\*"),
        ("a &lt; b & c -> d", r"a \&lt; b & c -> d"),
        ("one\n# two", "one # two"),
    ],
)
def test_a_sentence_as_markdown(text: str, written: str) -> None:
    assert markdown.prose(text) == written


def test_code_with_backticks_and_line_breaks() -> None:
    assert markdown.code("a\n`b``c") == "``` a `b``c ```"
