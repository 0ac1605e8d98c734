"""anomaly-detection: checks below autograd's nodes, and what ops of the forward pass take longer."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL

from builder import TraceBuilder


def checked(every: int = 1, stack_us: float = 110) -> TraceBuilder:
    """Steps of 6 ops forward, each with some time before its launch, and 6 of autograd's nodes, of which each n-th is checked:
    two kernels and a read, 60 us of CPU time."""
    t = TraceBuilder()
    gpu = 0.0
    for i in range(4):
        s = now = i * 2500.0
        for j in range(6):
            t.op("aten::mul", now, stack_us + 20, **{"Sequence number": 10 * i + j, "Fwd thread id": 0})
            gpu = max(gpu, now + stack_us + 10) + 3
            t.launch(now + stack_us, 5, gpu=(gpu, 2), name=MUL)
            now += stack_us + 22
        for j in reversed(range(6)):
            check = j % every == 0
            begin = now
            t.op("MulBackward0", now + 1, 18, 2, **{"Sequence number": 10 * i + j})
            gpu = max(gpu, now + 12) + 3
            t.launch(now + 5, 5, gpu=(gpu, 2), name=MUL, tid=2)
            now += 20
            for name in ("isnan", "any") if check else ():
                t.op(f"aten::{name}", now, 18, 2)
                gpu = max(gpu, now + 12) + 3
                t.launch(now + 5, 5, gpu=(gpu, 2), name=MUL, tid=2)
                now += 20
            if check:
                t.op("aten::item", now, 18, 2)
                t.op("aten::_local_scalar_dense", now + 1, 16, 2)
                gpu = max(gpu, now + 7) + 3
                copy = {"name": "Memcpy DtoH (Device -> Pinned)", "call": "cudaMemcpyAsync", "cat": "gpu_memcpy"}
                t.launch(now + 2, 4, gpu=(gpu, 1), tid=2, **copy)
                t.call("cudaStreamSynchronize", now + 7, 8, tid=2)
                now += 20
            t.op("autograd::engine::evaluate_function: MulBackward0", begin, now - begin, 2, **{"Sequence number": 10 * i + j})
            now += 2
        t.step(i, s, now - s)
    return t


def test_checks_of_all_gradients_and_the_stacks_go() -> None:
    found = finding(checked(), "anomaly-detection")
    assert found is not None
    assert "6 nodes a step" in found.title
    # Six checks of 60 us with 10 us before each, and six ops that take 110 us before they launch, of which 10 are usual.
    assert found.saving_us_per_step == pytest.approx(6 * 70 + 6 * 100, rel=0.03)
    assert "set_detect_anomaly(False)" in found.fix


def test_a_few_checks_are_the_program_s_own() -> None:
    assert outcome(checked(every=3), "anomaly-detection") == "clear"


def test_no_checks_no_anomaly_detection() -> None:
    assert outcome(checked(every=100, stack_us=10), "anomaly-detection") == "clear"
