"""Convolutions, forward and backward, plain and transposed, of any rank and number of groups.

Forward: 2 operations for each output element, input channel of its group and filter tap. The gradient of the
input and that of the weight are one forward's worth each; bias and activation are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from .inputs import Inputs, Tensor, UnknownInput
from .result import Work

__all__ = ["ESTIMATORS", "output_size"]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output size of one dimension of a convolution or pooling (torch.nn.Conv2d, floor)."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _transposed_size(size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int) -> int:
    """Output size of one dimension of a transposed convolution (torch.nn.ConvTranspose2d)."""
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1


@dataclass(frozen=True)
class _Signature:
    """Where an op keeps its arguments; -1 where it has none."""

    stride: int
    padding: int
    dilation: int = -1
    bias: int = -1
    transposed: int = -1
    output_padding: int = -1
    always_transposed: bool = False
    added: int = -1


_FORWARD = {
    "convolution": _Signature(3, 4, 5, bias=2, transposed=6, output_padding=7),
    "_convolution": _Signature(3, 4, 5, bias=2, transposed=6, output_padding=7),
    "convolution_overrideable": _Signature(3, 4, 5, bias=2, transposed=6, output_padding=7),
    "cudnn_convolution": _Signature(3, 2, 4),
    "cudnn_convolution_transpose": _Signature(4, 2, 5, output_padding=3, always_transposed=True),
    "cudnn_convolution_relu": _Signature(3, 4, 5, bias=2),
    "cudnn_convolution_add_relu": _Signature(5, 6, 7, bias=4, added=2),
    "miopen_convolution": _Signature(4, 3, 5, bias=2),
    "miopen_depthwise_convolution": _Signature(4, 3, 5, bias=2),
    "miopen_convolution_transpose": _Signature(5, 3, 6, bias=2, output_padding=4, always_transposed=True),
    "miopen_convolution_relu": _Signature(3, 4, 5, bias=2),
    "miopen_convolution_add_relu": _Signature(5, 6, 7, bias=4, added=2),
    "mkldnn_convolution": _Signature(4, 3, 5, bias=2),
    "thnn_conv2d": _Signature(4, 5, bias=3),
    "_slow_conv2d_forward": _Signature(4, 5, bias=3),
    "slow_conv3d_forward": _Signature(4, 5, bias=3),
    "_conv_depthwise2d": _Signature(4, 5, 6, bias=3),
    "conv_depthwise3d": _Signature(4, 5, 6, bias=3),
    "slow_conv_dilated2d": _Signature(4, 5, 6, bias=3),
    "slow_conv_dilated3d": _Signature(4, 5, 6, bias=3),
    "slow_conv_transpose2d": _Signature(4, 5, 7, bias=3, output_padding=6, always_transposed=True),
    "slow_conv_transpose3d": _Signature(4, 5, 7, bias=3, output_padding=6, always_transposed=True),
    "conv1d": _Signature(3, 4, 5, bias=2),
    "conv2d": _Signature(3, 4, 5, bias=2),
    "conv3d": _Signature(3, 4, 5, bias=2),
}


def _geometry(inputs: Inputs, index: int, rank: int, default: int) -> Sequence[int]:
    """A list argument, a single number standing for all dimensions; the default where the op has no such
    argument.
    """
    if index < 0:
        return [default] * rank
    values = inputs.integers(index)
    if values is None or len(values) not in (1, rank):
        raise UnknownInput
    return values * rank if len(values) == 1 else values


def _output(x: Tensor, weight: Tensor, inputs: Inputs, where: _Signature, transposed: bool) -> list[int]:
    """Spatial sizes of the output."""
    rank = len(weight.shape) - 2
    stride = _geometry(inputs, where.stride, rank, 1)
    padding = _geometry(inputs, where.padding, rank, 0)
    dilation = _geometry(inputs, where.dilation, rank, 1)
    spatial, taps = x.shape[-rank:], weight.shape[2:]
    if transposed:
        extra = _geometry(inputs, where.output_padding, rank, 0)
        return [_transposed_size(*sizes) for sizes in zip(spatial, taps, stride, padding, dilation, extra, strict=True)]
    return [output_size(*sizes) for sizes in zip(spatial, taps, stride, padding, dilation, strict=True)]


def _operations(batch: int, narrow: int, weight: Tensor) -> int:
    """Operations of one pass.

    Each element of the narrow side (the output of a plain convolution, the input of a transposed one) meets a
    whole filter: ``weight.shape[1:]`` is the other side's channels of one group and the taps, whatever the
    groups.

    Args:
        batch: images.
        narrow: spatial elements of that side.
        weight: filters, the channels of that side first.
    """
    return 2 * batch * narrow * prod(weight.shape)


def _forward(op: str, inputs: Inputs) -> Work:
    where = _FORWARD[op]
    x, weight = inputs.need(0), inputs.need(1)
    rank = len(weight.shape) - 2
    if rank < 1 or len(x.shape) not in (rank + 1, rank + 2):
        raise UnknownInput
    transposed = where.always_transposed or bool(inputs.boolean(where.transposed))
    batch = x.shape[0] if len(x.shape) == rank + 2 else 1
    out = _output(x, weight, inputs, where, transposed)
    channels = weight.shape[1] * _groups(op, inputs) if transposed else weight.shape[0]
    narrow = prod(x.shape[-rank:]) if transposed else prod(out)
    extra = sum(tensor.stored_bytes for tensor in map(inputs.tensor, (where.bias, where.added)) if tensor)
    out_bytes = batch * channels * prod(out) * x.item_bytes
    total = x.stored_bytes + weight.stored_bytes + extra + out_bytes
    return Work("conv", _operations(batch, narrow, weight), total, x.dtype)


# Where the ops that can be transposed keep `groups`.
_GROUPS = {
    "convolution": 8,
    "_convolution": 8,
    "convolution_overrideable": 8,
    "cudnn_convolution_transpose": 6,
    "miopen_convolution_transpose": 7,
}


def _groups(op: str, inputs: Inputs) -> int:
    index = _GROUPS.get(op)
    if index is None:
        return 1
    groups = inputs.integer(index)
    if groups is None:
        raise UnknownInput
    return groups


def _backward(op: str, inputs: Inputs) -> Work:
    """``convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, ...,
    output_mask)``.
    """
    grad, x, weight = inputs.need(0), inputs.need(1), inputs.need(2)
    mask = inputs.booleans(10)
    rank = len(weight.shape) - 2
    if mask is None or len(mask) != 3 or rank < 1 or len(x.shape) != rank + 2 or len(grad.shape) != rank + 2:
        raise UnknownInput
    narrow = x if inputs.boolean(7) else grad
    one = _operations(grad.shape[0], prod(narrow.shape[2:]), weight)
    total = grad.stored_bytes
    total += (weight.stored_bytes + x.numel * x.item_bytes) * mask[0]
    total += (x.stored_bytes + weight.numel * weight.item_bytes) * mask[1]
    total += grad.shape[1] * grad.item_bytes * mask[2]
    parts = [name for name, wanted in zip(("input", "weight", "bias"), mask, strict=True) if wanted]
    note = f"gradients of {', '.join(parts)}" if parts else ""
    return Work("conv", one * (mask[0] + mask[1]), total, grad.dtype, note=note)


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    **dict.fromkeys(_FORWARD, _forward),
    "convolution_backward": _backward,
    "convolution_backward_overrideable": _backward,
}
