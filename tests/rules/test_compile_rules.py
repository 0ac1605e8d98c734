"""recompilation, graph-breaks, compile-overhead, graph-input-copies."""

from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth

from builder import TraceBuilder
from lanewise import explain, load
from places import ROOT


def compiling(steps: tuple[int, ...], n: int = 4) -> TraceBuilder:
    """Steps of 1 ms; in some of them 0.8 ms of compilation, in all a compiled region with one kernel."""
    t = TraceBuilder()
    for i in range(n):
        s = i * 1000
        t.step(i, s, 1000)
        if i in steps:
            t.op("_compile.compile_inner (dynamo_timed)", s + 10, 800)
        t.op("Torch-Compiled Region: 0/0", s + 900, 50)
        t.launch(s + 920, 5, gpu=(s + 930, 20), name="triton_poi_fused_mul_0")
    return t


def test_recompiling_every_step_is_found_at_its_price() -> None:
    found = finding(compiling((1, 2, 3)), "recompilation")
    assert found is not None
    # 800 of 1,000 us of CPU work go; nothing else bounds the step.
    assert found.saving_us_per_step == pytest.approx(800, rel=0.02)
    assert found.cost_us_per_step == pytest.approx(800, rel=0.01)


def test_compiling_in_the_first_step_is_fine() -> None:
    assert outcome(compiling((0,)), "recompilation") == "clear"


def test_one_late_compilation_is_fine() -> None:
    assert outcome(compiling((2,)), "recompilation") == "clear"


def regions(*frames: str, kernels: int = 1) -> TraceBuilder:
    """Steps that run a compiled region of each frame: 10 us lookup, 40 us of region, of it 10 us in an op that launches."""
    t = TraceBuilder()
    for i in range(4):
        t.step(i, i * 1000, 60 * len(frames) + 5)
        for j, frame in enumerate(frames):
            s = i * 1000 + j * 60
            t.op("TorchDynamo Cache Lookup", s, 10)
            t.op(f"Torch-Compiled Region: {frame}", s + 10, 40)
            for _ in range(kernels):
                t.op("aten::addmm", s + 30, 10)
                t.launch(s + 32, 5, gpu=(s + 40, 4))
    return t


def test_regions_of_several_frames_are_breaks() -> None:
    found = finding(regions("0/0", "1/0", "2/0"), "graph-breaks")
    assert found is not None
    # Each part pays 10 + 40 - 10 us beside its op; two of three would go.
    assert found.cost_us_per_step == pytest.approx(80, abs=0.1)
    assert "3 compiled regions" in found.title


def nested(*frames: str, user_us: float = 100) -> TraceBuilder:
    """Steps in which each region but the last holds the next, as after a graph break: lookup 10 us, 40 us of its own with 10 us
    in an op that launches, then what broke the graph, then the next."""
    t = TraceBuilder()
    for i in range(4):
        s = i * 2000
        t.step(i, s, 1500)
        total = (50 + user_us) * len(frames) - user_us + len(frames)
        for j, frame in enumerate(frames):
            at = s + j * (50 + user_us)
            t.op("TorchDynamo Cache Lookup", at, 10)
            t.op(f"Torch-Compiled Region: {frame}", at + 10, s + total - j - at - 10)
            t.annotation("## Call CompiledFxGraph f", at + 20, 30)
            t.op("aten::addmm", at + 30, 10)
            t.launch(at + 32, 5, gpu=(at + 40, 4))
    return t


def test_what_follows_a_break_is_inside_what_came_before() -> None:
    found = finding(nested("0/0", "1/0", "2/0"), "graph-breaks")
    assert found is not None
    # Each part pays 10 us of lookup and 30 of its 40 us; the 100 us between are the program's. Two of three parts would go.
    assert found.cost_us_per_step == pytest.approx(80, abs=1.1)
    assert "3 compiled regions" in found.title
    assert found.confidence == "medium"


def test_functions_compiled_apart_are_no_certain_break() -> None:
    found = finding(regions("0/0", "1/0"), "graph-breaks")
    assert found is not None
    assert found.confidence == "low"
    assert "one after the other" in found.title


