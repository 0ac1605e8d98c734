"""``lanewise why``: why the GPU was idle at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lanewise.cli import options
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.model.trace import Trace

__all__ = ["command"]


@click.command("why", short_help="Why the GPU was idle at a moment, and what ended the gap.")
@options.trace_argument
@click.option(
    "--at", "at", metavar="TIME", required=True, help="The moment: µs after the trace's start, 1.5ms, or absolute with @."
)
@click.option("--device", type=int, help="Number of the GPU.  [default: all]")
@options.lang_option
@options.quiet_option
def command(trace: str, at: str, device: int | None, lang: str, quiet: bool) -> None:
    """Say what each GPU was doing at a moment; for an idle one, what the CPU was doing and what ended the gap.

    \b
    lanewise why trace.json.gz --at 1204.5      1,204.5 µs after the first event
    lanewise why trace.json.gz --at 12ms
    """
    from lanewise.loading.window import moment_of
    from lanewise.rendering.why import TEXTS

    asked = moment_of("--at", at)
    loaded = options.open_trace(trace, quiet=quiet, lang=lang)
    span = loaded.span
    if span is None:
        raise UsageError(trace, TEXTS("no-events", lang))
    moment = asked.ns if asked.absolute else span[0] + asked.ns
    if not span[0] <= moment <= span[1]:
        from lanewise.units import duration

        raise UsageError(trace, TEXTS("outside", lang, span=duration(span[1] - span[0], lang)))
    click.echo(_answer(loaded, moment, device, lang))


def _answer(trace: Trace, moment: int, device: int | None, lang: str) -> str:
    from lanewise.analyses.moment import moments
    from lanewise.rendering.why import TEXTS, render

    found = [m for m in moments(trace, moment) if device is None or m.device == device]
    if not found:
        raise UsageError(trace.path, TEXTS("no-device", lang))
    return render(found, lang)
