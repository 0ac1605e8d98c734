"""The rows of ``lanewise kernels --limits``: each kernel against what the card could do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lanewise.analyses.limits import BOUNDS
from lanewise.cli.rows import Rows, rows_of
from lanewise.rendering.tables import Field
from lanewise.roofline import roofline
from lanewise.roofline_texts import bound_text

if TYPE_CHECKING:
    from lanewise.model.trace import Trace
    from lanewise.report import KernelLimitRow

__all__ = ["limit_rows"]

Column = tuple[Field, Callable[["KernelLimitRow"], Any]]

# Keys of `KernelLimitRow.launch`, for files alone.
_LAUNCH_SHAPE = {
    "blocks": "Int64",
    "block_threads": "Int64",
    "registers": "Int64",
    "shared_bytes": "Int64",
    "occupancy_ratio": "Float64",
    "occupancy_limiter": "String",
    "recorded_occupancy_ratio": "Float64",
    "waves": "Float64",
    "tail_ratio": "Float64",
}


def limit_rows(trace: Trace, lang: str, *, quiet: bool) -> Rows:
    """One row a GPU op name.

    Unless `quiet`, standard error tells what was compared with, and what would make more known.
    """
    section = roofline(trace, lang)
    for text in (section.text, section.ceilings_text, section.hint):
        if text and not quiet:
            click.echo(f"lanewise: {text}", err=True)
    shown_as = {
        "name": {row.name: row.label for row in section.kernels},
        "bound": {bound: bound_text(bound, lang) for bound in BOUNDS},
    }
    return rows_of(section.kernels, _columns(), shown_as)


def _columns() -> list[Column]:
    return [
        (Field("name", "col-kernel", "String", 24), lambda r: r.name),
        (Field("count", "col-calls", "Int64", optional=True), lambda r: r.count),
        (Field("total_us", "col-time", "Float64", optional=True), lambda r: r.total_us),
        (Field("flops_per_s", "col-flops", "Float64"), lambda r: r.flops_per_s),
        (Field("bytes_per_s", "col-bandwidth", "Float64"), lambda r: r.bytes_per_s),
        (Field("limit_ratio", "col-of-limit", "Float64"), lambda r: r.share_ratio),
        (Field("bound", "col-bound", "String"), lambda r: r.bound),
        (Field("headroom_per_step_us", "col-headroom-step", "Float64"), lambda r: r.headroom_us_per_step),
        (Field("known_us", None, "Float64"), lambda r: r.known_us),
        (Field("limit_us", None, "Float64"), lambda r: r.limit_us),
        (Field("source", None, "String"), lambda r: r.source),
        (Field("at_least", None, "Boolean"), lambda r: r.at_least),
        *(_launch_column(key, kind) for key, kind in _LAUNCH_SHAPE.items()),
        (Field("remark", None, "String"), lambda r: r.remark),
    ]


def _launch_column(key: str, kind: str) -> Column:
    return Field(key, None, kind), lambda r: None if r.launch is None else getattr(r.launch, key)
