"""A page of a terminal report: lines, and the few shapes that sections are made of."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from lanewise import units

from .layout import NARROWEST, padded, shortened, wrapped

__all__ = ["LegendRow", "Page", "ns_of", "us_text"]

LegendRow = tuple[str, str, str, str, str]  # mark, style, label, time, share


def ns_of(us: float | None) -> float | None:
    """The report's microseconds as nanoseconds, which units are made from."""
    return None if us is None else us * 1000


def us_text(us: float | None, lang: str) -> str:
    """The report's microseconds as text."""
    return units.duration(ns_of(us), lang)


class Page:
    """Lines of a report.

    Args:
        lang: language of its texts.
        width: cells of a line; a narrower terminal than 60 gets lines of 60, which it wraps.
        verbose: whether everything is shown.
        limit: rows of a table otherwise; 0 for all.
    """

    def __init__(self, lang: str, width: int, *, verbose: bool = False, limit: int = 8) -> None:
        self.lang = lang
        self.width = max(width, NARROWEST)
        self.verbose = verbose
        self.limit = sys.maxsize if verbose or limit == 0 else limit
        self.lines: list[Text] = []

    def add(self, line: Text) -> None:
        """Add a line, cut to the width."""
        line.rstrip()
        if line.cell_len > self.width:
            line.truncate(self.width, overflow="ellipsis")
        self.lines.append(line)

    def blank(self) -> None:
        """Add an empty line."""
        self.lines.append(Text())

    def heading(self, title: str, detail: str = "", style: str = "bold") -> None:
        """Add an empty line and a heading, with something beside it."""
        self.blank()
        line = Text(title, style=style)
        if detail:
            line.append(f"  {detail}", style="not bold")
        self.add(line)

    def paragraph(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Add a text, wrapped."""
        self.lines += [Text(" " * indent).append(line, style=style) for line in wrapped(text, self.width - indent)]

    def item(self, text: str, *, mark: str = "-", mark_style: str = "", indent: int = 2, style: str = "") -> None:
        """Add a text behind a mark, all its lines aligned."""
        hang = indent + cell_len(mark) + 1
        for i, line in enumerate(wrapped(text, self.width - hang)):
            out = Text(" " * (indent if i == 0 else hang))
            if i == 0:
                out.append(mark, style=mark_style).append(" ")
            self.lines.append(out.append(line, style=style))

    def legend(self, rows: Sequence[LegendRow]) -> None:
        """Add the legend of a bar, in two columns where there are more than three rows."""
        half = (self.width - 4) // 2 if len(rows) > 3 else min(self.width - 2, 46)
        cells = [_legend_cell(row, half) for row in rows]
        if len(rows) <= 3:
            self.lines += [Text("  ").append_text(cell) for cell in cells]
            return
        rest = -(-len(cells) // 2)
        for i in range(rest):
            line = Text("  ").append_text(cells[i])
            if i + rest < len(cells):
                line.append("  ").append_text(cells[i + rest])
            self.add(line)


def _legend_cell(row: LegendRow, width: int) -> Text:
    mark, style, label, time, share = row
    room = width - 2 - 8 - 7
    cell = Text().append(mark, style=style).append(" " + padded(shortened(label, room), room))
    return cell.append(padded(time, 8, right=True)).append(padded(share.replace("< ", "<"), 7, right=True))
