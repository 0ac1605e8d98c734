"""The generated page of docs/ is what the code says, and says something about everything."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_what_the_code_says(reference: ModuleType) -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "write it again: make docs"


def test_every_table_and_section_is_on_the_page(reference: ModuleType) -> None:
    from lanewise.model.schema import TABLES
    from lanewise.report import Report

    text = reference.page()
    for table, columns in TABLES.items():
        section = text.split(f"### `{table}`\n")[1].split("\n### ")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(columns)
    section = text.split("### Report\n")[1].split("\n### ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(Report.__struct_fields__)


def test_links_lead_to_sections(reference: ModuleType) -> None:
    text = reference.page()
    headings = {h.lower() for h in re.findall(r"^### (\w+)$", text, re.MULTILINE)}
    links = set(re.findall(r"\(#(\w+)\)", text))
    assert len(links) > 8
    assert links <= headings


def test_every_column_and_key_is_described(reference: ModuleType) -> None:
    assert re.findall(r"^\| `(\w+)` \|.*\|  \|$", reference.page(), re.MULTILINE) == []
