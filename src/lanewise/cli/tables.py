"""``lanewise steps``, ``ops`` and ``kernels``: the tables of a trace, for the terminal and for other programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.loading import Window
    from lanewise.model.trace import Trace
    from lanewise.rendering.tables import Field

__all__ = ["kernels", "ops", "steps"]

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIXES = {".csv": "csv", ".json": "json", ".parquet": "parquet"}
_TERMINAL_ROWS = 20
# What to know before believing a table; notes about steps matter only to the table of steps.
_STEP_NOTES = frozenset({"no-steps", "steps-from-annotations", "steps-without-gpu", "launched-before"})
_GPU_NOTES = frozenset(
    {"no-gpu-records", "partial-gpu-records", "graph-records-missing", "ambiguous-ids", "impossible-duration"}
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
            click.option(
                "--format",
                "form",
                type=click.Choice(["terminal", "csv", "json"]),
                help="Format of the output.  [default: terminal]",
            ),
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
    _command(trace, window, _step_rows, ["step", "time_us"], shared, _GPU_NOTES | _STEP_NOTES)


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
    _command(trace, window, _shape_rows if by_shape else _op_rows, [], shared, _GPU_NOTES)


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
    from lanewise.cli.limits import limit_rows

    rows_of = functools.partial(limit_rows, quiet=shared["quiet"]) if limits else _kernel_rows
    _command(trace, own, rows_of, [], shared, _GPU_NOTES)


Rows = tuple[Sequence["Field"], list[list[Any]], dict[str, dict[Any, str]]]


def _command(
    path: str,
    window: Window | None,
    rows_of: Callable[[Trace, str], Rows],
    ascending: list[str],
    shared: dict[str, Any],
    noted: frozenset[str],
) -> None:
    """What the three commands have in common: check the options, load, build, sort, cut, write."""
    out, force, lang, quiet = shared["out"], shared["force"], shared["lang"], shared["quiet"]
    form = options.form_of(out, shared["form"], _SUFFIXES, "terminal")
    if out is not None:
        options.check_writable(out, force=force)
    trace = options.open_trace(path, quiet=quiet, lang=lang, window=window)
    fields, rows, shown_as = rows_of(trace, lang)
    if shared["sort"]:
        _sort(rows, fields, shared["sort"])
    if not quiet:
        _print_notes(trace, noted, lang)
    from lanewise.rendering import tables

    limit = shared["limit"] if shared["limit"] is not None else _TERMINAL_ROWS if form == "terminal" else 0
    table = tables.Table(fields, rows[:limit] if limit else rows, len(rows), shown_as)
    if form == "terminal":
        width, color = options.screen() if out is None else (80, False)
        options.write_text(tables.render(table, lang=lang, width=width, color=color), out, force=force)
    elif out is None:
        options.write_text(tables.as_bytes(table, form).decode("utf-8"), None, force=force)
    else:
        options.write_bytes(tables.as_bytes(table, form), out, force=force)


def _print_notes(trace: Trace, noted: frozenset[str], lang: str) -> None:
    from lanewise.analyses.coverage import coverage_notes

    for note in [*trace.notes, *(n for n in coverage_notes(trace) if n.id in noted)]:
        click.echo(f"lanewise: {note.text(lang)}", err=True)


def _sort(rows: list[list[Any]], fields: Sequence[Field], wanted: str) -> None:
    """Sort by a column, numbers from the largest, texts from A; units may be left out of its name."""
    key = wanted.strip().lower().replace("-", "_").replace(" ", "_")
    places = [i for i, f in enumerate(fields) if key in (f.key, f.key.removesuffix("_us").removesuffix("_ratio"))]
    if not places:
        names = ", ".join(f.key.removesuffix("_us").removesuffix("_ratio") for f in fields)
        raise UsageError("--sort", TEXTS.message("sort-form", text=wanted), TEXTS.message("sort-form-next", columns=names))
    i = places[0]
    if fields[i].number:
        rows.sort(key=lambda row: (row[i] is None, 0 if row[i] is None else -row[i]))
    else:
        rows.sort(key=lambda row: str(row[i] or ""))


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1000, 3)


def _step_rows(trace: Trace, lang: str) -> Rows:
    from lanewise.analyses.steps import steps as found_steps
    from lanewise.rendering.tables import Field

    found = trace.analysis(found_steps)
    fields = [
        Field("name", "col-step", "String", 16),
        Field("index", None, "Int64"),
        Field("time_us", "col-step-time", "Float64"),
        Field("wall_us", "col-wall", "Float64"),
        Field("gpu_busy_us", "col-gpu-busy", "Float64"),
        Field("launches", "col-launches", "Int64"),
        Field("kernels", "col-kernels", "Int64"),
        Field("copies", "col-copies", "Int64"),
        Field("memsets", "col-memsets", "Int64"),
        Field("start_us", None, "Float64"),
    ]
    rows: list[list[Any]] = [
        [
            trace.name_of(int(found.event[i])),
            int(found.index[i]),
            _us(int(found.time_ns[i])),
            _us(int(found.wall_ns[i])),
            None if found.gpu_busy_ns[i] < 0 else _us(int(found.gpu_busy_ns[i])),
            *(int(column[i]) for column in (found.launches, found.kernels, found.copies, found.memsets)),
            _us(int(found.start[i])),
        ]
        for i in range(len(found))
    ]
    return fields, rows, {}


def _op_fields(with_gpu: bool, with_shapes: bool) -> list[Field]:
    from lanewise.rendering.tables import Field

    gpu = "col-gpu-self" if with_gpu else None
    return [
        Field("name", "col-op", "String", 18),
        Field("category", None, "String"),
        *([Field("shapes", "col-shapes", "String", 20)] if with_shapes else []),
        Field("count", "col-calls", "Int64"),
        Field("cpu_self_us", "col-cpu-self", "Float64"),
        Field("cpu_total_us", "col-cpu-total", "Float64", optional=with_shapes),
        Field("gpu_self_us", gpu, "Float64"),
        Field("gpu_total_us", gpu and "col-gpu-total", "Float64"),
        Field("gpu_ops", None, "Int64"),
    ]


def _op_rows(trace: Trace, lang: str) -> Rows:
    from lanewise.analyses.tables import op_table

    return _op_table(op_table(trace), with_shapes=False)


def _shape_rows(trace: Trace, lang: str) -> Rows:
    from lanewise.analyses.tables import op_table_by_shape

    if "shapes" not in trace.capabilities:
        raise UsageError(trace.path, TEXTS.message("no-shapes"), TEXTS.message("no-shapes-next"))
    return _op_table(op_table_by_shape(trace), with_shapes=True)


def _op_table(found: Sequence[Any], *, with_shapes: bool) -> Rows:
    rows: list[list[Any]] = [
        [
            r.name,
            r.cat,
            *([r.shapes] if with_shapes else []),
            r.count,
            _us(r.cpu_self_ns),
            _us(r.cpu_total_ns),
            _us(r.gpu_self_ns),
            _us(r.gpu_total_ns),
            r.gpu_ops,
        ]
        for r in found
    ]
    return _op_fields(any(r.gpu_total_ns for r in found), with_shapes), rows, {}


def _kernel_rows(trace: Trace, lang: str) -> Rows:
    from lanewise.analyses.tables import kernel_table
    from lanewise.kernels import decode
    from lanewise.rendering.tables import Field

    found = kernel_table(trace)
    whole = sum(r.total_ns for r in found)
    labels = {r.name: decode(r.name).label(lang) if r.kind is not None else r.name for r in found}
    fields = [
        Field("name", "col-kernel", "String", 24),
        Field("kind", None, "String"),
        Field("count", "col-calls", "Int64"),
        Field("total_us", "col-time", "Float64"),
        Field("share_ratio", "col-share", "Float64"),
        Field("mean_us", "col-mean", "Float64"),
        Field("median_us", "col-median", "Float64"),
        Field("ops", "col-from", "List", 14),
    ]
    rows: list[list[Any]] = [
        [
            r.name,
            r.kind,
            r.count,
            _us(r.total_ns),
            round(r.total_ns / whole, 6) if whole else None,
            _us(r.mean_ns),
            _us(r.median_ns),
            list(r.ops),
        ]
        for r in found
    ]
    return fields, rows, {"name": labels}
