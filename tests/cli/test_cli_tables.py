"""``lanewise steps``, ``ops`` and ``kernels``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Outcome

from builder import TraceBuilder
from places import DATA

Run = Callable[..., Outcome]

GPT = DATA / "05_gpt_train" / "clean_eager.json.gz"


def test_steps(lanewise: Run, trace: Path) -> None:
    rows = json.loads(lanewise("steps", trace, "--format", "json").out)
    assert [(r["name"], r["index"], r["launches"], r["kernels"], r["copies"]) for r in rows] == [
        ("ProfilerStep#2", 2, 3, 2, 1),
        ("ProfilerStep#3", 3, 3, 2, 1),
        ("ProfilerStep#4", 4, 3, 2, 1),
    ]
    assert rows[0]["gpu_busy_us"] == 520.0


def test_ops_sorted_and_limited(lanewise: Run, trace: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(lanewise("ops", trace, "--format", "csv", "--sort", "name").out)))
    assert [r["name"] for r in rows] == sorted(r["name"] for r in rows)
    rows = list(csv.DictReader(io.StringIO(lanewise("ops", trace, "--format", "csv", "--limit", "1").out)))
    assert [(r["name"], r["count"], r["gpu_self_us"]) for r in rows] == [("aten::linear", "3", "900.0")]


def test_ops_by_shape(lanewise: Run, trace: Path) -> None:
    rows = json.loads(lanewise("ops", trace, "--by-shape", "--format", "json").out)
    assert sorted(r["shapes"] for r in rows if r["name"] == "aten::linear") == [
        "[[8, 16], [16, 4]]",
        "[[8, 16], [16, 5]]",
        "[[8, 16], [16, 6]]",
    ]


def test_shapes_that_were_not_recorded_are_not_invented(lanewise: Run, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::add", 0, 5)
    done = lanewise("ops", t.write(tmp_path / "t.json"), "--by-shape")
    assert done.status == 2
    assert "record_shapes=True" in done.err


def test_kernels_keep_their_whole_names_in_files(lanewise: Run, tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, " + "very_long, " * 40 + "x>"
    t = TraceBuilder()
    t.op("aten::add", 0, 50)
    t.launch(10, 5, gpu=(30, 20), name=name)
    path = t.write(tmp_path / "t.json")
    rows = list(csv.DictReader(io.StringIO(lanewise("kernels", path, "--format", "csv").out)))
    assert [(r["name"], r["ops"], r["share_ratio"]) for r in rows] == [(name, "aten::add", "1.0")]
    assert max(len(x) for x in lanewise("kernels", path).out.splitlines()) <= 80


def test_parquet(lanewise: Run, trace: Path, tmp_path: Path) -> None:
    import polars as pl

    assert lanewise("kernels", trace, "-o", tmp_path / "k.parquet").status == 0
    frame = pl.read_parquet(tmp_path / "k.parquet")
    assert frame.filter(pl.col("name") == "ampere_sgemm_128x64_tn").row(0, named=True)["total_us"] == 900.0
    assert frame["ops"].dtype == pl.List(pl.String)


def test_kernels_of_a_window_are_those_launched_in_it(lanewise: Run, trace: Path) -> None:
    done = lanewise("kernels", trace, "--steps", "3", "--format", "json")
    assert {r["count"] for r in json.loads(done.out)} == {1}
    assert "Only a part of the trace was read: ProfilerStep#3" in done.err
    assert lanewise("kernels", trace, "--steps", "3", "--format", "json", "--quiet").err == ""


def test_an_unknown_column_names_the_known_ones(lanewise: Run, trace: Path) -> None:
    done = lanewise("ops", trace, "--sort", "colour")
    assert done.status == 2
    assert "Sort by name, category, count, cpu_self" in done.err


@pytest.mark.parametrize("command", ["steps", "ops", "kernels"])
def test_tables_of_nothing(lanewise: Run, tmp_path: Path, command: str) -> None:
    t = TraceBuilder()
    t.frame("main.py(1): main", 0, 10)
    path = t.write(tmp_path / "t.json")
    done = lanewise(command, path)
    assert (done.status, done.out) == (0, "none in this trace\n")
    assert lanewise(command, path, "--format", "csv").out.count("\n") == 1
    assert json.loads(lanewise(command, path, "--format", "json").out) == []


def test_the_terminal_shows_twenty_rows_and_says_how_many_more(lanewise: Run) -> None:
    short, whole = lanewise("kernels", GPT).out, lanewise("kernels", GPT, "--limit", "0").out
    assert len(short.splitlines()) == 22
    hidden = int(short.splitlines()[-1].split(" more")[0])
    assert len(whole.splitlines()) == 21 + hidden


def test_programs_that_read_tables_hear_only_of_what_changes_figures(lanewise: Run, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.launch(10, 5, gpu=(30, 20))
    t.launch(60, 5, gpu=(70, 20))
    path = t.write(tmp_path / "rank3.json")
    assert "whole microseconds" in lanewise("kernels", path).err
    assert lanewise("kernels", path, "--format", "csv").err == ""
    t.raw("{broken")
    assert "given up" in lanewise("kernels", t.write(path), "--format", "csv").err
