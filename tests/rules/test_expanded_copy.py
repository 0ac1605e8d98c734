from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import COPY, MUL, TENSOR, Call, op, product, tensors, trace

FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>"
KEYS = (8, 8, 4, 512, 64)
HEADS = (8, 32, 512, 64)


def repeated(shape: tuple[int, ...], expanded: int, us: float, name: str = "aten::reshape") -> Call:
    """A copy of a tensor that is expanded in one dimension."""
    steps = []
    step = 1
    for i in reversed(range(len(shape))):
        steps.append(0 if i == expanded else step)
        step *= 1 if i == expanded else shape[i]
    inputs = tensors(shape, shape, strides=[(), steps[::-1]])
    return Call((name, "aten::clone", "aten::copy_"), [(COPY, us)], inputs)


def attention() -> Call:
    return Call(
        ("aten::scaled_dot_product_attention", "aten::_flash_attention_forward"), [(FLASH, 80)], tensors(HEADS, HEADS, HEADS)
    )


def test_keys_and_values_repeated_for_attention() -> None:
    calls = [product(4096, 1024, 4096, 60), repeated(KEYS, 2, 30), repeated(KEYS, 2, 30), attention()]
    found = finding(trace(calls), "expanded-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(60, rel=0.02)
    assert "enable_gqa=True" in found.fix
    assert "4 times" in found.title


def test_a_tensor_repeated_for_an_op_that_broadcasts() -> None:
    calls = [repeated((64, 128, 1024), 1, 40, "aten::repeat"), op("mul", MUL, 30, tensors((64, 128, 1024), (64, 128, 1024)))]
    found = finding(trace(calls), "expanded-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(40, rel=0.02)
    assert "128 times" in found.title


@pytest.mark.parametrize(
    "taker",
    [
        Call(("aten::bmm",), [(TENSOR, 60)], tensors((64, 128, 1024), (64, 1024, 128))),
        op("cat", COPY, 30, tensors((64, 128, 1024), (64, 128, 1024))),
        op("exp", MUL, 30, tensors((64, 128, 1024))),
        op("add_", MUL, 30, tensors((64, 128, 1024), (64, 128, 1024))),
    ],
    ids=["product", "cat", "one operand", "written to"],
)
def test_what_needs_the_copy_is_clear(taker: Call) -> None:
    calls = [repeated((64, 128, 1024), 1, 40, "aten::repeat"), taker]
    assert outcome(trace(calls), "expanded-copy") == "clear"


def test_a_turned_copy_is_no_repetition() -> None:
    inputs = tensors((64, 128, 1024), (64, 128, 1024), strides=[(), [128 * 1024, 1, 128]])
    calls = [Call(("aten::contiguous", "aten::clone", "aten::copy_"), [(COPY, 40)], inputs)]
    calls.append(op("mul", MUL, 30, tensors((64, 128, 1024), (64, 128, 1024))))
    assert outcome(trace(calls), "expanded-copy") == "clear"


def test_one_number_repeated_is_a_fill() -> None:
    inputs = tensors((64, 1024), (64, 1024), strides=[(), [0, 0]])
    calls = [Call(("aten::contiguous", "aten::clone", "aten::copy_"), [(COPY, 40)], inputs)]
    calls.append(op("mul", MUL, 30, tensors((64, 1024), (64, 1024))))
    assert outcome(trace(calls), "expanded-copy") == "clear"


def test_a_scale_made_ready_before_what_it_scales() -> None:
    """y = relu(h); s = scale.repeat(...); y = conv(y); y * s: the convolution takes y, which was waiting."""
    full = (64, 128, 1024)
    conv = op("cudnn_convolution", TENSOR, 60, tensors(full, (128, 128, 3)))
    copy = repeated(full, 1, 40, "aten::repeat")
    scaled = op("mul", MUL, 30, tensors(full, full))
    assert outcome(trace([op("relu", MUL, 20, tensors(full)), copy, conv, scaled]), "expanded-copy") == "found"
    # Nothing waits: the convolution takes the copy.
    assert outcome(trace([op("relu", MUL, 20, tensors((64, 128))), copy, conv, scaled]), "expanded-copy") == "clear"
