"""Matrix products: mm, addmm, bmm, linear, matmul, scaled and grouped products, matrix times vector, dot.

2 m n k operations; the epilogue (bias, activation, scaling) is not counted, as everyone quotes TFLOP/s.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .inputs import Inputs, Tensor, UnknownInput, broadcast, item_bytes
from .result import Work

__all__ = ["ESTIMATORS"]


def _inner(tensor: Tensor, axis: int) -> int:
    """Size of a contracted dimension; fp4 comes in pairs along it."""
    size = tensor.shape[axis]
    return size * 2 if tensor.dtype == "fp4" else size


def _agree(condition: bool) -> None:
    if not condition:
        raise UnknownInput


def _product(a: Tensor, b: Tensor, batch: int, extra_bytes: int, out_dtype: str | None, kind: str = "gemm") -> Work:
    """One product of ``(m, k)`` with ``(k, n)`` for each of `batch`; both operands hold the last two
    dimensions.
    """
    m, n, k = a.shape[-2], b.shape[-1], _inner(a, -1)
    _agree(k == _inner(b, -2))
    out_bytes = batch * m * n * item_bytes(out_dtype)
    total = a.stored_bytes + b.stored_bytes + extra_bytes + out_bytes
    return Work(kind, 2 * batch * m * n * k, total, a.dtype)


def _matrices(first: int, rank: int) -> Callable[[str, Inputs], Work]:
    """mm, bmm (`first` 0) and addmm, baddbmm (`first` 1, the addend before it)."""

    def estimate(op: str, inputs: Inputs) -> Work:
        a, b = inputs.need(first), inputs.need(first + 1)
        _agree(len(a.shape) == rank and len(b.shape) == rank)
        batch = prod(a.shape[:-2])
        _agree(a.shape[:-2] == b.shape[:-2])
        extra = inputs.need(0).stored_bytes if first else 0
        # The dtype overloads (mm.dtype, bmm.dtype) carry the type of the result right after the operands.
        out = inputs.dtype(first + 2) if not first and inputs.types[first + 2 : first + 3] == ["Scalar"] else None
        return _product(a, b, batch, extra, out or a.dtype)

    return estimate


def _addbmm(op: str, inputs: Inputs) -> Work:
    a, b = inputs.need(1), inputs.need(2)
    _agree(len(a.shape) == 3 and a.shape[0] == b.shape[0])
    addend = inputs.need(0)
    batch, m, k = a.shape
    n = b.shape[2]
    total = a.stored_bytes + b.stored_bytes + addend.stored_bytes + m * n * a.item_bytes
    return Work("gemm", 2 * batch * m * n * k, total, a.dtype)


def _linear(op: str, inputs: Inputs) -> Work:
    """``x @ w.T + b`` with x of any rank."""
    x, weight = inputs.need(0), inputs.need(1)
    _agree(len(x.shape) >= 1 and len(weight.shape) == 2 and x.shape[-1] == weight.shape[1])
    bias = inputs.tensor(2)
    rows, (n, k) = prod(x.shape[:-1]), weight.shape
    extra = bias.stored_bytes if bias else 0
    total = x.stored_bytes + weight.stored_bytes + extra + rows * n * x.item_bytes
    return Work("gemm", 2 * rows * n * k, total, x.dtype)


def _linear_backward(op: str, inputs: Inputs) -> Work:
    x, grad, weight = inputs.need(0), inputs.need(1), inputs.need(2)
    wanted = inputs.booleans(3) or [True, True, True]
    _agree(len(wanted) == 3 and len(weight.shape) == 2)
    rows, (n, k) = prod(x.shape[:-1]), weight.shape
    total = grad.stored_bytes
    total += (weight.stored_bytes + x.numel * x.item_bytes) * wanted[0]
    total += (x.stored_bytes + weight.numel * weight.item_bytes) * wanted[1]
    total += n * grad.item_bytes * wanted[2]
    return Work("gemm", 2 * rows * n * k * (wanted[0] + wanted[1]), total, x.dtype)


def _matmul(op: str, inputs: Inputs) -> Work:
    """Vectors get a dimension, the dimensions before the last two broadcast."""
    a, b = inputs.need(0), inputs.need(1)
    _agree(len(a.shape) >= 1 and len(b.shape) >= 1)
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    _agree(left[-1] == right[-2])
    batch = prod(broadcast([left[:-2], right[:-2]]))
    m, k, n = left[-2], left[-1], right[-1]
    kind = "gemv" if 1 in (m, n) and 1 in (len(a.shape), len(b.shape)) else "gemm"
    total = a.stored_bytes + b.stored_bytes + batch * m * n * a.item_bytes
    return Work(kind, 2 * batch * m * n * k, total, a.dtype)


def _scaled_mm(op: str, inputs: Inputs) -> Work:
    """``_scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)``."""
    a, b = inputs.need(0), inputs.need(1)
    _agree(len(a.shape) == 2 and len(b.shape) == 2)
    extra = sum(tensor.stored_bytes for tensor in map(inputs.tensor, (2, 3, 4)) if tensor)
    return _product(a, b, 1, extra, inputs.dtype(6) or a.dtype)


def _scaled_mm_v2(op: str, inputs: Inputs) -> Work:
    """``_scaled_mm_v2``: scales are lists of tensors, whose bytes are not recorded; bias at 8, out_dtype at
    9.
    """
    a, b = inputs.need(0), inputs.need(1)
    _agree(len(a.shape) == 2 and len(b.shape) == 2)
    bias = inputs.tensor(8)
    work = _product(a, b, 1, bias.stored_bytes if bias else 0, inputs.dtype(9) or a.dtype)
    return Work(work.kind, work.flops, work.bytes, work.dtype, at_least=True, note="without the bytes of the scales")


def _serving_scaled_mm(op: str, inputs: Inputs) -> Work:
    """vLLM's ``cutlass_scaled_mm(out, a, b, a_scales, b_scales, bias)``."""
    out, a, b = inputs.need(0), inputs.need(1), inputs.need(2)
    _agree(len(a.shape) == 2 and len(b.shape) == 2)
    extra = sum(tensor.stored_bytes for tensor in map(inputs.tensor, (3, 4, 5)) if tensor)
    return _product(a, b, 1, extra, out.dtype)


