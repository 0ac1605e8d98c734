from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import CAST, COPY, FP32, MUL, TENSOR, Call, contiguous, op, product, tensors, trace

from builder import TraceBuilder
from lanewise.rules.layouts import feeds, is_layout_copy, undoes
from lanewise.rules.sequence import Op
from lanewise.work.inputs import Inputs

TO_NHWC = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>"
TO_NCHW = "void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>"
CONV = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_kernel"


def turned(shape: tuple[int, ...], *order: int) -> dict[str, object]:
    """Inputs of the copy that makes a tensor contiguous whose dimensions were permuted: `order` says from where each comes."""
    source = [shape[order.index(i)] for i in range(len(shape))]
    strides = contiguous(source)
    return tensors(shape, shape, strides=[contiguous(shape), [strides[i] for i in order]])


def copy_of(inputs: dict[str, object]) -> Op:
    return Op("copy_", Inputs(inputs["Input Dims"], inputs["Input type"], inputs["Input Strides"], inputs["Concrete Inputs"]))  # type: ignore[arg-type]


def contiguous_call(inputs: dict[str, object], us: float = 200, names: tuple[str, ...] = ("aten::contiguous",)) -> Call:
    return Call((*names, "aten::clone", "aten::copy_"), [(COPY, us)], inputs)


def test_layout_copies_are_told_by_the_order_in_memory() -> None:
    assert is_layout_copy(copy_of(turned((64, 512, 1024), 0, 2, 1)))
    assert not is_layout_copy(copy_of(tensors((64, 512), (64, 512))))
    assert not is_layout_copy(copy_of(tensors((64, 512), (64, 512), strides=[[512, 1], [1024, 1]])))  # a slice
    assert not is_layout_copy(copy_of(tensors((64, 512), (64, 512), strides=[[512, 1], [0, 1]])))  # expanded
    assert not is_layout_copy(
        copy_of(tensors((64, 512), (64, 512), dtype=["c10::BFloat16", FP32], strides=[[512, 1], [1, 64]]))
    )


def test_a_copy_back_undoes() -> None:
    there = copy_of(turned((64, 1024, 512), 0, 2, 1))
    assert undoes(there, copy_of(turned((64, 512, 1024), 0, 2, 1)))
    assert not undoes(there, copy_of(turned((1024, 64, 512), 1, 0, 2)))


def test_products_take_either_order_but_no_merged_heads() -> None:
    def operand(shape: tuple[int, ...], other: tuple[int, ...]) -> Op:
        recorded = tensors(shape, other)
        return Op("mm" if len(shape) == 2 else "bmm", Inputs(recorded["Input Dims"], recorded["Input type"]))

    batched = operand((32, 1024, 512), (32, 512, 64)).product
    flat = operand((64 * 512, 1024), (1024, 256)).product
    heads = operand((8 * 512, 8 * 64), (512, 512)).product
    assert batched is not None
    assert flat is not None
    assert heads is not None
    assert feeds(copy_of(turned((32, 1024, 512), 0, 2, 1)), batched)
    assert feeds(copy_of(turned((64, 512, 1024), 0, 2, 1)), flat)
    assert not feeds(copy_of(turned((8, 512, 8, 64), 0, 2, 1, 3)), heads)


