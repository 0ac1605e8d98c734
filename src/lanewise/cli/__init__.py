"""The command line: one file a subcommand, loaded when it is called."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from itertools import pairwise
from typing import Any

import click

__all__ = ["COMMANDS", "main"]

# Name, module, one line for --help. In the order in which they are useful.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("explain", "explain", "What this trace shows, and why the step takes as long as it does."),
    ("view", "view", "Look at a trace in the browser, with its timeline."),
    ("steps", "tables", "The steps: time, GPU time, launches."),
    ("ops", "tables", "CPU ops by name: self and total time, CPU and GPU."),
    ("kernels", "tables", "GPU kernels and copies by name, with the ops that launched them."),
    ("tree", "tree", "The chain from annotation to op to call to kernel."),
    ("diff", "diff", "What changed between two traces, and what noise does not let one see."),
    ("why", "why", "Why the GPU was idle at a moment."),
    ("rule", "rule", "What a finding means, how to fix it, how it is measured."),
    ("guess", "guess", "What you think a step runs, beside what it ran."),
    ("expect", "expect", "Does a trace still have the structure that it should have? For CI."),
    ("slice", "slice", "Cut a few steps or a time window out of a large trace."),
    ("export", "export", "Write a copy for another viewer, in which nothing is hidden."),
    ("kernel", "kernel", "What a kernel's name says, in words."),
    ("record", "record", "Record a trace of a script, without editing it."),
    ("run", "run", "Run and record a rung of the built-in ladder."),
    ("doctor", "doctor", "Can this machine record? What to do if not."),
    ("calibrate", "calibrate", "Measure what this GPU can really reach."),
)
# What people type for a file rather than a command.
_TRACE_ENDINGS = (".json", ".json.gz", ".gz", ".pt.trace")


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
        return _with_help(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, _, text in COMMANDS])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word = args[0] if args else "-"
        if not word.startswith("-") and all(word != name for name, _, _ in COMMANDS):
            raise click.UsageError(_unknown(word), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader (head, less) has seen enough: nothing is wrong, and nothing more can be said.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        return result


def _unknown(word: str) -> str:
    """What to say about a word that is no command."""
    from lanewise.cli.texts import TEXTS

    if os.path.exists(word) or word.endswith(_TRACE_ENDINGS):
        return TEXTS("file-for-command", _language(), word=word)
    import difflib

    near = difflib.get_close_matches(word, [name for name, _, _ in COMMANDS], n=1)
    if near:
        return TEXTS("near-command", _language(), word=word, near=near[0])
    return TEXTS("unknown-command", _language(), word=word)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(None, "-V", "--version", package_name="lanewise", message="%(prog)s %(version)s")
@click.option("--lang", type=click.Choice(("en", "ja")), help="Language of the output.  [default: the locale's]")
def cli(lang: str | None) -> None:
    """Why is this PyTorch program slow, and what is it worth to fix it?

    lanewise reads PyTorch profiler traces (Kineto JSON, plain or gzip, of any age) and explains them.
    Results go to standard output, progress and warnings to standard error. Exit status: 0 fine, 1 an
    expectation or gate failed, 2 wrong usage or unreadable input.

    \b
    Start with:  lanewise explain TRACE
    """


def main() -> None:
    """Entry point: every error becomes one message on stderr and exit status 2, Ctrl-C 130; a closed pipe ends quietly."""
    from lanewise.cli.plain import plain_output
    from lanewise.errors import LanewiseError

    plain_output()
    try:
        status = _with_help(cli).main(prog_name="lanewise", standalone_mode=False)
    except LanewiseError as error:
        _complain(error.text(_language()))
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # since click 8.2
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        from lanewise.cli.usage import usage_text

        _complain(usage_text(error, _language()))
    except OSError as error:  # a full disk, a lost network drive: what was read and written elsewhere has errors of its own
        with contextlib.suppress(OSError):  # what the buffer still holds cannot be written either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = error.strerror or str(error)
        _complain(f"{error.filename or _text('output')}: {_text('not-written', why=why)}")
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"lanewise: {_text('interrupted')}", err=True)
        sys.exit(130)
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _with_help(command: click.Command) -> click.Command:
    """The command, with its help in the language asked for."""
    lang = _language()
    if lang == "en" and command.context_class is click.Context:
        return command
    from lanewise.cli.help import in_language

    return in_language(command, lang)


def _complain(text: str) -> None:
    click.echo(f"lanewise: {text}", err=True)
    sys.exit(2)


def _text(key: str, **slots: str) -> str:
    from lanewise.cli.texts import TEXTS

    return TEXTS(key, _language(), **slots)


def _language() -> str:
    """The language asked for on the command line, read before anything is parsed, so that errors speak it too."""
    from lanewise.translations import LANGUAGES, default_language

    words = sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]  # behind it are a recorded command's own
    for word, following in pairwise([*words, ""]):
        value = following if word == "--lang" else word.removeprefix("--lang=") if word.startswith("--lang=") else None
        if value in LANGUAGES:
            return value
    return default_language()
