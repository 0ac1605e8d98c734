"""The lessons in Japanese: every rung and every flag, with the same commands to type."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from rich.cells import cell_len

from lanewise.ladder.registry import RUNGS, script_path
from lanewise.recording.texts import TEXTS
from lanewise.translations import translated_area

JAPANESE = translated_area("ja", "ladder")
# Where the meaning of a flag stands among the arguments.
_PLACE = {"size": 2, "switch": 1, "choice": 2}


def lesson(rung: str) -> str:
    return ast.get_docstring(ast.parse(script_path(rung).read_text("utf-8"))) or ""


def commands(text: str) -> list[str]:
    return [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if line.startswith("    ")]


def meanings(rung: str) -> set[str]:
    found = set()
    for call in ast.walk(ast.parse(script_path(rung).read_text("utf-8"))):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        place = _PLACE.get(call.func.attr)
        if place is not None and len(call.args) > place:
            found.add(ast.literal_eval(call.args[place]))
        if call.func.attr == "add_argument":
            found |= {ast.literal_eval(k.value).partition(" (")[0] for k in call.keywords if k.arg == "help"}
    return found


@pytest.mark.parametrize("rung", RUNGS)
def test_a_lesson_in_both_languages(rung: str) -> None:
    english, japanese = lesson(rung), JAPANESE["lessons"][rung]
    assert commands(english) == commands(japanese)
    assert japanese.strip().splitlines()[0].partition(": ")[2] == TEXTS.translated("ja")[f"rung-{rung}"]
    for text in (english, japanese):
        assert max(cell_len(line) for line in text.splitlines() if not line.startswith("    ")) <= 82
    assert meanings(rung) <= set(JAPANESE["flags"])


def test_no_lesson_is_left_over() -> None:
    assert set(JAPANESE["lessons"]) == set(RUNGS)


def test_help_speaks_japanese(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from lanewise.ladder import Lesson

    monkeypatch.setattr(sys, "argv", ["06_decode.py", "--lang", "ja", "--help"])
    one = Lesson("06_decode.py", "Rung 6.")
    one.size("--tokens", 8, "tokens to generate in one step")
    with pytest.raises(SystemExit):
        one.parse()
    out = capsys.readouterr().out
    assert "題材 6: 1 トークンずつの生成" in out
    assert "1 ステップで生成するトークン数 (8)" in out
    described = [line for line in out.split("options:")[1].splitlines() if re.match(r"  -", line) and "  " in line.strip()]
    assert all(re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", line) for line in described)
