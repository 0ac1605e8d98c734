"""Laying out text in columns of a terminal: cells, not characters, since East Asian characters take two."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

__all__ = [
    "NARROWEST",
    "Column",
    "Part",
    "bar",
    "columns",
    "inert",
    "marks",
    "padded",
    "printed",
    "sentence_case",
    "shortened",
    "shortened_path",
    "wrapped",
]

NARROWEST = 60
"""Cells of the narrowest page; in a narrower terminal lines are longer than it."""

_ELLIPSIS = "…"
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
# Japanese may break between any two characters, but closing marks stay with what they close, opening ones with what follows.
_CLOSING = r"、。，．・：；？！）」』】〕〉》ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ%)\]"
_OPENING = r"（「『【〔〈《(\["
# A number and its unit stay together.
_NUMBER = rf"[{_OPENING}~+-]*(?:< )?\d[\d,.]* (?:ns|µs|ms|s|%|[KMGT]iB|B|[GT]B/s|[GT]FLOP/s)(?![A-Za-z])"
_WORD = rf"[^\s{_WIDE}]+[{_CLOSING}]*"
_PIECES = re.compile(rf"{_NUMBER}[{_CLOSING},.;:)]*|[{_OPENING}]+{_WORD}|[{_OPENING}]*[{_WIDE}][{_CLOSING},.;:]*|{_WORD}|\s+")
_EIGHTHS = " ▁▂▃▄▅▆▇█"
# What a terminal obeys, and what turns text around: names of a trace may hold anything.
_OBEYED = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}"
) | dict.fromkeys(map(ord, "\t\n\r"), " ")


def sentence_case(title: str) -> str:
    """A heading of the terminal, where these are in capitals, as a heading elsewhere."""
    if title.isascii():
        words = (word if word.rstrip(",") in ("GPU", "CPU") else word.lower() for word in title.split(" "))
        title = " ".join(words)
    return title[:1].upper() + title[1:]


def inert(text: str) -> str:
    """A text of one line, without what a terminal would obey."""
    return text if text.isprintable() else text.translate(_OBEYED)


def shortened(text: str, width: int) -> str:
    """A text that fits into some cells, cut in the middle: names differ at their ends."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return _ELLIPSIS[:width]
    # The beginning of a name tells more than its end.
    left = (width - 1) * 3 // 5
    return _taken(text, left) + _ELLIPSIS + _taken_from_end(text, width - 1 - cell_len(_taken(text, left)))


def shortened_path(path: str, width: int) -> str:
    """A path that fits into some cells, cut at the front: the file's name is what tells."""
    return path if cell_len(path) <= width else _ELLIPSIS + _taken_from_end(path, width - 1)


def _taken(text: str, width: int) -> str:
    used = 0
    for i, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:i]
    return text


def _taken_from_end(text: str, width: int) -> str:
    return _taken(text[::-1], width)[::-1] if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text with spaces up to a width in cells."""
    room = " " * max(0, width - cell_len(text))
    return room + text if right else text + room


def wrapped(text: str, width: int) -> list[str]:
    """A text as lines of at most some cells; words without a place to break are cut."""
    lines: list[str] = []
    line = ""
    for piece in _PIECES.findall(text.strip()):
        if piece.isspace():
            line += " " if line else ""
            continue
        if cell_len(line) + cell_len(piece) > width and line.strip():
            lines.append(line.rstrip())
            line = ""
        while cell_len(piece) > width:
            lines.append(_taken(piece, width))
            piece = piece[len(lines[-1]) :]
        line += piece
    return [*lines, line.rstrip()] if line.strip() else lines or [""]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        right: whether its cells are numbers.
        least: cells it may shrink to; None keeps its natural width.
        style: of its cells.
        optional: whether it is left out where there is no room.
    """

    title: str
    right: bool = False
    least: int | None = None
    style: str = ""
    optional: bool = False


def columns(heads: Sequence[Column], rows: Sequence[Sequence[str]], width: int, indent: int = 2) -> list[Text]:
    """A table: columns that may shrink share the room that the others leave, their texts shortened in the middle."""
    rows = [[inert(cell) for cell in row] for row in rows]
    widths = [max(cell_len(text) for text in (h.title, *(r[i] for r in rows))) for i, h in enumerate(heads)]
    least = [w if h.least is None else min(w, max(h.least, cell_len(h.title))) for w, h in zip(widths, heads, strict=True)]
    for i in reversed(range(len(heads))):
        if heads[i].optional and indent + sum(least) + 2 * (len(least) - 1) > width:
            rest = [h for k, h in enumerate(heads) if k != i]
            return columns(rest, [[c for k, c in enumerate(r) if k != i] for r in rows], width, indent)
    excess = indent + sum(widths) + 2 * (len(heads) - 1) - width
    while excess > 0:
        # The widest column that may still shrink gives a cell.
        able = [i for i, h in enumerate(heads) if h.least is not None and widths[i] > max(h.least, cell_len(h.title))]
        if not able:
            break
        widths[max(able, key=lambda i: widths[i])] -= 1
        excess -= 1
    lines = [_row([h.title for h in heads], heads, widths, indent, "dim")]
    lines += [_row(row, heads, widths, indent, None) for row in rows]
    return lines


def _row(cells: Sequence[str], heads: Sequence[Column], widths: list[int], indent: int, style: str | None) -> Text:
    out = Text(" " * indent)
    for i, (cell, head, width) in enumerate(zip(cells, heads, widths, strict=True)):
        text = padded(shortened(cell, width), width, right=head.right)
        out.append(text if i < len(cells) - 1 else text.rstrip(), style=head.style if style is None else style)
        if i < len(cells) - 1:
            out.append("  ")
    out.rstrip()
    return out


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its share, the character that fills it and its colour."""

    share: float
    mark: str
    style: str


def bar(parts: Sequence[Part], width: int) -> Text:
    """Parts of a whole side by side; cells are dealt out so that they sum to the whole's."""
    exact = [max(p.share, 0.0) * width for p in parts]
    cells = [int(e) for e in exact]
    spare = min(width, round(sum(exact))) - sum(cells)
    for i in sorted(range(len(parts)), key=lambda i: cells[i] - exact[i])[: max(spare, 0)]:
        cells[i] += 1
    out = Text()
    for part, n in zip(parts, cells, strict=True):
        out.append(part.mark * n, style=part.style)
    return out


def marks(values: Sequence[float | None], width: int) -> str:
    """One mark a value, its height the share of the largest; where room is short, the largest of some neighbours."""
    known = [v for v in values if v is not None]
    top = max(known, default=0.0)
    if top <= 0:
        return ""
    per = -(-len(values) // width)
    groups = [[v for v in values[i : i + per] if v is not None] for i in range(0, len(values), per)]
    # The lowest visible height is one eighth: a short step is a step.
    return "".join(_EIGHTHS[max(1, round(max(g) / top * 8))] if g else " " for g in groups)


def printed(lines: Sequence[Text], *, color: bool) -> str:
    """Lines as one string, with escape codes only where colour is wanted."""
    out = StringIO()
    console = Console(
        file=out,
        width=10_000,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        soft_wrap=True,
        _environ={},
    )
    for line in lines:
        if not line.plain.isprintable():
            line.plain = inert(line.plain)
        console.print(line, end="\n")
    return out.getvalue()
