"""`lanewise run`: run a rung of the ladder."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

import click

from lanewise.errors import LanewiseError

__all__ = ["command"]


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
    short_help="Run a rung of the ladder: a small workload that leaves a trace.",
)
@click.argument("rung", required=False)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(rung: str | None, flags: tuple[str, ...]) -> None:
    """Run a rung of the ladder: a small workload that leaves a trace.

    \b
    lanewise run                            lists the rungs
    lanewise run 01 --guess "gemm add"      runs the first, and compares what you expect
    lanewise run 05 --help                  what it teaches, and its flags
    lanewise run 08 --ranks 2               runs it under torchrun
    """
    try:
        if rung is None:
            _list_rungs()
        elif rung in ("--help", "-h"):
            click.echo(click.get_current_context().get_help())
        else:
            _run(rung, list(flags))
    except LanewiseError as error:
        click.echo(f"lanewise: {error}", err=True)
        sys.exit(2)


def _list_rungs() -> None:
    from lanewise.ladder.registry import RUNGS, rung_title

    for rung in RUNGS:
        title = rung_title(rung).partition(": ")[2].rstrip(".")
        click.echo(f"{rung:28} {title}")


def _run(rung: str, flags: list[str]) -> None:
    from lanewise.ladder.registry import rung_named, script_path

    path = str(script_path(rung_named(rung)))
    ranks, flags = _ranks(flags)
    if ranks is not None and "RANK" not in os.environ:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        sys.exit(subprocess.run([*launcher, path, *flags], check=False).returncode)
    sys.argv = [path, *flags]
    runpy.run_path(path, run_name="__main__")


def _ranks(flags: list[str]) -> tuple[str | None, list[str]]:
    """`--ranks N` is the launcher's, the rest the script's."""
    if "--ranks" not in flags:
        return None, flags
    at = flags.index("--ranks")
    if at + 1 >= len(flags) or not flags[at + 1].isdigit():
        raise click.UsageError("--ranks needs a number of processes, such as --ranks 2.")
    return flags[at + 1], flags[:at] + flags[at + 2 :]


if __name__ == "__main__":
    command()
