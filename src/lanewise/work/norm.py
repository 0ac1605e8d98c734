"""Normalisations and softmax, forward and backward.

Operations are counted from the formulas, an exponential, root or division as one, a multiply-add as two. They
matter little: all of these move more bytes than they compute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .inputs import Inputs, Tensor, UnknownInput, item_bytes
from .result import Work

__all__ = ["ESTIMATORS"]

# Forward: mean 1, squared deviations 3, normalising 2. RMS norm: squares 2, normalising 1. Affine: 1 for a
# weight, 1 for a bias. Backward, of the input: normalised value 2, weight 1, its two sums 3, the combination
# 5; RMS: 1, 1, 2, 4. Of weight and bias: 2 and 1.
_FORWARD_FLOPS = 6
_RMS_FORWARD_FLOPS = 3
_BACKWARD_FLOPS = 11
_RMS_BACKWARD_FLOPS = 8
_WEIGHT_GRADIENT_FLOPS = 2
_BIAS_GRADIENT_FLOPS = 1

# softmax: maximum, difference, exponential, sum, quotient; backward: product and sum 2, difference, product.
_SOFTMAX_FLOPS = 5
_SOFTMAX_BACKWARD_FLOPS = 4


def _bytes(*tensors: Tensor | None) -> int:
    return sum(tensor.stored_bytes for tensor in tensors if tensor is not None)


def _statistics_item(x: Tensor) -> int:
    """Bytes of a mean or variance: fp64 stays, everything else is accumulated and saved in fp32 (ATen's
    acc_type).
    """
    return 8 if x.dtype == "fp64" else 4


def _written(like: Tensor) -> int:
    return like.numel * like.item_bytes


def _layer_norm(op: str, inputs: Inputs) -> Work:
    """``native_layer_norm(x, normalized_shape, weight, bias, eps)``: writes y, mean and 1 / deviation of each
    row.
    """
    x, weight, bias = inputs.need(0), inputs.tensor(2), inputs.tensor(3)
    width = prod(_normalized_shape(inputs, 1, weight))
    rows = x.numel // width if width else 0
    flops = x.numel * (_FORWARD_FLOPS + (weight is not None) + (bias is not None))
    total = _bytes(x, weight, bias) + _written(x) + 2 * rows * _statistics_item(x)
    return Work("norm", flops, total, x.dtype)


def _normalized_shape(inputs: Inputs, index: int, weight: Tensor | None) -> list[int]:
    shape = inputs.integers(index)
    if shape is None and weight is not None:
        shape = list(weight.shape)
    if shape is None:
        raise UnknownInput
    return shape


def _rms_norm(op: str, inputs: Inputs) -> Work:
    """``_fused_rms_norm(x, normalized_shape, weight, eps)``: writes y and 1 / rms of each row."""
    x, weight = inputs.need(0), inputs.tensor(2)
    width = prod(_normalized_shape(inputs, 1, weight))
    rows = x.numel // width if width else 0
    total = _bytes(x, weight) + _written(x) + rows * _statistics_item(x)
    return Work("norm", x.numel * (_RMS_FORWARD_FLOPS + (weight is not None)), total, x.dtype)


def _serving_rms_norm(op: str, inputs: Inputs) -> Work:
    """vLLM's ``rms_norm(out, x, weight, eps)``."""
    x, weight = inputs.need(1), inputs.need(2)
    return Work("norm", x.numel * (_RMS_FORWARD_FLOPS + 1), _bytes(x, weight) + _written(x), x.dtype)


def _serving_add_rms_norm(op: str, inputs: Inputs) -> Work:
    """vLLM's ``fused_add_rms_norm(x, residual, weight, eps)``: both read and written."""
    x, residual, weight = inputs.need(0), inputs.need(1), inputs.need(2)
    total = _bytes(x, residual, weight) + _written(x) + _written(residual)
    return Work("norm", x.numel * (_RMS_FORWARD_FLOPS + 2), total, x.dtype)


@dataclass(frozen=True)
class _Backward:
    """Where a backward pass keeps its arguments; -1 where it has none.

    Without a `mask` every gradient is written. Layer norm gets its `bias`, which it does not read, and writes
    a gradient for it only then.
    """

    grad: int
    x: int
    weight: int
    read: tuple[int, ...]
    mask: int
    input_flops: int = _BACKWARD_FLOPS
    has_bias: bool = True
    bias: int = -1


_BACKWARD = {
    "native_layer_norm_backward": _Backward(0, 1, 5, (3, 4), 7, bias=6),
    "_fused_rms_norm_backward": _Backward(0, 1, 4, (3,), 5, _RMS_BACKWARD_FLOPS, has_bias=False),
    "native_group_norm_backward": _Backward(0, 1, 4, (2, 3), 9),
    "native_batch_norm_backward": _Backward(0, 1, 2, (5, 6), 9),
    "batch_norm_backward": _Backward(0, 1, 2, (5, 6), 9),
    "cudnn_batch_norm_backward": _Backward(1, 0, 2, (5, 6), -1),
    "miopen_batch_norm_backward": _Backward(1, 0, 2, (5, 6), -1),
}


