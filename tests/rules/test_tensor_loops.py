"""unfused-optimizer outside torch.optim: loops that update one tensor after the other."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import CAST, FP32, MUL, TENSOR, Call, op, product, tensors, trace

WEIGHT, BIAS = (512, 512), (512,)


def loop(
    turns: int, body: tuple[str, ...] = ("mul_", "add_"), shapes: tuple[tuple[int, ...], ...] = (WEIGHT, BIAS)
) -> list[Call]:
    """Some pointwise ops for each of some tensors, of these shapes in turn."""
    return [op(n, MUL, 2, tensors(s, s, dtype=FP32)) for i in range(turns) for s in [shapes[i % len(shapes)]] for n in body]


def test_a_moving_average_by_hand_costs_its_calls() -> None:
    """40 tensors of 2 ops of 10 us each; 8 us a tensor stay for gathering them."""
    found = finding(trace([product(512, 512, 512, 3), *loop(40)]), "unfused-optimizer")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(40 * 20 - 40 * 8, rel=0.05)
    assert "40 tensors one by one: 80 kernels" in found.title
    assert "mul_, add_, for each tensor anew" in found.text


def test_an_optimizer_written_out_is_such_a_loop() -> None:
    found = finding(trace(loop(12, ("mul_", "add_", "mul_", "addcmul_", "sqrt", "add_", "addcdiv_"))), "unfused-optimizer")
    assert found is not None
    assert "12 tensors one by one: 84 kernels" in found.title


@pytest.mark.parametrize(
    "calls",
    [
        loop(6),
        loop(40, shapes=(WEIGHT,)),
        loop(40, ("mul", "tanh")),
        [c for _ in range(20) for c in (product(512, 512, 512, 5, TENSOR), *loop(2, ("relu_",)))],
        [op("copy_", CAST, 2, tensors(s, s), backward="CopyBackward0") for s in (WEIGHT, BIAS) * 20],
    ],
    ids=["few tensors", "one tensor again and again", "nothing in place", "layers with an activation", "autograd's"],
)
def test_what_is_no_loop_over_tensors(calls: list[Call]) -> None:
    assert outcome(trace(calls), "unfused-optimizer") == "clear"


def test_without_shapes_one_tensor_cannot_be_told_from_many() -> None:
    calls = loop(40)
    for call in calls:
        call.inputs = {}
    assert outcome(trace(calls), "unfused-optimizer") == "clear"
