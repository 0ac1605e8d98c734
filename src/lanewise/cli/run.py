"""`lanewise run`: run a rung of the ladder."""

from __future__ import annotations

import itertools
import os
import runpy
import subprocess
import sys

import click

from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import LanewiseError
from lanewise.translations import LANGUAGES

__all__ = ["command"]


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
    short_help="Run a rung of the ladder: a small workload that leaves a trace.",
)
@options.lang_option
@click.argument("rung", required=False)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(rung: str | None, flags: tuple[str, ...], lang: str) -> None:
    """Run a rung of the ladder: a small workload that leaves a trace.

    \b
    lanewise run                            lists the rungs
    lanewise run 01 --guess "gemm add"      runs it, beside what you expect
    lanewise run 05 --help                  what it teaches, and its flags
    lanewise run 08 --ranks 2               runs it under torchrun
    """
    lang = _asked(flags) or lang
    try:
        if rung is None:
            _list_rungs(lang)
        elif rung in ("--help", "-h"):
            click.echo(click.get_current_context().get_help())
        else:
            _run(rung, list(flags), lang)
    except LanewiseError as error:
        click.echo(f"lanewise: {error.text(lang)}", err=True)
        sys.exit(2)


def _list_rungs(lang: str) -> None:
    from lanewise.ladder.registry import RUNGS
    from lanewise.recording.texts import TEXTS as TITLES

    for rung in RUNGS:
        click.echo(f"{rung:28} {TITLES(f'rung-{rung}', lang)}")


def _run(rung: str, flags: list[str], lang: str) -> None:
    from lanewise.ladder.registry import rung_named, script_path

    path = str(script_path(rung_named(rung)))
    ranks, flags = _ranks(flags)
    os.environ["LANEWISE_LANG"] = lang  # what the script takes where it is not told by its own --lang
    if ranks is not None and "RANK" not in os.environ:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        sys.exit(subprocess.run([*launcher, path, *flags], check=False).returncode)
    sys.argv = [path, *flags]
    runpy.run_path(path, run_name="__main__")


def _asked(flags: tuple[str, ...]) -> str | None:
    """The language that stands among the script's own flags."""
    value = next((b for a, b in itertools.pairwise(flags) if a == "--lang"), None)
    return value if value in LANGUAGES else None


def _ranks(flags: list[str]) -> tuple[str | None, list[str]]:
    """`--ranks N` is the launcher's, the rest the script's."""
    if "--ranks" not in flags:
        return None, flags
    at = flags.index("--ranks")
    if at + 1 >= len(flags) or not flags[at + 1].isdigit():
        raise click.UsageError(TEXTS.message("ranks-count"))
    return flags[at + 1], flags[:at] + flags[at + 2 :]


if __name__ == "__main__":
    command()
