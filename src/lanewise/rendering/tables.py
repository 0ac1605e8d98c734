"""Tables of steps, ops and kernels: for a terminal, and as CSV, JSON or Parquet with every name in full."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lanewise import units

from .layout import NARROWEST, Column, columns, printed
from .texts import TEXTS

if TYPE_CHECKING:
    import polars

__all__ = ["Field", "Table", "as_bytes", "frame", "render"]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table.

    Attributes:
        key: its name in files; ``_us`` and ``_ratio`` at its end are units.
        title: key of its heading among the terminal's texts; None leaves it out there.
        type: Polars type as text.
        least: for texts in a terminal, cells that it may shrink to.
        optional: whether a terminal leaves it out where there is no room.
    """

    key: str
    title: str | None
    type: str
    least: int | None = None
    optional: bool = False

    @property
    def number(self) -> bool:
        """Whether its values are numbers."""
        return self.type in ("Int64", "Float64")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, each a value for each field; None is not known.

    Attributes:
        fields: the columns.
        rows: the rows that are wanted, in order.
        total: how many there would be without a limit.
        terminal: key to the function that makes its cell, where a terminal shows other words than a file.
    """

    fields: Sequence[Field]
    rows: Sequence[Sequence[Any]]
    total: int
    shown_as: dict[str, dict[Any, str]] = field(default_factory=dict)


def render(table: Table, *, lang: str, width: int = 80, color: bool = False) -> str:
    """The table for a terminal: names shortened in the middle, numbers with their units."""
    width = max(width, NARROWEST)
    if not table.rows:
        return f"{TEXTS('no-rows', lang)}\n"
    shown = [(i, f) for i, f in enumerate(table.fields) if f.title is not None]
    heads = [Column(TEXTS(f.title or "", lang), right=f.number, least=f.least, optional=f.optional) for _, f in shown]
    cells = [[_cell(table, f, row[i], lang) for i, f in shown] for row in table.rows]
    lines = columns(heads, cells, width, indent=0)
    hidden = table.total - len(table.rows)
    if hidden > 0:
        lines.append(Text(TEXTS("more-rows", lang, count=units.count(hidden, lang), command="--limit 0"), style="dim"))
    return printed(lines, color=color)


def _cell(table: Table, field_: Field, value: Any, lang: str) -> str:
    if value is None:
        return "-"
    if field_.key.endswith("_us"):
        return units.duration(value * 1000, lang)
    if field_.key.endswith("_ratio"):
        return units.percent(value, lang)
    if field_.key == "flops_per_s":
        return units.teraflops(value, lang)
    if field_.key == "bytes_per_s":
        return units.gigabytes_per_s(value, lang)
    if field_.number:
        return units.count(value, lang)
    if isinstance(value, list):
        return f"{value[0]} +{len(value) - 1}" if len(value) > 1 else "".join(value)
    if field_.key == "shapes":
        return _shapes(value)
    return table.shown_as.get(field_.key, {}).get(value, str(value))


def _shapes(recorded: str) -> str:
    """Recorded input shapes as people write them: ``[[8192, 768], [], [[2], [3]]]`` is ``8192x768, (2, 3)``."""
    import json

    try:
        shapes = json.loads(recorded)
        return ", ".join(text for text in map(_shape, shapes) if text) or "-"
    except (ValueError, TypeError):
        return recorded


def _shape(shape: list[Any]) -> str:
    if shape and all(isinstance(size, list) for size in shape):
        return f"({', '.join(_shape(one) for one in shape)})"
    return "x".join(map(str, shape))


def frame(table: Table) -> polars.DataFrame:
    """The table as a Polars frame."""
    import polars as pl

    types = {f.key: pl.List(pl.String) if f.type == "List" else getattr(pl, f.type) for f in table.fields}
    return pl.DataFrame([list(row) for row in table.rows], schema=types, orient="row")


def as_bytes(table: Table, form: str) -> bytes:
    """The table as ``csv``, ``json`` (a list of objects) or ``parquet``; in CSV a list is joined by semicolons."""
    import polars as pl

    data = frame(table)
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(data.to_dicts()), indent=2) + b"\n"
    out = io.BytesIO()
    if form == "parquet":
        data.write_parquet(out)
    else:
        lists = [f.key for f in table.fields if f.type == "List"]
        data.with_columns(pl.col(lists).list.join("; ")).write_csv(out)
    return out.getvalue()
