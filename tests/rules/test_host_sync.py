"""host-sync: which waits count, what goes with them, and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from diagnosing import claim, finding, outcome, truth
from host_traces import TO_CPU, Body, Program, inputs, program

from lanewise.report import Finding
from lanewise.rules.context import Context
from lanewise.rules.sync_changes import _Gather, _gathering_ns

RULE = "host-sync"


def found(body: Body, **options: Any) -> Finding:
    result = finding(program(body, **options), RULE)
    assert result is not None
    return result


def test_read_in_a_cpu_bound_step_costs_its_own_time() -> None:
    def step(p: Program) -> None:
        p.ops(10)
        p.read()
        p.ops(10)

    f = found(step)
    # The last kernel is long done: 24 us of the call, 4 of them the return of the wait, and 2 us of Python before it.
    assert f.saving_us_per_step == pytest.approx(26, abs=3)
    assert f.title == "GPU values read into Python: aten::item ×1 per step"
    assert f.confidence == "high"
    assert [e.name for e in f.evidence[:2]] == ["aten::item", "cudaStreamSynchronize"]


def test_wait_for_useful_work_costs_next_to_nothing() -> None:
    def step(p: Program) -> None:
        p.ops(10, gpu_us=1000)
        p.read()

    # 10 ms of kernels in each step: only the launch of the first kernel after the wait is exposed.
    f = finding(program(step), RULE)
    assert f is None or (f.share_ratio or 0) < 0.01


def test_tests_that_are_made_for_the_read_go_with_it() -> None:
    def step(p: Program) -> None:
        for _ in range(5):
            p.op("aten::linear", dims=[(64, 64)])
            p.op("aten::abs", dims=[(64, 64)])
            p.op("aten::amax", dims=[(64, 64)])
            p.op("aten::gt", dims=[()])
            p.read("aten::is_nonzero", "bool")

    f = found(step)
    # Three ops of 22 us each, and the read of 26.
    assert f.saving_us_per_step == pytest.approx(5 * (3 * 22 + 26), rel=0.08)
    assert "aten::abs, aten::amax, aten::gt" in f.text
    assert f.confidence == "medium"
    # With the tests kept and two ops in place of each branch nothing may be left.
    assert f.saving_low_us_per_step == 0


def taken_out(p: Program, n_bytes: int, python_us: float) -> None:
    """`x.cpu()`, 20 us and its copy, then Python."""
    begin, at = p.now, p.now + 8
    copied = p.queue(50, TO_CPU, "cudaMemcpyAsync", at=at, cat="gpu_memcpy", bytes=n_bytes)
    p.t.call("cudaStreamSynchronize", at + 5, copied - at)
    p.now = copied + 12
    p.t.op("aten::to", begin, p.now - begin)
    p.t.op("aten::copy_", begin + 2, p.now - begin - 4)
    p.idle(python_us)


def test_work_on_a_large_read_goes_with_it() -> None:
    def step(p: Program) -> None:
        p.ops(10)
        taken_out(p, 4 << 20, 2000)
        p.ops(10)

    f = found(step)
    assert f.saving_us_per_step == pytest.approx(2000, rel=0.06)
    assert f.title.startswith("The CPU works 2.00 ms a step on what it read")
    assert f.confidence == "medium"


@pytest.mark.parametrize(("n_bytes", "python_us"), [(4, 2000), (4 << 20, 100)], ids=["a number", "a short pause"])
def test_python_after_a_read_is_not_always_its_work(n_bytes: int, python_us: float) -> None:
    def step(p: Program) -> None:
        p.ops(10)
        taken_out(p, n_bytes, python_us)
        p.ops(10)

    f = finding(program(step), RULE)
    assert f is None or "works" not in f.title


def test_gathering_by_found_indices_goes_on_with_a_mask() -> None:
    """Edges of a graph: `edges[:, mask]` waits, `h[src]` gathers rows of something else, for all edges once there is a mask."""

    def step(p: Program) -> None:
        for _ in range(4):
            p.op("aten::gt", dims=[(1000,)])
            p.read("aten::nonzero", "bool", (1000,))
            p.op("aten::index", gpu_us=400, dims=[(300, 64), (800,)])
            p.op("aten::index_add_", gpu_us=400, dims=[(300, 64), (800,), (800, 64)])

    f = finding(program(step), RULE)
    # The GPU bounds the step: 3.2 ms of gathering stay, and a quarter of it comes for the fifth that the mask leaves out.
    assert f is None or (f.share_ratio or 0) < 0.05


def test_a_mask_that_kept_nothing_tells_nothing_of_what_its_elements_take() -> None:
    def step(p: Program) -> None:
        p.op("aten::gt", dims=[(1000,)])
        p.op("aten::index", gpu_us=400, dims=[(1000, 64), (0,)])

    ctx = Context(program(step).load())
    index = int(np.flatnonzero(ctx.called.kernels > 0)[0])
    nothing, everything, half = (_gathering_ns(ctx, [_Gather(0, index, kept, 1000, 64)]) for kept in (0, 1000, 500))
    assert nothing == everything
    assert half > everything


@pytest.mark.parametrize(("name", "advice"), [("aten::linalg_inv", "inv_ex"), ("torchvision::nms", "set_sync_debug_mode")])
def test_ops_that_wait_on_their_way_keep_their_work(name: str, advice: str) -> None:
    def step(p: Program) -> None:
        p.ops(5)
        begin = p.now
        p.idle(5)
        p.queue(100, at=p.now)
        p.read("aten::item", "float", (1,))
        p.idle(200)
        p.t.op(name, begin, p.now - begin)
        p.ops(5)

    f = found(step)
    # Of the op's 340 us only the wait for its kernel goes, not its own 200 us.
    assert (f.saving_us_per_step or 0) < 130
    assert advice in f.fix


def test_a_grad_scaler_has_its_own_advice() -> None:
    def step(p: Program) -> None:
        p.ops(5, dims=[(64, 64)])
        p.op("aten::_amp_foreach_non_finite_check_and_unscale_", dims=[(1,)])
        p.read("aten::item", "float", (1,))
        p.ops(3, dims=[(64, 64)])

    assert "fused=True" in found(step).fix


def test_the_low_end_of_a_read_is_the_waiting_call() -> None:
    def step(p: Program) -> None:
        for _ in range(5):
            p.op("aten::linear", dims=[(64, 64)])
            p.op("aten::isnan", dims=[(64, 64)])
            p.op("aten::any", dims=[(64, 64)])
            p.read("aten::item", "bool")

    f = found(step)
    assert f.saving_us_per_step == pytest.approx(5 * (2 * 22 + 26), rel=0.08)
    assert f.saving_low_us_per_step == pytest.approx(5 * 26, rel=0.15)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([("aten::sum", (64, 64)), ("aten::gt", ())], 2),
        ([("aten::mul", (64, 64)), ("aten::isnan", (64, 64)), ("aten::any", (64, 64))], 2),  # arithmetic may be used elsewhere
        ([("aten::any", (64, 64)), ("aten::relu", (64, 64))], 0),  # something else lies between
        ([("aten::amax", (64, 64)), ("aten::gt", (32, 32))], 0),  # what is compared is not what is read
    ],
)
def test_how_far_back_the_calls_only_feed_the_read(before: list[tuple[str, tuple[int, ...]]], expected: int) -> None:
    def step(p: Program) -> None:
        p.ops(3, dims=[(8, 8)])
        for name, shape in before:
            p.op(name, dims=[shape])
        p.read("aten::is_nonzero", "bool")
        p.ops(3, dims=[(8, 8)])

    assert found(step).saving_us_per_step == pytest.approx(26 + 22 * expected, abs=4)


def test_scalar_that_is_used_again_is_kept() -> None:
    def step(p: Program) -> None:
        p.ops(3, dims=[(8, 8)])
        p.op("aten::linalg_vector_norm", dims=[(64,)])
        p.read()
        p.op("aten::div", dims=[(64,), ()])

    assert found(step).saving_us_per_step == pytest.approx(26, abs=4)


def test_reduction_that_autograd_uses_is_kept() -> None:
    def step(p: Program) -> None:
        p.ops(3, dims=[(8, 8)])
        number = {"Sequence number": int(p.now), "Fwd thread id": 0}
        p.t.op("aten::mean", p.now, 20, **inputs([(64, 64)]), **number)
        p.queue(3, at=p.now + 10)
        p.now += 22
        p.read()
        p.t.op("autograd::engine::evaluate_function: MeanBackward0", p.now, 20, **number | {"Fwd thread id": 1})
        p.now += 22
        p.ops(3, dims=[(8, 8)])

    assert found(step).saving_us_per_step == pytest.approx(26, abs=4)


@pytest.mark.parametrize(("blocks", "expected"), [(1, 2), (64, 1)])
def test_without_shapes_one_block_tells_a_few_numbers(blocks: int, expected: int) -> None:
    def step(p: Program) -> None:
        p.ops(3)
        for name, grid in (("aten::amax", 64), ("aten::gt", blocks)):
            p.t.op(name, p.now, 20)
            p.queue(3, at=p.now + 10, grid=[grid, 1, 1], block=[128, 1, 1])
            p.now += 22
        begin = p.now
        copied = p.queue(1, "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", at=begin + 6, cat="gpu_memcpy", bytes=1)
        p.t.op("aten::is_nonzero", begin, 24)
        p.t.op("aten::_local_scalar_dense", begin + 2, 20)
        p.t.call("cudaStreamSynchronize", begin + 12, max(copied - begin - 12, 0) + 4)
        p.now += 26
        p.ops(3)

    assert found(step).saving_us_per_step == pytest.approx(26 + 22 * expected, abs=4)


def test_masked_write_becomes_one_op() -> None:
    def index(p: Program, name: str, dims: list[tuple[int, ...]], cpu_us: float) -> None:
        begin = p.now
        p.t.op(name, begin, cpu_us, **inputs(dims))
        p.t.op("aten::nonzero", begin + 5, 40, **inputs(dims[:1]))
        p.t.op("aten::select", begin + 46, 2, **inputs([(977, 2)]))
        done = p.queue(1, "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", at=begin + 10, cat="gpu_memcpy", bytes=8)
        p.t.call("cudaStreamSynchronize", begin + 20, max(done - begin - 20, 0) + 4)
        p.queue(4, at=begin + 60)
        p.now += cpu_us + p.pause

    def step(p: Program) -> None:
        for _ in range(4):
            p.op("aten::mm", dims=[(64, 64), (64, 64)])
            index(p, "aten::index", [(64, 64)], 100)
            p.op("aten::neg", dims=[(977,)])
            p.op("aten::index_put_", cpu_us=30, dims=[(64, 64), (977,)])

    f = found(step)
    # Lookup (102 us) and write (32 us) go, one op of 20 us comes instead; `neg` is computed in any case.
    assert f.saving_us_per_step == pytest.approx(4 * (102 + 32 - 20), rel=0.1)
    assert "torch.where" in f.fix


def test_round_trip_goes_from_copy_to_copy() -> None:
    size = 1 << 20

    def step(p: Program) -> None:
        p.ops(5)
        begin = p.now
        done = p.queue(20, "Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync", at=begin + 5, cat="gpu_memcpy", bytes=size)
        p.t.op("aten::to", begin, done + 10 - begin)
        p.t.call("cudaStreamSynchronize", begin + 12, done + 4 - begin - 12)
        p.now = done + 12
        p.op("aten::softmax", cpu_us=500, gpu_us=None)
        p.copy(size, 20)
        p.ops(5)

    f = found(step)
    assert f.title == "A tensor goes to the CPU and back: aten::to ×1 per step"
    step_us = f.saving_us_per_step / f.share_ratio  # type: ignore[operator]
    # What remains: ten ops of 22 us, and one more in place of the trip.
    assert step_us - (f.saving_us_per_step or 0) == pytest.approx(11 * 22, rel=0.15)


def test_explicit_synchronisation_costs_the_idle_after_it() -> None:
    def step(p: Program) -> None:
        p.ops(10, gpu_us=30)
        p.t.call("cudaDeviceSynchronize", p.now, max(p.free - p.now, 0) + 4)
        p.now = max(p.free, p.now) + 6

    f = found(step)
    assert f.title == "Synchronises with the GPU: cudaDeviceSynchronize ×1 per step"
    assert "torch.cuda.synchronize()" in f.fix
    assert 0 < (f.saving_us_per_step or 0) < 40  # one launch and one return, not the 90 us of the wait


def test_nothing_to_say() -> None:
    assert outcome(program(lambda p: p.ops(10)), RULE) == "clear"  # the profiler's own synchronisation does not count

    def copies(p: Program) -> None:
        p.ops(5)
        p.copy(4, 1)

    assert outcome(program(copies), RULE) == "clear"  # a wait for a copy to the GPU is small-copies'

    def ddp(p: Program) -> None:
        p.t.annotation("DistributedDataParallel.forward", p.now, 105)
        p.t.call("cudaEventSynchronize", p.now + 1, 100)
        p.now += 110
        p.ops(5)

    assert outcome(program(ddp), RULE) == "clear"


def test_without_steps_it_is_not_checked() -> None:
    p = Program()
    p.ops(3)
    p.read()
    assert outcome(p.t, RULE) == "not-checked"


@pytest.mark.shared
@pytest.mark.parametrize(
    "case",
    ["sync_nan_check_each_param", "sync_boolean_indexing", "sync_python_branch", "cpu_round_trip", "sync_item_gpu_bound"],
)
def test_planted(case: str) -> None:
    assert claim(case, "bad", RULE) == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", RULE) < 0.05
