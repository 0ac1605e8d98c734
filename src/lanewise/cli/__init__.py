"""The command line: one file a subcommand, loaded when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

__all__ = ["main"]

# Name, module, one line for --help. In the order in which they are useful.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("explain", "explain", "What this trace shows, and why the step takes as long as it does."),
    ("steps", "tables", "The steps: time, GPU time, launches."),
    ("ops", "tables", "CPU ops by name: self and total time, CPU and GPU."),
    ("kernels", "tables", "GPU kernels and copies by name, with the ops that launched them."),
    ("tree", "tree", "The chain from annotation to op to call to kernel."),
    ("slice", "slice", "Cut a few steps or a time window out of a large trace."),
    ("kernel", "kernel", "What a kernel's name says, in words."),
    ("record", "record", "Record a trace of a script, without editing it."),
    ("run", "run", "Run and record a rung of the built-in ladder."),
    ("doctor", "doctor", "Can this machine record? What to do if not."),
    ("calibrate", "calibrate", "Measure what this GPU can really reach."),
)


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it is called, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, _, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = next((module for name, module, _ in COMMANDS if name == cmd_name), None)
        if home is None:
            return None
        module = importlib.import_module(f"lanewise.cli.{home}")
        command: click.Command = getattr(module, "command", None) or getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, _, text in COMMANDS])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            self._unknown(args[0])
        return super().resolve_command(ctx, args)

    def _unknown(self, word: str) -> None:
        import difflib

        if os.path.exists(word):
            raise click.UsageError(f"{word} is a file. To explain it: lanewise explain {word}")
        near = difflib.get_close_matches(word, [name for name, _, _ in COMMANDS], n=1)
        hint = f"Did you mean {near[0]}?" if near else "See lanewise --help."
        raise click.UsageError(f"There is no command {word!r}. {hint}")


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(None, "-V", "--version", package_name="lanewise")
def cli() -> None:
    """Why is this PyTorch program slow, and what is it worth to fix it?

    lanewise reads PyTorch profiler traces (Kineto JSON, plain or gzip, of any age) and explains them.
    Results go to standard output, progress and warnings to standard error. Exit status: 0 fine, 1 an
    expectation or gate failed, 2 wrong usage or unreadable input.

    \b
    Start with:  lanewise explain TRACE
    """


def main() -> None:
    """Entry point: errors become one message and exit status 2, a closed pipe ends quietly."""
    from lanewise.errors import LanewiseError

    try:
        cli.main(standalone_mode=True)
    except LanewiseError as error:
        click.echo(f"lanewise: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        click.echo("lanewise: interrupted.", err=True)
        sys.exit(130)
