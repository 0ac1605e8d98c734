"""The dispatch chain, folded."""

from __future__ import annotations

import numpy as np
import pytest

import lanewise
from builder import TraceBuilder
from lanewise.analyses.dispatch import dispatch
from lanewise.analyses.dispatch_nodes import LaneTree, Node, pruned
from lanewise.analyses.folding import repeats
from lanewise.analyses.launches import launches
from lanewise.analyses.steps import steps
from places import DATA


def outline(nodes: tuple[Node, ...]) -> list[object]:
    """Names with counts, nested."""
    out: list[object] = []
    for n in nodes:
        name = ", ".join(f"{c}x {x}" if c > 1 else x for x, c in n.names) if n.names else n.name or "block"
        out.append(f"{n.count}x {name}" if n.count > 1 else name)
        if n.children:
            out.append(outline(n.children))
    return out


def linear(t: TraceBuilder, ts: float, kernel: str = "gemm", tid: int = 1) -> None:
    """A linear layer of 100 us: two views and a product that runs for 30 us."""
    t.op("aten::linear", ts, 100, tid)
    t.op("aten::t", ts + 10, 10, tid)
    t.op("aten::transpose", ts + 11, 6, tid)
    t.op("aten::as_strided", ts + 12, 3, tid)
    t.op("aten::addmm", ts + 30, 50, tid)
    t.launch(ts + 40, 5, gpu=(ts + 60, 30), name=kernel, tid=tid)


def only(lanes: list[LaneTree]) -> tuple[Node, ...]:
    assert len(lanes) == 1
    return lanes[0].roots


@pytest.mark.parametrize(
    ("sequence", "wanted"),
    [
        ("", []),
        ("a", [(0, 1, 1)]),
        ("aaab", [(0, 1, 3), (3, 1, 1)]),
        ("xababab", [(0, 1, 1), (1, 2, 3)]),
        ("aabaab", [(0, 3, 2)]),  # six of six covered, rather than two and two
        ("abcab", [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)]),
    ],
)
def test_repetitions(sequence: str, wanted: list[tuple[int, int, int]]) -> None:
    assert repeats(np.array([ord(c) for c in sequence], dtype=np.uint64)) == wanted


def test_long_repetitions_are_found_too() -> None:
    period = np.random.default_rng(1).integers(0, 2**60, 700).astype(np.uint64)
    assert repeats(np.r_[period, period, period]) == [(0, 700, 3)]


def test_the_chain_from_op_to_kernel_with_its_times() -> None:
    t = TraceBuilder()
    linear(t, 0)
    (node,) = only(dispatch(t.load()))
    assert outline((node,)) == [
        "aten::linear",
        ["aten::t (transpose, as_strided)", "aten::addmm", ["cudaLaunchKernel", ["gemm"]]],
    ]
    assert (node.cpu_ns, node.gpu_ns, node.gpu_ops) == (100_000, 30_000, 1)
    views, addmm = node.children
    assert (views.category, views.cpu_ns, views.gpu_ops) == ("views", 10_000, 0)
    assert (addmm.cpu_ns, addmm.gpu_ns) == (50_000, 30_000)
    call = addmm.children[0]
    kernel = call.children[0]
    assert (call.category, call.cpu_ns, kernel.category, kernel.cpu_ns, kernel.gpu_ns) == (
        "cuda_runtime",
        5_000,
        "kernel",
        0,
        30_000,
    )


def test_alike_neighbours_are_folded_and_their_times_summed() -> None:
    t = TraceBuilder()
    for i in range(12):
        linear(t, 200 * i)
    (node,) = only(dispatch(t.load()))
    assert (node.count, node.copies) == (12, 12)
    assert (node.cpu_ns, node.cpu_each_ns) == (1_200_000, 100_000)
    assert (node.gpu_ns, node.gpu_ops) == (360_000, 12)
    assert node.children[1].children[0].copies == 12
    assert node.children[1].children[0].cpu_each_ns == 5_000


