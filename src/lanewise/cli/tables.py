"""``lanewise steps``, ``ops`` and ``kernels``: the tables of a trace, for the terminal and for other programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.cli.rows import Rows
    from lanewise.loading import Window
    from lanewise.model.trace import Trace

__all__ = ["kernels", "ops", "steps"]

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIXES = {".csv": "csv", ".json": "json", ".parquet": "parquet"}
_TERMINAL_ROWS = 20
# What to know before believing a table; notes about steps matter only to the table of steps.
_STEP_NOTES = frozenset({"no-steps", "steps-from-annotations", "steps-without-gpu", "launched-before"})
_GPU_NOTES = frozenset(
    {"no-gpu-records", "partial-gpu-records", "graph-records-missing", "ambiguous-ids", "impossible-duration"}
)
# What changes no figure, and is in the way of a program that reads the table.
_ASIDE_NOTES = frozenset(
    {"integer-times", "rank-from-name", "rank-disagrees", "header-repaired", "header-damaged", "unknown-category"}
)


def _table_options(sort: str) -> Callable[[F], F]:
    """Options of all three commands."""

    def decorated(command: F) -> F:
        for option in (
            options.quiet_option,
            options.lang_option,
            options.window_options,
            options.force_option,
            click.option("-o", "--out", metavar="FILE", help="Write to a file; .csv, .json or .parquet decides the format."),
            options.form_option("terminal", "csv", "json", default=None),
            click.option("--limit", type=click.IntRange(0), help="Rows to show, 0 for all.  [default: 20; all in files]"),
            click.option("--sort", metavar="COLUMN", help=f"Sort by a column, the largest first.  [default: {sort}]"),
            options.trace_argument,
        ):
            command = option(command)
        return command

    return decorated


@click.command("steps", short_help="The steps: time, GPU time, launches.")
@_table_options("the order in which they ran")
def steps(trace: str, window: Window | None, **shared: Any) -> None:
    """List the steps of TRACE: what each adds to the run, its time on the CPU, its GPU work.

    \b
    lanewise steps trace.json.gz
    lanewise steps trace.json.gz --sort time          the slowest first
    lanewise steps trace.json.gz -o steps.csv
    """
    from lanewise.cli.rows import step_rows

    _command(trace, window, step_rows, shared, _GPU_NOTES | _STEP_NOTES)


@click.command("ops", short_help="CPU ops by name: self and total time, CPU and GPU.")
@click.option("--by-shape", is_flag=True, help="One row for each name and set of input shapes.")
@_table_options("gpu_self, then cpu_self")
def ops(trace: str, window: Window | None, by_shape: bool, **shared: Any) -> None:
    """List the ops of TRACE with their own time and that of all they call, on the CPU and on the GPU.

    \b
    lanewise ops trace.json.gz --sort cpu_self
    lanewise ops trace.json.gz --by-shape --limit 40
    lanewise ops trace.json.gz --steps 3 -o ops.parquet
    """
    from lanewise.cli.rows import op_rows, shape_rows

    _command(trace, window, shape_rows if by_shape else op_rows, shared, _GPU_NOTES)


@click.command("kernels", short_help="GPU kernels and copies by name, with the ops that launched them.")
@click.option("--limits", is_flag=True, help="Against what the card could do: rates, share of the limit, what bounds it.")
@_table_options("total")
def kernels(trace: str, window: Window | None, limits: bool, **shared: Any) -> None:
    """List the GPU work of TRACE by kernel: what the name says, how often, how long, and which ops launched it.

    With a window: the work that was launched in it.

    \b
    lanewise kernels trace.json.gz
    lanewise kernels trace.json.gz --sort count
    lanewise kernels trace.json.gz --limits --sort headroom_per_step
    lanewise kernels trace.json.gz -o kernels.csv     names in full
    """
    own = None if window is None else dataclasses.replace(window, earlier=False)
    rows_of: Callable[[Trace, str], Rows]
    if limits:
        from lanewise.cli.limits import limit_rows

        rows_of = functools.partial(limit_rows, quiet=shared["quiet"])
    else:
        from lanewise.cli.rows import kernel_rows

        rows_of = kernel_rows
    _command(trace, own, rows_of, shared, _GPU_NOTES)


def _command(
    path: str,
    window: Window | None,
    rows_of: Callable[[Trace, str], Rows],
    shared: dict[str, Any],
    noted: frozenset[str],
) -> None:
    """What the three commands have in common: check the options, load, build, sort, cut, write."""
    out, force, lang, quiet = shared["out"], shared["force"], shared["lang"], shared["quiet"]
    form = options.form_of(out, shared["form"], _SUFFIXES, "terminal")
    if out is not None:
        options.check_writable(out, force=force)
    trace = options.open_trace(path, quiet=quiet, lang=lang, window=window)
    found = rows_of(trace, lang)
    if shared["sort"]:
        _sort(found, shared["sort"])
    if not quiet:
        _print_notes(trace, noted, frozenset() if form == "terminal" else _ASIDE_NOTES, lang)
    from lanewise.rendering import tables

    limit = shared["limit"] if shared["limit"] is not None else _TERMINAL_ROWS if form == "terminal" else 0
    table = tables.Table(found.fields, found.rows[:limit] if limit else found.rows, len(found.rows), found.shown_as)
    if form == "terminal":
        width, color = options.screen() if out is None else (80, False)
        options.write_text(tables.render(table, lang=lang, width=width, color=color), out, force=force)
    elif out is None:
        options.write_text(tables.as_bytes(table, form).decode("utf-8"), None, force=force)
    else:
        options.write_bytes(tables.as_bytes(table, form), out, force=force)


def _print_notes(trace: Trace, noted: frozenset[str], left_out: frozenset[str], lang: str) -> None:
    from lanewise.analyses.coverage import coverage_notes

    for note in [*trace.notes, *(n for n in coverage_notes(trace) if n.id in noted)]:
        if note.id not in left_out:
            click.echo(f"lanewise: {note.text(lang)}", err=True)


def _sort(found: Rows, wanted: str) -> None:
    """Sort by a column, numbers from the largest, texts from A; units may be left out of its name."""
    key = wanted.strip().lower().replace("-", "_").replace(" ", "_")
    places = [i for i, f in enumerate(found.fields) if key in (f.key, f.key.removesuffix("_us").removesuffix("_ratio"))]
    if not places:
        names = ", ".join(f.key.removesuffix("_us").removesuffix("_ratio") for f in found.fields)
        raise UsageError("--sort", TEXTS.message("sort-form", text=wanted), TEXTS.message("sort-form-next", columns=names))
    i = places[0]
    if found.fields[i].number:
        found.rows.sort(key=lambda row: (row[i] is None, 0 if row[i] is None else -row[i]))
    else:
        found.rows.sort(key=lambda row: str(row[i] or ""))
