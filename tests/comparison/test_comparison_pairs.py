"""Comparison of built traces: structure first, times as far as they are seen."""

from __future__ import annotations

import pytest

from builder import TraceBuilder
from diffing import COMPILED, EAGER, FUSED, GEMM, MUL, built, built_pair, figure, labels
from lanewise.comparison import Comparison, TraceSide, compare
from lanewise.comparison.difference import short_names
from lanewise.comparison.kernel_groups import run_to_run
from lanewise.comparison.noise import LINK_RUN, MEMORY_RUN
from lanewise.errors import UsageError

CONV = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1"
NE = "void at::native::vectorized_elementwise_kernel<4, at::native::compare_ne>(int)"
ADAM = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, at::native::FusedSgd>"


def test_a_trace_against_itself_is_the_same() -> None:
    found = built_pair(built(), built())
    assert found.same_recording
    assert not found.changed
    assert found.structure_same
    assert found.kernels == []
    assert found.kernels_same == 4
    assert found.headline.startswith("No difference seen")


def test_two_kernels_become_one() -> None:
    found = built_pair(built(EAGER), built(COMPILED, cpu=11))
    [group] = found.kernels
    assert group.kind == "fused"
    assert [p.op for p in group.base] == ["aten::gelu", "aten::mul"]
    assert [p.name for p in group.new] == [FUSED]
    assert group.base_us == pytest.approx(60, abs=0.1)
    assert group.new_us == pytest.approx(35, abs=0.1)
    assert group.call == "less"
    assert found.kernels_same == 2
    assert (figure(found, "kernels").base, figure(found, "kernels").new) == (4, 3)
    assert figure(found, "launches").call == "less"


def test_layers_that_repeat_are_one_group() -> None:
    found = built_pair(built(EAGER * 12), built(COMPILED * 12, cpu=11))
    [group] = found.kernels
    assert group.times == 12
    assert group.base_us == pytest.approx(720, abs=1)


def test_a_kernel_of_another_tile_stands_for_the_old_one() -> None:
    other = tuple((op, k.replace("128x128x32", "256x128x32"), ns) for op, k, ns in EAGER)
    found = built_pair(built(EAGER), built(other, cpu=11))
    [group] = found.kernels
    assert (group.kind, group.times) == ("replaced", 2)
    assert group.call == "not-seen"


def test_a_removed_copy_is_said_to_be_gone() -> None:
    copy = ("aten::clone", "Memcpy DtoD (Device -> Device)", 40.0)
    found = built_pair(built((*EAGER[:2], copy, *EAGER[2:])), built(EAGER, cpu=11))
    [group] = found.kernels
    assert (group.kind, labels(group)) == ("removed", (["copy DtoD"], []))


def test_reordered_kernels_are_the_same_kernels() -> None:
    found = built_pair(built(EAGER), built((EAGER[1], EAGER[0], *EAGER[2:]), cpu=11))
    assert found.structure_same


def test_a_slower_gpu_is_seen_and_named() -> None:
    slow = tuple((op, k, ns * 1.2 if k == GEMM else ns) for op, k, ns in EAGER)
    found = built_pair(built(EAGER), built(slow, cpu=11))
    [group] = found.kernels
    assert (group.kind, group.call) == ("same", "more")
    assert group.base[0].name == GEMM
    assert "takes 20 % longer" in found.headline


@pytest.mark.parametrize("outlier", [0, 2, 5])
def test_one_outlier_step_never_decides(outlier: int) -> None:
    found = built_pair(built(EAGER, cpu=60), built(EAGER, cpu=61, outlier=outlier))
    assert not found.changed


def test_a_cpu_that_is_slower_as_a_whole_is_no_change() -> None:
    found = built_pair(built(EAGER, cpu=100), built(EAGER, cpu=200))
    assert figure(found, "cpu_us").call == "not-seen"
    assert found.pace_ratio == pytest.approx(2, rel=0.05)
    assert "pace" in [c.id for c in found.conditions]


def test_a_cpu_figure_is_told_as_it_is_compared() -> None:
    slow = figure(built_pair(built(EAGER, cpu=100), built(EAGER, cpu=200)), "cpu_us")
    assert slow.base is not None
    assert slow.paced_base == pytest.approx(2 * slow.base, rel=0.05)
    alike = figure(built_pair(built(EAGER, cpu=100), built(EAGER, cpu=101)), "cpu_us")
    assert alike.paced_base is None


