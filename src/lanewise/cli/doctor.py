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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lanewise import units
    from lanewise.recording.texts import TEXTS, Notice, notice_text

    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        facts = row.facts
        if "free_bytes" in row.slots:
            facts = f"{facts}: {TEXTS('doctor-free', lang, free_bytes=units.size(row.slots['free_bytes'], lang))}"
        advice = notice_text(Notice(row.advice, row.slots), lang) if row.advice else ""
        table.add_row(
            Text(TEXTS(f"check-{row.id}", lang)),
            Text(TEXTS(f"state-{row.state}", lang), style=_STYLE[row.state]),
            Text("\n".join(part for part in (facts, advice) if part)),
        )
    console = Console()
    console.print(table)
    failed = sum(row.state == "failed" for row in rows)
    console.print(Text(TEXTS("doctor-failed", lang, count=failed) if failed else TEXTS("doctor-ok", lang)))


if __name__ == "__main__":
    command()
