"""--help in both languages: everything that click shows has its Japanese, laid out in cells."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click
import pytest
from rich.cells import cell_len
from running import Outcome

from lanewise.cli import COMMANDS, cli
from lanewise.cli.help import help_texts

Run = Callable[..., Outcome]
NAMES = [name for name, _, _ in COMMANDS]
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def option_texts() -> set[str]:
    commands: list[Any] = [cli, *(cli.get_command(click.Context(cli), name) for name in NAMES)]
    own = {p.help for c in commands for p in c.params if isinstance(p, click.Option) and p.help}
    return own | {"Show this message and exit."}


def test_every_command_and_option_is_translated_and_nothing_else() -> None:
    texts = help_texts()
    assert set(texts["texts"]) == set(NAMES)
    assert set(texts["commands"]) == {"lanewise", *NAMES}
    assert set(texts["options"]) == option_texts()


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_in_japanese(lanewise: Run, name: str) -> None:
    words = [name] if name else []
    done = lanewise("--lang", "ja", *words, "--help")
    assert done.status == 0
    assert done.out.startswith(f"使い方: lanewise {name}".rstrip())
    assert "Options:" not in done.out
    described = [line for line in done.out.splitlines() if re.match(r"\s+-", line) and "  " in line.strip()]
    assert all(_JAPANESE.search(line) for line in described)
    english = lanewise(*words, "--help").out
    assert english.startswith("Usage: ")
    assert [line for line in [*done.out.splitlines(), *english.splitlines()] if cell_len(line) > 80] == []


def test_the_same_commands_are_shown_as_examples(lanewise: Run) -> None:
    for name in NAMES:
        if name == "run":
            continue
        examples = [
            [
                re.split(r"\s{2,}", line.strip())[0]
                for line in lanewise(*lang, name, "--help").out.splitlines()
                if re.match(r"  lanewise ", line)
            ]
            for lang in ((), ("--lang", "ja"))
        ]
        assert examples[0] == examples[1], name


def test_what_belongs_to_a_recorded_command_is_not_read(lanewise: Run) -> None:
    assert "no command" not in lanewise("record", "--", "no-such-program", "--lang", "ja").err
    assert "could not be started" in lanewise("record", "--", "no-such-program", "--lang", "ja").err


def test_without_a_command_the_help_is_shown(lanewise: Run) -> None:
    done = lanewise()
    assert done.status == 2
    assert "Start with:  lanewise explain TRACE" in done.err
