"""rebuilt-constants: chains of ops that start from numbers and use nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from diagnosing import finding, outcome
from gpu_traces import BF16, CAST, FP32, MUL, Call, op, product, tensors, trace, trace_of

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
ARANGE = "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out>"
TRIL = "void at::native::triu_tril_kernel<float, int, false, 1, false>"
GATHER = "void at::native::vectorized_gather_kernel<16, long>"
LONG = "long int"
T = 512
WORK = product(1024, 1024, 1024, 100, outer=tensors((1024, 1024), (1024, 1024)))


def numbers(*values: str) -> dict[str, Any]:
    """Recorded inputs of an op that takes numbers only."""
    n = len(values)
    return {"Input Dims": [[]] * n, "Input type": ["Scalar"] * n, "Input Strides": [[]] * n, "Concrete Inputs": list(values)}


def filled(name: str, shape: tuple[int, ...], us: float = 20.0) -> Call:
    """A factory that fills what it allocates."""
    inner = tensors(shape, dtype=FP32, scalars=["1"])
    return Call((f"aten::{name}", "aten::fill_"), [(FILL, us)], inner, outer=numbers(str(list(shape))))


def counted(length: int = T, begin: int = 0, us: float = 20.0) -> Call:
    """An `arange`."""
    inner = tensors((length,), dtype=LONG)
    outer = numbers(str(begin), str(begin + length))
    return Call(("aten::arange", "aten::arange"), [(ARANGE, us)], inner, outer=outer)


def mask() -> list[Call]:
    """A causal mask: three GPU ops of 20 us."""
    square = tensors((T, T), dtype=FP32, scalars=["0"])
    return [filled("ones", (T, T)), op("tril", TRIL, 20, square), op("eq", MUL, 20, square)]


def layer() -> list[Call]:
    """A layer that builds its mask."""
    scores = tensors((8, T, T), (T, T), dtype=[BF16, "bool"], scalars=["-inf"])
    return [WORK, *mask(), op("masked_fill", MUL, 50, scores)]


def test_a_mask_built_in_each_layer_goes() -> None:
    """Six layers of three ops of 20 us."""
    found = finding(trace(layer() * 6), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(6 * 60, rel=0.02)
    assert "6 times a step: 18 GPU ops" in found.title
    assert "3 ops (ones, tril, eq)" in found.text


def test_once_a_step_is_enough_where_all_steps_are_alike() -> None:
    found = finding(trace(layer()), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(60, rel=0.02)


@pytest.mark.parametrize(
    "calls",
    [
        [WORK, filled("zeros", (T, T)), op("add_", MUL, 20, tensors((T, T), (T, T), dtype=FP32, scalars=["1"]))],
        [filled("zeros", (T, T)), op("relu", MUL, 20, tensors((T, T), dtype=FP32))],
        [filled("zeros", (T,)), filled("zeros", (T, T)), op("mul", MUL, 20, tensors((T,), dtype=FP32, scalars=["2"]))],
        [counted(), op("mul", MUL, 20, tensors((T, 1), (T,), dtype=[BF16, LONG]))],
        [filled("ones", (T, T)), op("bernoulli", MUL, 20, tensors((T, T), dtype=FP32))],
        [filled("ones", (1,)), op("mul", MUL, 20, tensors((1,), dtype=FP32, scalars=["2"]))],
        [counted(), op("lt", MUL, 20, tensors((T,), (), dtype=LONG))],
    ],
    ids=["a sum", "an input that looks like it", "another in between", "an input beside", "chance", "one element", "a length"],
)
def test_what_is_no_constant(calls: list[Call]) -> None:
    assert outcome(trace(calls), "rebuilt-constants") == "clear"


def test_positions_that_move_are_no_constants() -> None:
    def decode(step: int) -> list[Call]:
        return [WORK, counted(8, begin=step), op("cos", MUL, 20, tensors((8,), dtype=LONG))]

    assert outcome(trace_of([decode(step) for step in range(4)]), "rebuilt-constants") == "clear"
    assert outcome(trace_of([decode(0)] * 4), "rebuilt-constants") == "found"
    found = finding(trace_of([decode(step) * 3 for step in range(4)]), "rebuilt-constants")
    assert found is not None  # three layers build what the step needs once
    assert found.saving_us_per_step == pytest.approx(2 * 40, rel=0.02)


def test_a_number_that_is_not_recorded_may_be_the_steps_position() -> None:
    """arange(n) + past, in each of four layers: the step needs it once."""
    shifted = [counted(), op("add", MUL, 20, tensors((T,), (), dtype=LONG, scalars=["1"]))]
    assert outcome(trace([WORK, *shifted]), "rebuilt-constants") == "clear"
    found = finding(trace([WORK, *shifted] * 4), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(3 * 40, rel=0.02)


def buckets(backward: bool) -> list[Call]:
    """A table of weights looked up by a chain, and copied."""
    square = tensors((T, T), dtype=LONG)
    out = [
        WORK,
        counted(),
        *[Call(("aten::unsqueeze",), [], tensors((T,), dtype=LONG, scalars=[dim])) for dim in "01"],
        op("sub", MUL, 20, tensors((1, T), (T, 1), dtype=LONG, scalars=["1"])),
        op("abs", MUL, 20, square),
        op("embedding", GATHER, 40, tensors((32, 12), (T, T), dtype=[BF16, LONG])),
        Call(("aten::contiguous", "aten::copy_"), [(CAST, 40)], tensors((12, T, T), (12, T, T)), outer=tensors((12, T, T))),
        op("masked_fill", MUL, 50, tensors((8, 12, T, T), (12, T, T), scalars=["-inf"])),
    ]
    return [*out, op("mul", MUL, 10, tensors((64, 64)), backward="MulBackward0")] if backward else out


@pytest.mark.parametrize(("backward", "us"), [(False, 60 + 80), (True, 60)], ids=["inference", "training"])
def test_weights_looked_up_are_constant_without_training_only(backward: bool, us: float) -> None:
    found = finding(trace(buckets(backward) * 2), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * us, rel=0.02)
    assert ("table of weights" in found.text) is not backward


@pytest.mark.parametrize(("layers", "said"), [(3, "clear"), (4, "found")])
def test_without_steps_repeating_shows_it(layers: int, said: str) -> None:
    assert outcome(trace_of([layer() * layers], marked=False), "rebuilt-constants") == said


def test_without_shapes_it_is_not_checked() -> None:
    calls = [replace(call, inputs={}, outer=None) for call in layer()]
    assert outcome(trace(calls), "rebuilt-constants") == "not-checked"


def padded(*more: Call) -> list[Call]:
    """A layer whose mask also takes what is padding, which the step brings."""
    mixed = tensors((1, T, T), (8, 1, T), dtype=[FP32, "bool"])
    batch = tensors((8, T, T), dtype=FP32, scalars=["0"])
    scores = tensors((8, T, T), (8, T, T), dtype=[BF16, "bool"], scalars=["-inf"])
    made = [filled("ones", (T, T)), op("tril", TRIL, 20, tensors((T, T), dtype=FP32, scalars=["0"])), op("mul", MUL, 80, mixed)]
    return [WORK, *made, op("eq", MUL, 80, batch), op("masked_fill", MUL, 50, scores), *more]


def test_a_mask_with_the_steps_padding_is_needed_once_a_step() -> None:
    """Five of six layers build what the first has built."""
    found = finding(trace(padded() * 6), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(5 * (20 + 20 + 80 + 80), rel=0.02)
    assert "built again 5 times a step" in found.title


def test_what_makes_indices_in_between_may_make_the_padding() -> None:
    """Then only what starts from numbers alone is known to be the same: ones and tril, in all six layers."""
    chosen = op("topk", MUL, 20, tensors((8, T), dtype=FP32, scalars=["10"]))
    found = finding(trace(padded(chosen) * 6), "rebuilt-constants")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(6 * 40, rel=0.02)
