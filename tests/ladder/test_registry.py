from __future__ import annotations

import ast
import re

import pytest

from lanewise.errors import UsageError
from lanewise.ladder.registry import RUNGS, rung_named, rung_title, script_path
from lanewise.recording.texts import TEXTS


@pytest.mark.parametrize(
    ("text", "rung"),
    [
        ("01", "01_matmul_add"),
        ("01_matmul_add.py", "01_matmul_add"),
        ("matmul", "01_matmul_add"),
        ("04_c", "04_c_sdpa_attention"),
        ("sdpa-attention", "04_c_sdpa_attention"),
        ("08", "08_distributed"),
    ],
)
def test_a_rung_by_part_of_its_name(text: str, rung: str) -> None:
    assert rung_named(text) == rung


@pytest.mark.parametrize("text", ["03", "attention", "nothing"])
def test_none_or_several_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=text):
        rung_named(text)


@pytest.mark.parametrize("rung", RUNGS)
def test_each_rung_is_a_script_with_a_lesson_and_its_needs(rung: str) -> None:
    text = script_path(rung).read_text(encoding="utf-8")
    metadata = re.match(r"# /// script\n(?:# .*\n)+# ///\n", text)
    assert metadata is not None
    assert '"lanewise"' in metadata.group()
    assert '"torch>=2.4"' in metadata.group()
    lesson = ast.get_docstring(ast.parse(text))
    assert lesson is not None
    assert lesson.startswith("Rung ")
    assert f"{rung}.py" in lesson or f"lanewise run {rung[:2]}" in lesson
    assert rung_title(rung).startswith("Rung ")
    assert rung_title(rung).partition(": ")[2].rstrip(".") == TEXTS(f"rung-{rung}")
    assert len(text.splitlines()) <= 120


def test_every_script_of_the_folder_is_a_rung() -> None:
    assert sorted(path.stem for path in script_path(RUNGS[0]).parent.glob("*.py")) == sorted(RUNGS)
