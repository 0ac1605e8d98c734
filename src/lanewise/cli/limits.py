"""The rows of ``lanewise kernels --limits``: each kernel against what the card could do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lanewise.model.trace import Trace
    from lanewise.rendering.tables import Field
    from lanewise.report import KernelLimitRow

__all__ = ["limit_rows"]


def limit_rows(trace: Trace, lang: str, *, quiet: bool) -> tuple[Sequence[Field], list[list[Any]], dict[str, dict[Any, str]]]:
    """Fields, rows and the words that a terminal shows for names and bounds.

    Unless `quiet`, standard error tells what was compared with, and what would make more known.
    """
    from lanewise.analyses.limits import BOUNDS
    from lanewise.rendering.tables import Field
    from lanewise.roofline import roofline
    from lanewise.roofline_texts import bound_text

    section = roofline(trace, lang)
    found = section.kernels
    for text in (section.text, section.ceilings_text, section.hint):
        if text and not quiet:
            click.echo(f"lanewise: {text}", err=True)
    fields = [
        Field("name", "col-kernel", "String", 24),
        Field("count", "col-calls", "Int64", optional=True),
        Field("total_us", "col-time", "Float64", optional=True),
        Field("flops_per_s", "col-flops", "Float64"),
        Field("bytes_per_s", "col-bandwidth", "Float64"),
        Field("limit_ratio", "col-of-limit", "Float64"),
        Field("bound", "col-bound", "String"),
        Field("headroom_per_step_us", "col-headroom-step", "Float64"),
        Field("known_us", None, "Float64"),
        Field("limit_us", None, "Float64"),
        Field("source", None, "String"),
        Field("at_least", None, "Boolean"),
        Field("blocks", None, "Int64"),
        Field("block_threads", None, "Int64"),
        Field("registers", None, "Int64"),
        Field("shared_bytes", None, "Int64"),
        Field("occupancy_ratio", None, "Float64"),
        Field("occupancy_limiter", None, "String"),
        Field("recorded_occupancy_ratio", None, "Float64"),
        Field("waves", None, "Float64"),
        Field("tail_ratio", None, "Float64"),
        Field("remark", None, "String"),
    ]
    shown_as = {
        "name": {row.name: row.label for row in found},
        "bound": {bound: bound_text(bound, lang) for bound in BOUNDS},
    }
    return fields, [_row(row) for row in found], shown_as


def _row(row: KernelLimitRow) -> list[Any]:
    launch = row.launch
    shape = (
        [None] * 9
        if launch is None
        else [
            launch.blocks,
            launch.block_threads,
            launch.registers,
            launch.shared_bytes,
            launch.occupancy_ratio,
            launch.occupancy_limiter,
            launch.recorded_occupancy_ratio,
            launch.waves,
            launch.tail_ratio,
        ]
    )
    return [
        row.name,
        row.count,
        row.total_us,
        row.flops_per_s,
        row.bytes_per_s,
        row.share_ratio,
        row.bound,
        row.headroom_us_per_step,
        row.known_us,
        row.limit_us,
        row.source,
        row.at_least,
        *shape,
        row.remark,
    ]
