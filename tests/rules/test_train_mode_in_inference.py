from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, TENSOR, Call, op, product, tensors, trace

DROPOUT = "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 4, bool>"
ATTENTION = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_1x1x1_cga1x1x1_kernel0_0"
SHAPE = (8, 512, 1024)
HEADS = (8, 16, 512, 64)


def dropout(us: float) -> Call:
    inputs = tensors(SHAPE, scalars=("0.1", "True"))
    return Call(("aten::dropout", "aten::native_dropout"), [(DROPOUT, us)], inputs, outer=inputs)


def attention(us: float, probability: str) -> Call:
    inside = tensors(HEADS, HEADS, HEADS, scalars=("False", probability, "False", "False"))
    outer = tensors(HEADS, HEADS, HEADS, scalars=("", probability))
    names = ("aten::scaled_dot_product_attention", "aten::_cudnn_attention_forward")
    return Call(names, [(ATTENTION, us)], inside, outer=outer)


def rest() -> list[Call]:
    return [product(4096, 1024, 4096, 60), op("relu", MUL, 40, tensors((4096, 4096)))]


def test_dropout_goes_with_all_its_time() -> None:
    found = finding(trace([*rest(), dropout(50), *rest(), dropout(50)]), "train-mode-in-inference")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(100, rel=0.02)
    assert "2 calls" in found.title
    assert "model.eval()" in found.fix


def test_attention_that_drops_takes_its_usual_time() -> None:
    """2 x 2 x 128 heads x 512 x 512 x 128 operations at 0.3 of 989 TFLOP/s, and a launch."""
    usual = 2 * 8 * 16 * 512 * 512 * 128 / (989e12 * 0.3) * 1e6 + 2.5
    found = finding(trace([*rest(), attention(90, "0.10000000000000001")]), "train-mode-in-inference")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(90 - usual, rel=0.05)


def test_attention_without_a_probability_is_clear() -> None:
    assert outcome(trace([*rest(), attention(90, "0.")]), "train-mode-in-inference") == "clear"
    assert outcome(trace([*rest(), attention(90, "")]), "train-mode-in-inference") == "clear"


def test_a_backward_pass_is_training() -> None:
    gradient = Call(("aten::mm",), [(TENSOR, 60)], tensors((4096, 4096), (4096, 1024)), backward="MmBackward0", sequence=1)
    assert outcome(trace([*rest(), dropout(50), gradient]), "train-mode-in-inference") == "clear"


def test_an_optimizer_is_training() -> None:
    builder = trace([*rest(), dropout(50)])
    builder.annotation("Optimizer.step#AdamW.step", 102, 5)
    assert outcome(builder, "train-mode-in-inference") == "clear"


def test_dropout_that_launches_nothing_is_clear() -> None:
    idle = Call(("aten::dropout",), [], tensors(SHAPE, scalars=("0.1", "False")))
    assert outcome(trace([*rest(), idle]), "train-mode-in-inference") == "clear"
