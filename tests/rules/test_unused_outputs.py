"""unused-outputs: products of whose rows few are taken."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from diagnosing import finding, outcome
from gpu_traces import BF16, CAST, FP32, MUL, REDUCE, SOFTMAX, TENSOR, Call, op, tensors, trace

B, T, D, V = 2, 1024, 2048, 65536
FULL = (B, T, V)
# The product of the last positions reads the weights: 2048 x 65536 in bf16 at 88 % of 4.8 TB/s, and a launch.
WEIGHTS_US = D * V * 2 / (4.8e12 * 0.88) * 1e6 + 2.5


def head(rows: int = B * T, us: float = 700.0) -> Call:
    """The last layer on all positions."""
    return Call(("aten::linear", "aten::mm"), [(TENSOR, us)], tensors((rows, D), (D, V)), outer=tensors((B, T, D), (V, D)))


def cast(us: float = 400.0) -> Call:
    """The logits in fp32."""
    inner = tensors(FULL, FULL, dtype=[FP32, BF16])
    return Call(("aten::to", "aten::_to_copy", "aten::copy_"), [(CAST, us)], inner, outer=tensors(FULL))


def view(name: str, shape: tuple[int, ...], *scalars: str, dtype: str = FP32) -> Call:
    """A view, which launches nothing."""
    return Call((f"aten::{name}",), [], tensors(shape, dtype=dtype, scalars=scalars))


def last(dtype: str = FP32) -> Call:
    """The last position of each sequence."""
    return view("select", FULL, "1", "-1", dtype=dtype)


ARGMAX = op("argmax", REDUCE, 20, tensors((B, V), dtype=FP32, scalars=["-1", "False"]))
BEST = tensors((B, V), dtype=FP32, scalars=["-1"])


def test_logits_of_all_positions() -> None:
    """Of the product the weights' traffic stays, of the cast a launch."""
    found = finding(trace([head(), cast(), last(), ARGMAX]), "unused-outputs")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(700 - WEIGHTS_US + 400 - 2.5, rel=0.02)
    assert "1 of 1,024 rows" in found.title
    assert "(to)" in found.text


def test_a_softmax_of_all_rows_belongs_to_it() -> None:
    softmax = op("softmax", SOFTMAX, 300, tensors(FULL, scalars=["-1"]))
    found = finding(trace([head(), softmax, last(BF16), ARGMAX]), "unused-outputs")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(700 - WEIGHTS_US + 300 - 2.5, rel=0.02)


def test_a_quarter_of_the_rows_keeps_its_arithmetic() -> None:
    """512 of 2048 rows: 2 * 512 * 2048 * 65536 operations at 80 % of 989 TFLOP/s."""
    quarter = view("slice", FULL, "1", "0", "256", "1", dtype=BF16)
    found = finding(trace([head(us=900), quarter, op("argmax", REDUCE, 20, tensors((B, 256, V)))]), "unused-outputs")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(900 - 2 * 512 * D * V / (989e12 * 0.8) * 1e6 - 2.5, rel=0.02)


def test_taking_all_on_the_way_changes_nothing() -> None:
    whole = view("slice", FULL, "0", "0", "9223372036854775807", "1", dtype=BF16)
    assert outcome(trace([head(), whole, last(BF16), ARGMAX]), "unused-outputs") == "found"


