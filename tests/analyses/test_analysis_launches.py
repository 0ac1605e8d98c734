"""Which call started which GPU work: by correlation id, never by what ran at the same moment."""

from __future__ import annotations

import pytest

import lanewise
from builder import TraceBuilder, us_text
from lanewise.analyses.launches import LAUNCH_KINDS, launches
from lanewise.model.trace import Trace


def _owners(trace: Trace) -> list[str | None]:
    """Name of the op that launched each GPU op, in order of their start."""
    return [None if e < 0 else trace.name_of(int(e)) for e in trace.analysis(launches).gpu_owner]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("cudaLaunchKernel", "kernel"),
        ("cudaLaunchKernelExC", "kernel"),
        ("cudaLaunchCooperativeKernel", "kernel"),
        ("cuLaunchKernel", "kernel"),
        ("cuLaunchKernelEx", "kernel"),
        ("hipLaunchKernel", "kernel"),
        ("hipExtModuleLaunchKernel", "kernel"),
        ("hipModuleLaunchKernel", "kernel"),
        ("urEnqueueKernelLaunch", "kernel"),
        ("cudaGraphLaunch", "graph"),
        ("hipGraphLaunch", "graph"),
        ("cudaMemcpyAsync", "copy"),
        ("cudaMemcpy", "copy"),
        ("hipMemcpyWithStream", "copy"),
        ("cudaMemsetAsync", "memset"),
        ("hipMemsetAsync", "memset"),
    ],
)
def test_calls_that_start_work_though_none_was_recorded(call: str, kind: str) -> None:
    t = TraceBuilder()
    t.op("aten::op", 0, 50)
    t.call(call, 10, 5, 7)
    links = t.load().analysis(launches)
    assert [LAUNCH_KINDS[k] for k in links.kind] == [kind]
    assert links.linked.tolist() == [False]


@pytest.mark.parametrize(
    "call",
    [
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventRecord",
        "cudaMalloc",
        "cudaStreamIsCapturing",
        "cudaFuncGetAttributes",
        "hipGetDevice",
    ],
)
def test_calls_that_start_none(call: str) -> None:
    t = TraceBuilder()
    t.call(call, 10, 5, 7)
    assert len(t.load().analysis(launches).call) == 0


def test_a_call_of_any_name_launches_what_has_its_id() -> None:
    t = TraceBuilder()
    t.op("aten::op", 0, 50)
    t.call("cudaSomethingNew", 10, 5, 7)
    t.gpu("k", 30, 5, 7)
    trace = t.load()
    assert _owners(trace) == ["aten::op"]
    assert [LAUNCH_KINDS[k] for k in trace.analysis(launches).kind] == ["kernel"]


def test_the_owner_is_the_op_that_called_not_the_one_that_runs_then() -> None:
    t = TraceBuilder()
    t.op("aten::first", 0, 50)
    t.launch(10, 5, gpu=(60, 20))
    t.op("aten::second", 55, 50)
    t.launch(60, 5, gpu=(80, 20))
    assert _owners(t.load()) == ["aten::first", "aten::second"]


def test_graph_launch_owns_all_its_kernels() -> None:
    t = TraceBuilder()
    t.annotation("decode", 0, 50)
    t.call("cudaGraphLaunch", 10, 5, 7)
    for i in range(300):
        t.gpu("k", 30 + i, 0.5, 7)
    trace = t.load()
    links = trace.analysis(launches)
    assert links.gpu_count.tolist() == [300]
    assert _owners(trace) == ["decode"] * 300


def test_runtime_and_driver_call_that_share_an_id_are_one_launch() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.call("cudaLaunchKernelExC", 10, 8, 7)
    t.call("cuLaunchKernelEx", 12, 4, 7, cat="cuda_driver")
    t.gpu("k", 30, 5, 7)
    trace = t.load()
    links = trace.analysis(launches)
    assert [trace.name_of(int(e)) for e in links.call] == ["cudaLaunchKernelExC"]
    assert _owners(trace) == ["aten::mm"]


def test_a_driver_call_inside_a_runtime_call_with_another_id() -> None:
    t = TraceBuilder()
    t.call("cudaLaunchKernel", 10, 8, 7)
    t.call("cuLaunchKernel", 12, 4, 8, cat="cuda_driver")
    t.gpu("k", 30, 5, 8)
    trace = t.load()
    links = trace.analysis(launches)
    assert links.gpu_count.tolist() == [1]
    assert [trace.name_of(int(e)) for e in links.call] == ["cuLaunchKernel"]
    assert links.ambiguous.tolist() == [False]