def test_what_differs_deep_inside_is_not_alike() -> None:
    t = TraceBuilder()
    linear(t, 0)
    linear(t, 200, kernel="other")
    assert [n.count for n in only(dispatch(t.load()))] == [1, 1]


def test_several_neighbours_that_repeat_together_are_a_block() -> None:
    t = TraceBuilder()
    for i in range(6):
        linear(t, 300 * i)
        t.op("aten::gelu", 300 * i + 150, 20)
        t.launch(300 * i + 160, 5, gpu=(300 * i + 200, 10), name="gelu")
    (block,) = only(dispatch(t.load()))
    assert (block.category, block.count, block.cpu_each_ns, block.gpu_each_ns) == ("block", 6, 120_000, 40_000)
    assert [c.name for c in block.children] == ["aten::linear", "aten::gelu"]
    assert block.children[1].cpu_each_ns == 20_000


def test_repetitions_within_repetitions() -> None:
    t = TraceBuilder()
    for i in range(2):
        t.annotation("layer", 1000 * i, 900)
        for k in range(3):
            linear(t, 1000 * i + 200 * k)
    (layer,) = only(dispatch(t.load()))
    (inner,) = layer.children
    assert (layer.count, layer.copies, inner.count, inner.copies) == (2, 2, 3, 6)
    assert (inner.cpu_ns, inner.cpu_each_ns) == (600_000, 100_000)


def test_ops_that_start_nothing_are_one_line() -> None:
    t = TraceBuilder()
    t.op("aten::empty", 0, 5)
    for i in range(3):
        t.op("aten::view", 10 + 10 * i, 5)
    linear(t, 100)
    quiet, _ = only(dispatch(t.load()))
    assert (quiet.category, quiet.names, quiet.cpu_ns) == ("quiet", (("aten::empty", 1), ("aten::view", 3)), 20_000)


def test_cpu_work_is_not_hidden_as_nothing() -> None:
    t = TraceBuilder()
    linear(t, 0)
    t.op("aten::stack", 200, 5_000)
    assert [n.category for n in only(dispatch(t.load()))] == ["cpu_op", "cpu_op"]
    t = TraceBuilder()
    t.op("aten::to", 0, 5_000)
    t.op("aten::view", 6_000, 5)
    assert [n.category for n in only(dispatch(t.load()))] == ["cpu_op", "views"]


def test_calls_that_only_ask_are_left_out_and_those_that_wait_are_not() -> None:
    t = TraceBuilder()
    t.op("aten::add", 0, 100)
    t.call("cudaFuncGetAttributes", 10, 2)
    t.call("cudaStreamIsCapturing", 15, 2)
    t.call("cudaStreamSynchronize", 20, 30)
    t.launch(60, 5, gpu=(80, 10))
    (node,) = only(dispatch(t.load()))
    assert [c.name for c in node.children] == ["cudaStreamSynchronize", "cudaLaunchKernel"]


def test_a_driver_call_inside_a_runtime_call_is_part_of_it() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 100)
    t.call("cudaLaunchKernelExC", 10, 20, 1)
    t.call("cuLaunchKernelEx", 12, 10, 1, cat="cuda_driver")
    t.gpu("gemm", 50, 10, 1)
    assert outline(only(dispatch(t.load()))) == ["aten::mm", ["cudaLaunchKernelExC", ["gemm"]]]


def test_the_kernels_of_a_graph_launch_are_folded() -> None:
    t = TraceBuilder()
    t.call("cudaGraphLaunch", 0, 50, 1)
    for i in range(8):
        t.gpu("norm", 100 + 20 * i, 5, 1)
        t.gpu("gemm", 110 + 20 * i, 10, 1)
    (call,) = only(dispatch(t.load()))
    assert (call.gpu_ops, call.gpu_ns) == (16, 120_000)
    (block,) = call.children
    assert (block.count, [c.name for c in block.children], block.gpu_each_ns) == (8, ["norm", "gemm"], 15_000)


