"""A rule's page for a terminal: the Markdown page with its paragraphs wrapped and its marks turned into styles."""

from __future__ import annotations

from rich.text import Text

from .layout import printed, wrapped

__all__ = ["render"]


def render(page: str, *, width: int = 80, color: bool = False) -> str:
    """The page as text; code stays as it is, never wrapped."""
    lines: list[Text] = []
    code = False
    for line in page.splitlines():
        if line.startswith("```"):
            code = not code
        elif code:
            lines.append(Text(f"    {line}".rstrip(), style="cyan"))
        elif line.startswith("#"):
            level, _, title = line.partition(" ")
            lines.append(Text(title.replace("`", ""), style="bold" if len(level) > 1 else "bold underline"))
        else:
            lines += [Text(f"  {part}".rstrip()) for part in wrapped(line, width - 2)]
    return printed(lines, color=color)
