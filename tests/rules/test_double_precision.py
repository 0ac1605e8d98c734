"""double-precision: which kernels count, and what they take in fp32."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import FP32, MUL, Call, op, tensors, trace

DOUBLE = (
    "void at::native::vectorized_elementwise_kernel<2, at::native::BinaryFunctor<double, double, double, MulFunctor<double> >>"
)
GEMM = "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x128x16_stage3_warpsize2x2x1_tensor16x8x8_kernel"
X = (4096, 4096)


def test_pointwise_kernels_move_half_the_bytes() -> None:
    """Two operands and a result of 128 MiB: 95 us at 88 % of 4.8 TB/s."""
    found = finding(trace([op("mul", DOUBLE, 95, tensors(X, X, dtype="double"))] * 4), "double-precision")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(4 * 47.5, rel=0.02)
    assert "4 kernels a step" in found.title


def test_what_addressing_bounds_saves_its_bytes_only() -> None:
    found = finding(trace([op("mul", DOUBLE, 400, tensors(X, X, dtype="double"))] * 4), "double-precision")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(4 * 47.7, rel=0.02)


def test_products_are_as_fast_on_a_card_with_fp64_tensor_cores() -> None:
    """An H200: 67 TFLOP/s in fp64 on tensor cores, 67 in fp32 without them."""
    calls = [
        Call(("aten::mm",), [(GEMM, 300)], tensors(X, X, dtype="double")),
        op("mul", DOUBLE, 95, tensors(X, X, dtype="double")),
    ]
    found = finding(trace(calls), "double-precision")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(47.5, abs=3)


@pytest.mark.parametrize(
    "calls",
    [
        [op("mul", MUL, 200, tensors(X, X, dtype=FP32))] * 4,
        [op("mul", DOUBLE, 2, tensors((), dtype="double"))] * 4,
        [op("mul", MUL, 200, tensors(X, (), dtype=[FP32, "double"]))] * 4,
    ],
    ids=["fp32", "a number", "a number beside fp32"],
)
def test_numbers_are_no_work_in_fp64(calls: list[Call]) -> None:
    assert outcome(trace(calls), "double-precision") == "clear"
