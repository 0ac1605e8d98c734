"""``lanewise export``: a copy of a trace for another viewer, in which nothing is hidden."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lanewise import units
from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

__all__ = ["command"]


@click.command("export", short_help="Write a copy for another viewer, in which nothing is hidden.")
@options.trace_argument
@click.option("--for", "viewer", type=click.Choice(["perfetto"]), required=True, help="The viewer to write for.")
@click.option("-o", "--out", metavar="FILE", required=True, help="Write to this file; gzip when it ends in .gz.")
@options.force_option
@options.lang_option
@options.quiet_option
def command(trace: str, viewer: str, out: str, force: bool, lang: str, quiet: bool) -> None:
    """Write a copy of TRACE for ui.perfetto.dev.

    That viewer drops slices which overlap on a lane without one enclosing the other. In the copy these are on extra lanes,
    at their own times. Added are the findings, the names of kernels in words, and the steps as counters.

    \b
    lanewise export trace.json.gz --for perfetto -o shown.json.gz
    """
    if trace == "-":
        raise UsageError("-", TEXTS.message("export-twice"), TEXTS.message("export-twice-next"))
    if Path(out).exists() and os.path.exists(trace) and os.path.samefile(out, trace):
        raise UsageError(out, TEXTS.message("same-file"), TEXTS.message("export-same-next"))
    options.check_writable(out, force=force)
    loaded = options.open_trace(trace, quiet=quiet, lang=lang)
    from lanewise.explaining import explain
    from lanewise.viewing.perfetto_trace import export

    try:
        done = export(loaded, explain(loaded, lang), out, source=trace)
    except OSError as why:
        raise UsageError(out, TEXTS.message("not-written", why=why.strerror or str(why))) from why
    if not quiet:
        size = units.size(os.path.getsize(out), lang)
        counts = {"hidden": units.count(done.hidden, lang), "events": units.count(done.events, lang), "lanes": done.lanes}
        click.echo(f"lanewise: {TEXTS('written', lang, path=out, size=size)}", err=True)
        click.echo(f"lanewise: {TEXTS('exported' if done.hidden else 'exported-none', lang, **counts)}", err=True)
