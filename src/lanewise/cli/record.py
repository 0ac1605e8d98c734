"""`lanewise record`: record a command without a change to it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import LanewiseError, UsageError

__all__ = ["command"]

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _bytes(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    """``512M``, ``2G``, ``2GiB`` or a plain number of bytes; 0 is no limit."""
    text = value.strip().lower().removesuffix("ib").removesuffix("b")
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "")
    try:
        return int(float(number) * _UNITS[unit])
    except ValueError:
        raise click.BadParameter(TEXTS.message("limit-form", text=value)) from None


def _ranks(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """``all``, or ranks with commas between."""
    if value is None or value == "all":
        return None
    try:
        return tuple(int(rank) for rank in value.split(","))
    except ValueError:
        raise click.BadParameter(TEXTS.message("ranks-form", text=value)) from None


class _Record(click.Command):
    """As Python's own ``-m MODULE``: all that follows is the module's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values = {name for p in self.params if isinstance(p, click.Option) and not p.is_flag for name in p.opts}
        i = 0
        while i < len(args) and args[i].startswith("-") and args[i] not in ("-m", "--"):
            i += 2 if args[i] in values else 1
        if args[i : i + 1] == ["-m"] and i + 1 < len(args):
            args = [*args[:i], "--", *args[i:]]
        return super().parse_args(ctx, args)


@click.command(
    "record",
    cls=_Record,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    short_help="Record a command with torch's profiler, without a change to it.",
)
@click.option("--skip", default=5, show_default=True, help="Steps that run before anything is done.")
@click.option("--timed", default=10, show_default=True, help="Steps timed without the profiler: the real time.")
@click.option("--warmup", default=2, show_default=True, help="Steps with the profiler on and nothing kept.")
@click.option("--active", default=3, show_default=True, help="Steps recorded.")
@click.option("--whole", is_flag=True, help="Record everything from start to end, without steps.")
@click.option(
    "--step-on",
    default="auto",
    show_default=True,
    metavar="auto|optimizer|forward|[MODULE:]FUNCTION",
    help="What ends a step. auto: optimizer steps in training, outermost module calls in inference.",
)
@click.option("--shapes", is_flag=True, help="Input shapes of each op (slower steps, larger file).")
@click.option("--stack", is_flag=True, help="Python call stacks (steps several times slower, file ten times larger).")
@click.option("--memory", is_flag=True, help="Every allocation and release.")
@click.option("--flops", is_flag=True, help="Estimated operations of matmul and convolution; turns shapes on.")
@click.option("--modules", is_flag=True, help="Module hierarchy of TorchScript ops; for eager modules use --stack.")
@click.option("-o", "--out", metavar="FILE|FOLDER", help="Trace (.json, .json.gz) or folder.  [default: traces]")
@click.option("--label", help="First part of the file name.  [default: the script's name]")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.option("--limit", default="1G", show_default=True, callback=_bytes, help="Largest trace before compression.")
@click.option(
    "--ranks",
    callback=_ranks,
    metavar="all|0,3",
    help="Ranks to record of a distributed run.  [default: all]",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what went wrong.")
@options.lang_option
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def command(words: tuple[str, ...], module: str | None, lang: str, **planned: Any) -> None:
    """Record a command with torch's profiler, without a change to it.

    \b
    lanewise record -- python train.py --epochs 1
    lanewise record -- torchrun --nproc-per-node 8 train.py
    lanewise record --stack -m package.train
    lanewise record --step-on train_step -- python loop.py

    The command keeps its arguments, its streams and its exit status. Messages go to stderr.
    """
    if module is not None:  # -mMODULE
        words = ("-m", module, *words)
    try:
        status = _record(words, lang, **planned)
    except LanewiseError as error:
        click.echo(f"lanewise: {error.text(lang)}", err=True)
        sys.exit(2)
    if status < 0:
        _die_of(-status)
    sys.exit(status)


def _record(words: tuple[str, ...], lang: str, step_on: str, quiet: bool, limit: int, **planned: Any) -> int:
    from lanewise.recording.plan import Plan
    from lanewise.recording.script import command_of, run_recorded
    from lanewise.recording.texts import notice_text

    plan = Plan(limit_bytes=limit, **planned)
    if not plan.whole and plan.skip == 0:
        # A step is known by its end, so the first one has no beginning that could be recorded.
        raise UsageError("--skip 0", TEXTS.message("skip-0"), TEXTS.message("skip-0-next"))
    if plan.out is not None:
        plan = Plan(**{**vars(plan), "out": os.path.abspath(plan.out)})
    else:
        plan = Plan(**{**vars(plan), "out": str(Path("traces").resolve())})
    outcome = run_recorded(command_of(words), plan, step_on)
    for notice in outcome.notices:
        if not quiet or notice.key not in _GOOD_NEWS:
            click.echo(f"lanewise: {notice_text(notice, lang)}", err=True)
    return outcome.status


_GOOD_NEWS = frozenset({"written", "estimate", "step-time", "step-time-mean", "next"})


def _die_of(number: int) -> None:
    """End as the command did, so that a shell sees the same signal."""
    if hasattr(signal, "SIGKILL"):
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(128 + number)


if __name__ == "__main__":
    command()
