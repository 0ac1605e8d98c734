"""The rows of ``lanewise steps``, ``ops`` and ``kernels``: every column with the field that describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError
from lanewise.rendering.tables import Field
from lanewise.report import us

if TYPE_CHECKING:
    from lanewise.analyses.tables import OpRow
    from lanewise.model.trace import Trace

__all__ = ["Rows", "kernel_rows", "op_rows", "rows_of", "shape_rows", "step_rows"]

T = TypeVar("T")
OpColumn = tuple[Field, Callable[["OpRow"], Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a table is made of.

    Attributes:
        fields: the columns.
        rows: rows, each a value for each field; None is not known.
        shown_as: for fields by key, the words that a terminal shows for a value.
    """

    fields: Sequence[Field]
    rows: list[list[Any]]
    shown_as: dict[str, dict[Any, str]] = field(default_factory=dict)


def rows_of(
    found: Iterable[T],
    columns: Sequence[tuple[Field, Callable[[T], Any]]],
    shown_as: dict[str, dict[Any, str]] | None = None,
) -> Rows:
    """Rows of some things, from the fields and how each is read from a thing."""
    return Rows([f for f, _ in columns], [[value(thing) for _, value in columns] for thing in found], shown_as or {})


def step_rows(trace: Trace, lang: str) -> Rows:
    """One row a step."""
    from lanewise.analyses.steps import steps

    found = trace.analysis(steps)
    columns: list[tuple[Field, Callable[[int], Any]]] = [
        (Field("name", "col-step", "String", 16), lambda i: trace.name_of(int(found.event[i]))),
        (Field("index", None, "Int64"), lambda i: int(found.index[i])),
        (Field("time_us", "col-step-time", "Float64"), lambda i: us(int(found.time_ns[i]))),
        (Field("wall_us", "col-wall", "Float64"), lambda i: us(int(found.wall_ns[i]))),
        (
            Field("gpu_busy_us", "col-gpu-busy", "Float64"),
            lambda i: None if found.gpu_busy_ns[i] < 0 else us(int(found.gpu_busy_ns[i])),
        ),
        (Field("launches", "col-launches", "Int64"), lambda i: int(found.launches[i])),
        (Field("kernels", "col-kernels", "Int64", optional=True), lambda i: int(found.kernels[i])),
        (Field("copies", "col-copies", "Int64", optional=True), lambda i: int(found.copies[i])),
        (Field("memsets", "col-memsets", "Int64", optional=True), lambda i: int(found.memsets[i])),
        (Field("start_us", None, "Float64"), lambda i: us(int(found.start[i]))),
    ]
    return rows_of(range(len(found)), columns)


def op_rows(trace: Trace, lang: str) -> Rows:
    """One row an op name."""
    from lanewise.analyses.tables import op_table

    found = op_table(trace)
    return rows_of(found, _op_columns(found))


def shape_rows(trace: Trace, lang: str) -> Rows:
    """One row an op name and set of input shapes; raises a UsageError where none were recorded."""
    from lanewise.analyses.tables import op_table_by_shape

    if "shapes" not in trace.capabilities:
        raise UsageError(trace.path, TEXTS.message("no-shapes"), TEXTS.message("no-shapes-next"))
    found = op_table_by_shape(trace)
    return rows_of(found, _op_columns(found, (Field("shapes", "col-shapes", "String", 20), lambda r: r.shapes)))


def _op_columns(found: Sequence[OpRow], *more: OpColumn) -> list[OpColumn]:
    with_gpu = any(r.gpu_total_ns for r in found)
    return [
        (Field("name", "col-op", "String", 18), lambda r: r.name),
        (Field("category", None, "String"), lambda r: r.cat),
        *more,
        (Field("count", "col-calls", "Int64"), lambda r: r.count),
        (Field("cpu_self_us", "col-cpu-self", "Float64"), lambda r: us(r.cpu_self_ns)),
        (Field("cpu_total_us", "col-cpu-total", "Float64", optional=True), lambda r: us(r.cpu_total_ns)),
        (Field("gpu_self_us", "col-gpu-self" if with_gpu else None, "Float64"), lambda r: us(r.gpu_self_ns)),
        (Field("gpu_total_us", "col-gpu-total" if with_gpu else None, "Float64", optional=True), lambda r: us(r.gpu_total_ns)),
        (Field("gpu_ops", None, "Int64"), lambda r: r.gpu_ops),
    ]


def kernel_rows(trace: Trace, lang: str) -> Rows:
    """One row a GPU op name, with what the name says for a terminal."""
    from lanewise.analyses.tables import KernelRow, kernel_table
    from lanewise.kernels import decode

    found = kernel_table(trace)
    whole = sum(r.total_ns for r in found)
    columns: list[tuple[Field, Callable[[KernelRow], Any]]] = [
        (Field("name", "col-kernel", "String", 22), lambda r: r.name),
        (Field("kind", None, "String"), lambda r: r.kind),
        (Field("count", "col-calls", "Int64"), lambda r: r.count),
        (Field("total_us", "col-time", "Float64"), lambda r: us(r.total_ns)),
        (
            Field("share_ratio", "col-share", "Float64", optional=True),
            lambda r: round(r.total_ns / whole, 6) if whole else None,
        ),
        (Field("mean_us", "col-mean", "Float64", optional=True), lambda r: us(r.mean_ns)),
        (Field("median_us", "col-median", "Float64"), lambda r: us(r.median_ns)),
        (Field("ops", "col-from", "List", 14), lambda r: list(r.ops)),
    ]
    labels = {r.name: decode(r.name).label(lang) if r.kind is not None else r.name for r in found}
    return rows_of(found, columns, {"name": labels})
