from __future__ import annotations

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.expectations.observing import CannotTellError, DiffersError, Observed
from places import DATA

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def test_counts_of_a_recorded_step() -> None:
    seen = Observed(lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_eager_shapes_stack_mem.json.gz"))
    step = seen.step
    assert (step.launches, step.gpu_ops, step.kernels, step.memsets, step.copies, step.host_syncs) == (7, 7, 5, 2, 0, 0)
    assert (step.kinds["gemm"], step.kinds["elementwise"], step.kinds["softmax"]) == (3, 2, 0)
    assert dict(step.kinds) == {"gemm": 3, "elementwise": 2}
    assert step.directions["dtoh"] == 0
    assert step.ops["aten::mm"] == 3
    assert step.ops["aten::gelu"] == 1
    assert step.ops["aten::softmax"] == 0
    assert step.tensor_allocations > 0
    assert seen.annotation("mlp_fwd").kernels == 5
    assert seen.annotation("GeGLU").kernels == 5


def test_words_of_a_guess_are_words_of_uses() -> None:
    seen = Observed(lanewise.load(DATA / "04_c_sdpa_attention" / "8_16_1024_64_math.json.gz"))
    assert seen.uses("softmax")
    assert seen.uses("matmul")
    assert seen.uses("cublas")
    assert not seen.uses("flash")
    compiled = Observed(lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_compile.json.gz"))
    assert compiled.uses("triton")
    assert compiled.step.compiled_regions == 1
    assert compiled.frames_beyond_first == 0


def test_the_listing_says_what_a_step_ran() -> None:
    seen = Observed(lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_compile.json.gz"))
    lines = seen.listing()
    assert any("2x GEMM bf16 256x128" in line and "aten::mm" in line for line in lines)
    assert seen.listing(most=1)[-1].strip().startswith("...")


def steps(counts: list[int]) -> TraceBuilder:
    t = TraceBuilder()
    for number, n in enumerate(counts):
        at = 1000 * number
        t.step(number, at, 900)
        for i in range(n):
            t.op("aten::mm", at + 10 + 50 * i, 40)
            t.launch(at + 15 + 50 * i, 5, gpu=(at + 30 + 50 * i, 20), name=GEMM)
    return t


def test_the_first_of_three_steps_is_not_counted() -> None:
    assert Observed(steps([5, 2, 2]).load()).step.kernels == 2


def test_steps_that_differ_have_no_one_number() -> None:
    seen = Observed(steps([2, 2, 3, 2]).load())
    with pytest.raises(DiffersError, match="kernels differs between the usual steps: 2 in step 1, 3 in step 2, 2 in step 3"):
        _ = seen.step.kernels
    with pytest.raises(AssertionError):
        _ = seen.step.ops["aten::mm"]


def test_without_a_gpu_only_a_gpus_numbers_are_not_told() -> None:
    t = TraceBuilder(gpus=0)
    for number in range(3):
        at = 1000 * number
        t.step(number, at, 900)
        t.op("aten::masked_fill", at + 10, 50)
        t.op("aten::clone", at + 12, 10)
        t.op("aten::copy_", at + 14, 5)
        t.op("aten::masked_fill_", at + 40, 10)
        # The conversion of a number is no copy of a tensor.
        t.op("aten::add", at + 100, 50)
        t.op("aten::to", at + 105, 20)
        t.op("aten::_to_copy", at + 106, 18)
        t.op("aten::copy_", at + 110, 10)
        t.op("aten::_scaled_dot_product_flash_attention_for_cpu", at + 200, 100)
    seen = Observed(t.load())
    assert seen.step.copies == 1
    assert list(seen.step.ops) == [
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::add",
        "aten::copy_",
        "aten::masked_fill_",
    ]
    assert seen.step.ops["aten::copy_"] == 2
    assert seen.frames_beyond_first == 0
    assert seen.uses("flash")
    assert seen.uses("add")
    assert not seen.uses("softmax")
    for name in ("kernels", "launches", "host_syncs", "memsets", "gpu_ops", "tensor_allocations", "allocations"):
        with pytest.raises(CannotTellError):
            getattr(seen.step, name)
    with pytest.raises(CannotTellError):
        seen.uses("triton")
    with pytest.raises(CannotTellError):
        _ = seen.step.kinds["gemm"]


def test_what_is_not_counted() -> None:
    step = Observed(steps([1, 1]).load()).step
    with pytest.raises(AttributeError, match="nothing called 'kernel' is counted"):
        _ = step.kernel
    with pytest.raises(KeyError, match="none of"):
        _ = step.kinds["gem"]
