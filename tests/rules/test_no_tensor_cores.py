from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import FFMA, FP32, MUL, Call, op, product, tensors, trace

TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1_execute_segment_k_off_kernel__5x_cublas"
# 2 x 4096^3 operations at 80 % of the 494.7 TFLOP/s of TF32, and the launch.
EXPECTED_US = 2 * 4096**3 / (494.7e12 * 0.8) * 1e6 + 2.5


def test_fp32_products_on_cuda_cores_are_priced_in_tf32() -> None:
    found = finding(trace([product(4096, 4096, 4096, 2700, FFMA, FP32)]), "no-tensor-cores")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2700 - EXPECTED_US, rel=0.02)
    assert "set_float32_matmul_precision" in found.fix
    assert "50.9 TFLOP/s" in found.text  # 137.4 GFLOP in 2.7 ms
    assert found.confidence == "high"


def test_tf32_products_are_clear() -> None:
    assert outcome(trace([product(4096, 4096, 4096, 340, TF32, FP32)]), "no-tensor-cores") == "clear"


def test_small_products_gain_nothing() -> None:
    """4 us on CUDA cores; on tensor cores the launch alone takes 2.5 us, and the step has 500 us of other work."""
    calls = [product(64, 64, 64, 4, FFMA, FP32), op("mul", MUL, 500, tensors((8192, 8192)))]
    assert finding(trace(calls), "no-tensor-cores") is None


def test_training_is_told_to_use_autocast_and_pays_for_casts() -> None:
    forward = product(4096, 4096, 4096, 2700, FFMA, FP32, sequence=1)
    back = product(4096, 4096, 4096, 2700, FFMA, FP32, backward="MmBackward0", sequence=1)
    found = finding(trace([forward, back]), "no-tensor-cores")
    assert found is not None
    assert "autocast" in found.fix
    # bf16 at 80 % of 989.4 TFLOP/s, and the two operands read in fp32 and written in bf16.
    one = 2 * 4096**3 / (989.4e12 * 0.8) * 1e6 + 2.5 + 2 * 4096**2 * 6 / 4.8e12 * 1e6
    assert found.saving_us_per_step == pytest.approx(2 * (2700 - one), rel=0.02)


def test_half_precision_convolutions_on_cuda_cores_are_not_fp32() -> None:
    stem = Call(
        ("aten::conv2d", "aten::cudnn_convolution"),
        [("void implicit_convolve_sgemm<__half, __half, 1024, 6, 7, 3, 3, 5, 1, false, false, true>", 160)],
        tensors((32, 3, 112, 112), (128, 3, 3, 3), dtype="c10::Half"),
    )
    assert outcome(trace([stem]), "no-tensor-cores") == "clear"


def test_without_shapes_it_is_not_checked() -> None:
    bare = Call(("aten::mm",), [(FFMA, 2700)])
    assert outcome(trace([bare]), "no-tensor-cores") == "not-checked"


@pytest.mark.shared
@pytest.mark.parametrize("case", ["matmul_fp32_no_tensor_cores", "train_without_autocast"])
def test_planted(case: str) -> None:
    assert claim(case, "bad", "no-tensor-cores") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", "no-tensor-cores") < 0.05
