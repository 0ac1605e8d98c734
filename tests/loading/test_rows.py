"""Ids, categories and rows in every form that exporters since 2020 have written, also those of other GPUs than NVIDIA's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids
from lanewise.analyses.gpu_time import device_times
from lanewise.analyses.launches import launches
from lanewise.analyses.steps import steps


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (7, 7),
        ("7", 7),
        (" 7 ", 7),
        ("stream 7", "stream 7"),
        ("Spans", "Spans"),
        (-1, -1),
        ("-1", -1),
        (7.0, 7),
        (18446744073709551615, 18446744073709551615),
        (2**70, 2**70),
        ("²", "²"),
        ("--5", "--5"),
        ("１２", "１２"),
        (None, None),
        ("", ""),
    ],
)
def test_lane_ids(written: Any, kept: Any) -> None:
    t = TraceBuilder()
    t.span("cpu_op", "a", 0, 5, written, written)
    t.span("cpu_op", "b", 10, 5, 1, 1)
    trace = t.load()
    lane = trace.lanes[int(trace.lane[0])]
    assert (lane.pid, lane.tid) == (kept, kept)
    lanewise.explain(trace).to_json()
    trace.frame("lanes")


def test_the_same_lane_as_number_and_as_text() -> None:
    t = TraceBuilder()
    t.op("outer", 0, 100, tid=25738)
    t.op("inner", 10, 5, tid="25738")
    trace = t.load()
    assert len(set(trace.lane.tolist())) == 1


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (42, 42),
        ("42", 42),
        ("0x2a", 42),
        (42.0, 42),
        (-1, -1),
        (0, 0),
        (18446744073709551615, -1),
        (2**63 - 1, 2**63 - 1),
        (2**80, -1),
        (-(2**80), -1),
        (1e300, -1),
        (None, -1),
        ("", -1),
        ("abc", -1),
        (True, -1),
        ([1], -1),
        ({"a": 1}, -1),
    ],
)
def test_correlation_ids(written: Any, kept: int) -> None:
    for others in ([], [5, 6]):
        t = TraceBuilder()
        for i, correlation in enumerate([written, *others]):
            t.gpu("k", i * 10, 5, correlation)
        trace = t.load()
        assert trace.column("gpu_ops", "correlation").tolist() == [kept, *others]
        lanewise.explain(trace).to_json()


@pytest.mark.parametrize(
    ("grid", "kept"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2], [-1] * 3),
        ([1, 2, 3, 4], [-1] * 3),
        ([2**31, 1, 1], [-1] * 3),
        ([2**70, 1, 1], [-1] * 3),
        ("1,2,3", [-1] * 3),
        (None, [-1] * 3),
        ([[1], 2, 3], [-1] * 3),
        ([None, 2, 3], [-1] * 3),
        ({}, [-1] * 3),
        (7, [-1] * 3),
    ],
)
def test_grids(grid: Any, kept: list[int]) -> None:
    for others in (0, 2):
        t = TraceBuilder()
        t.gpu("k", 0, 5, 1, grid=grid, block=[32, 1, 1])
        for i in range(others):
            t.gpu("k", 10 + i * 10, 5, 2 + i, grid=[7, 8, 9], block=[32, 1, 1])
        trace = t.load()
        got = [trace.column("gpu_ops", f"grid_{axis}").tolist() for axis in "xyz"]
        assert [g[0] for g in got] == kept
        assert [g[1:] for g in got] == [[n] * others for n in (7, 8, 9)]


def test_sizes_that_do_not_fit() -> None:
    t = TraceBuilder()
    names = ("registers per thread", "shared memory", "est. achieved occupancy %", "bytes")
    for i, values in enumerate([(2**40, -5, 1e300, 2**70), (32, 1024, 12.5, 64)]):
        t.gpu("k", i * 10, 5, i + 1, more=dict(zip(names, values, strict=True)))
    row = t.load().gpu_ops.select("registers", "shared_memory", "occupancy", "bytes").rows()
    assert row == [(None, None, None, None), (32, 1024, 12.5, 64)]


@pytest.mark.parametrize("spelling", ["now", "2021"])
def test_spellings_of_categories(spelling: str) -> None:
    old = {
        "cpu_op": "Operator",
        "cuda_runtime": "Runtime",
        "kernel": "Kernel",
        "gpu_memcpy": "Memcpy",
        "gpu_memset": "Memset",
        "python_function": "Python",
    }
    t = TraceBuilder()

    def named(cat: str) -> str:
        return old[cat] if spelling == "2021" else cat

    t.span(named("cpu_op"), "aten::mm", 0, 50, 100, "1", **{"external id" if spelling == "2021" else "External id": 3})
    t.span(named("cuda_runtime"), "cudaLaunchKernel", 5, 5, 100, "1", correlation=9)
    t.span(named("kernel"), "k", 30, 5, 0, "stream 7", device=0, stream=7, correlation=9)
    t.span(named("gpu_memcpy"), "Memcpy HtoD", 40, 5, 0, "stream 7", device=0, stream=7, correlation=10)
    t.span(named("gpu_memset"), "Memset", 50, 5, 0, "stream 7", device=0, stream=7, correlation=11)
    t.span(named("python_function"), "f.py(1): f", 0, 60, 100, "1")
    trace = t.load()
    assert trace.format == ("kineto-legacy" if spelling == "2021" else "kineto")
    assert trace.column("cpu_ops", "external_id").tolist() == [3]
    d = trace.analysis(device_times)[0]
    assert (d.device, d.by_kind["compute"], d.by_kind["copy"], d.by_kind["memset"]) == (0, 5000, 5000, 5000)
    assert len(trace.rows("python_function")) == 1


def test_exporter_without_categories() -> None:
    """Before Kineto, torch.autograd.profiler wrote bare arrays: processes named by kind, arrows in place of runtime calls."""
    events: list[dict[str, Any]] = [
        {"name": "    mm", "ph": "X", "ts": 100.0, "dur": 41.5, "tid": 1, "pid": "CPU functions", "args": {}},
        {"name": "mm", "ph": "X", "ts": 150.0, "dur": 1.5, "tid": 1, "pid": "CPU functions", "args": {}},
        {"name": "sgemm", "ph": "X", "ts": 130.0, "dur": 20.0, "tid": 0, "pid": "CUDA functions", "args": {}},
        {"name": "Memcpy HtoD", "ph": "X", "ts": 160.0, "dur": 5.0, "tid": 1, "pid": "CUDA functions", "args": {}},
        {"name": "mm", "ph": "s", "ts": 100.0, "tid": 1, "pid": "CPU functions", "id": 5, "cat": "cpu_to_cuda", "args": {}},
        {"name": "sgemm", "ph": "f", "ts": 130.0, "tid": 0, "pid": "CUDA functions", "id": 5, "cat": "cpu_to_cuda", "args": {}},
    ]
    trace = load_bytes(json.dumps(events).encode())
    assert trace.format == "autograd-legacy"
    assert {d.device: d.by_kind["compute"] + d.by_kind["copy"] for d in trace.analysis(device_times)} == {0: 20_000, 1: 5000}
    links = trace.analysis(launches)
    assert (links.launch >= 0).tolist() == [True, False]
    ops = {r.name: r for r in lanewise.explain(trace).ops}
    assert ops["mm"].count == 2
    assert ops["mm"].gpu_self_us == 20.0


def test_profiler_rows_are_no_events() -> None:
    t = TraceBuilder()
    t.span("Trace", "PyTorch Profiler (0)", 0, 1000, "Spans", "PyTorch Profiler")
    t.event(ph="i", s="g", name="Record Window End", pid="", tid="", ts=1000)
    t.event(ph="i", name="Iteration Start: PyTorch Profiler", pid="Traces", tid="Trace PyTorch Profiler", ts=0, s="g")
    t.event(ph="C", name="counter", pid=1, ts=0, args={"x": 1})
    t.op("aten::mm", 10, 5)
    trace = t.load()
    assert [trace.name_of(i) for i in range(len(trace))] == ["aten::mm"]
    assert trace.skipped_events == 0


def test_annotations_and_syncs_on_gpu_lanes_are_no_work() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.launch(10, 5, gpu=(30, 20))
    t.gpu("ProfilerStep#1", 0, 500, None, cat="gpu_user_annotation")
    t.gpu("Stream Sync", 40, 400, 3, cat="cuda_sync", cuda_sync_kind="Stream Sync")
    trace = t.load()
    assert trace.analysis(device_times)[0].busy_ns == 20_000
    assert trace.capabilities == ("cpu_ops", "gpu_events", "syncs")


def test_rocm() -> None:
    """HIP calls under cuda_runtime, and device ids that the header does not have."""
    t = TraceBuilder(gpus=0, header={"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}]})
    t.op("aten::mm", 0, 50)
    t.call("hipModuleLaunchKernel", 5, 5, 1)
    t.gpu("Cijk_Ailk_Bljk_BBS", 30, 20, 1, device=4, stream=0)
    t.call("hipMemcpyWithStream", 20, 5, 2)
    t.gpu("CopyHostToDevice", 60, 5, 2, device=4, stream=0, cat="gpu_memcpy")
    trace = t.load()
    assert [(d.index, d.name) for d in trace.devices] == [(0, "AMD Instinct MI300X"), (4, None)]
    assert trace.analysis(launches).linked.tolist() == [True, True]
    assert [d.device for d in trace.analysis(device_times)] == [4]


def test_xpu() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 50)
    t.call("urEnqueueKernelLaunch", 5, 5, 1, cat="xpu_runtime")
    t.gpu("gemm_kernel", 30, 20, 1)
    trace = t.load()
    assert trace.analysis(launches).linked.tolist() == [True]
    assert trace.devices[0].index == 0


def test_mtia_rows_are_shown_and_not_interpreted() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 50)
    t.span("mtia_runtime", "runFunction", 5, 5, 100, 1, correlation=1)
    t.span("mtia_ccp_events", "fc_kernel", 30, 20, 0, 2, correlation=1)
    trace = t.load()
    assert len(trace) == 3
    assert note_ids(trace) == ["unknown-category"]
    assert trace.notes[0].slots == {"count": 1, "names": "mtia_ccp_events"}
    assert trace.analysis(device_times) == ()
    assert "gpu_events" not in trace.capabilities


def test_capabilities_do_not_speak_of_strays() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 1)
    t.frame("train.py(3): main", 0, 1)
    t.span("overhead", "Buffer Flush", 5_000_000_000, 1, 100, 1)
    trace = t.load()
    assert (trace.stray_events, trace.capabilities) == (2, ())


def test_device_and_stream_from_the_row_where_arguments_lack_them() -> None:
    t = TraceBuilder()
    for pid, tid in ((1, 7), ("1", "stream 7"), ("GPU 1", "7")):
        t.span("kernel", "k", 0, 5, pid, tid, correlation=1)
    t.span("kernel", "k", 9, 5, "accelerator", "main", correlation=1)
    trace = t.load()
    assert trace.column("gpu_ops", "device").tolist() == [1, 1, 1, -1]
    assert trace.column("gpu_ops", "stream").tolist() == [7, 7, 7, -1]
    lanewise.explain(trace).to_json()


def test_flows_of_all_spellings_are_read_or_ignored() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    for cat in ("ac2g", "async_cpu_to_gpu", "async", "fwdbwd"):
        t.event(ph="s", id=1, pid=100, tid=1, ts=5, cat=cat, name=cat)
        t.event(ph="f", id=1, pid=100, tid=1, ts=9, cat=cat, name=cat, bp="e")
    trace = t.load()
    assert trace.column("flows", "backward").tolist() == [True, True]
    assert trace.column("flows", "end").tolist() == [False, True]


def test_memory_events() -> None:
    t = TraceBuilder()
    arguments = {"Total Reserved": 4096, "Total Allocated": 1024, "Bytes": -512, "Addr": 140, "Device Id": 0, "Device Type": 1}
    t.event(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=100, tid=1, ts=5, args=arguments)
    t.event(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=100, tid=1, args=arguments)
    trace = t.load()
    assert trace.capabilities == ("memory",)
    assert trace.memory.rows() == [(5000, 0, -512, 140, 1, 0, 1024, 4096)]
    assert trace.skipped_events == 1


def test_inputs_stay_as_text() -> None:
    t = TraceBuilder()
    for _ in range(2):
        t.op(
            "aten::mm", 0, 50, **{"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "1.5"]}
        )
    t.op("aten::relu", 60, 5)
    trace = t.load()
    assert trace.frame("inputs").rows() == [(0, "[[2, 3], []]", '["float", "Scalar"]', None, '["", "1.5"]')]
    assert trace.cpu_ops["inputs"].to_list() == [0, 0, None]
    assert "shapes" in trace.capabilities


def test_steps_need_no_order_in_the_file() -> None:
    t = TraceBuilder()
    for i in reversed(range(3)):
        t.step(i, i * 100, 90)
        t.launch(i * 100 + 5, 5, gpu=(i * 100 + 30, 20))
    trace = t.load()
    assert (np.diff(trace.ts) >= 0).all()
    assert trace.analysis(steps).index.tolist() == [0, 1, 2]


def test_traces_merged_into_one_file_are_told() -> None:
    t = TraceBuilder()
    for rank in range(2):
        for i in range(1, 4):
            pid = f"rank {rank}: 9"
            t.span("cuda_runtime", "cudaLaunchKernel", i * 100, 5, pid, 9, correlation=i)
            t.span("kernel", "sgemm", i * 100 + 50, 20, f"rank {rank}: 0", 7, correlation=i, device=0, stream=7)
    trace = t.load()
    assert next(n for n in trace.notes if n.id == "merged").slots == {"count": 2}
    # A process of its own with a few calls is none.
    other = TraceBuilder()
    for i in range(1, 4):
        other.call("cudaLaunchKernel", i * 100, 5, i)
    other.span("cuda_runtime", "cudaLaunchKernel", 5, 5, 101, 1, correlation=1)
    assert "merged" not in note_ids(other.load())


def test_events_without_a_category_are_told() -> None:
    t = TraceBuilder(gpus=0)
    t.span(None, "PjitFunction(f)", 0, 5, 1, 1)
    t.op("aten::mm", 10, 5)
    trace = t.load()
    assert [(n.id, n.slots) for n in trace.notes] == [("no-category", {"count": 1})]
    assert lanewise.explain(trace).verdict.text.startswith("No GPU work that lanewise can read")