@pytest.mark.parametrize(
    ("name", "found_regions"),
    [("flat", 3), ("nested", 7), ("item", 2), ("whole", None), ("each", None)],
)
def test_breaks_as_torch_records_them(name: str, found_regions: int | None) -> None:
    """Recorded on a CPU with torch 2.13: two breaks; one in a function called twice; `.item()`; none; layers apart."""
    found = next(
        (f for f in explain(load(ROOT / "tests/rules/graph_breaks" / f"{name}.json.gz")).findings if f.id == "graph-breaks"),
        None,
    )
    if found_regions is None:
        assert found is None
    else:
        assert found is not None
        assert f"{found_regions} compiled regions" in found.title


def test_one_frame_called_again_is_no_break() -> None:
    assert outcome(regions("0/0", "0/0", "0/0"), "graph-breaks") == "clear"


def test_compile_overhead_of_a_tiny_region() -> None:
    found = finding(regions("0/0"), "compile-overhead")
    assert found is not None
    assert found.cost_us_per_step == pytest.approx(40, abs=0.1)


def test_compile_overhead_is_nothing_where_fusion_saves_more() -> None:
    t = TraceBuilder()
    for i in range(4):
        s = i * 1000
        t.step(i, s, 100)
        t.op("TorchDynamo Cache Lookup", s, 10)
        t.op("Torch-Compiled Region: 0/0", s + 10, 80)
        for j in range(3):  # three kernels of eight operations each stand for 24 eager ops, 126 us of dispatch
            name = "triton_poi_fused_add_cos_div_exp_gelu_mul_sin_sub_0"
            t.op(name, s + 20 + j * 20, 10)
            t.launch(s + 22 + j * 20, 5, gpu=(s + 40 + j * 20, 2), name=name, call="cuLaunchKernel")
    assert finding(t, "compile-overhead") is None


def replayed(copies: int) -> TraceBuilder:
    """Steps that copy some inputs (20 us of GPU time each) and replay a graph of 50 us; the GPU bounds them."""
    t = TraceBuilder()
    at = 0
    for i in range(4):
        s = i * 30
        t.step(i, s, 30)
        for j in range(copies):
            t.op("aten::copy_", s + 2 + j * 6, 5)
            gpu = (100 + at, 20)
            t.launch(s + 3 + j * 6, 3, gpu=gpu, name="Memcpy DtoD (Device -> Device)", cat="gpu_memcpy", call="cudaMemcpyAsync")
            at += 20
        t.launch(s + 24, 5, gpu=(100 + at, 50), name="sgemm", call="cudaGraphLaunch")
        at += 50
    return t


def test_copies_before_a_graph_are_priced_in_gpu_time() -> None:
    found = finding(replayed(2), "graph-input-copies")
    assert found is not None
    assert found.cost_us_per_step == pytest.approx(40, abs=0.01)
    assert found.saving_us_per_step == pytest.approx(40, abs=1)


def test_graph_without_copies_is_clear() -> None:
    assert outcome(replayed(0), "graph-input-copies") == "clear"


def test_copies_without_a_graph_are_none() -> None:
    t = TraceBuilder()
    t.step(0, 0, 30)
    t.op("aten::copy_", 2, 5)
    t.launch(3, 3, gpu=(10, 20), name="Memcpy DtoD (Device -> Device)", cat="gpu_memcpy", call="cudaMemcpyAsync")
    assert outcome(t, "graph-input-copies") == "clear"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("recompile_every_step", "recompilation"),
        ("graph_input_copies", "graph-input-copies"),
        ("optimizer_for_loop", "unfused-optimizer"),
        ("grad_in_inference", "autograd-in-inference"),
    ],
)
def test_planted_causes_are_priced_within_15_points(case: str, rule: str) -> None:
    assert claim(case, "bad", rule) == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", rule) < 0.05


@pytest.mark.shared
def test_planted_compile_overhead_is_found_and_goes() -> None:
    assert claim("compile_tiny_op", "bad", "compile-overhead") > 0.2
    assert claim("compile_tiny_op", "fixed", "compile-overhead") == 0
