"""Ops over lists of tensors: ``_foreach_*``, fused optimizers, and the gradient scaler's check.

Kineto does not record the element type of a TensorList, and nothing at all of a list of more than 30 tensors.
Bytes come out where the caller knows the size of an element (`list_item_bytes` reads it off the names of some
kernels) and the list was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .inputs import Inputs, UnknownInput
from .pointwise import FLOPS
from .result import Work

__all__ = ["ESTIMATORS", "foreach", "list_item_bytes"]


def _work(kind: str, flops: int, moved: int, inputs: Inputs) -> Work:
    """Work of `moved` elements read or written."""
    if inputs.list_item_bytes is None:
        return Work(kind, flops, None, note=f"{moved} elements of a type that is not recorded")
    return Work(kind, flops, moved * inputs.list_item_bytes)


def foreach(op: str, inputs: Inputs) -> Work:
    """``_foreach_add_(lists..., numbers...)``: each list read once; the first written, or a new one of its
    size.

    Raises:
        UnknownInput: a list was not recorded.
    """
    base = op.removeprefix("_foreach_").rstrip("_")
    lists = [index for index in range(len(inputs)) if inputs.is_list(index)]
    if not lists:
        raise UnknownInput
    sizes = [inputs.elements(index) for index in lists]
    first = sizes[0]
    if base == "zero":
        return _work("foreach", 0, first, inputs)
    if base == "copy":
        return _work("foreach", 0, sum(sizes[:2]), inputs)
    if base in ("norm", "max"):
        flops = 2 if base == "norm" else 1
        return _work("foreach", flops * first, first + len(inputs.members(lists[0])), inputs)
    return _work("foreach", FLOPS.get(base, 1) * first, sum(sizes) + first, inputs)


@dataclass(frozen=True)
class _Optimizer:
    """Of a fused step.

    Attributes:
        passes: how often a list as long as the parameters is read or written: parameters, gradients, states.
        flops: operations a parameter, counted from the update rule (weight decay included, a multiply-add
            two).
        grad_scale: index of the gradient scaler's tensor; with it the gradients are written back unscaled.
        amsgrad: index of a flag that adds one state, read and written; -1 without.
        momentum: index of a number that removes one state where it is 0; -1 without.
    """

    passes: int
    flops: int
    grad_scale: int
    amsgrad: int = -1
    momentum: int = -1


_OPTIMIZERS = {
    "_fused_adam_": _Optimizer(7, 15, grad_scale=13, amsgrad=11),
    "_fused_adamw_": _Optimizer(7, 15, grad_scale=13, amsgrad=11),
    "_fused_sgd_": _Optimizer(5, 6, grad_scale=10, momentum=4),
    "_fused_adagrad_": _Optimizer(5, 8, grad_scale=9),
}


def _optimizer(op: str, inputs: Inputs) -> Work:
    """A fused optimizer step. States have the sizes of the parameters."""
    rule = _OPTIMIZERS[op]
    parameters = inputs.elements(0)
    passes = rule.passes
    passes += 2 * bool(rule.amsgrad >= 0 and inputs.boolean(rule.amsgrad))
    passes -= 2 * (rule.momentum >= 0 and inputs.number(rule.momentum) == 0)
    passes += inputs.tensor(rule.grad_scale) is not None
    return _work("optimizer", rule.flops * parameters, passes * parameters, inputs)


def _unscale(op: str, inputs: Inputs) -> Work:
    """``_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse_scale)``."""
    elements = inputs.elements(0)
    return _work("foreach", 2 * elements, 2 * elements, inputs)


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    **dict.fromkeys(_OPTIMIZERS, _optimizer),
    "_amp_foreach_non_finite_check_and_unscale_": _unscale,
}

# What ATen's kernels over lists say of their elements: `CatArrayBatchedCopy<OpaqueType<2u>, ...>` a size,
# `multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, ...>>` a type.
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_TYPED = re.compile(r"(?:Functor\w*|CatArrayBatchedCopy\w*)<(double|float|long|int|short|bool|c10::Half|c10::BFloat16)\b")
_TYPE_BYTES = {
    "double": 8,
    "long": 8,
    "float": 4,
    "int": 4,
    "short": 2,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "bool": 1,
}


def list_item_bytes(kernel: str) -> int | None:
    """Bytes of an element, from the name of an ATen kernel that works on a list of tensors; None where it
    does not tell.
    """
    opaque = _OPAQUE.search(kernel)
    if opaque:
        return int(opaque.group(1))
    typed = _TYPED.search(kernel)
    return _TYPE_BYTES[typed.group(1)] if typed else None