def test_a_step_that_waits_for_the_gpu_does_not_take_the_pace_of_the_cpu() -> None:
    # 160 us of GPU work a step; 48 us of CPU work, then 96: the GPU is the limit in both.
    found = built_pair(built(EAGER, cpu=10), built(EAGER, cpu=22))
    assert found.pace_ratio == pytest.approx(2.2, rel=0.05)
    assert figure(found, "time_profiled_us").paced_base is None
    # Three times 48 us are less than the GPU's work, ten times are more: the CPU's work is what the step takes then.
    slower = built_pair(built(EAGER, cpu=10), built(EAGER, cpu=100))
    step, cpu = figure(slower, "time_profiled_us"), figure(slower, "cpu_us")
    assert step.paced_base == pytest.approx(cpu.paced_base)
    assert step.call == "not-seen"


def test_a_short_collective_does_not_hide_what_the_kernels_beside_it_do() -> None:
    # A collective may take 2.5 times as long another day; that is 2 of these 302 us.
    collective = ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 2.0)
    side = TraceSide(built((collective, *(("aten::mul", MUL, 100.0) for _ in range(3)))).load(), "en")
    assert [s.kind for s in side.sequence.slots].count("collective") == 1
    expected = (2 * LINK_RUN + 300 * MEMORY_RUN) / 302
    assert run_to_run(side.sequence.ns, side.sequence.slots) == pytest.approx(expected, rel=0.01)


def test_real_times_win_over_profiled_ones() -> None:
    found = built_pair(built(EAGER, cpu=100, real=300), built(EAGER, cpu=101, real=900))
    step = figure(found, "time_us")
    assert (step.base, step.new, step.call) == (300, 900, "more")
    one = built_pair(built(EAGER, cpu=100, real=300), built(EAGER, cpu=101))
    assert figure(one, "time_profiled_us").call == "not-seen"
    assert "real-time" in [c.id for c in one.conditions]


def with_clock(factor: float, *, only: str = "") -> TraceBuilder:
    """Steps of two kinds of products and other ops, the products (or one of them) longer by a factor."""
    calls = (*EAGER, ("aten::convolution", CONV, 40.0))
    longer = tuple((op, k, ns * factor if k in ((only,) if only else (GEMM, CONV)) else ns) for op, k, ns in calls)
    return built(longer, cpu=11 if factor != 1 else 10)


def test_all_products_longer_alike_are_the_clock() -> None:
    found = built_pair(with_clock(1), with_clock(1.15))
    assert not found.changed
    assert [c.id for c in found.conditions] == ["gpu-pace"]
    assert figure(found, "gpu_us").call == "not-seen"
    # 140 of 200 us are products: 1 + 0.7 * 0.15.
    busy = figure(found, "gpu_us")
    assert busy.base is not None
    assert busy.paced_base == pytest.approx(busy.base * 1.105, rel=0.002)


def test_one_product_longer_is_no_clock_and_neither_is_too_much() -> None:
    one = built_pair(with_clock(1), with_clock(1.15, only=CONV))
    assert [(g.base[0].name, g.call) for g in one.kernels] == [(CONV, "more")]
    much = built_pair(with_clock(1), with_clock(1.4))
    assert {g.base[0].name for g in much.kernels} == {GEMM, CONV}
    assert figure(much, "gpu_us").call == "more"


def test_ops_of_another_place_are_a_group_of_their_own() -> None:
    def steps(check: bool, fused: bool) -> TraceBuilder:
        t = TraceBuilder()
        for i in range(4):
            at = 1000.0 * i
            t.step(i, at, 900)
            t.annotation("forward", at + 1, 300)
            t.annotation("Optimizer.step#SGD.step", at + 400, 400)
            calls = [("aten::mm", GEMM, 10)]
            calls += [("aten::ne", NE, 100 + 20 * k) for k in range(3 if check else 0)]
            update = [("aten::_fused_sgd_", ADAM, 500)] if fused else [("aten::mul_", MUL, 500 + 20 * k) for k in range(4)]
            for op, kernel, begin in [*calls, *update]:
                t.op(op, at + begin, 10)
                t.launch(at + begin + 2, 5, gpu=(at + begin + 8, 10), name=kernel)
        return t

    groups = built_pair(steps(True, False), steps(False, True)).kernels
    found = {g.kind: (sorted({p.op for p in g.base}), sorted({p.op for p in g.new})) for g in groups}
    assert found["removed"] == (["aten::ne"], [])
    assert found["fused"] == (["aten::mul_"], ["aten::_fused_sgd_"])


