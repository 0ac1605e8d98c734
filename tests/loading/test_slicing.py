"""Cutting a window out of a trace into a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.analyses.gpu_time import device_times
from lanewise.analyses.steps import steps
from lanewise.analyses.tables import op_table
from lanewise.errors import UsageError
from lanewise.loading.slicing import SliceResult, slice_trace
from lanewise.loading.window import window_of
from places import DATA, SHARED


def two_steps() -> TraceBuilder:
    t = TraceBuilder(header={"distributedInfo": {"rank": 3}}, tail={"traceName": "x.json"})
    t.named("thread_name", "main", 100, 1)
    for i in range(2):
        begin = 1000 + 100 * i
        t.step(i + 1, begin, 100)
        t.op(f"op{i + 1}", begin + 10, 40)
        t.launch(begin + 20, 5, gpu=(begin + 30, 30), name=f"kernel{i + 1}")
        t.gpu(f"ProfilerStep#{i + 1}", begin + 30, 30, cat="gpu_user_annotation")
        for phase, tid, pid, ts in (("s", 1, 100, begin + 20), ("f", 7, 0, begin + 30)):
            t.event(ph=phase, id=i + 1, pid=pid, tid=tid, ts=ts, cat="ac2g", name="ac2g", bp="e")
        t.event(ph="i", s="t", name="[memory]", pid=100, tid=1, ts=begin + 15, args={"Bytes": 512, "Device Type": 1})
    # An arrow from the first step into the second.
    t.event(ph="s", id=9, pid=100, tid=1, ts=1010, cat="fwdbwd", name="fwdbwd")
    t.event(ph="f", id=9, pid=100, tid=1, ts=1110, cat="fwdbwd", name="fwdbwd", bp="e")
    t.span("Trace", "PyTorch Profiler (0)", 900, 400, "Spans", "PyTorch Profiler")
    return t


def cut(t: TraceBuilder, tmp_path: Path, name: str = "out.json", **window: str) -> tuple[SliceResult, dict[str, Any]]:
    source = t.write(tmp_path / "in.json")
    chosen = window_of(**window)
    assert chosen is not None
    result = slice_trace(source, tmp_path / name, chosen, processes=0)
    data = (tmp_path / name).read_bytes()
    return result, json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def test_a_slice_is_a_valid_trace_with_header_names_and_both_ends_of_arrows(tmp_path: Path) -> None:
    result, document = cut(two_steps(), tmp_path, steps="2")
    events = document["traceEvents"]
    assert document["distributedInfo"] == {"rank": 3}
    assert document["traceName"] == "x.json"
    assert document["lanewiseSlice"] == {"begin_us": 1100.0, "end_us": 1200.0, "steps": ["ProfilerStep#2"]}
    assert sorted(e["name"] for e in events if e["ph"] == "X") == [
        "ProfilerStep#2",
        "ProfilerStep#2",
        "cudaLaunchKernel",
        "kernel2",
        "op2",
    ]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["main"]
    assert sorted((e["ph"], e["id"]) for e in events if e["ph"] in "sf") == [("f", 2), ("s", 2)]
    assert [e["ts"] for e in events if e["name"] == "[memory]"] == [1115]
    assert (result.kept, result.seen, result.flows, result.open_flows) == (5, 10, 1, 1)


def test_events_keep_their_text(tmp_path: Path) -> None:
    t = two_steps()
    odd = (
        '{"ph": "X",  "cat":"cpu_op", "name": "odd", "pid": 100, "tid": 1, "ts": 1112.5000000, "dur": 1e0, "args": {"x": 1.10}}'
    )
    t.raw(odd)
    cut(t, tmp_path, steps="2")
    assert odd in (tmp_path / "out.json").read_text()


def test_it_reads_like_the_window_of_the_whole(tmp_path: Path) -> None:
    cut(two_steps(), tmp_path, steps="2")
    part, alone = lanewise.load(tmp_path / "in.json", window=window_of(steps="2")), lanewise.load(tmp_path / "out.json")
    assert [alone.name_of(i) for i in range(len(alone))] == [part.name_of(i) for i in range(len(part))]
    assert (alone.ts == part.ts).all()
    assert op_table(alone) == op_table(part)


def test_gzip_by_name(tmp_path: Path) -> None:
    _, document = cut(two_steps(), tmp_path, "out.json.gz", steps="1")
    assert {e["name"] for e in document["traceEvents"]} >= {"op1", "kernel1"}


def test_a_bare_array_stays_one(tmp_path: Path) -> None:
    source = tmp_path / "bare.json"
    source.write_text("[" + ",".join(two_steps().texts) + "]")
    window = window_of(steps="2")
    assert window is not None
    slice_trace(source, tmp_path / "out.json", window)
    assert {"op2", "kernel2"} <= {e["name"] for e in json.loads((tmp_path / "out.json").read_text())}


_EVENT = '{"ph": "X", "cat": "cpu_op", "name": %s, "pid": 100, "tid": 1, "ts": 1125.000, "dur": 1.0%s}'


@pytest.mark.parametrize(
    "damage",
    [_EVENT % ('"a "quoted" name"', ""), _EVENT % ('"tab\there"', ""), _EVENT % ('"nan"', ', "args": {"x": nan}')],
    ids=["quotes", "control", "nan"],
)
def test_damaged_events_are_mended_so_that_others_can_read_them(tmp_path: Path, damage: str) -> None:
    t = two_steps()
    t.texts.insert(3, damage)
    result, document = cut(t, tmp_path, steps="2")
    assert (result.mended, result.lost) == (1, 0)
    assert [e["ts"] for e in document["traceEvents"] if e["ph"] == "X" and e["ts"] == 1125] == [1125]
    assert len([e for e in document["traceEvents"] if e["name"] == "op2"]) == 1


def test_bytes_that_are_no_utf8_do_not_reach_the_slice(tmp_path: Path) -> None:
    t = two_steps()
    source = tmp_path / "in.json"
    source.write_bytes(t.text().encode().replace(b'"op2"', b'"op\xff2"'))
    window = window_of(steps="2")
    assert window is not None
    slice_trace(source, tmp_path / "out.json", window)
    assert "op\ufffd2" in {e["name"] for e in json.loads((tmp_path / "out.json").read_bytes())["traceEvents"]}


def test_a_cut_file_gives_a_whole_slice(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    text = two_steps().text()
    source.write_text(text[: text.index("fwdbwd")])
    window = window_of(steps="2")
    assert window is not None
    slice_trace(source, tmp_path / "out.json", window)
    assert {"op2", "kernel2"} <= {e["name"] for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"]}


def test_nothing_is_left_behind_when_the_window_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="It has steps 1-2"):
        cut(two_steps(), tmp_path, steps="7")
    assert [p.name for p in tmp_path.iterdir()] == ["in.json"]


def test_arrows_far_apart_in_the_file_come_together(tmp_path: Path) -> None:
    t = two_steps()
    # All ends before all starts, as exporters that sort by lane write them.
    t.texts.sort(key=lambda text: '"ph": "s"' in text)
    _, document = cut(t, tmp_path, steps="1-2")
    assert sorted((e["ph"], e["id"]) for e in document["traceEvents"] if e["ph"] in "sf") == [
        ("f", 1),
        ("f", 2),
        ("f", 9),
        ("s", 1),
        ("s", 2),
        ("s", 9),
    ]


REAL = sorted(p for p in DATA.rglob("*.json.gz"))


@pytest.mark.parametrize("source", REAL, ids=lambda p: "/".join(p.parts[-2:]))
def test_slices_of_real_traces_keep_the_figures_of_their_steps(source: Path, tmp_path: Path) -> None:
    whole = lanewise.load(source, processes=0).analysis(steps)
    if len(whole) < 2:
        pytest.skip("one step")
    window = window_of(steps=str(whole.index[1]))
    assert window is not None
    slice_trace(source, tmp_path / "out.json.gz", window, processes=0)
    part = lanewise.load(tmp_path / "out.json.gz", processes=0).analysis(steps)
    for column in ("index", "wall_ns", "gpu_busy_ns", "kernels", "copies", "memsets", "launches", "end"):
        assert getattr(part, column).tolist() == [getattr(whole, column)[1]], column


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mi300_resnet_act_checkpoint", "vllm_decode_full_graph_execution", "h100_bert-small"])
def test_time_windows_of_public_traces(name: str, tmp_path: Path) -> None:
    source = SHARED / "traces" / "public" / f"TraceLens__{name}.json.gz"
    whole = lanewise.load(source, processes=0)
    assert whole.span is not None
    third = (whole.span[1] - whole.span[0]) / 3000
    window = window_of(begin=str(third), end=str(2 * third))
    assert window is not None
    slice_trace(source, tmp_path / "out.json", window, processes=0)
    part, alone = lanewise.load(source, processes=0, window=window), lanewise.load(tmp_path / "out.json", processes=0)
    assert len(alone) == len(part) < len(whole)
    assert [(d.ops, d.busy_ns) for d in alone.analysis(device_times)] == [
        (d.ops, d.busy_ns) for d in part.analysis(device_times)
    ]
