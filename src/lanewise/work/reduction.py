"""Reductions, scans, sorts, and losses with their gradients.

An element costs as many operations as its place in the formula: a sum or comparison one, a variance four, a
norm two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .inputs import Inputs, Tensor, UnknownInput, is_floating, item_bytes
from .result import Work

__all__ = ["ESTIMATORS"]


@dataclass(frozen=True)
class _Rule:
    """Of a reduction.

    Attributes:
        flops: operations an element.
        dims: index of the reduced dimensions.
        dtype: index of a dtype argument; -1 where it has none.
        result: "same" as the input, "sum" (integers become int64), "float", "bool", "index" (int64), "pair"
            (values and their int64 indices), "two" (two values of the input's type).
    """

    flops: int
    dims: int = 1
    dtype: int = -1
    result: str = "same"


_RULES = {
    "sum": _Rule(1, dtype=3, result="sum"),
    "nansum": _Rule(2, dtype=3, result="sum"),
    "prod": _Rule(1, dtype=3, result="sum"),
    "mean": _Rule(1, dtype=3, result="float"),
    "nanmean": _Rule(2, dtype=3, result="float"),
    "amax": _Rule(1),
    "amin": _Rule(1),
    "aminmax": _Rule(2, result="two"),
    "any": _Rule(1, result="bool"),
    "all": _Rule(1, result="bool"),
    "argmax": _Rule(1, result="index"),
    "argmin": _Rule(1, result="index"),
    "count_nonzero": _Rule(1, result="index"),
    "var": _Rule(4, result="float"),
    "std": _Rule(4, result="float"),
    "var_mean": _Rule(4, result="two"),
    "std_mean": _Rule(4, result="two"),
    "logsumexp": _Rule(4, result="float"),
    "norm": _Rule(2, dims=2, result="float"),
    "linalg_vector_norm": _Rule(2, dims=2, dtype=4, result="float"),
    "median": _Rule(1, result="pair"),
    "nanmedian": _Rule(1, result="pair"),
    "mode": _Rule(1, result="pair"),
    "max": _Rule(1, result="pair"),
    "min": _Rule(1, result="pair"),
}


def _reduced(inputs: Inputs, index: int) -> list[int] | None:
    """The reduced dimensions; None for all.

    Raises:
        UnknownInput: an argument is there, but its value was not recorded.
    """
    if index >= len(inputs):
        return None
    kind = inputs.types[index]
    if kind == "ScalarList":
        dims = inputs.integers(index)
        if dims is None:
            raise UnknownInput
        return dims or None
    # A flag in this place (var's `unbiased`) or nothing at all: everything is reduced.
    if kind != "Scalar" or inputs.boolean(index) is not None:
        return None
    dim = inputs.integer(index)
    if dim is None:
        raise UnknownInput
    return [dim]


def _dtype_index(rule: _Rule, inputs: Inputs) -> int:
    """Where the dtype is: ``sum(x, dtype)`` has it second, ``sum(x, dim, keepdim, dtype)`` last."""
    return 1 if rule.dtype == 3 and len(inputs) == 2 else rule.dtype


def _left(x: Tensor, dims: list[int] | None) -> int:
    """Elements of the result."""
    if dims is None or not x.shape:
        return 1
    rank = len(x.shape)
    if any(not -rank <= dim < rank for dim in dims):
        raise UnknownInput
    gone = {dim % rank for dim in dims}
    left = 1
    for position, size in enumerate(x.shape):
        left *= 1 if position in gone else size
    return left


def _result_item(rule: _Rule, x: Tensor, inputs: Inputs, everything: bool) -> int:
    """Bytes of one element of the result, index of a pair included."""
    where = _dtype_index(rule, inputs)
    wanted = inputs.dtype(where) if where >= 0 else None
    if wanted:
        return item_bytes(wanted)
    if rule.result == "bool":
        return 1
    if rule.result == "index" or (rule.result == "sum" and not is_floating(x.dtype)):
        return 8
    if rule.result == "pair" and not everything:
        return x.item_bytes + 8
    return x.item_bytes * (2 if rule.result == "two" else 1)


def _reduction(op: str, inputs: Inputs) -> Work:
    rule = _RULES[op]
    x = inputs.need(0)
    if op in ("max", "min") and inputs.tensor(1) is not None:
        return _larger(x, inputs.need(1))
    dims = None if _dtype_index(rule, inputs) == rule.dims else _reduced(inputs, rule.dims)
    item = _result_item(rule, x, inputs, everything=dims is None)
    return Work("reduction", rule.flops * x.numel, x.stored_bytes + _left(x, dims) * item, x.dtype)


def _larger(x: Tensor, y: Tensor) -> Work:
    """``max(x, y)``: elementwise. With ``max``'s outputs given, `y` is one of them, and sizes differ."""
    if x.shape != y.shape:
        raise UnknownInput
    return Work("elementwise", x.numel, x.stored_bytes + y.stored_bytes + x.numel * x.item_bytes, x.dtype)


def _scan(op: str, inputs: Inputs) -> Work:
    """``cumsum(x, dim, dtype)`` and others: as large a result; integers become int64."""
    x = inputs.need(0)
    wanted = inputs.dtype(2)
    item = item_bytes(wanted) if wanted else x.item_bytes if is_floating(x.dtype) or op[-1] == "_" else 8
    pair = 8 if op.startswith(("cummax", "cummin")) else 0
    return Work("sort-scan", x.numel, x.stored_bytes + x.numel * (item + pair), x.dtype)


def _sort(op: str, inputs: Inputs) -> Work:
    """Values and their int64 indices, as many as went in. How many comparisons that takes is the algorithm's
    affair.
    """
    x = inputs.need(0)
    values = 0 if op.startswith("argsort") else x.item_bytes
    return Work("sort-scan", None, x.stored_bytes + x.numel * (values + 8), x.dtype)


def _topk(op: str, inputs: Inputs) -> Work:
    """``topk(x, k, dim)``."""
    x, count, dim = inputs.need(0), inputs.integer(1), inputs.integer(2)
    if count is None or not x.shape:
        raise UnknownInput
    rows = _left(x, [-1 if dim is None else dim])
    return Work("sort-scan", None, x.stored_bytes + rows * count * (x.item_bytes + 8), x.dtype)


# Operations an element: squared difference and sum 3, absolute 3, smooth ones about 5, cross entropies with
# their logs.
_LOSSES = {"mse_loss": 3, "l1_loss": 3, "smooth_l1_loss": 6, "huber_loss": 6, "binary_cross_entropy": 8}
_LOSS_REDUCTION = {"binary_cross_entropy": 3}
_LOSS_BACKWARD = {
    "mse_loss_backward": 3,
    "smooth_l1_loss_backward": 5,
    "huber_loss_backward": 5,
    "binary_cross_entropy_backward": 6,
}


def _loss(op: str, inputs: Inputs) -> Work:
    """``mse_loss(x, target, reduction)`` and others; reduction 0 keeps every element, 1 and 2 leave one."""
    x, target = inputs.need(0), inputs.need(1)
    weight = inputs.tensor(2) if op in _LOSS_REDUCTION else None
    reduction = inputs.integer(_LOSS_REDUCTION.get(op, 2))
    if reduction is None:
        reduction = 1
    read = x.stored_bytes + target.stored_bytes + (weight.stored_bytes if weight else 0)
    written = (x.numel if reduction == 0 else 1) * x.item_bytes
    return Work("loss", _LOSSES[op] * x.numel, read + written, x.dtype)


def _loss_backward(op: str, inputs: Inputs) -> Work:
    grad, x, target = inputs.need(0), inputs.need(1), inputs.need(2)
    read = grad.stored_bytes + x.stored_bytes + target.stored_bytes
    return Work("loss", _LOSS_BACKWARD[op] * x.numel, read + x.numel * x.item_bytes, x.dtype)


def _nll_loss(op: str, inputs: Inputs) -> Work:
    """``nll_loss_forward(x, target, weight, reduction, ignore_index)``: reads one score for each target."""
    x, target, weight = inputs.need(0), inputs.need(1), inputs.tensor(2)
    reduction = inputs.integer(3)
    if reduction is None:
        raise UnknownInput
    read = target.stored_bytes + target.numel * x.item_bytes + (weight.stored_bytes if weight else 0)
    written = ((target.numel if reduction == 0 else 1) + 1) * x.item_bytes
    return Work("loss", 2 * target.numel, read + written, x.dtype)


def _nll_loss_backward(op: str, inputs: Inputs) -> Work:
    """``nll_loss_backward(grad, x, target, weight, ...)``: writes one element for each target.

    The zeros around them come from ``zero_``, an op of its own.
    """
    grad, x, target, weight = inputs.need(0), inputs.need(1), inputs.need(2), inputs.tensor(3)
    read = grad.stored_bytes + target.stored_bytes + (weight.stored_bytes if weight else 0)
    return Work("loss", target.numel, read + target.numel * x.item_bytes, x.dtype)


_SCANS = (
    "cumsum",
    "cumsum_",
    "cumprod",
    "cumprod_",
    "logcumsumexp",
    "_logcumsumexp",
    "cummax",
    "cummin",
)

ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    **dict.fromkeys(_RULES, _reduction),
    **dict.fromkeys(_SCANS, _scan),
    **dict.fromkeys(["sort", "argsort", "msort"], _sort),
    "topk": _topk,
    **dict.fromkeys(_LOSSES, _loss),
    **dict.fromkeys(_LOSS_BACKWARD, _loss_backward),
    "nll_loss_forward": _nll_loss,
    "nll_loss2d_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
    "nll_loss2d_backward": _nll_loss_backward,
}
