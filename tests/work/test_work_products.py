"""Matrix products and convolutions, by hand."""

from __future__ import annotations

import pytest

from lanewise.work import Work, estimate

BF16 = "c10::BFloat16"


def known(*arguments: object, **options: object) -> Work:
    work = estimate(*arguments, **options)  # type: ignore[arg-type]
    assert work is not None
    return work


def test_matmul_of_4096_in_bf16_as_recorded_on_an_h200() -> None:
    n = 4096
    work = known("aten::mm", [[n, n], [n, n]], [BF16, BF16], [[n, 1], [n, 1]], ["", ""])
    assert work.kind == "gemm"
    assert work.dtype == "bf16"
    assert work.flops == 2 * 4096 * 4096 * 4096 == 137_438_953_472
    assert work.bytes == 3 * 4096 * 4096 * 2 == 100_663_296
    # 168 µs of kernel time: 818 TFLOP/s.
    assert work.flops / 168e-6 / 1e12 == pytest.approx(818, abs=1)


def test_its_add() -> None:
    n = 4096
    dims, strides = [[n, n], [n, n], []], [[n, 1], [n, 1], []]
    work = known("aten::add", dims, [BF16, BF16, "Scalar"], strides, ["", "", "1"])
    assert work.bytes == 3 * 4096 * 4096 * 2 == 100_663_296
    assert work.flops == 4096 * 4096
    # 22.4 µs: 4.5 TB/s.
    assert work.bytes / 22.4e-6 / 1e12 == pytest.approx(4.5, abs=0.01)


def test_addmm_reads_a_bias_once_however_it_is_expanded() -> None:
    dims = [[9], [5, 7], [7, 9], [], []]
    types = ["float", "float", "float", "Scalar", "Scalar"]
    plain = known("aten::addmm", dims, types, [[1], [7, 1], [9, 1], [], []], ["", "", "", "1", "1"])
    assert plain.bytes == 4 * (9 + 35 + 63 + 45)
    assert plain.flops == 2 * 5 * 7 * 9
    expanded = known("aten::addmm", [[5, 9], *dims[1:]], types, [[0, 1], [7, 1], [9, 1], [], []])
    assert expanded.bytes == plain.bytes


def test_operands_that_do_not_fit_are_not_known() -> None:
    assert estimate("aten::mm", [[5, 7], [8, 9]], ["float", "float"]) is None
    assert estimate("aten::bmm", [[3, 5, 7], [2, 7, 9]], ["float", "float"]) is None


def test_linear_keeps_the_dimensions_before_the_last() -> None:
    work = known("aten::linear", [[2, 3, 16], [24, 16], [24]], ["float"] * 3)
    assert work.flops == 2 * (2 * 3) * 16 * 24
    assert work.bytes == 4 * (2 * 3 * 16 + 24 * 16 + 24 + 2 * 3 * 24)


def test_grouped_products() -> None:
    """Rows 0..offs[0] with the first weight, and so on: as many operations as one product of all rows."""
    types = [BF16, BF16, "int", "", ""]
    rows_cut = known("aten::_grouped_mm", [[96, 64], [4, 64, 32], [4], [], []], types)
    assert rows_cut.flops == 2 * 96 * 64 * 32
    assert rows_cut.bytes == 2 * (96 * 64 + 4 * 64 * 32 + 96 * 32)
    k_cut = known("aten::_grouped_mm", [[32, 96], [96, 64], [4], [], []], types)
    assert k_cut.flops == 2 * 32 * 96 * 64
    assert k_cut.bytes == 2 * (32 * 96 + 96 * 64 + 4 * 32 * 64)


def test_fp4_comes_in_pairs() -> None:
    packed = "c10::Float4_e2m1fn_x2"
    types = [packed, packed, "c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "", "", "Scalar", "Scalar"]
    dims = [[128, 32], [32, 256], [128, 4], [256, 4], [], [], [], []]
    work = known("aten::_scaled_mm", dims, types, None, ["", "", "", "", "", "", "15", "False"])
    assert work.flops == 2 * 128 * 64 * 256
    assert work.bytes == 128 * 32 + 32 * 256 + 128 * 4 + 256 * 4 + 128 * 256 * 2
    assert work.dtype == "fp4"


def test_cudnn_convolution() -> None:
    """ResNet's first layer: 7 x 7, stride 2, padding 3, 64 filters over 3 channels of 224 x 224."""
    dims = [[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]
    types = ["c10::Half", "c10::Half", *["ScalarList"] * 3, *["Scalar"] * 4]
    concrete = ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]
    work = known("aten::cudnn_convolution", dims, types, None, concrete)
    assert work.flops == 2 * 32 * 64 * 112 * 112 * 3 * 7 * 7
    assert work.bytes == 2 * (32 * 3 * 224 * 224 + 64 * 3 * 7 * 7 + 32 * 64 * 112 * 112)


def backward(mask: str, transposed: str = "False") -> Work:
    dims = [[2, 8, 10, 10], [2, 4, 10, 10], [8, 4, 3, 3], *[[]] * 8]
    types = ["float", "float", "float", *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"]
    concrete = ["", "", "", "[8]", "[1, 1]", "[1, 1]", "[1, 1]", transposed, "[0, 0]", "1", mask]
    return known("aten::convolution_backward", dims, types, None, concrete)


def test_convolution_backward_counts_what_is_wanted() -> None:
    forward = 2 * 2 * 8 * 10 * 10 * 4 * 9
    grad, x, weight = 2 * 8 * 10 * 10, 2 * 4 * 10 * 10, 8 * 4 * 9
    both = backward("[True, True, True]")
    assert both.flops == 2 * forward
    assert both.bytes == 4 * (grad + 2 * x + 2 * weight + 8)
    only_weight = backward("[False, True, False]")
    assert only_weight.flops == forward
    assert only_weight.bytes == 4 * (grad + x + weight)
    assert only_weight.note == "gradients of weight"


def test_a_convolution_without_its_strides_is_not_known() -> None:
    dims = [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], [], [], []]
    types = ["float", "float", *["ScalarList"] * 3, *["Scalar"] * 4]
    assert estimate("aten::cudnn_convolution", dims, types) is None


def test_batched_vectors_are_no_gemv_unless_one_operand_is_a_vector() -> None:
    assert known("aten::matmul", [[3, 5, 7], [7]], ["float", "float"]).kind == "gemv"
    assert known("aten::matmul", [[3, 5, 7], [7, 2]], ["float", "float"]).kind == "gemm"
