"""``lanewise guess``: what you think a step runs, beside what it ran."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lanewise.cli import options
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.loading import Window

__all__ = ["command"]


@click.command("guess", short_help="What you think a step runs, beside what it ran.")
@options.trace_argument
@click.argument("words", nargs=-1, metavar="[WORDS]...")
@click.option("--in", "within", metavar="NAME", help="Look into this annotation (or module) rather than the whole step.")
@click.option("--step", type=click.IntRange(0), metavar="N", help="This step.  [default: the second]")
@click.option("-v", "--verbose", is_flag=True, help="All ops and all reasons.")
@options.form_option("terminal", "json")
@options.window_options
@options.lang_option
@options.quiet_option
def command(
    trace: str,
    words: tuple[str, ...],
    within: str | None,
    step: int | None,
    verbose: bool,
    form: str,
    window: Window | None,
    lang: str,
    quiet: bool,
) -> None:
    """Guess which kernels a step of TRACE runs, then see which did, and why each one that you did not think of is there.

    WORDS is one word a GPU op, in order: gemm (matmul, mm, linear), gelu, add, softmax, norm, conv, attention, flash, copy,
    memset, triton, nccl, any other op, kernel or library name; "gemm*3" and "3 gemm" stand for three. Without WORDS it asks.

    \b
    lanewise guess trace.json.gz "gemm gemm gelu mul gemm"
    lanewise guess trace.json.gz "gemm softmax gemm" --in attention
    """
    from lanewise.expectations.guessing import guess, guessed_words

    asked = guessed_words(" ".join(words), "WORDS") if words else None
    if asked is None and not sys.stdin.isatty():
        from lanewise.expectations.texts import GUESS

        raise UsageError("WORDS", GUESS.message("no-guess"), GUESS.message("no-guess-next"))
    loaded = options.open_trace(trace, quiet=quiet, lang=lang, window=window)
    if asked is None:
        asked = _ask(within, lang)
    found = guess(loaded, asked, within=within, step=step, lang=lang)
    if form == "json":
        import msgspec

        options.write_text(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n", None, force=False)
        return
    from lanewise.rendering.guess import render

    width, color = options.screen()
    options.write_text(render(found, lang, width=width, color=color, verbose=verbose), None, force=False)


def _ask(within: str | None, lang: str) -> list[str]:
    from lanewise.expectations.guessing import guessed_words
    from lanewise.expectations.texts import GUESS

    click.echo(GUESS("ask", lang, part=within or GUESS("a-step", lang)), err=True)
    return guessed_words(click.prompt(GUESS("prompt", lang), err=True), "WORDS")