def _backward(op: str, inputs: Inputs) -> Work:
    where = _BACKWARD[op]
    grad, x, weight = inputs.need(where.grad), inputs.need(where.x), inputs.tensor(where.weight)
    gradients = 3 if where.has_bias else 2
    mask = [True] * gradients if where.mask < 0 else inputs.booleans(where.mask)
    if mask is None or len(mask) != gradients:
        raise UnknownInput
    wanted_weight = mask[1] and weight is not None
    wanted_bias = where.has_bias and mask[2] and (where.bias < 0 or inputs.tensor(where.bias) is not None)
    total = _bytes(grad, x, weight, *map(inputs.tensor, where.read)) + _written(x) * mask[0]
    if weight is not None:
        total += _written(weight) * (wanted_weight + wanted_bias)
    passes = where.input_flops * mask[0] + _WEIGHT_GRADIENT_FLOPS * wanted_weight + _BIAS_GRADIENT_FLOPS * wanted_bias
    return Work("norm", x.numel * passes, total, x.dtype)


def _group_norm(op: str, inputs: Inputs) -> Work:
    """``native_group_norm(x, weight, bias, N, C, HxW, groups, eps)``: statistics in the type of x."""
    x, weight, bias = inputs.need(0), inputs.tensor(1), inputs.tensor(2)
    batch, groups = inputs.integer(3), inputs.integer(6)
    if batch is None or groups is None:
        raise UnknownInput
    flops = x.numel * (_FORWARD_FLOPS + (weight is not None) + (bias is not None))
    total = _bytes(x, weight, bias) + _written(x) + 2 * batch * groups * x.item_bytes
    return Work("norm", flops, total, x.dtype)


# Index of the flag `training`; -2 where the op exists for training only, -1 for inference only.
_BATCH_NORM_TRAINING = {
    "native_batch_norm": 5,
    "_native_batch_norm_legit": 5,
    "cudnn_batch_norm": 5,
    "miopen_batch_norm": 5,
    "_batch_norm_with_update": -2,
    "_batch_norm_no_update": -1,
}


def _batch_norm(op: str, inputs: Inputs) -> Work:
    """``native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)``.

    Training reads and writes the running statistics and saves those of the batch; inference reads the running
    ones.
    """
    x, weight, bias, mean, variance = inputs.need(0), *map(inputs.tensor, (1, 2, 3, 4))
    index = _BATCH_NORM_TRAINING[op]
    training = inputs.boolean(index) if index >= 0 else index == -2
    if training is None or len(x.shape) < 2:
        raise UnknownInput
    affine = (weight is not None) + (bias is not None)
    total = _bytes(x, weight, bias, mean, variance) + _written(x)
    if not training:
        return Work("norm", x.numel * (2 + affine), total, x.dtype)
    running = sum(_written(tensor) for tensor in (mean, variance) if tensor is not None)
    saved = 2 * x.shape[1] * _statistics_item(x)
    return Work("norm", x.numel * (_FORWARD_FLOPS + affine), total + running + saved, x.dtype)


def _batch_norm_part(op: str, inputs: Inputs) -> Work:
    """The stages of a synchronised batch norm: statistics, normalising, sums of the gradient, gradient."""
    stages = {
        "batch_norm_stats": (4, ("x",)),
        "batch_norm_elemt": (4, ("x", "y")),
        "batch_norm_backward_reduce": (5, ("g", "x")),
        "batch_norm_backward_elemt": (6, ("g", "x", "y")),
    }
    flops, passes = stages[op]
    x = inputs.need(0)
    if len(x.shape) < 2:
        raise UnknownInput
    # What is left is a few values a channel.
    small = sum(tensor.stored_bytes for tensor in inputs.tensors(1) if len(tensor.shape) <= 1)
    return Work("norm", flops * x.numel, len(passes) * _written(x) + small, x.dtype)


def _softmax(op: str, inputs: Inputs) -> Work:
    """``_softmax(x, dim, half_to_float)``: the result is fp32 with that flag, else of the type of x."""
    x = inputs.need(0)
    item = 4 if inputs.boolean(2) else x.item_bytes
    return Work("softmax", _SOFTMAX_FLOPS * x.numel, x.stored_bytes + x.numel * item, x.dtype)


def _softmax_backward(op: str, inputs: Inputs) -> Work:
    """``_softmax_backward_data(grad, output, dim, input_dtype)``."""
    grad, output = inputs.need(0), inputs.need(1)
    written = output.numel * item_bytes(inputs.dtype(3) or grad.dtype)
    return Work("softmax", _SOFTMAX_BACKWARD_FLOPS * output.numel, _bytes(grad, output) + written, grad.dtype)


def _masked_softmax(op: str, inputs: Inputs) -> Work:
    x, mask = inputs.need(0), inputs.need(1)
    return Work("softmax", _SOFTMAX_FLOPS * x.numel, _bytes(x, mask) + _written(x), x.dtype)


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    "native_layer_norm": _layer_norm,
    "layer_norm": _layer_norm,
    "_fused_rms_norm": _rms_norm,
    "rms_norm": _rms_norm,
    "_C::rms_norm": _serving_rms_norm,
    "_C::fused_add_rms_norm": _serving_add_rms_norm,
    "native_group_norm": _group_norm,
    **dict.fromkeys(_BATCH_NORM_TRAINING, _batch_norm),
    **dict.fromkeys(_BACKWARD, _backward),
    **dict.fromkeys(
        ("batch_norm_stats", "batch_norm_elemt", "batch_norm_backward_reduce", "batch_norm_backward_elemt"),
        _batch_norm_part,
    ),
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    "_masked_softmax": _masked_softmax,
}
