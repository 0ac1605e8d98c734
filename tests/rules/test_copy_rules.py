"""pageable-copy, small-copies, single-stream-copy."""

from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from host_traces import TO_CPU, TO_GPU_PINNED, Body, Program, program

MIB = 1 << 20


# ---- pageable-copy
def test_pageable_copy_at_the_rate_of_pinned_ones() -> None:
    def step(p: Program) -> None:
        p.copy(4 * MIB, 800)  # 5.2 GB/s
        p.queue(100, TO_GPU_PINNED, "cudaMemcpyAsync", at=p.now, cat="gpu_memcpy", bytes=5 * MIB)  # 52.4 GB/s
        p.ops(4, gpu_us=50)

    f = finding(program(step), "pageable-copy")
    assert f is not None
    # 4 MiB take 80 us at the measured rate, and the CPU is no longer held: the step is as long as its GPU work of 380 us,
    # in place of the copy, its waits, and the launches after it.
    step_us = f.saving_us_per_step / f.share_ratio  # type: ignore[operator]
    assert step_us - (f.saving_us_per_step or 0) == pytest.approx(80 + 100 + 200, rel=0.03)
    assert f.confidence == "high"
    assert "5.24 GB/s" in f.title
    assert "52.4 GB/s" in f.text
    assert "pin_memory" in f.fix


def test_rate_of_the_bus_where_nothing_was_pinned() -> None:
    def step(p: Program) -> None:
        p.copy(4 * MIB, 800)
        p.ops(4, gpu_us=50)

    f = finding(program(step), "pageable-copy")
    assert f is not None
    assert f.confidence == "medium"
    assert "54.8 GB/s" in f.text  # 87 % of PCIe 5.0's 63 GB/s: the header says H200


def test_loader_is_told_to_pin() -> None:
    def step(p: Program) -> None:
        p.t.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", p.now, 10)
        p.now += 12
        p.copy(4 * MIB, 800)
        p.ops(4, gpu_us=50)

    f = finding(program(step), "pageable-copy")
    assert f is not None
    assert "DataLoader(..., pin_memory=True)" in f.fix


def test_pinned_but_waited_for() -> None:
    def step(p: Program) -> None:
        p.copy(4 * MIB, 80, TO_GPU_PINNED)
        p.ops(10, gpu_us=5)

    f = finding(program(step), "pageable-copy")
    assert f is not None
    assert "while the CPU waits" in f.title
    assert f.fix == "`x.to(device, non_blocking=True)`: the memory is pinned already."


@pytest.mark.parametrize(
    "body",
    [
        lambda p: (p.copy(4 * MIB, 80, TO_GPU_PINNED, waits=False), p.ops(4)),
        lambda p: (p.copy(65536, 10), p.ops(4)),  # goes along with the command
        lambda p: p.ops(4),
    ],
    ids=["pinned", "staged", "none"],
)
def test_no_pageable_copy(body: Body) -> None:
    assert outcome(program(body), "pageable-copy") == "clear"


# ---- small-copies
def tensors(n: int) -> Body:
    def step(p: Program) -> None:
        p.ops(5, dims=[(256, 256)])
        for _ in range(n):
            p.op("aten::empty", cpu_us=2, gpu_us=None)
            p.copy(4, 1)
            p.op("aten::lift_fresh", cpu_us=1, gpu_us=None)
            p.op("aten::mul", dims=[(256, 256), (1,)])
        p.ops(5, dims=[(256, 256)])

    return step


def test_tensors_made_one_by_one() -> None:
    f = finding(program(tensors(10)), "small-copies")
    assert f is not None
    # Each: 2 + 2 + 2 us for making and wrapping, 24 us for the copying call with its wait of 4 us, and the pause before.
    assert f.saving_us_per_step == pytest.approx(10 * (2 + 2 + 1 + 2 + 24 + 2), rel=0.12)
    assert f.title.startswith("10 copies of 4 B to the GPU per step")
    assert "torch.tensor(0.5" in f.fix


def test_arithmetic_on_single_numbers_goes_too() -> None:
    def step(p: Program) -> None:
        p.ops(5, dims=[(256, 256)])
        for _ in range(10):
            p.copy(4, 1)
            p.op("aten::add", dims=[(1,), (1,)])

    f = finding(program(step), "small-copies")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(10 * (26 + 22), rel=0.12)
    assert f.saving_low_us_per_step == pytest.approx(10 * 26, rel=0.15)
    assert "10 ops per step" in f.text
    assert f.confidence == "medium"


def test_copy_inside_another_op_leaves_that_op() -> None:
    def step(p: Program) -> None:
        p.ops(5)
        for _ in range(5):
            begin = p.now
            p.now += 10
            p.copy(64, 1)
            p.queue(3, at=p.now + 5)
            p.now += 20
            p.t.op("aten::index", begin, p.now - begin)
            p.now += 2

    f = finding(program(step), "small-copies")
    assert f is not None
    # Of each index op only the copying op inside it (22 us and the wait) goes.
    assert f.saving_us_per_step == pytest.approx(5 * 24, rel=0.15)


def test_two_tiny_copies_are_no_pattern() -> None:
    assert outcome(program(tensors(2)), "small-copies") == "clear"
    assert outcome(program(tensors(3)), "small-copies") == "found"


# ---- single-stream-copy
def queued(gpu_us: float, stream: int = 7, name: str = TO_GPU_PINNED) -> Body:
    def step(p: Program) -> None:
        p.queue(gpu_us, name, "cudaMemcpyAsync", at=p.now, cat="gpu_memcpy", bytes=8 * MIB, stream=stream)
        p.now += 10
        p.ops(4, gpu_us=100)

    return step


def test_copy_between_kernels_moves_aside() -> None:
    f = finding(program(queued(300)), "single-stream-copy")
    assert f is not None
    # 700 us of GPU time a step, of which 300 run beside the 400 of the kernels.
    assert f.saving_us_per_step == pytest.approx(300, rel=0.03)
    assert f.share_ratio == pytest.approx(3 / 7, abs=0.02)


def test_copy_longer_than_the_kernels_bounds_the_step() -> None:
    f = finding(program(queued(600)), "single-stream-copy")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(400, rel=0.03)


def test_copies_out_are_told_apart() -> None:
    f = finding(program(queued(300, name=TO_CPU)), "single-stream-copy")
    assert f is not None
    assert "to the CPU" in f.title
    assert "record_stream" in f.fix


@pytest.mark.parametrize("body", [queued(300, stream=9), queued(19)], ids=["own stream", "too short"])
def test_copies_that_are_fine(body: Body) -> None:
    assert outcome(program(body), "single-stream-copy") == "clear"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("h2d_pageable", "pageable-copy"),
        ("tiny_h2d_copies", "small-copies"),
        ("copy_on_compute_stream", "single-stream-copy"),
    ],
)
def test_planted(case: str, rule: str) -> None:
    assert claim(case, "bad", rule) == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", rule) < 0.05
