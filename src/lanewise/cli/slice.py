"""``lanewise slice``: a part of a large trace as a small file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanewise import units
from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.loading import Window
    from lanewise.loading.slicing import SliceResult

__all__ = ["command"]


@click.command("slice", short_help="Cut a few steps or a time window out of a large trace.")
@options.trace_argument
@click.option("-o", "--out", metavar="FILE", required=True, help="Write to this file; gzip when it ends in .gz.")
@options.force_option
@options.window_options
@options.lang_option
@options.quiet_option
def command(trace: str, out: str, force: bool, window: Window | None, lang: str, quiet: bool) -> None:
    """Cut a window out of TRACE into a small trace that other viewers open too.

    What happened on the CPU in the window is kept, with the GPU work that it launched, GPU work of earlier calls
    that still ran then, names, header, and the arrows between what is kept. TRACE is read twice and never held in memory.

    \b
    lanewise slice huge.json.gz --steps 3-5 -o steps.json.gz
    lanewise slice huge.json.gz --from 12.5ms --to 20ms -o part.json
    lanewise slice huge.json.gz --from @5185884705018.347 -o rest.json.gz
    """
    if window is None:
        raise UsageError("slice", TEXTS.message("no-window"), TEXTS.message("no-window-next"))
    if Path(out).exists() and os.path.exists(trace) and os.path.samefile(out, trace):
        raise UsageError(out, TEXTS.message("same-file"), TEXTS.message("same-file-next"))
    options.check_writable(out, force=force)
    from lanewise.loading.slicing import slice_trace

    try:
        with options.reading(trace, quiet=quiet, lang=lang, passes=2, key="cutting") as progress:
            result = slice_trace(trace, out, window, progress=progress)
    except OSError as why:
        raise UsageError(out, TEXTS.message("not-written", why=why.strerror or str(why))) from why
    if not quiet:
        for line in _summary(result, out, lang):
            click.echo(f"lanewise: {line}", err=True)


def _summary(result: SliceResult, out: str, lang: str) -> list[str]:
    """What was kept and what was not."""
    selection = result.selection

    def count(number: int) -> str:
        return units.count(number, lang)

    window = " – ".join(units.duration(t - selection.span[0], lang) for t in (selection.begin, selection.end))
    if selection.marks:
        first, last = selection.marks[0][3], selection.marks[-1][3]
        window = f"{first}, {window}" if len(selection.marks) == 1 else f"{first} – {last}, {window}"
    lines = [
        TEXTS("written", lang, path=out, size=units.size(os.path.getsize(out), lang)),
        TEXTS("sliced", lang, kept=count(result.kept), events=count(result.seen), window=window),
    ]
    earlier = result.earlier_gpu_ops
    if earlier:
        slots = {"gpu_ops": count(result.gpu_ops), "own": count(result.gpu_ops - earlier), "earlier": count(earlier)}
        lines.append(TEXTS("sliced-calls", lang, **slots))
    if result.flows or result.open_flows:
        lines.append(TEXTS("sliced-flows", lang, kept=count(result.flows), open=count(result.open_flows)))
    if result.mended:
        lines.append(TEXTS("sliced-mended", lang, count=count(result.mended)))
    if result.lost:
        lines.append(TEXTS("sliced-damaged", lang, count=count(result.lost)))
    return [*lines, TEXTS("next-explain", lang, path=out)]
