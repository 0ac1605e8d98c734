"""`lanewise doctor`: can this machine record?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from lanewise.cli import options

__all__ = ["command"]

_STYLE = {"ok": "green", "warning": "yellow", "failed": "red", "absent": "dim"}


@click.command("doctor", short_help="Can this machine record? What to do where it cannot.")
@click.option("-o", "--out", default="traces", show_default=True, help="Folder that traces would go to.")
@options.form_option("terminal", "json")
@options.lang_option
def command(out: str, form: str, lang: str) -> None:
    """Can this machine record? Makes a tiny capture and checks what it needs.

    Exit status: 0 when it can, 1 when a row has failed.
    """
    from lanewise.recording.machine import checks

    rows = checks(Path(out))
    if form == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        _print_table(rows, lang)
    sys.exit(1 if any(row.state == "failed" for row in rows) else 0)


def _print_table(rows: list[Any], lang: str) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    from lanewise.recording.texts import TEXTS
    from lanewise.rendering.layout import padded, printed, wrapped

    names = [TEXTS(f"check-{row.id}", lang) for row in rows]
    states = [TEXTS(f"state-{row.state}", lang) for row in rows]
    left, middle = max(map(cell_len, names)), max(map(cell_len, states))
    width, color = options.screen()
    lines: list[Text] = []
    for row, name, state in zip(rows, names, states, strict=True):
        said = [line for part in _said(row, lang) for line in wrapped(part, max(width - left - middle - 4, 20))] or [""]
        first = Text(padded(name, left + 2)).append(padded(state, middle + 2), style=_STYLE[row.state]).append(said[0])
        first.rstrip()
        lines += [first, *(Text(" " * (left + middle + 4) + line) for line in said[1:])]
    failed = sum(row.state == "failed" for row in rows)
    on_cpu = any(row.id == "gpu" and row.state == "absent" for row in rows)
    key = "doctor-failed" if failed else "doctor-ok-cpu" if on_cpu else "doctor-ok"
    lines += [Text(), *(Text(line) for line in wrapped(TEXTS(key, lang, **({"count": failed} if failed else {})), width))]
    options.write_text(printed(lines, color=color), None, force=False)


def _said(row: Any, lang: str) -> list[str]:
    """What was found, and what to do about it."""
    from lanewise import units
    from lanewise.recording.texts import TEXTS, Notice, notice_text

    facts = row.facts
    if "free_bytes" in row.slots:
        facts = f"{facts}: {TEXTS('doctor-free', lang, free_bytes=units.size(row.slots['free_bytes'], lang))}"
    advice = notice_text(Notice(row.advice, row.slots), lang) if row.advice else ""
    return [part for part in (facts, advice) if part]


if __name__ == "__main__":
    command()
