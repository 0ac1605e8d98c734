#!/usr/bin/env python3
"""Write docs/columns.md from the code: every table and column of a trace, every key of the report.

python scripts/reference.py            write the page
python scripts/reference.py --check    exit status 1 when the page is not what the code says
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lanewise import report
from lanewise.model.schema import CATEGORIES, TABLES
from lanewise.model.trace import Trace

PAGE = Path(__file__).parent.parent / "docs" / "columns.md"

_HEAD = """\
# Columns and keys

Made by `make docs` from `src/lanewise/model/schema.py` and `src/lanewise/report/`; do not edit.

## Tables of a trace

`trace.frame("events")` and the like give Polars frames (`trace.events`, `trace.gpu_ops`, `trace.calls`, `trace.cpu_ops`,
`trace.python_frames` and `trace.memory` are short for the most used ones); `trace.column("events", "ts")` gives one column as
a NumPy array, in which -1 stands for null and numbers into `trace.strings` for text. Times are int64 nanoseconds. A table
whose events a file lacks is empty. Columns marked `null` may be null: the file does not say.
"""

_REPORT = """\
## The report

`lanewise explain TRACE --format json`, or `lanewise.explain(trace).to_json()`: one document, `"schema": "{schema}"`.
`_us` are microseconds with three decimals, `_ratio` lies between 0 and 1, `_bytes` are bytes. `null` is "not known", never 0.
Within one schema version keys are added, never renamed or removed.
"""

_JSON_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "anything"}


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_tables(), *_categories(), _REPORT.format(schema=report.SCHEMA), *_structs()]
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _tables() -> Iterator[str]:
    for name, columns in TABLES.items():
        shortcut = getattr(Trace, name, None)
        yield f"### `{name}`\n" + (f"\n{inspect.getdoc(shortcut)}\n" if shortcut is not None else "")
        yield _table(
            ("column", "type", "unit", "null", "what"),
            (
                (f"`{key}`", column.dtype, column.unit, "null" if column.optional else "", column.about)
                for key, column in columns.items()
            ),
        )


def _categories() -> Iterator[str]:
    yield "### Categories\n\nThe values of `events.category`, and the table that has the rest of such an event.\n"
    yield _table(
        ("category", "table", "also spelled", "what"),
        (
            (f"`{name}`", f"`{c.table}`" if c.table else "", ", ".join(f"`{s}`" for s in c.spellings), c.about)
            for name, c in CATEGORIES.items()
        ),
    )


def _structs() -> Iterator[str]:
    """The report and all that it is made of, each after what first mentions it."""
    todo: list[type] = [report.Report]
    seen = set(todo)
    while todo:
        struct = todo.pop(0)
        hints = typing.get_type_hints(struct)
        summary, about = _documented(struct)
        yield f"### {struct.__name__}\n\n{summary}\n"
        yield _table(
            ("key", "type", "what"),
            ((f"`{f.encode_name}`", _type_text(hints[f.name]), about.get(f.name, "")) for f in msgspec.structs.fields(struct)),
        )
        found = [s for hint in hints.values() for s in _mentioned(hint) if s not in seen]
        todo.extend(dict.fromkeys(found))
        seen.update(found)


def _mentioned(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _mentioned(argument)


def _type_text(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        texts = [_type_text(a) for a in arguments if a is not types.NoneType]
        return " or ".join([*texts, "null"] if types.NoneType in arguments else texts)
    if origin in (list, tuple):
        return f"array of {_type_text(arguments[0])}"
    if origin is dict:
        return f"object of {_type_text(arguments[1])}"
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in arguments)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return _JSON_TYPES[hint]


def _documented(struct: type) -> tuple[str, dict[str, str]]:
    """The docstring before its list of attributes, and that list."""
    doc = inspect.getdoc(struct) or ""
    summary, _, listed = doc.partition("Attributes:")
    about: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+(?:, \w+)*): (.*(?:\n {6,}.*)*)", listed, re.MULTILINE):
        text = " ".join(match[2].split())
        text = text[:1].upper() + text[1:]
        about.update(dict.fromkeys(match[1].split(", "), text if text.endswith(".") else text + "."))
    return summary.strip().replace("``", "`"), {k: v.replace("``", "`") for k, v in about.items()}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
