"""epilogue-fusion and compiled-fusion: good news."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, TENSOR, Call, op, tensors, trace

BIAS = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
ADDEND = "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT"
SHAPES = tensors((4096,), (8192, 1024), (1024, 4096))


def test_bias_inside_a_product_saves_a_pass() -> None:
    found = finding(trace([Call(("aten::linear", "aten::addmm"), [(BIAS, 200)], SHAPES)]), "epilogue-fusion")
    assert found is not None
    assert found.good
    assert found.share_ratio is None
    # The result of 8192 x 4096 in 2 bytes, read and written once more.
    assert "128 MiB" in found.text
    assert "28.0 µs" in found.text


def test_little_saved_is_no_news() -> None:
    calls = [Call(("aten::linear", "aten::addmm"), [(BIAS, 200)], SHAPES), op("mul", MUL, 4000)]
    assert outcome(trace(calls), "epilogue-fusion") == "clear"


@pytest.mark.parametrize("kernel", [TENSOR, ADDEND])
def test_plain_products_and_addends_are_clear(kernel: str) -> None:
    assert outcome(trace([Call(("aten::addmm",), [(kernel, 200)], SHAPES)]), "epilogue-fusion") == "clear"


def compiled(name: str, us: float = 90, recorded: bool = True) -> Call:
    return Call(("Torch-Compiled Region: 0/0", name), [(name, us)], tensors((8192, 4096), (8192, 4096)) if recorded else {})


def test_fused_operations_and_what_they_save() -> None:
    found = finding(trace([compiled("triton_poi_fused_add_gelu_view_mul_0")]), "compiled-fusion")
    assert found is not None
    assert found.good
    assert "3 operations" in found.title  # a view is no pass over memory
    assert "add, gelu, mul" in found.text
    assert "256 MiB" in found.text  # two passes more, each 64 MiB written and read


def test_without_shapes_it_names_the_operations() -> None:
    found = finding(trace([compiled("triton_poi_fused_add_gelu_mul_0", recorded=False)]), "compiled-fusion")
    assert found is not None
    assert "memory bandwidth" not in found.text


def test_single_operations_are_no_fusion() -> None:
    assert outcome(trace([compiled("triton_poi_fused_add_0")]), "compiled-fusion") == "clear"
    assert outcome(trace([op("mul", MUL, 100)]), "compiled-fusion") == "clear"