def timed(median: float, *, cpu: float = 100, **kept: float) -> TraceBuilder:
    builder = built(EAGER, cpu=cpu, real=median)
    builder.header["lanewise"]["unprofiled_step_us"] |= {"steps": 10, **kept}
    return builder


def test_real_times_that_vary_are_no_difference() -> None:
    # Ten steps each: of some the machine was busy with other things, so that the medians are 5 times apart.
    calm, busy = timed(300, mad=3), timed(1500, cpu=101, mad=1150)
    found = built_pair(calm, busy)
    assert figure(found, "time_us").call == "not-seen"
    assert any("--timed" in text for text in found.needed)
    assert figure(built_pair(timed(300, mad=3), timed(1500, cpu=101, mad=15)), "time_us").call == "more"
    # 3.5 standard errors of a median: 1.2533 * 1.4826 * 30 / sqrt(10) = 17.6 us of each, 24.9 us of both.
    step = figure(built_pair(timed(300, mad=30), timed(300, cpu=101, mad=30)), "time_us")
    assert step.margin_ratio == pytest.approx(0.40 + 3.5 * 24.93 / 300, abs=0.001)


def test_the_range_stands_for_the_spread_that_older_recordings_lack() -> None:
    assert (
        figure(built_pair(timed(300, min=290, max=320), timed(1500, cpu=101, min=350, max=5000)), "time_us").call == "not-seen"
    )
    # One outlier on either side is no spread.
    assert figure(built_pair(timed(300, min=290, max=9000), timed(1500, cpu=101, min=1450, max=9000)), "time_us").call == "more"
    assert figure(built_pair(timed(300, min=290, max=310), timed(1500, cpu=101, min=100, max=1550)), "time_us").call == "more"


def on_the_cpu(op_us: float, *, region: bool = False) -> TraceBuilder:
    t = TraceBuilder()
    for i in range(5):
        begin = 1000.0 * i
        if region:
            t.op("Torch-Compiled Region: 0/0", begin + 1, op_us + 30)
        for k, name in enumerate(("aten::mm", "aten::add")):
            t.op(name, begin + 20 + k * op_us / 2, round(op_us / 2 - 1 - 0.1 * (i % 3), 3))
        t.span("user_annotation", f"ProfilerStep#{i}", begin, op_us + 40 + 0.1 * (i % 2), t.pid, 1)
    return t


def test_without_a_gpu_the_step_tells_whether_compiling_is_worth_it() -> None:
    def verdict(base: float, new: float) -> str:
        sides = [on_the_cpu(100), on_the_cpu(100, region=True)]
        for side, real in zip(sides, (base, new), strict=True):
            side.header["lanewise"] = {"schema": "lanewise.recording/1", "unprofiled_step_us": {"median": real, "steps": 20}}
        found = built_pair(*sides).compile
        assert found is not None
        return found.verdict

    assert verdict(100, 300) == "not-worth-it"
    assert verdict(300, 100) == "worth-it"
    assert verdict(100, 110) == "not-seen"


def test_another_gpu_withholds_times_but_not_structure() -> None:
    other = built(COMPILED, cpu=11)
    other.header["deviceProperties"][0]["name"] = "NVIDIA A100"
    found = built_pair(built(EAGER), other)
    assert [c.id for c in found.conditions if c.spoils] == ["gpu"]
    assert {f.call for f in found.figures if f.group == "time"} == {"withheld"}
    assert [g.kind for g in found.kernels] == ["fused"]
    assert [g.call for g in found.kernels] == ["withheld"]
    told = built_pair(built(EAGER), other, anyway=True)
    assert figure(told, "gpu_us").call == "less"


def test_few_steps_tell_no_times() -> None:
    found = built_pair(built(EAGER, steps=2), built(COMPILED, steps=2, cpu=11))
    assert "few-steps" in [c.id for c in found.conditions]
    assert figure(found, "gpu_us").call == "withheld"
    assert figure(found, "kernels").call == "less"


def test_the_document_survives_json() -> None:
    found = compare([built(EAGER).load(), built(COMPILED, cpu=11).load(), built(EAGER, cpu=12).load()])
    assert found.schema == "lanewise.diff/1"
    assert [p.new for p in found.pairs] == [1, 2]
    assert Comparison.from_json(found.to_json()) == found


def test_one_trace_is_refused() -> None:
    with pytest.raises(UsageError):
        compare([built().load()])


