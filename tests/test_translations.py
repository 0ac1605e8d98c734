"""Every text that people read has its Japanese: the same keys and the same slots, in every catalog of the package."""

from __future__ import annotations

import ast
import importlib
import re
import string
import sys
from pathlib import Path

import pytest

from lanewise.rules import rules
from lanewise.translations import LANGUAGES, Catalog, slots_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(__file__).parent.parent / "src" / "lanewise"
# Where catalogs are. Rules have one each, from their list.
HOMES = (
    "cli.calibrate",
    "cli.texts",
    "comparison.texts",
    "devices.texts",
    "expectations.texts",
    "kernels.wording",
    "loading.texts",
    "model.notes",
    "recording.texts",
    "rendering.html_texts",
    "rendering.texts",
    "rendering.why",
    "roofline_texts",
    "rules.pages",
    "rules.reasons",
    "verdict",
    "viewing.texts",
)
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def catalogs() -> dict[str, Catalog]:
    """All catalogs, by where they are."""
    found = {f"rules.{rule.id}": rule.catalog for rule in rules()}
    for home in HOMES:
        module = importlib.import_module(f"lanewise.{home}")
        found.update({f"{home}:{name}": value for name, value in vars(module).items() if isinstance(value, Catalog)})
    return found


CATALOGS = catalogs()
OTHERS = [lang for lang in LANGUAGES if lang != "en"]


def test_every_catalog_is_known_here() -> None:
    written = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bCatalog\(\s*\n?\s*f?\"", path.read_text("utf-8"))
    }
    assert written - {"translations.__init__", "rules.base"} == set(HOMES)


@pytest.mark.parametrize("lang", OTHERS)
@pytest.mark.parametrize("name", CATALOGS)
def test_keys_and_slots(name: str, lang: str) -> None:
    catalog = CATALOGS[name]
    translated = catalog.translated(lang)
    assert set(translated) == set(catalog.english)
    for key, english in catalog.english.items():
        assert slots_of(translated[key]) == slots_of(english), key
        assert translated[key].strip(), key


@pytest.mark.parametrize("name", CATALOGS)
def test_japanese_is_japanese(name: str) -> None:
    """A text may stay as it is where there is nothing to translate: code, names and numbers, but no sentence."""
    catalog = CATALOGS[name]
    for key, japanese in catalog.translated("ja").items():
        plain = "".join(literal for literal, *_ in string.Formatter().parse(japanese))
        is_code = japanese == catalog.english[key] and re.search(r"[(=]", plain)
        few_words = len(re.findall(r"[a-z]{2,}", plain)) <= 4
        assert _JAPANESE.search(plain) or is_code or few_words, (key, japanese)


@pytest.mark.parametrize("lang", OTHERS)
def test_no_translation_is_left_over(lang: str) -> None:
    folder = PACKAGE / "translations" / lang
    areas = {str(p.relative_to(folder).with_suffix("")): tomllib.loads(p.read_text("utf-8")) for p in folder.rglob("*.toml")}
    used: dict[str, set[str | None]] = {}
    for catalog in CATALOGS.values():
        used.setdefault(catalog.area, set()).add(catalog.table)
    # By the English text itself: tests/cli/test_cli_help.py, tests/ladder/test_registry.py
    del areas["help"], areas["ladder"]
    assert set(areas) == set(used)
    for area, tables in used.items():
        if tables != {None}:
            assert set(areas[area]) == tables, area


def test_slots_of() -> None:
    assert slots_of("{count:,} of {a.b} in {c[0]!r}, {{no slot}}") == {"count", "a", "c"}


def test_texts_are_filled_in() -> None:
    catalog = Catalog("notes", {"window": "Only {window}."}, table="note")
    assert catalog("window", window="x") == "Only x."
    assert "x" in catalog("window", "ja", window="x")
    with pytest.raises(KeyError):
        catalog("window")
    with pytest.raises(KeyError):
        catalog("absent")


def sentences(node: ast.expr) -> list[str]:
    """Parts of a text that is written where it is used, if they hold words."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return [t for t in texts if re.search(r"[A-Za-z]", t) and not t.startswith("lanewise ")]  # a command is no sentence


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_errors_take_their_words_from_a_catalog(path: Path) -> None:
    """The fact and the next step of an error; its subject is a name."""
    errors = {"LanewiseError", "UsageError", "LoadError", "NotATraceError", "EmptyTraceError"}
    calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    raised = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id in errors]
    assert [text for call in raised for argument in call.args[1:] for text in sentences(argument)] == []
