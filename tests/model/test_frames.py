"""Polars frames: exactly the columns of the schema, codes as text, what the file does not say as null."""

from __future__ import annotations

import polars as pl
import pytest

import lanewise
from builder import TraceBuilder
from lanewise.model.schema import CATEGORIES, CATEGORY_CODES, TABLES, canonical_category
from lanewise.model.trace import Trace
from places import CASES, DATA

RECORDED = [
    DATA / "03_simple_mlp" / "64_128_768_3072_eager_shapes_stack_mem.json.gz",
    DATA / "07_streams" / "mm_h2d_overlap.json.gz",
    DATA / "distributed" / "08_ddp" / "rank0.json.gz",
    CASES / "numbers-sync-record.json",
    CASES / "parse-metadata-only.json",
    CASES / "parse-legacy-array.json",
]


def _dtype(name: str) -> type[pl.DataType]:
    dtype: type[pl.DataType] = getattr(pl, name)
    return dtype


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
@pytest.mark.parametrize("table", TABLES)
def test_frames_have_the_columns_of_the_schema(table: str, path: object) -> None:
    frame = lanewise.load(path).frame(table)  # type: ignore[arg-type]
    assert frame.columns == list(TABLES[table])
    for name, column in TABLES[table].items():
        assert frame.schema[name] == _dtype(column.dtype), name
        if not column.optional:
            assert frame[name].null_count() == 0, name


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_arrays_and_frames_agree(path: object) -> None:
    trace: Trace = lanewise.load(path)  # type: ignore[arg-type]
    events = trace.events
    assert events["ts"].to_list() == trace.ts.tolist()
    assert events["dur"].to_list() == trace.dur.tolist()
    assert events["name"].cast(pl.String).to_list() == [trace.name_of(i) for i in range(len(trace))]
    assert events["category"].cast(pl.String).to_list() == [trace.category_of(i) for i in range(len(trace))]
    for table, columns in trace.tables.items():
        frame = trace.frame(table)
        assert len(frame) == len(next(iter(columns.values())))
        if "event" in frame.columns:
            assert frame["event"].is_sorted()
    assert len(trace.frame("lanes")) == len(trace.lanes)


def test_a_join_says_what_the_trace_says() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.launch(10, 5, gpu=(30, 20), name="sgemm", grid=[4, 1, 1])
    trace = t.load()
    joined = trace.gpu_ops.join(trace.events, on="event").join(trace.frame("lanes"), on="lane")
    assert joined.select("name", "ts", "dur", "correlation", "grid_x", "pid", "tid").rows() == [
        ("sgemm", 30_000, 20_000, 1, 4, "0", "7")
    ]
    assert trace.gpu_ops["block_x"].to_list() == [None]
    assert trace.gpu_ops["occupancy"].to_list() == [None]


def test_frames_of_what_is_not_there_are_empty() -> None:
    trace = TraceBuilder().load()
    for table in TABLES:
        assert trace.frame(table).is_empty()
    with pytest.raises(KeyError):
        trace.frame("absent")


def test_ids_of_minus_one_are_null_and_of_zero_are_not() -> None:
    t = TraceBuilder()
    t.gpu("k", 0, 5, -1)
    t.gpu("k", 10, 5, 0)
    t.gpu("k", 20, 5, None)
    assert t.load().gpu_ops["correlation"].to_list() == [None, 0, None]


def test_sync_records() -> None:
    t = TraceBuilder()
    more = {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 40}
    t.gpu("Stream Wait Event", 0, 0, 5, stream=9, cat="cuda_sync", more=more)
    assert t.load().frame("syncs").rows() == [(0, 5, 0, 9, "Stream Wait Event", 7, 40)]


def test_collectives() -> None:
    t = TraceBuilder()
    more = {
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "dtype": "BFloat16",
        "Group size": 8,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
    }
    t.op("record_param_comms", 0, 50, **more)
    t.gpu("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 30, 20, 5, more=more)
    row = ("allreduce", 1024, 1024, "BFloat16", 8, "0", "default_pg")
    assert t.load().frame("collectives").rows() == [(0, *row), (1, *row)]


def test_spellings_lead_to_categories() -> None:
    for name, category in CATEGORIES.items():
        assert canonical_category(name) == name
        for spelling in category.spellings:
            assert spelling == spelling.lower()
            assert canonical_category(spelling.upper()) == name
    assert canonical_category(None) == canonical_category("something new") == "other"
    assert list(CATEGORY_CODES.values()) == list(range(len(CATEGORIES)))
    assert {c.table for c in CATEGORIES.values()} - {""} <= set(TABLES)


def test_every_column_is_documented() -> None:
    for table, columns in TABLES.items():
        for name, column in columns.items():
            assert column.about.endswith("."), (table, name)
            assert column.unit in ("", "ns", "bytes", "id"), (table, name)
            assert name.endswith("_ns") is False
