"""Tables of a trace as Polars frames: codes become text, MISSING becomes null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from .schema import CATEGORY_NAMES, TABLES

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["table_frame"]

_MISSING = -1


def table_frame(trace: Trace, table: str) -> pl.DataFrame:
    """A table with exactly the columns that the schema has, in its order.

    Raises:
        KeyError: there is no such table in the schema.
    """
    schema = TABLES[table]
    if table == "lanes":
        return _lanes(trace)
    if table == "inputs":
        return _inputs(trace)
    columns: dict[str, Any] = dict(trace.tables.get(table, {}))
    if table == "events":
        columns["event"] = np.arange(len(trace), dtype=np.int64)
    out: dict[str, pl.Series] = {}
    for name, column in schema.items():
        values = columns.get(name)
        dtype = getattr(pl, column.dtype)
        if values is None:
            out[name] = pl.Series(name, [], dtype=dtype)
        elif name == "category":
            out[name] = _text(name, values, list(CATEGORY_NAMES))
        elif column.dtype == "Categorical":
            out[name] = _text(name, values, trace.strings)
        else:
            series = pl.Series(name, np.ascontiguousarray(values)).cast(dtype)
            out[name] = _nulls(series) if column.optional else series
    return pl.DataFrame(out)


def _text(name: str, codes: Any, strings: list[str]) -> pl.Series:
    """Text out of codes; a negative code is null."""
    lookup = pl.Series(name, strings, dtype=pl.String).cast(pl.Categorical)
    rows = pl.Series(np.ascontiguousarray(codes)).cast(pl.Int64)
    if len(rows) and rows.min() < 0:
        rows = rows.set(rows < 0, None)
    return lookup.gather(rows).alias(name) if len(lookup) else pl.Series(name, [None] * len(rows), dtype=pl.Categorical)


def _nulls(series: pl.Series) -> pl.Series:
    if series.dtype.is_float():
        return series.fill_nan(None)
    return series.set(series == _MISSING, None) if series.dtype.is_integer() else series


def _lanes(trace: Trace) -> pl.DataFrame:
    lanes = trace.lanes
    return pl.DataFrame(
        {
            "lane": pl.Series(range(len(lanes)), dtype=pl.Int32),
            "pid": pl.Series([str(x.pid) for x in lanes], dtype=pl.String),
            "tid": pl.Series([str(x.tid) for x in lanes], dtype=pl.String),
            "process": pl.Series([x.process for x in lanes], dtype=pl.String),
            "name": pl.Series([x.name for x in lanes], dtype=pl.String),
        }
    )


def _inputs(trace: Trace) -> pl.DataFrame:
    names = ("dims", "types", "strides", "concrete")
    texts = [
        [None if row is None or row[i] is None else row[i].decode("utf-8", "replace") for row in trace.inputs]  # type: ignore[union-attr]
        for i in range(4)
    ]
    frame: dict[str, Any] = {"inputs": pl.Series(range(len(trace.inputs)), dtype=pl.Int32)}
    frame.update({n: pl.Series(t, dtype=pl.String) for n, t in zip(names, texts, strict=True)})
    return pl.DataFrame(frame)
