"""Commands that texts, pages and messages name exist, with the options that they are named with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lanewise.cli import COMMANDS, cli
from places import ROOT

NAMES = [name for name, _, _ in COMMANDS]
_NAMED = re.compile(rf"lanewise (?P<name>{'|'.join(NAMES)})\b(?P<rest>[^`\n\"]*)")
# The script's own flags follow a rung.
_OTHERS_FLAGS = {"run"}
PAGES = [
    *(p for p in (ROOT / "src" / "lanewise").rglob("*") if p.suffix in (".py", ".toml")),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
    *(ROOT / "ladder").glob("*.py"),
]


def options_of(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    found = {o for p in command.params if isinstance(p, click.Option) for o in (*p.opts, *p.secondary_opts)}
    return found | {"--help", "-h"}


def wrong(page: Path) -> Iterator[str]:
    for found in _NAMED.finditer(page.read_text("utf-8")):
        name, rest = found["name"], re.split(r" -- |  #|lanewise ", found["rest"])[0]
        if name in _OTHERS_FLAGS:
            continue
        if name == "record":
            rest = re.split(r" -m | \S+\.py\b", rest)[0]
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest):
            if option not in options_of(name):
                yield f"{name} {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    assert not list(wrong(page))
