"""Texts in English and Japanese.

English is written in the code that says it; Japanese lies beside this file, one TOML file an area, with the same keys and
the same slots (`ja/terminal.toml`, `ja/rules.toml`, ...). A test compares keys and slots of every catalog.
"""

from __future__ import annotations

import locale
import os
import string
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["LANGUAGES", "Catalog", "Message", "default_language", "slots_of", "translated_area"]

LANGUAGES = ("en", "ja")


class Message(str):
    """A text of a catalog that is English where it is used as a string, and can still be had in another language.

    For errors: they are raised far from where the language is known. Slots may be messages too.
    """

    catalog: Catalog
    key: str
    slots: dict[str, Any]

    def __new__(cls, catalog: Catalog, key: str, slots: dict[str, Any]) -> Message:
        """The English text as a string, with what it was made from."""
        message = super().__new__(cls, catalog(key, **slots))
        message.catalog, message.key, message.slots = catalog, key, slots
        return message

    def text(self, lang: str) -> str:
        """The text in a language."""
        slots = {k: v.text(lang) if isinstance(v, Message) else v for k, v in self.slots.items()}
        return self.catalog(self.key, lang, **slots)


class Catalog:
    """The texts of one area: English from the code, other languages from ``translations/<lang>/<area>.toml``.

    Args:
        area: name of the area and of its files.
        english: key to text; a text may have ``{slots}`` as `str.format` has them.
        table: the table within the file, where several catalogs share one file (a rule's id).
    """

    def __init__(self, area: str, english: Mapping[str, str], table: str | None = None) -> None:
        self.area = area
        self.english = dict(english)
        self.table = table

    def __call__(self, key: str, lang: str = "en", **slots: Any) -> str:
        """The text of `key` in `lang` with its slots filled.

        Raises:
            KeyError: the key is not in this catalog, or a slot was not given.
        """
        template = self.english[key] if lang == "en" else self.translated(lang)[key]
        return template.format(**slots)

    def message(self, key: str, **slots: Any) -> Message:
        """The text of `key` for an error, in English until its language is known."""
        return Message(self, key, slots)

    def __iter__(self) -> Iterator[str]:
        return iter(self.english)

    def translated(self, lang: str) -> Mapping[str, str]:
        """All texts of this area in another language."""
        area = _area(lang, self.area)
        return area if self.table is None else area.get(self.table, {})


@cache
def _area(lang: str, area: str) -> dict[str, Any]:
    path = resources.files(__name__) / lang / f"{area}.toml"
    return tomllib.loads(path.read_text("utf-8"))


def translated_area(lang: str, area: str) -> Mapping[str, Any]:
    """A whole area in another language, for texts whose English stands elsewhere than in a catalog."""
    return _area(lang, area)


def slots_of(template: str) -> frozenset[str]:
    """The names of the slots in a text."""
    return frozenset(name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(template) if name)


def default_language() -> str:
    """``ja`` where the environment's locale is Japanese, else ``en``. LANEWISE_LANG decides where it is set."""
    wanted = os.environ.get("LANEWISE_LANG")
    if wanted in LANGUAGES:
        return wanted
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "ja" if value.lower().startswith("ja") else "en"
    return "ja" if (locale.getlocale()[0] or "").lower().startswith(("ja", "japanese")) else "en"
