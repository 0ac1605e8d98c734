"""Bytes of single ops, against the tensors that torch takes and gives: each read or written once.

Everything runs on the meta device, so that sizes and types are torch's own and nothing is computed. Ops that
access only part of their arguments are in `test_work_movement.py`, by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from work_recording import recorded_ops, work_of

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch]

aten = torch.ops.aten
BF16, FP16, FP32, INT64 = torch.bfloat16, torch.float16, torch.float32, torch.int64


def meta(*sizes: int, dtype: Any = FP32) -> Any:
    return torch.empty(sizes, dtype=dtype, device="meta")


def stored_bytes(tensor: Any) -> int:
    """Distinct elements in memory, by listing their offsets: slow and certain."""
    offsets = {0}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = {offset + index * stride for offset in offsets for index in range(size)}
    return len(offsets) * tensor.element_size()


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


x = meta(4, 6, 8)
h = meta(4, 6, 8, dtype=BF16)
row = meta(8, dtype=BF16)
column = meta(6, 1)
image = meta(2, 6, 10, 12, dtype=FP16)
channel = meta(6)
integers = meta(4, 6, 8, dtype=INT64)
expanded = meta(4, 1, 8).expand(4, 6, 8)
windows = meta(20).as_strided((5, 8), (3, 1))
mask = meta(6, 8, dtype=torch.bool)

# Name of the op, arguments. What it reads: all tensors among them; what it writes: all that it returns.
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.mm, (meta(5, 7, dtype=BF16), meta(7, 9, dtype=BF16))),
    (aten.mm, (meta(7, 5).t(), meta(7, 9))),
    (aten.addmm, (meta(9), meta(5, 7), meta(7, 9))),
    (aten.addmm, (meta(9).expand(5, 9), meta(5, 7), meta(7, 9))),
    (aten.bmm, (meta(3, 5, 7), meta(1, 7, 9).expand(3, 7, 9))),
    (aten.baddbmm, (meta(3, 5, 9), meta(3, 5, 7), meta(3, 7, 9))),
    (aten.mv, (meta(5, 7), meta(7))),
    (aten.addmv, (meta(5), meta(5, 7), meta(7))),
    (aten.dot, (meta(7), meta(7))),
    (aten._int_mm, (meta(32, 16, dtype=torch.int8), meta(16, 24, dtype=torch.int8))),
    (
        aten.convolution,
        (image, meta(9, 3, 3, 3, dtype=FP16), meta(9, dtype=FP16), [2], [1], [1], False, [0], 2),
    ),
    (aten.convolution, (image, meta(6, 4, 3, 3, dtype=FP16), None, [2, 1], [1, 0], [1, 2], True, [1, 0], 3)),
    (aten._softmax, (h, -1, False)),
    (aten._softmax, (h, -1, True)),
    (aten._log_softmax, (x, 1, False)),
    (aten._softmax_backward_data, (x, x, -1, FP32)),
    (aten._log_softmax_backward_data, (x, x, -1, FP32)),
    (aten.native_layer_norm, (x, [8], meta(8), meta(8), 1e-5)),
    (aten.native_layer_norm, (x, [6, 8], None, None, 1e-5)),
    (aten.native_layer_norm_backward, (x, x, [8], meta(4, 6, 1), meta(4, 6, 1), meta(8), None, [True] * 3)),
    (
        aten.native_layer_norm_backward,
        (x, x, [8], meta(4, 6, 1), meta(4, 6, 1), meta(8), None, [True, False, False]),
    ),
    (aten.native_group_norm, (meta(2, 6, 5), meta(6), meta(6), 2, 6, 5, 3, 1e-5)),
    (aten.native_dropout, (h, 0.1, True)),
    (aten.native_dropout_backward, (h, meta(4, 6, 8, dtype=torch.bool), 1.1)),
    (aten.add, (x, column)),
    (aten.add, (x, h)),
    (aten.add, (h, meta(4, 6, 8, dtype=FP16))),
    (aten.add, (expanded, x)),
    (aten.add, (windows, windows)),
    (aten.add, (integers, 2)),
    (aten.mul, (h, meta())),
    (aten.mul, (integers, meta())),
    (aten.div, (integers, integers)),
    (aten.div, (h, 3)),
    (aten.sub, (x, row)),
    (aten.add_, (x, column)),
    (aten.mul_, (x, 2.0)),
    (aten.relu_, (h,)),
    (aten.masked_fill_, (x, mask, 0.0)),
    (aten.masked_fill, (h, mask, 0.0)),
    (aten.where, (mask, x, meta())),
    (aten.where, (mask, h, x)),
    (aten.lerp, (x, x, 0.5)),
    (aten.addcmul, (x, column, x)),
    (aten.addcdiv_, (x, x, x)),
    (aten.clamp, (x, 0.0, 1.0)),
    (aten.pow, (x, 2)),
    (aten.gelu, (h,)),
    (aten.gelu_backward, (h, h)),
    (aten.silu, (h,)),
    (aten.sigmoid, (integers,)),
    (aten.sqrt, (integers,)),
    (aten.tanh_backward, (x, x)),
    (aten.threshold_backward, (h, h, 0)),
    (aten.elu_backward, (x, 1.0, 1.0, 1.0, False, x)),
    (aten.neg, (integers,)),
    (aten.eq, (x, column)),
    (aten.logical_not, (mask,)),
    (aten.isnan, (h,)),
    (aten.bitwise_and, (mask, mask)),
    (aten.maximum, (x, column)),
    (aten.glu, (h, -1)),
    (aten.sum, (h, [0, -1], False)),
    (aten.sum, (mask, [0])),
    (aten.sum, (x,)),
    (aten.mean, (h, [1], True)),
    (aten.amax, (x, [0, 1])),
    (aten.argmax, (x, 1)),
    (aten.max, (x, 1)),
    (aten.max, (x,)),
    (aten.any, (mask, 0)),
    (aten.all, (mask,)),
    (aten.var, (x, [1])),
    (aten.var_mean, (x, [2])),
    (aten.linalg_vector_norm, (x, 2, [0])),
    (aten.linalg_vector_norm, (x, 2, None, False)),
    (aten.logsumexp, (x, [1])),
    (aten.cumsum, (mask, 0)),
    (aten.cumsum, (x, 0)),
    (aten.sort, (x, 1)),
    (aten.topk, (h, 3, 1)),
    (aten.copy_, (h, expanded)),
    (aten.clone, (expanded,)),
    (aten._to_copy, (h,)),
    (aten.flip, (x, [0])),
    (aten.mse_loss, (h, h)),
    (aten.mse_loss, (h, h, 0)),
    (aten.mse_loss_backward, (meta(), x, x, 1)),
    (aten.binary_cross_entropy, (x, x)),
    (aten.max_pool2d_with_indices, (image, [3], [2], [1])),
    (aten.max_pool2d_with_indices, (image, [3, 2], [2, 2], [1, 0], [1, 1], True)),
    (aten.avg_pool2d, (image, [3, 3])),
    (aten.avg_pool2d, (image, [3, 3], [2, 2], [1, 1], True)),
    (aten._adaptive_avg_pool2d, (image, [4, 3])),
    (aten.upsample_nearest2d, (image, [20, 24])),
    (aten.upsample_bilinear2d, (image, [5, 6], False)),
    (aten.constant_pad_nd, (image, [1, 2, -1, 3])),
]


def label(case: tuple[Any, tuple[Any, ...]]) -> str:
    return str(case[0]).removeprefix("aten.")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=[f"{label(case)}-{index}" for index, case in enumerate(CASES)])
def test_bytes(case: tuple[Any, tuple[Any, ...]], tmp_path: Path) -> None:
    packet, arguments = case
    result: list[Any] = []
    ops = recorded_ops(lambda: result.append(packet(*arguments)), tmp_path)
    name = f"aten::{label(case)}"
    event = next(event for event in ops if event["name"] == name)
    read = sum(map(stored_bytes, tensors_in(list(arguments))))
    written = sum(map(stored_bytes, tensors_in(result)))
    if name == "aten::copy_":
        read -= stored_bytes(arguments[0])
    work = work_of(event)
    assert work is not None
    assert work.bytes == read + written, event["args"]


@pytest.mark.filterwarnings("ignore")
def test_a_dtype_argument_is_the_type_of_the_result(tmp_path: Path) -> None:
    calls: list[tuple[Callable[[], object], str, int]] = [
        (lambda: aten._to_copy(x, dtype=BF16), "aten::_to_copy", 4 * 6 * 8 * (4 + 2)),
        (lambda: aten.sum(h, [0], dtype=FP32), "aten::sum", 4 * 6 * 8 * 2 + 6 * 8 * 4),
        (lambda: aten.sum(h, dtype=torch.float64), "aten::sum", 4 * 6 * 8 * 2 + 8),
        (
            lambda: aten.mm(meta(5, 7, dtype=BF16), meta(7, 9, dtype=BF16), FP32),
            "aten::mm",
            (35 + 63) * 2 + 45 * 4,
        ),
        (lambda: aten.cumsum(h, 0, dtype=FP32), "aten::cumsum", 4 * 6 * 8 * (2 + 4)),
    ]
    for call, name, expected in calls:
        event = next(event for event in recorded_ops(call, tmp_path) if event["name"] == name)
        work = work_of(event)
        assert work is not None, name
        assert work.bytes == expected, name
