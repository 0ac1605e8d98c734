"""Limits of attention: what a causal mask keeps, by hand-checked arithmetic at the ladder's sizes and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lanewise.analyses.limit_table import kernel_limits
from lanewise.analyses.limits import limits
from limit_traces import BF16, FP32, FULL, Calls, inputs, shape

TF32_RATE = 494.7e12


@pytest.fixture(autouse=True)
def _no_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))


HEADS = [8, 16, 1024, 64]
EFFICIENT = (
    "fmha_cutlassF_{type}_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<{cpp}, cutlass::arch::Sm80, true, 64,"
    " 64, 64, true, true>::Params)"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false,"
    " cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false,"
    " false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
# A head keeps 1024 x 1025 / 2 = 524,800 of its scores; two products of 64 for each, in 8 x 16 heads.
CAUSAL_FLOPS = 2 * 2 * 8 * 16 * 524_800 * 64


@pytest.mark.parametrize(
    ("op", "flag", "kernel", "us", "tflops"),
    [
        ("aten::_cudnn_attention_forward", 10, CUDNN, 57.3, 300.1),
        ("aten::_scaled_dot_product_flash_attention", 4, FLASH, 95.6, 179.9),
        (
            "aten::_scaled_dot_product_efficient_attention",
            6,
            EFFICIENT.format(type="bf16", cpp="cutlass::bfloat16_t"),
            182.8,
            94.1,
        ),
    ],
)
def test_attention_counts_what_a_causal_mask_keeps(op: str, flag: int, kernel: str, us: float, tflops: float) -> None:
    """The ladder's sizes and times: 17.2 GFLOP and 67.6 MB take 17.4 us by arithmetic, 14.1 by traffic."""
    t = Calls()
    more = 12 - 3
    concrete = [""] * 12
    concrete[flag] = "True"
    recorded = inputs([HEADS] * 3 + [[]] * more, [BF16] * 3 + ["Scalar" if i == flag else "" for i in range(3, 12)], concrete)
    t.add(op, recorded, (kernel, us, shape(FULL, 384, 168, 232448)))
    trace = t.load()
    found, row = trace.analysis(limits), kernel_limits(trace)[0]
    assert found.flops.tolist() == [CAUSAL_FLOPS]
    assert found.bytes.tolist() == [4 * 8 * 16 * 1024 * 64 * 2 + 8 * 16 * 1024 * 4]
    assert found.limit_ns[0] == pytest.approx(17_381, abs=1)
    assert row.flops_per_s == pytest.approx(tflops * 1e12, rel=1e-3)
    assert found.works[0].causal is True


def test_fp32_attention_by_three_tf32_products() -> None:
    """The memory-efficient kernel in fp32 on tensor cores, which have no fp32: a third of the rate of tf32."""
    t = Calls()
    types = [FP32] * 3 + ["", "Scalar", "Scalar", "Scalar", ""]
    recorded = inputs([HEADS] * 3 + [[]] * 5, types, ["", "", "", "", "False", "0.", "True", ""])
    kernel = EFFICIENT.format(type="f32", cpp="float")
    t.add("aten::_scaled_dot_product_efficient_attention", recorded, (kernel, 1000, shape(2048)))
    found = t.load().analysis(limits)
    assert found.arithmetic_ns.tolist() == pytest.approx([CAUSAL_FLOPS / (TF32_RATE / 3) * 1e9])


SCORES = [8, 16, 1024, 1024]
SCORES_BYTES = 8 * 16 * 1024 * 1024 * 2
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


@pytest.mark.parametrize(
    ("op", "recorded", "kernel", "us", "moved", "share"),
    [
        (
            "aten::bmm",
            inputs([[128, 1024, 64], [128, 64, 1024]], [BF16, BF16]),
            NVJET,
            85.3,
            SCORES_BYTES + 2 * 8 * 16 * 1024 * 64 * 2,
            0.738,
        ),
        ("aten::mul", inputs([SCORES, []], [BF16, "double"]), "mul_kernel", 127.4, 2 * SCORES_BYTES, 0.878),
        (
            "aten::_softmax",
            inputs([SCORES, [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "False"]),
            "softmax_kernel",
            283.9,
            2 * SCORES_BYTES,
            0.394,
        ),
    ],
)
def test_attention_as_separate_ops(op: str, recorded: dict[str, Any], kernel: str, us: float, moved: int, share: float) -> None:
    """All move the scores, 268 MB: the product too is bound by them, 17.2 GFLOP for 302 MB."""
    t = Calls()
    t.add(op, recorded, (kernel, us, shape(FULL)))
    trace = t.load()
    found, row = trace.analysis(limits), kernel_limits(trace)[0]
    assert found.bytes.tolist() == [moved]
    assert row.bound == "memory"
    assert row.limit_ns == pytest.approx(moved / 4.8e12 * 1e9)
    assert row.share_ratio == pytest.approx(share, abs=1e-3)
