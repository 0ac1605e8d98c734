"""recomputation: a forward pass inside the backward pass."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, TENSOR, Call, tensors, trace

from builder import TraceBuilder

SHAPE = tensors((1024, 1024), (1024, 1024))


def checkpointed(again: str = "aten::mm", graded: bool = True) -> TraceBuilder:
    """Steps of 8 products forward, of which a node of autograd repeats 4 before it works itself; 100 us of GPU time each."""
    t = TraceBuilder()
    free = 0.0
    for i in range(4):
        s = i * 400.0
        t.step(i, s, 390)
        for j in range(8):
            t.op("aten::mm", s + 10 * j, 8, **{"Sequence number": 20 * i + j, "Fwd thread id": 0}, **SHAPE)
            free = max(free, s + 10 * j + 5)
            t.launch(s + 10 * j + 2, 3, gpu=(free, 100), name=TENSOR)
            free += 100
        t.op("autograd::engine::evaluate_function: MmBackward0", s + 100, 250, 2, **{"Sequence number": 20 * i + 7})
        number = 20 * i + 10 if graded else -1
        for j in range(4):
            t.op(again, s + 110 + 20 * j, 10, 2, **{"Sequence number": number, "Fwd thread id": 1}, **SHAPE)
            t.launch(s + 112 + 20 * j, 3, gpu=(free, 100), name=TENSOR, tid=2)
            free += 100
        t.op("aten::add", s + 300, 10, 2, **SHAPE)
        t.launch(s + 302, 3, gpu=(free, 50), name=MUL, tid=2)
        free += 50
    return t


def test_what_is_computed_again_goes() -> None:
    found = finding(checkpointed(), "recomputation")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(400, rel=0.02)
    assert "4 ops again" in found.title
    assert "aten::mm" in found.text


def test_a_backward_pass_that_is_differentiated_repeats_nothing() -> None:
    assert outcome(checkpointed("aten::addcmul"), "recomputation") == "clear"


def test_ops_of_a_backward_pass_are_not_recorded_by_autograd() -> None:
    assert outcome(checkpointed(graded=False), "recomputation") == "clear"


def test_a_plain_training_step_is_clear() -> None:
    calls = [
        Call(("aten::mm",), [(TENSOR, 50)], SHAPE, sequence=1),
        Call(("aten::mm",), [(TENSOR, 50)], SHAPE, sequence=1, backward="MmBackward0"),
    ]
    assert outcome(trace(calls), "recomputation") == "clear"