def test_a_graph_launch_whose_work_is_lost_is_not_part_of_the_driver_call_inside_it() -> None:
    t = TraceBuilder()
    t.call("cudaGraphLaunch", 10, 8, 7)
    t.call("cuLaunchKernel", 12, 4, 8, cat="cuda_driver")
    t.gpu("k", 30, 5, 8)
    assert t.load().analysis(launches).gpu_count.tolist() == [0, 1]


def test_runtime_and_driver_call_of_one_id_with_another_call_between_them() -> None:
    t = TraceBuilder()
    t.call("cudaLaunchKernel", 3, 66, 7)
    t.call("cudaMemsetAsync", 16, 56, 8)  # outlives it, as calls timed by other clocks do
    t.call("cuLaunchKernel", 35, 2, 7, cat="cuda_driver")
    t.gpu("k", 101, 5, 7)
    links = t.load().analysis(launches)
    assert (links.gpu_count.tolist(), links.launch.tolist()) == ([1, 0], [0])


def test_arrows_from_forward_to_backward_do_not_make_a_trace_one_without_calls() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.event(ph="s", id=3, pid=100, tid=1, ts=us_text(1), cat="fwdbwd", name="fwdbwd")
    t.gpu("k", 30, 5, 7)  # launched before the recording began
    links = t.load().analysis(launches)
    assert (links.launch.tolist(), links.ambiguous.tolist()) == ([-1], [False])


@pytest.mark.parametrize("correlation", [0, -1, None])
def test_ids_that_identify_nothing(correlation: int | None) -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.call("cudaLaunchKernel", 10, 5, correlation)
    t.gpu("k", 30, 5, correlation)
    trace = t.load()
    links = trace.analysis(launches)
    assert links.launch.tolist() == [-1]
    assert links.ambiguous.tolist() == [True]
    assert links.linked.tolist() == [False]
    warning = next(w for w in lanewise.explain(trace).trace.warnings if w.id == "ambiguous-ids")
    assert warning.text.startswith("1 GPU op ")


def test_an_id_shared_by_calls_that_are_not_one_inside_the_other() -> None:
    """As in traces of several processes joined together."""
    t = TraceBuilder()
    for ts, tid in ((10, 1), (20, 2)):
        t.op("aten::mm", ts - 5, 20, tid=tid)
        t.call("cudaLaunchKernel", ts, 5, 7, tid=tid)
    t.gpu("k", 40, 5, 7)
    t.launch(60, 5, gpu=(80, 5))
    trace = t.load()
    assert trace.analysis(launches).ambiguous.tolist() == [True, False]
    assert _owners(trace)[0] is None


def test_work_launched_before_the_recording_began() -> None:
    t = TraceBuilder()
    t.gpu("k", 5, 5, 3)
    t.op("aten::mm", 0, 50)
    t.launch(20, 5, gpu=(30, 5))
    report = lanewise.explain(t.load())
    assert (report.coverage.gpu_ops, report.coverage.gpu_ops_linked) == (2, 1)
    assert report.coverage.gpu_timing == "ok"
    assert next(w for w in report.trace.warnings if w.id == "launched-before").text.startswith("1 GPU op launched before")


def test_a_call_that_outlives_its_op_belongs_to_the_op_of_its_external_id() -> None:
    t = TraceBuilder()
    t.op("aten::linear", 0, 100, **{"External id": 1})
    t.op("aten::addmm", 10, 5, **{"External id": 2})
    t.span("cuda_runtime", "cudaLaunchKernel", 12, 5, 100, 1, correlation=7, **{"External id": 2})
    t.gpu("k", 30, 5, 7)
    assert _owners(t.load()) == ["aten::addmm"]


def test_a_python_frame_between_op_and_call_is_looked_through() -> None:
    t = TraceBuilder()
    t.op("MyFunction", 0, 100)
    t.frame("kernel.py(3): launch", 5, 50)
    t.launch(10, 5, gpu=(30, 5))
    assert _owners(t.load()) == ["MyFunction"]


def test_work_under_no_op() -> None:
    t = TraceBuilder()
    t.launch(10, 5, gpu=(30, 5))
    trace = t.load()
    assert _owners(trace) == [None]
    assert trace.analysis(launches).linked.tolist() == [True]
    assert lanewise.explain(trace).kernels[0].ops == []


def test_ids_are_large() -> None:
    t = TraceBuilder()
    for i, correlation in enumerate((2**62, 2**62 + 1, 2**31, 5)):
        t.op(f"op{i}", i * 100, 50)
        t.call("cudaLaunchKernel", i * 100 + 10, 5, correlation)
        t.gpu("k", i * 100 + 30, 5, correlation)
    assert _owners(t.load()) == ["op0", "op1", "op2", "op3"]
