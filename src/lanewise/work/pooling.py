"""Pooling and resampling, forward and backward. An operation for each element that a window or a filter takes
in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .convolution import output_size
from .inputs import Inputs, Tensor, UnknownInput
from .result import Work

__all__ = ["ESTIMATORS"]

_INDEX_BYTES = 8  # indices of maxima are int64


def _ceil_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output size with ``ceil_mode``: the last window must start inside the input or its left padding."""
    out = -(-(size + 2 * padding - dilation * (kernel - 1) - 1) // stride) + 1
    return out - 1 if (out - 1) * stride >= size + padding else out


def _spread(values: list[int] | None, rank: int, default: Sequence[int]) -> Sequence[int]:
    if not values:
        return default
    return values * rank if len(values) == 1 else values


# Indices of padding, dilation (-1: none) and ceil_mode.
_WINDOWS = {
    "max_pool2d_with_indices": (2, (3, 4, 5)),
    "max_pool3d_with_indices": (3, (3, 4, 5)),
    "avg_pool2d": (2, (3, -1, 4)),
    "avg_pool3d": (3, (3, -1, 4)),
    "max_pool2d": (2, (3, 4, 5)),
}


def _pool(op: str, inputs: Inputs) -> Work:
    rank, (padding_at, dilation_at, ceil_at) = _WINDOWS[op]
    x = inputs.need(0)
    kernel = _spread(inputs.integers(1), rank, ())
    stride = _spread(inputs.integers(2), rank, kernel)
    padding = _spread(inputs.integers(padding_at), rank, [0] * rank)
    dilation = _spread(inputs.integers(dilation_at), rank, [1] * rank) if dilation_at >= 0 else [1] * rank
    if len(kernel) != rank or len(x.shape) < rank + 1:
        raise UnknownInput
    size = _ceil_size if inputs.boolean(ceil_at) else output_size
    spatial = [size(*values) for values in zip(x.shape[-rank:], kernel, stride, padding, dilation, strict=True)]
    return _windowed(x, spatial, prod(kernel), with_indices="indices" in op)


def _windowed(x: Tensor, spatial: Sequence[int], taps: int, with_indices: bool) -> Work:
    out = prod(x.shape[: len(x.shape) - len(spatial)]) * prod(spatial)
    written = out * (x.item_bytes + _INDEX_BYTES * with_indices)
    return Work("pooling", out * taps, x.stored_bytes + written, x.dtype)


_ADAPTIVE_RANK = {
    "_adaptive_avg_pool2d": 2,
    "_adaptive_avg_pool3d": 3,
    "adaptive_avg_pool2d": 2,
    "adaptive_max_pool2d": 2,
    "adaptive_max_pool3d": 3,
}


def _adaptive(op: str, inputs: Inputs) -> Work:
    """Windows of about ``size / output size``: every element of x is taken in once."""
    x, spatial = inputs.need(0), inputs.integers(1)
    rank = _ADAPTIVE_RANK[op]
    if spatial is None or len(spatial) not in (1, rank) or len(x.shape) < rank + 1:
        raise UnknownInput
    out = prod(x.shape[:-rank]) * prod(_spread(spatial, rank, ()))
    written = out * (x.item_bytes + _INDEX_BYTES * ("max" in op))
    return Work("pooling", x.numel, x.stored_bytes + written, x.dtype)


# Whether the backward pass reads the indices, which come last.
_BACKWARD = {
    "max_pool2d_with_indices_backward": 7,
    "max_pool3d_with_indices_backward": 7,
    "adaptive_max_pool2d_backward": 2,
    "adaptive_max_pool3d_backward": 2,
    "avg_pool2d_backward": -1,
    "avg_pool3d_backward": -1,
    "_adaptive_avg_pool2d_backward": -1,
    "_adaptive_avg_pool3d_backward": -1,
}


def _backward(op: str, inputs: Inputs) -> Work:
    """Reads the gradient (and the indices of maxima), writes one as large as the input, which is not read."""
    grad, x = inputs.need(0), inputs.need(1)
    indices = inputs.tensor(_BACKWARD[op])
    read = grad.stored_bytes + (indices.stored_bytes if indices else 0)
    taps = 1 if indices else prod(inputs.integers(2) or [1]) if op.startswith("avg") else 1
    return Work("pooling", grad.numel * taps, read + x.numel * x.item_bytes, grad.dtype)


# Operations for each output element: taps of the filter and their weights.
_UPSAMPLE = {"nearest": 0, "linear": 3, "bilinear": 7, "trilinear": 15, "bicubic": 31}
_UPSAMPLE_OPS = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact2d": "nearest",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "bilinear",
    "upsample_trilinear3d": "trilinear",
    "upsample_bicubic2d": "bicubic",
    "_upsample_bilinear2d_aa": "bilinear",
    "_upsample_bicubic2d_aa": "bicubic",
}


def _upsample(op: str, inputs: Inputs) -> Work:
    """``upsample_*(x, output_size, ...)``."""
    x, spatial = inputs.need(0), inputs.integers(1)
    if not spatial or len(x.shape) != len(spatial) + 2:
        raise UnknownInput
    out = prod(x.shape[:2]) * prod(spatial)
    flops = out * _UPSAMPLE[_UPSAMPLE_OPS[op]]
    return Work("resample", flops, x.stored_bytes + out * x.item_bytes, x.dtype)


def _upsample_backward(op: str, inputs: Inputs) -> Work:
    """``upsample_*_backward(grad, output_size, input_size, ...)``."""
    grad, sizes = inputs.need(0), inputs.integers(2)
    if not sizes:
        raise UnknownInput
    flops = grad.numel * max(_UPSAMPLE[_UPSAMPLE_OPS[op.removesuffix("_backward")]], 1)
    return Work("resample", flops, grad.stored_bytes + prod(sizes) * grad.item_bytes, grad.dtype)


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    **dict.fromkeys(_WINDOWS, _pool),
    **dict.fromkeys(_ADAPTIVE_RANK, _adaptive),
    **dict.fromkeys(_BACKWARD, _backward),
    **dict.fromkeys(_UPSAMPLE_OPS, _upsample),
    **dict.fromkeys((f"{name}_backward" for name in _UPSAMPLE_OPS), _upsample_backward),
}
