"""``--help`` in Japanese: click lays out English only, and finds no place to break in a text without spaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from lanewise.translations import translated_area

__all__ = ["help_texts", "in_language"]

_MOST_LEFT = 30


def in_language(command: click.Command, lang: str) -> click.Command:
    """The command, with help in a language."""
    command.context_class = _JapaneseContext if lang == "ja" else click.Context
    return command


def help_texts() -> Mapping[str, Mapping[str, str]]:
    """The Japanese texts: ``headings``, ``texts`` and ``commands`` by command, ``options`` by their English text."""
    return translated_area("ja", "help")


class _Formatter(click.HelpFormatter):
    """Puts in the Japanese for each English text, and wraps it by the cells that it takes."""

    _command = ""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self._command = prog.split()[-1]
        super().write_usage(prog, args, f"{help_texts()['headings']['Usage']}: ")

    def write_heading(self, heading: str) -> None:
        super().write_heading(help_texts()["headings"].get(heading, heading))

    def write_text(self, text: str) -> None:
        from lanewise.rendering.layout import wrapped

        room = self.width - self.current_indent
        paragraphs = help_texts()["commands"].get(self._command, text).strip().split("\n\n")
        for number, paragraph in enumerate(paragraphs):
            raw = paragraph.startswith("\b\n")
            lines = paragraph.split("\n")[1:] if raw else wrapped(paragraph, room)
            self.write("\n" if number else "")
            self.write("".join(f"{' ' * self.current_indent}{line}\n" for line in lines))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _MOST_LEFT, col_spacing: int = 2) -> None:
        from rich.cells import cell_len

        from lanewise.rendering.layout import padded, wrapped

        rows = list(rows)
        left = min(max(cell_len(term) for term, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for term, english in rows:
            first, *rest = wrapped(_translated(term, english), max(self.width - self.current_indent - left, 10))
            if cell_len(term) > left - col_spacing:
                self.write(f"{indent}{term}\n{indent}{' ' * left}{first}\n")
            else:
                self.write(f"{indent}{padded(term, left)}{first}\n")
            self.write("".join(f"{indent}{' ' * left}{line}\n" for line in rest))


class _JapaneseContext(click.Context):
    formatter_class = _Formatter


def _translated(term: str, english: str) -> str:
    """The Japanese of an option's or a command's text; what click adds behind it, in brackets, too."""
    texts = help_texts()
    if term in texts["texts"]:
        return texts["texts"][term]
    if english in texts["options"]:
        return texts["options"][english]
    text, gap, extra = english.rpartition("  [")
    headings = texts["headings"]
    for word in ("default", "required"):
        extra = extra.replace(word, headings[word])
    return f"{texts['options'].get(text, text)}{gap}{extra}"
