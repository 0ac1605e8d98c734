"""``lanewise expect``: a trace against the expectations of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lanewise.cli import options

if TYPE_CHECKING:
    from lanewise.loading import Window

__all__ = ["command"]


@click.command("expect", short_help="Does a trace still have the structure that it should have? For CI.")
@options.trace_argument
@click.argument("expectations", required=False, metavar="[EXPECTATIONS.toml]")
@click.option("--write", is_flag=True, help="Propose a file from a trace that is as it should be.")
@click.option("-o", "--out", metavar="FILE", help="Where --write writes.  [default: standard output]")
@options.force_option
@click.option("--strict", is_flag=True, help="Exit 1 also when something could not be checked.")
@click.option("-v", "--verbose", is_flag=True, help="Also what holds.")
@options.form_option("terminal", "json")
@options.window_options
@options.lang_option
@options.quiet_option
def command(
    trace: str,
    expectations: str | None,
    write: bool,
    out: str | None,
    force: bool,
    strict: bool,
    verbose: bool,
    form: str,
    window: Window | None,
    lang: str,
    quiet: bool,
) -> None:
    """Check TRACE against a file of expectations: kernels, launches, copies, syncs, breaks a step. Exit 1 when one is broken.

    \b
    lanewise expect --write good.json.gz -o e.toml  propose from a good trace
    lanewise expect trace.json.gz e.toml            check another trace
    lanewise expect trace.json.gz e.toml --strict   what is not checked fails
    """
    if write == (expectations is not None):
        raise click.UsageError(_text("write-or-file", lang))
    if write:
        _write(trace, out, force, window, lang, quiet)
        return
    from lanewise.expectations.reading import read_expectations

    assert expectations is not None
    wanted = read_expectations(expectations)
    loaded = options.open_trace(trace, quiet=quiet, lang=lang, window=window)
    from lanewise.expectations.checking import checked

    found = checked(loaded, wanted, lang)
    if form == "json":
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    else:
        from lanewise.rendering.expect import render

        width, color = options.screen() if out is None else (80, False)
        text = render(found, lang, width=width, color=color, verbose=verbose, strict=strict)
    options.write_text(text, out, force=force)
    if found.failed(strict):
        sys.stdout.flush()
        sys.exit(1)


def _write(trace: str, out: str | None, force: bool, window: Window | None, lang: str, quiet: bool) -> None:
    if out is not None:
        options.check_writable(out, force=force)
    loaded = options.open_trace(trace, quiet=quiet, lang=lang, window=window)
    from lanewise.expectations.proposing import proposed

    options.write_text(proposed(loaded, lang), out, force=force)


def _text(key: str, lang: str) -> str:
    from lanewise.expectations.texts import EXPECT

    return EXPECT(key, lang)