def test_a_needless_copy_before_a_product() -> None:
    calls = [contiguous_call(turned((64, 512, 1024), 0, 2, 1)), product(64 * 512, 1024, 1024, 100)]
    found = finding(trace(calls), "layout-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(200, rel=0.02)
    assert ".contiguous()" in found.fix


def test_two_copies_that_undo_each_other_go_both() -> None:
    calls = [
        contiguous_call(turned((64, 1024, 512), 0, 2, 1)),
        contiguous_call(turned((64, 512, 1024), 0, 2, 1)),
        op("relu", CAST, 100, tensors((64, 512, 1024))),
    ]
    found = finding(trace(calls), "layout-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(400, rel=0.02)


def test_a_copy_that_something_else_needs_is_clear() -> None:
    calls = [contiguous_call(turned((64, 512, 1024), 0, 2, 1)), op("relu", CAST, 100, tensors((64, 512, 1024)))]
    assert outcome(trace(calls), "layout-copy") == "clear"


def test_a_copy_that_a_product_makes_itself_is_clear() -> None:
    calls = [
        contiguous_call(turned((64, 512, 1024), 0, 2, 1), names=("aten::matmul", "aten::reshape")),
        product(64 * 512, 1024, 64, 100),
    ]
    assert outcome(trace(calls), "layout-copy") == "clear"


def test_layout_kernels_around_convolutions() -> None:
    conv = Call(
        ("aten::conv2d", "aten::cudnn_convolution"),
        [(TO_NHWC, 80), (TO_NHWC, 5), (CONV, 170), (TO_NCHW, 95)],
        tensors((32, 128, 112, 112), (128, 128, 3, 3), dtype="c10::Half"),
    )
    found = finding(trace([conv]), "layout-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(180, rel=0.02)
    assert "channels_last" in found.fix
    assert "51 %" in found.text  # 180 of 350 us


def test_one_dimension_has_no_channels_last() -> None:
    inside = tensors((32, 128, 1, 4096), (128, 128, 1, 3), dtype="c10::Half")
    outer = tensors((32, 128, 4096), (128, 128, 3), dtype="c10::Half")
    conv = Call(("aten::conv1d", "aten::cudnn_convolution"), [(TO_NHWC, 80), (CONV, 170), (TO_NCHW, 95)], inside, outer=outer)
    found = finding(trace([conv]), "layout-copy")
    assert found is not None
    assert "nn.Conv2d" in found.fix


def test_convolutions_without_them_are_clear() -> None:
    conv = Call(("aten::conv2d", "aten::cudnn_convolution"), [(CONV, 170)], tensors((32, 128, 112, 112), (128, 128, 3, 3)))
    assert outcome(trace([conv]), "layout-copy") == "clear"
    assert outcome(trace([Call(("aten::mm",), [(TENSOR, 100)])]), "layout-copy") == "clear"


@pytest.mark.shared
@pytest.mark.parametrize("case", ["needless_contiguous", "conv_nchw_layout"])
def test_planted(case: str) -> None:
    assert claim(case, "bad", "layout-copy") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.1)
    assert claim(case, "fixed", "layout-copy") == 0


def convolutions(size: int, channels: int = 512, seen: int | None = None) -> TraceBuilder:
    """Steps of 8 calls of `conv1d` on a transposed tensor: each copies its input (40 us), multiplies (60), adds a bias (30)."""
    length = 1024
    x = tensors(
        (16, channels, length), (512, seen or channels, size), (512,), strides=[[channels * length, 1, channels], (), ()]
    )
    parts = [
        ("aten::copy_", COPY, 40, turned((16, channels, length), 0, 2, 1)),
        ("aten::cudnn_convolution", CONV, 60, tensors((16, channels, 1, length), (512, channels, 1, size))),
        ("aten::add_", MUL, 30, tensors((16, 512, 1, length), (1, 512, 1, 1))),
    ]
    t = TraceBuilder()
    free = 0.0
    for step in range(4):
        begin = 100.0 + step * 260
        t.step(step, begin, 250)
        for i in range(8):
            now = begin + 5 + i * 30
            t.op("aten::conv1d", now, 28, **x)
            for j, (name, kernel, us, inputs) in enumerate(parts):
                t.op(name, now + 1 + j * 9, 8, **inputs)
                free = max(free, now + 20)
                t.launch(now + 2 + j * 9, 2, gpu=(free, us), name=kernel)
                free += us
    return t


def test_a_convolution_of_one_position_is_a_linear_layer() -> None:
    found = finding(convolutions(1), "layout-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(8 * 70, rel=0.02)
    assert "16 kernels" in found.text
    assert "nn.Linear" in found.fix


def test_a_wider_convolution_or_one_by_groups_needs_its_layout() -> None:
    assert outcome(convolutions(3), "layout-copy") == "clear"
    assert outcome(convolutions(1, seen=1), "layout-copy") == "clear"
