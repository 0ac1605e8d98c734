"""Begins and ends (phases B and E): pairs of them are events like any other, whatever lies between in the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids, us_text
from lanewise.analyses.steps import steps
from lanewise.loading import source as source_module
from lanewise.loading.halves import pairs
from lanewise.loading.slicing import slice_trace
from lanewise.loading.window import Window
from lanewise.model.trace import Trace

Row = tuple[str, int, int, int]


def half(t: TraceBuilder, phase: str, ts: float | str, name: str | None = None, tid: Any = 1, **fields: Any) -> None:
    named = {} if name is None else {"name": name}
    t.event(ph=phase, cat="cpu_op", **named, pid=100, tid=tid, ts=us_text(ts), **fields)


def rows(trace: Trace) -> list[Row]:
    return [(trace.name_of(i), int(trace.ts[i]), int(trace.dur[i]), int(trace.lane[i])) for i in range(len(trace))]


def test_pairs_nest_and_become_events() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "B", "10.001", "outer")
    half(t, "B", 20, "inner")
    half(t, "E", 30)
    half(t, "E", "40.003")
    t.op("aten::mm", 12, 5)
    trace = t.load()
    assert rows(trace) == [("outer", 10_001, 30_002, 0), ("aten::mm", 12_000, 5_000, 0), ("inner", 20_000, 10_000, 0)]
    assert [trace.category_of(i) for i in range(3)] == ["cpu_op"] * 3
    assert (trace.notes, trace.skipped_events, trace.repaired_events) == ([], 0, 0)


def test_epoch_times_are_exact_to_the_nanosecond() -> None:
    t = TraceBuilder(gpus=0, base_ns=None)
    half(t, "B", "1712195495505582.988", "a")
    half(t, "E", "1712195495505583.001", "a")
    assert rows(t.load()) == [("a", 1_712_195_495_505_582_988, 13, 0)]


def test_times_before_zero() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "B", "-5.001", "a")
    half(t, "E", "-4.5", "a")
    assert rows(t.load()) == [("a", -5001, 501, 0)]


def test_threads_have_stacks_of_their_own_whatever_type_their_number_has() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "B", 0, "a", tid=1)
    half(t, "B", 1, "a", tid="2")
    half(t, "E", 2, "a", tid="1")
    half(t, "E", 9, "a", tid=2)
    assert rows(t.load()) == [("a", 0, 2000, 0), ("a", 1000, 8000, 1)]


def test_names_that_every_half_has_keep_a_lost_end_from_putting_off_others() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "B", 0, "outer")
    half(t, "B", 10, "its end is lost")
    half(t, "B", 20, "inner")
    half(t, "E", 30, "inner")
    half(t, "E", 35, "its begin is lost")
    half(t, "E", 40, "outer")
    trace = t.load()
    assert rows(trace) == [("outer", 0, 40_000, 0), ("inner", 20_000, 10_000, 0)]
    assert note_ids(trace) == ["begin-end"]
    assert trace.notes[0].slots == {"begins": 1, "ends": 1}
    assert trace.notes[0].text() == "1 begin without an end and 1 end without a begin left out (phases B and E)."


def test_the_end_may_stand_before_the_begin_in_the_file() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "E", 30, "a")
    half(t, "E", 40, "a")
    half(t, "B", 0, "a")
    half(t, "B", 35, "a")
    assert rows(t.load()) == [("a", 0, 30_000, 0), ("a", 35_000, 5_000, 0)]


def test_arguments_are_merged_and_the_end_s_count() -> None:
    t = TraceBuilder()
    call: dict[str, Any] = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 1}
    t.event(ph="B", ts=10, args={"correlation": 1, "External id": 5}, **call)
    t.event(ph="E", ts=15, args={"correlation": 2, "External id": None}, **call)
    kernel: dict[str, Any] = {"name": "sgemm", "pid": 0, "tid": 7}
    t.event(ph="B", cat="kernel", ts=20, args={"grid": [1, 2, 3], "device": 0, "stream": 7}, **kernel)
    t.event(ph="E", ts=50, args={"correlation": 2}, **kernel)
    half(t, "B", 0, "aten::mm", args={"Input Dims": [[2, 3]], "Input type": ["float"]})
    half(t, "E", 60, "aten::mm")
    trace = t.load()
    assert trace.column("calls", "correlation").tolist() == [2]
    assert trace.column("calls", "external_id").tolist() == [5]
    gpu = trace.gpu_ops.row(0, named=True)
    assert [gpu[k] for k in ("correlation", "grid_x", "grid_y", "grid_z", "device", "stream")] == [2, 1, 2, 3, 0, 7]
    assert trace.frame("inputs").rows() == [(0, "[[2, 3]]", '["float"]', None, None)]
    report = lanewise.explain(trace).to_dict()
    assert report["coverage"]["gpu_ops_linked"] == 1


def test_category_and_name_of_the_end_stand_in_where_the_begin_has_none() -> None:
    t = TraceBuilder(gpus=0)
    t.event(ph="B", pid=100, tid=1, ts=5)
    half(t, "E", 6, "a")
    trace = t.load()
    assert rows(trace) == [("a", 5000, 1000, 0)]
    assert trace.category_of(0) == "cpu_op"


def test_halves_without_a_time_and_pairs_of_more_than_a_year_are_left_out() -> None:
    t = TraceBuilder(gpus=0)
    half(t, "B", 0, "a")
    half(t, "E", 4 * 10**13, "a")
    t.event(ph="B", cat="cpu_op", name="b", pid=100, tid=1)
    trace = t.load()
    assert len(trace) == 0
    assert trace.skipped_events == 2


def test_asynchronous_ones_are_left_out_and_said_so() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 50)
    for phase, ts in (("b", 60), ("n", 65), ("e", 70)):
        t.event(ph=phase, cat="request", name="request 7", id=7, pid=100, tid=1, ts=us_text(ts))
    trace = t.load()
    assert len(trace) == 1
    assert [(n.id, n.slots) for n in trace.notes] == [("async", {"count": 2})]


def many(seed: int) -> tuple[TraceBuilder, list[Row]]:
    """Nested spans of three threads, in the file in any order; and what they are."""
    rng = random.Random(seed)
    t, wanted, texts = TraceBuilder(gpus=0), [], []
    for tid in range(3):
        open_spans: list[tuple[str, int]] = []
        for i in range(120):
            ts = i * 1000 + rng.randrange(999)
            if open_spans and rng.random() < 0.5:
                name, start = open_spans.pop()
                wanted.append((name, start, ts - start, tid))
                half(t, "E", us_text(ts / 1000), name, tid)
            else:
                open_spans.append((rng.choice("abc"), ts))
                half(t, "B", us_text(ts / 1000), open_spans[-1][0], tid)
        for name, start in open_spans[::-1]:
            wanted.append((name, start, 200_000 - start, tid))
            half(t, "E", 200, name, tid)
    texts = t.texts
    if seed % 2:
        rng.shuffle(texts)
    return t, sorted(wanted)


def by_thread(trace: Trace) -> list[Row]:
    return sorted((name, ts, dur, trace.lanes[lane].tid) for name, ts, dur, lane in rows(trace))


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_chunks_of_a_file_and_worker_processes(
    seed: int, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t, wanted = many(seed)
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 700)
    for trace in (t.load(processes=processes), lanewise.load(t.write(tmp_path / "t.json"), processes=processes)):
        assert by_thread(trace) == wanted
        assert trace.notes == []


def test_pairs_after_a_stack() -> None:
    """The same pairs as a stack for each thread, and name where all have one, gives."""
    rng = random.Random(1)
    for _ in range(300):
        n = rng.randint(1, 14)
        ts, begin, lane = ([f(0, 8) for _ in range(n)] for f in (rng.randint, lambda *_: rng.random() < 0.5, rng.randint))
        name = [-1 if rng.random() < 0.05 else rng.randint(0, 2) for _ in range(n)]
        nameless = {at for at, text in zip(lane, name, strict=True) if text == -1}
        stacks: dict[Any, list[int]] = {}
        wanted = []
        for i in sorted(range(n), key=ts.__getitem__):
            stack = stacks.setdefault((lane[i], None if lane[i] in nameless else name[i]), [])
            if begin[i]:
                stack.append(i)
            elif stack:
                wanted.append((stack.pop(), i))
        found = pairs(*(np.array(values) for values in (ts, begin, lane, name)))
        assert list(zip(*(f.tolist() for f in found), strict=True)) == sorted(wanted), (ts, begin, lane, name)


def three_steps() -> TraceBuilder:
    t = TraceBuilder(gpus=0)
    for i in range(3):
        mark: dict[str, Any] = {"cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 100, "tid": 1}
        t.event(ph="B", ts=i * 100, **mark)
        half(t, "B", i * 100 + 10, f"op{i}")
        half(t, "E", i * 100 + 20, f"op{i}")
        t.event(ph="E", ts=i * 100 + 90, **mark)
    half(t, "B", 50, "all the while", tid=2)
    half(t, "E", 250, "all the while", tid=2)
    half(t, "B", 60, "never ends", tid=2)
    return t


def test_steps_of_halves_and_a_window_of_them(tmp_path: Path) -> None:
    t = three_steps()
    assert t.load().analysis(steps).index.tolist() == [0, 1, 2]
    wanted = ["ProfilerStep#1", "all the while", "op1"]
    path = t.write(tmp_path / "t.json")
    window = Window(steps=(1, 1))
    part = lanewise.load(path, window=window)
    assert sorted(name for name, *_ in rows(part)) == wanted
    result = slice_trace(path, tmp_path / "slice.json", window)
    again = lanewise.load(tmp_path / "slice.json")
    assert sorted(rows(again)) == sorted(rows(part))
    assert (result.seen, result.kept) == (7, 3)
    assert "begin-end" not in note_ids(again)


def test_what_a_cut_file_says_of_them() -> None:
    t = three_steps()
    text = t.text().encode()
    trace = load_bytes(text[: text.index(b'"all the while"')])
    assert next(n for n in trace.notes if n.id == "truncated").slots["events"] == len(trace) == 6
    assert "begin-end" not in note_ids(trace)