def test_backward_ops_are_on_their_thread_and_name_their_forward_op() -> None:
    t = TraceBuilder()
    t.op("aten::mul", 0, 20, **{"Sequence number": 5, "Fwd thread id": 0})
    t.launch(5, 5, gpu=(10, 10))
    t.op("autograd::engine::evaluate_function: MulBackward0", 100, 60, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})
    t.op("MulBackward0", 110, 30, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})
    t.op("aten::mul", 115, 20, tid=2)
    t.launch(120, 5, gpu=(130, 10), tid=2)
    trace = t.load()
    lanes = {trace.lanes[x.lane].tid: x.roots for x in dispatch(trace)}
    (node,) = lanes[2]
    # The engine's call and the node are one; the time is the engine's.
    assert (node.name, node.forward, node.cpu_ns) == ("MulBackward0", "aten::mul", 60_000)
    assert outline(node.children) == ["aten::mul", ["cudaLaunchKernel", ["sgemm"]]]
    assert lanes[1][0].forward is None


def test_python_frames_only_where_asked_for_and_as_far_as_they_lead_to_ops() -> None:
    t = TraceBuilder()
    t.frame("train.py(3): main", 0, 500)
    t.frame("nn.Module: Net_0", 10, 300)
    t.frame("torch/nn/modules/module.py(1): _call_impl", 11, 290)
    t.frame("net.py(9): forward", 12, 280)
    linear(t, 20)
    t.frame("net.py(12): helper", 200, 50)
    t.op("aten::relu", 350, 20)
    trace = t.load()
    assert [n.name for n in only(dispatch(trace))] == ["aten::linear", "aten::relu"]
    (main,) = only(dispatch(trace, python=True))
    assert main.name == "train.py(3): main"
    assert [c.name for c in main.children] == ["nn.Module: Net_0 > net.py(9): forward", "aten::relu"]
    assert main.children[0].cpu_ns == 300_000
    assert [c.name for c in main.children[0].children] == ["aten::linear"]


def test_a_window_takes_what_starts_in_it() -> None:
    t = TraceBuilder()
    t.frame("loop.py(1): run", 0, 1_000)
    for i in range(2):
        t.step(i, 400 * i + 10, 300)
        linear(t, 400 * i + 20)
    trace = t.load()
    found = trace.analysis(steps)
    begin, end = int(found.start[1]), int(found.start[1] + found.wall_ns[1])
    for python in (False, True):
        (node,) = only(dispatch(trace, begin, end, python=python))
        assert (node.name, node.gpu_ops) == ("ProfilerStep#1", 1)


def test_pruning_counts_what_it_leaves_out() -> None:
    t = TraceBuilder()
    t.annotation("step", 0, 1_000)
    linear(t, 0)
    for i in range(5):
        t.op(f"aten::sin{i}", 200 + 10 * i, 4)
    (root,) = only(dispatch(t.load()))
    small = pruned(root, None, 50_000)
    assert [c.name for c in small.children] == ["aten::linear"]
    assert small.hidden == (5, 20_000, 0)
    flat = pruned(root, 1, 0)
    assert [len(c.children) for c in flat.children] == [0] * 6
    assert flat.children[0].hidden == (2, 60_000, 30_000)


def test_an_empty_trace_has_no_tree() -> None:
    assert dispatch(TraceBuilder().load()) == []


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.json.gz")), ids=lambda p: "/".join(p.parts[-2:]))
@pytest.mark.parametrize("python", [False, True])
def test_all_linked_gpu_work_of_a_real_trace_is_in_its_tree_once(path, python: bool) -> None:  # type: ignore[no-untyped-def]
    trace = lanewise.load(path, processes=0)
    lanes = dispatch(trace, python=python)
    links = trace.analysis(launches)
    events = trace.column("gpu_ops", "event")[links.launch >= 0]
    assert sum(x.gpu_ops for x in lanes) == len(events)
    assert sum(n.gpu_ns for x in lanes for n in x.roots) == int(trace.dur[events].sum())

    def leaves(node: Node) -> int:
        own = node.gpu_ns if node.category in ("kernel", "gpu_memcpy", "gpu_memset") else 0
        return own + sum(leaves(c) for c in node.children)

    assert sum(leaves(n) for x in lanes for n in x.roots) == int(trace.dur[events].sum())