def parts(n: int) -> list[Call]:
    """Each of some equal parts of the positions, one after the other."""
    bounds = [i * T // n for i in range(n + 1)]
    return [view("narrow", FULL, "1", str(a), str(b - a), dtype=BF16) for a, b in pairwise(bounds)]


@pytest.mark.parametrize(
    "calls",
    [
        [head(), last(BF16), op("sum", REDUCE, 50, tensors(FULL))],
        [head(), op("sum", REDUCE, 50, tensors(FULL)), last(BF16), ARGMAX],
        [head(), *parts(4), ARGMAX],
        [head(), view("slice", FULL, "1", "0", "-1", "1", dtype=BF16), ARGMAX],
        [head(), view("slice", FULL, "2", "0", "100", "1", dtype=BF16), ARGMAX],
        [head(), op("mul", MUL, 100, tensors(FULL, FULL)), last(BF16), ARGMAX],
        [head(), op("softmax", SOFTMAX, 100, tensors(FULL, scalars=["1"])), last(BF16), ARGMAX],
        [head(), last(BF16), ARGMAX, op("mul", MUL, 10, tensors((64, 64)), backward="MulBackward0")],
        [head(), ARGMAX],
    ],
    ids=[
        "all summed later",
        "all summed before",
        "all in parts",
        "nearly all",
        "columns",
        "multiplied with another",
        "a softmax over the positions",
        "training",
        "nothing taken",
    ],
)
def test_what_is_used(calls: list[Call]) -> None:
    assert outcome(trace(calls), "unused-outputs") == "clear"


def test_each_call_of_the_head_has_its_own_rows() -> None:
    found = finding(trace([head(), last(BF16), ARGMAX] * 3), "unused-outputs")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(3 * (700 - WEIGHTS_US), rel=0.02)
    assert "3 times a step" in found.text


def test_without_shapes_it_is_not_checked() -> None:
    bare: dict[str, Any] = {}
    assert outcome(trace([op("mm", TENSOR, 100, bare), op("argmax", REDUCE, 10, bare)]), "unused-outputs") == "not-checked"


CONV = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_cudnn"
FRAME = (28, 64, 32, 32)


def conv(channels: int = 64, us: float = 140.0, shape: tuple[int, ...] = FRAME) -> Call:
    """A convolution of 3 x 3 that keeps the size of the frames."""
    weight = (channels, shape[1], 3, 3)
    scalars = ["[1, 1]", "[1, 1]", "[1, 1]", "1"]
    inputs = tensors(shape, weight, (channels,), scalars=scalars)
    return Call(("aten::conv2d", "aten::cudnn_convolution"), [(CONV, us)], inputs, outer=inputs)


def decoder(*more: Call, taken: int = 1) -> list[Call]:
    """Two convolutions of the frames of four clips, of which some of seven are taken, behind a residual block."""
    flat = tensors(FRAME)
    residual = op("add", MUL, 70, tensors(FRAME, FRAME, scalars=["1"]))
    frames = view("unflatten", FRAME, "0", "[4, 7]", dtype=BF16)
    take = view("narrow", (4, 7, 64, 32, 32), "1", "3", str(taken), dtype=BF16)
    start = op("sdpa", MUL, 50, tensors((4, 8, 100, 64)))
    return [start, conv(), op("relu", MUL, 70, flat), conv(), residual, *more, frames, take]


def test_samples_that_nobody_takes_go_through_no_convolution() -> None:
    """6 of 7 parts of two convolutions and two pointwise ops."""
    found = finding(trace(decoder()), "unused-outputs")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(6 / 7 * (140 + 70 + 140 + 70), rel=0.02)
    assert "1 of 7 samples of 2 convolutions" in found.title


@pytest.mark.parametrize(
    "calls",
    [
        decoder(taken=4),
        decoder(op("mean", REDUCE, 20, tensors(FRAME, scalars=["[2, 3]"]))),
        [*decoder(), op("mean", REDUCE, 20, tensors(FRAME, scalars=["[2, 3]"]))],
        [conv(), op("relu", MUL, 70, tensors((4, 64, 32, 32))), view("narrow", FRAME, "0", "0", "4", dtype=BF16)],
        [*decoder(), op("mul", MUL, 10, tensors((64, 64)), backward="MulBackward0")],
    ],
    ids=["most taken", "used before", "used later", "something else in between", "training"],
)
def test_samples_that_are_needed(calls: list[Call]) -> None:
    assert outcome(trace(calls), "unused-outputs") == "clear"
