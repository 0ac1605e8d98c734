"""The guides say the same in English and in Japanese: sections, code, tables, names and numbers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from lanewise.recording.texts import Notice, notice_text
from markdown_pages import Section, sections
from places import ROOT

DOCS = ROOT / "docs"
# Generated from docstrings: English only, and the Japanese index says so.
ENGLISH_ONLY = {"columns.md"}
GUIDES = sorted(path.name for path in DOCS.glob("*.md") if path.name not in ENGLISH_ONLY)
PAIRS = {
    **{name: (DOCS / name, DOCS / "ja" / name) for name in GUIDES},
    "the front page": (ROOT / "README.md", ROOT / "README.ja.md"),
    "examples": (ROOT / "examples" / "README.md", ROOT / "examples" / "README.ja.md"),
    "causes": (ROOT / "benchmarks" / "causes" / "README.md", ROOT / "benchmarks" / "causes" / "README.ja.md"),
}
# English writes these as words, or not at all where Japanese counts.
_SMALL = {str(number) for number in range(13)}
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
# Of what the program prints, the words are of its language.
_PRINTED = re.compile(r"^(?:-> |lanewise: )")


def pair(name: str) -> tuple[list[Section], list[Section]]:
    english, japanese = (sections(path.read_text("utf-8")) for path in PAIRS[name])
    return english, japanese


def numbers(text: str) -> Counter[str]:
    """Numbers that people read: not those within names, code or the targets of links."""
    said = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|<kbd>.*?</kbd>", " ", text)
    return Counter(found.rstrip(",") for found in _NUMBER.findall(said))


def differing_numbers(english: str, japanese: str) -> list[str]:
    """Numbers of one text that the other lacks, small ones that are words in English aside."""
    a, b = numbers(english), numbers(japanese)
    return sorted((a - b).elements()) + sorted(n for n in (b - a).elements() if n not in _SMALL)


def code_line(line: str) -> str:
    """A line without its comment; of a printed one the numbers, small ones aside."""
    if _PRINTED.match(line):
        return " ".join(sorted(set(numbers(line)) - _SMALL))
    return re.sub(r" *(?<![\w@])#.*", "", line.rstrip())


def code_lines(block: str) -> list[str]:
    """The lines of a block that are more than a comment."""
    return [line for line in map(code_line, block.split("\n")) if line]


def targets(page: Path) -> set[str]:
    """What a page links, after its first line."""
    return set(re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8").split("\n", 1)[1]))


def test_every_guide_has_its_counterpart() -> None:
    assert {path.name for path in (DOCS / "ja").glob("*.md")} == set(GUIDES)
    assert len(GUIDES) >= 10
    index = (DOCS / "ja" / "README.md").read_text("utf-8")
    for name in ENGLISH_ONLY:
        assert f"(../{name})（英語）" in index


def test_japanese_index_is_whole() -> None:
    english, japanese = (targets(page) for page in PAIRS["README.md"])
    reached = {(DOCS / "ja" / target).resolve() for target in japanese}
    for target in english:
        page = (DOCS / target).resolve()
        assert {page, page.parent / "ja" / page.name, page.with_suffix(".ja.md")} & reached, target


@pytest.mark.parametrize("name", PAIRS)
def test_first_line_links_the_other_language(name: str) -> None:
    english, japanese = PAIRS[name]
    to_japanese = japanese.relative_to(english.parent)
    to_english = Path("..") / english.name if japanese.parent.name == "ja" else Path(english.name)
    assert english.read_text("utf-8").split("\n")[0] == f"English · [日本語]({to_japanese})"
    assert japanese.read_text("utf-8").split("\n")[0] == f"[English]({to_english}) · 日本語"


@pytest.mark.parametrize("name", PAIRS)
def test_sections_are_the_same(name: str) -> None:
    english, japanese = pair(name)
    assert [s.level for s in english] == [s.level for s in japanese]


@pytest.mark.parametrize("name", GUIDES)
def test_code_is_the_same(name: str) -> None:
    for english, japanese in zip(*pair(name), strict=True):
        assert [code_lines(block) for block in english.code] == [code_lines(block) for block in japanese.code], english.title


@pytest.mark.parametrize("name", PAIRS)
def test_tables_have_the_same_rows_and_numbers(name: str) -> None:
    for english, japanese in zip(*pair(name), strict=True):
        assert [[len(row) for row in table] for table in english.tables] == [[len(row) for row in t] for t in japanese.tables]
        rows = [row for table in english.tables for row in table]
        others = [row for table in japanese.tables for row in table]
        for row, other in zip(rows, others, strict=True):
            assert differing_numbers(" | ".join(row), " | ".join(other)) == [], row[0]
            assert Section(0, "", row).spans == Section(0, "", other).spans, row[0]


@pytest.mark.parametrize("name", PAIRS)
def test_text_has_the_same_numbers_and_names(name: str) -> None:
    for english, japanese in zip(*pair(name), strict=True):
        assert differing_numbers(english.text, japanese.text) == [], english.title
        assert english.spans == japanese.spans, english.title


@pytest.mark.parametrize("name", PAIRS)
def test_items_and_pictures_are_the_same(name: str) -> None:
    for english, japanese in zip(*pair(name), strict=True):
        items = [sum(line.lstrip().startswith("- ") for line in section.prose) for section in (english, japanese)]
        assert items[0] == items[1], english.title
        pictures = [[Path(p).stem for p in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", s.text)] for s in (english, japanese)]
        assert [stem if "-ja" in stem else f"{stem}-ja" for stem in pictures[0]] == pictures[1], english.title


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_messages_of_the_recording_guide_are_the_programs(lang: str) -> None:
    path = "traces/train.node7.4711.rank0.step17-19.json.gz"
    said = [
        Notice("estimate", {"step_bytes": 498_150, "active": 3, "total_bytes": 3 * 498_150}),
        Notice(
            "written", {"path": path, "file_bytes": 125 << 10, "steps": 3, "cpu_ops": 5586, "launches": 1302, "gpu_ops": 1413}
        ),
        Notice(
            "step-time",
            {"median_ns": 10_700_000, "steps": 10, "profiled_ns": 13_900_000, "factor": 1.3}
            | {"min_ns": 9_830_000, "max_ns": 11_200_000},
        ),
        Notice("next", {"path": path}),
    ]
    page = PAIRS["recording.md"][lang == "ja"].read_text("utf-8")
    assert re.findall(r"^    lanewise: (.*)$", page, re.MULTILINE) == [notice_text(notice, lang) for notice in said]


@pytest.mark.parametrize(
    ("english", "japanese", "differs"),
    [
        ("Three steps of 5.1 ms", "5.1 ms の 3 ステップ", []),
        ("12 % of 1,024", "1,024 の 11 %", ["12"]),
        ("about a fifth", "約 20 %", ["20"]),
        ("`--limit 7` on an H200", "H200 で `--limit 8`", []),
    ],
)
def test_numbers_that_differ_are_seen(english: str, japanese: str, differs: list[str]) -> None:
    assert differing_numbers(english, japanese) == differs
