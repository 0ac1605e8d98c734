"""What the tests of documents need of a Markdown page: sections, code, tables, links, anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Section", "anchors", "links", "sections"]

_FENCE = re.compile(r"^(```|~~~)")
_HEADING = re.compile(r"^(#{1,6}) (.+?) *#*$")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(<?([^)\s>]*)>?(?: \"[^\"]*\")?\)")
_HTML_LINK = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]+)\"")


@dataclass
class Section:
    """A heading and what stands under it, up to the next one.

    Attributes:
        level: 1 to 6; 0 for what stands before the first heading.
        title: text of the heading, with its marks.
        prose: lines that are neither code nor rows of a table.
        code: blocks, fenced or indented, without fences and indents.
        tables: their rows, each a list of cells; the line of dashes is left out.
    """

    level: int
    title: str
    prose: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Heading, prose and tables."""
        return "\n".join([self.title, *self.prose, *(" | ".join(row) for table in self.tables for row in table)])

    @property
    def spans(self) -> set[str]:
        """What stands in back quotes outside blocks."""
        return set(_SPAN.findall(re.sub(r"\n(?=\S)", " ", self.text)))


def sections(text: str) -> list[Section]:
    """The sections of a page in order."""
    found = [Section(0, "")]
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line, here = lines[at], found[-1]
        if _FENCE.match(line):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith(line[:3]))
            here.code.append("\n".join(lines[at + 1 : end]))
            at = end + 1
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip()) and not _in_list(here):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            here.code.append("\n".join(x[4:] for x in lines[at:end]).rstrip("\n"))
            at = end
        elif line.startswith("|"):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            here.tables.append([_cells(row) for row in lines[at:end] if not re.fullmatch(r"[|: -]+-[|: -]*", row)])
            at = end
        else:
            heading = _HEADING.match(line)
            if heading:
                found.append(Section(len(heading[1]), heading[2]))
            else:
                here.prose.append(line)
            at += 1
    return found


def _in_list(section: Section) -> bool:
    said = [line for line in section.prose if line.strip()]
    return bool(said) and said[-1].startswith(("- ", "* ", "  "))


def _cells(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def links(text: str) -> Iterator[str]:
    """Targets of all links and pictures outside code."""
    for section in sections(text):
        said = _SPAN.sub("", section.text)
        yield from _LINK.findall(said)
        yield from _HTML_LINK.findall(said)


def anchors(text: str) -> set[str]:
    """What a link to the page can have behind its `#`, as GitHub makes it of the headings."""
    found: dict[str, int] = {}
    out = set()
    for section in sections(text):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", section.title)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        if section.level:
            out.add(slug if slug not in found else f"{slug}-{found[slug]}")
            found[slug] = found.get(slug, 0) + 1
    return out
