"""Laying out text in cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from lanewise.rendering.layout import Column, Part, bar, columns, marks, padded, printed, shortened, shortened_path, wrapped

TEXT = st.text(st.sampled_from("abc<>:_ ,.%、。（）あ漢ー█1"), max_size=60)


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("short", 10, "short"),
        ("aten::native_layer_norm_backward", 20, "aten::nativ…backward"),
        ("漢字かな漢字かな", 9, "漢字…かな"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_names_are_cut_in_the_middle(text: str, width: int, wanted: str) -> None:
    assert shortened(text, width) == wanted


def test_paths_keep_their_end() -> None:
    assert shortened_path("a/long/folder/trace.json.gz", 16) == "…r/trace.json.gz"


@given(TEXT, st.integers(0, 40))
def test_what_is_shortened_fits(text: str, width: int) -> None:
    assert cell_len(shortened(text, width)) <= width
    assert cell_len(padded(shortened(text, width), width)) == width


@given(TEXT, st.integers(4, 40))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(x) <= width for x in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_number_stays_with_its_unit() -> None:
    for text in ("it takes 12.5 ms of it", "(share 12 %) of it", "saves (< 0.1 %) at all", "a file of 1,024 KiB here"):
        number = text.split()[text.split().index(next(w for w in text.split() if any(c.isdigit() for c in w)))]
        for width in range(8, 30):
            assert not any(line.endswith(number) for line in wrapped(text, width)), (text, width)


def test_japanese_breaks_anywhere_but_before_closing_marks() -> None:
    text = "GPU は待っています。（同期の呼び出し）、次の処理。"
    for width in range(6, 40):
        for line in wrapped(text, width):
            assert line[0] not in "。、）"
            assert not line.endswith("（")


@pytest.mark.parametrize("width", range(12, 60))
def test_brackets_stay_with_what_they_hold(width: int) -> None:
    text = (
        "入力をコピー（aten::mul_ ならしない）。前の op が作った backward ノード(番号で対応)の時間（39.8 ms、28 %）: launch。"
    )
    for line in wrapped(text, width):
        assert line[-1] not in "（("
        assert line[0] not in "）)。、:"


def test_a_table_shares_its_room() -> None:
    rows = [["a" * 30, "1"], ["日本語" * 8, "22"]]
    lines = columns([Column("name", least=8), Column("n", right=True)], rows, 30)
    assert {line.cell_len for line in lines} == {30}
    assert lines[2].plain.endswith("22")


def test_optional_columns_go_where_there_is_no_room() -> None:
    heads = [Column("name", least=8), Column("first", right=True), Column("second", right=True, optional=True)]
    rows = [["a" * 30, "1", "2"]]
    assert "second" in columns(heads, rows, 30)[0].plain
    assert "second" not in columns(heads, rows, 20)[0].plain
    assert "first" in columns(heads, rows, 20)[0].plain


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 100))
def test_a_bar_of_all_parts_is_full(shares: list[float], width: int) -> None:
    whole = sum(shares)
    if whole == 0:
        return
    assert bar([Part(s / whole, "x", "") for s in shares], width).cell_len == width


def test_marks_are_heights_of_the_largest() -> None:
    assert marks([1, 2, 4, None, 8, 0], 10) == "▁▂▄ █▁"
    assert marks([1, 8, 1, 1], 2) == "█▁"
    assert marks([], 10) == marks([0, None], 10) == ""


def test_printing_never_wraps() -> None:
    from rich.text import Text

    assert printed([Text("x" * 300)], color=False) == "x" * 300 + "\n"


def test_names_give_a_terminal_no_orders() -> None:
    names = ["a\x1b[31mred\x1b]0;title\x07", "two\nlines", "\x9b2J", "\u202eturned", "c\x00d"]
    lines = columns([Column("name"), Column("calls", right=True)], [[name, "1"] for name in names], 80)
    text = printed([*lines, Text("so \x1b[2J")], color=False)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert len(text.splitlines()) == 1 + len(names) + 1
    assert len({len(line) for line in text.splitlines()[1:-1]}) == 1