def test_names_tell_traces_apart() -> None:
    assert short_names(["a/bad.json.gz", "a/fixed.json.gz"]) == ["bad", "fixed"]
    assert short_names(["x/run_1_eager.json", "x/run_1_compile.json"]) == ["eager", "compile"]
    assert short_names(["one/trace.json", "two/trace.json"]) == ["one", "two"]
    assert short_names(["same.json", "same.json"]) == ["same (1)", "same (2)"]


def cpu_steps(*ops: str, steps: int = 4) -> TraceBuilder:
    """Steps that call ops and start no GPU work."""
    t = TraceBuilder(gpus=0)
    at = 0
    for i in range(steps):
        begin = at
        for op in ops:
            t.op(op, at + 1, 8 + i % 2)
            at += 12
        t.span("user_annotation", f"ProfilerStep#{i}", begin, at - begin, t.pid, 1)
        at += 1
    return t


def test_without_a_gpu_ops_are_the_structure() -> None:
    found = built_pair(cpu_steps("aten::mm", "aten::gelu"), cpu_steps("aten::mm", "aten::mul", "aten::clone"))
    assert not found.structure_same
    assert [(o.name, o.base, o.new) for o in found.ops] == [
        ("aten::clone", 0, 1),
        ("aten::gelu", 1, 0),
        ("aten::mul", 0, 1),
    ]
    same = built_pair(cpu_steps("aten::mm"), cpu_steps("aten::mm", steps=5))
    assert same.structure_same
    assert not same.changed


def test_an_op_in_place_of_another_is_seen_where_their_number_is_the_same() -> None:
    found = built_pair(cpu_steps("aten::gelu"), cpu_steps("aten::relu"))
    assert not found.structure_same


def on_grid(blocks: int) -> TraceBuilder:
    t = TraceBuilder()
    for i in range(5):
        at = 100 * i
        t.op("aten::mm", at + 1, 20)
        t.launch(at + 2, 5, gpu=(at + 30, 50), name=GEMM, grid=[blocks, 1, 1], block=[128, 1, 1])
        t.span("user_annotation", f"ProfilerStep#{i}", at, 90, t.pid, 1)
    return t


def test_other_grids_are_other_shapes_where_shapes_were_not_recorded() -> None:
    found = built_pair(on_grid(100), on_grid(200))
    assert [(c.id, c.spoils) for c in found.conditions] == [("shapes", ["gpu", "cpu", "time"])]
    assert found.kernels == []
    assert built_pair(on_grid(100), on_grid(100)).conditions == []


@pytest.mark.parametrize(("clock", "spoils"), [(1980, None), (1920, []), (1200, ["gpu"])])
def test_other_clocks_are_listed_and_spoil_gpu_times(clock: int, spoils: list[str] | None) -> None:
    traces = [built(EAGER), built(EAGER, cpu=11)]
    for trace, mhz in zip(traces, (1980, clock), strict=True):
        trace.header["lanewise"] = {"schema": "lanewise.recording/1", "device": {"sm_clock_mhz": mhz}}
    found = built_pair(*traces)
    assert [c.spoils for c in found.conditions if c.id == "clocks"] == ([] if spoils is None else [spoils])
    assert figure(found, "gpu_us").call == ("withheld" if spoils else "not-seen")


def test_a_step_that_does_more_of_the_same_is_listed() -> None:
    def listed(base: int, new: int) -> list[str]:
        found = built_pair(built(EAGER * base), built(COMPILED * new, cpu=11))
        return [c.text for c in found.conditions if c.id == "amount" and not c.spoils]

    [text] = listed(4, 1)
    assert text.startswith("The products that both run by the same kernels are 8 a step, and 2 in new")
    assert listed(4, 4) == []
    assert len(listed(1, 4)) == 1


def test_stacks_in_one_only_withhold_cpu_times() -> None:
    other = built(EAGER, cpu=11)
    other.span("python_function", "train.py(1): step", 0, 5, other.pid, 1, **{"Python id": 1})
    found = built_pair(built(EAGER), other)
    assert [c.id for c in found.conditions if c.spoils] == ["flags"]
    assert figure(found, "cpu_us").call == "withheld"
    assert figure(found, "gpu_us").call == "not-seen"


def test_the_pace_is_told_where_times_are_compared() -> None:
    other = built(EAGER, cpu=30)
    other.span("python_function", "train.py(1): step", 0, 5, other.pid, 1, **{"Python id": 1})
    assert [c.id for c in built_pair(built(EAGER), other).conditions] == ["flags"]
    assert [c.id for c in built_pair(built(EAGER), other, anyway=True).conditions] == ["flags", "pace"]