def _grouped(op: str, inputs: Inputs) -> Work:
    """``_grouped_mm`` and ``_scaled_grouped_mm``: ranks 2 and 3 in any combination, `offs` cutting the shared
    dimension.

    Every row (or column, or slice of k) of the rank-2 operand is taken to belong to one group, as its padded
    sizes say.
    """
    a, b = inputs.need(0), inputs.need(1)
    scaled = op.startswith("_scaled")
    offsets = inputs.tensor(4 if scaled else 2)
    m, k, n = a.shape[-2], _inner(a, -1), b.shape[-1]
    _agree(k == _inner(b, -2))
    ranks = (len(a.shape), len(b.shape))
    _agree(set(ranks) <= {2, 3})
    groups = offsets.numel if offsets else 1
    # Rank 3 with rank 3 is a batched product; rank 2 with rank 2 cuts k, so that each group has a whole
    # result.
    batch = a.shape[0] if ranks == (3, 3) else 1
    results = {(3, 3): batch, (2, 2): groups}.get(ranks, 1)
    out_item = item_bytes(inputs.dtype(7 if scaled else 4) or ("bf16" if scaled else a.dtype))
    extra = sum(tensor.stored_bytes for tensor in map(inputs.tensor, (2, 3, 5) if scaled else (3,)) if tensor)
    total = a.stored_bytes + b.stored_bytes + extra + results * m * n * out_item
    note = "" if ranks == (3, 3) else "every row taken to belong to a group"
    return Work("gemm", 2 * batch * m * n * k, total, a.dtype, note=note)


def _vector(first: int) -> Callable[[str, Inputs], Work]:
    """mv (`first` 0) and addmv (`first` 1)."""

    def estimate(op: str, inputs: Inputs) -> Work:
        matrix, vector = inputs.need(first), inputs.need(first + 1)
        _agree(len(matrix.shape) == 2 and len(vector.shape) == 1 and matrix.shape[1] == vector.shape[0])
        m, k = matrix.shape
        extra = inputs.need(0).stored_bytes if first else 0
        total = matrix.stored_bytes + vector.stored_bytes + extra + m * matrix.item_bytes
        return Work("gemv", 2 * m * k, total, matrix.dtype)

    return estimate


def _dot(op: str, inputs: Inputs) -> Work:
    a, b = inputs.need(0), inputs.need(1)
    _agree(a.shape == b.shape and len(a.shape) == 1)
    return Work("gemv", 2 * a.numel, a.stored_bytes + b.stored_bytes + a.item_bytes, a.dtype)


def _outer(op: str, inputs: Inputs) -> Work:
    """ger, outer, and addr with its addend."""
    first = 1 if op.startswith("addr") else 0
    a, b = inputs.need(first), inputs.need(first + 1)
    _agree(len(a.shape) == 1 and len(b.shape) == 1)
    out = a.numel * b.numel
    extra = inputs.need(0).stored_bytes if first else 0
    flops = out * (2 if first else 1)
    return Work("gemm", flops, a.stored_bytes + b.stored_bytes + extra + out * a.item_bytes, a.dtype)


def _int_mm(op: str, inputs: Inputs) -> Work:
    a, b = inputs.need(0), inputs.need(1)
    _agree(len(a.shape) == 2 and len(b.shape) == 2)
    return _product(a, b, 1, 0, "int32")


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    "mm": _matrices(0, 2),
    "bmm": _matrices(0, 3),
    "addmm": _matrices(1, 2),
    "addmm_": _matrices(1, 2),
    "_addmm_activation": _matrices(1, 2),
    "baddbmm": _matrices(1, 3),
    "baddbmm_": _matrices(1, 3),
    "addbmm": _addbmm,
    "addbmm_": _addbmm,
    "linear": _linear,
    "linear_backward": _linear_backward,
    "matmul": _matmul,
    "_int_mm": _int_mm,
    "_scaled_mm": _scaled_mm,
    "_scaled_mm_v2": _scaled_mm_v2,
    "_grouped_mm": _grouped,
    "_scaled_grouped_mm": _grouped,
    "mv": _vector(0),
    "addmv": _vector(1),
    "addmv_": _vector(1),
    "dot": _dot,
    "vdot": _dot,
    "ger": _outer,
    "outer": _outer,
    "addr": _outer,
    "vllm::rocm_unquantized_gemm": _linear,
    "_C::cutlass_scaled_mm": _serving_scaled_mm,
}
