"""The registry of ops, and the one function that others call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import attention, convolution, gemm, inductor, lists, movement, norm, pointwise, pooling, reduction
from .inputs import Inputs, UnknownInput
from .result import Work

__all__ = ["estimate", "known_ops"]

# Explicit and in order: a name in two modules would be a mistake, which a test looks for.
_FAMILIES = (gemm, convolution, attention, norm, pointwise, reduction, movement, pooling, lists)

_ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    name: estimator for family in _FAMILIES for name, estimator in family.ESTIMATORS.items()
}


def known_ops() -> frozenset[str]:
    """Names of the ops with an entry, ATen's without their namespace; ``_foreach_*`` and ``triton_*`` are
    beside them.
    """
    return frozenset(_ESTIMATORS)


def estimate(
    op: str,
    dims: Sequence[Any] | None,
    types: Sequence[str] | None,
    strides: Sequence[Any] | None = None,
    concrete: Sequence[str] | None = None,
    *,
    list_item_bytes: int | None = None,
    list_elements: int | None = None,
) -> Work | None:
    """Arithmetic and least memory traffic of one call of an op, from what Kineto recorded on it.

    A pure function of its arguments: call it once for each distinct combination. The op meant is the one that
    launched the kernels, the innermost around the launch. What it has done by ops that it calls (``zero_`` before
    a scatter, ``copy_`` before a write) is theirs and not counted here.

    Args:
        op: the event's name: ``aten::mm``, ``flash_attn::_flash_attn_forward``, ``triton_poi_fused_add_0``.
        dims: "Input Dims".
        types: "Input type".
        strides: "Input Strides"; without them expanded tensors count as if they were whole.
        concrete: "Concrete Inputs"; without them ops that need a flag or a stride are not known.
        list_item_bytes: bytes of an element of the TensorLists, whose type Kineto does not record
            (`lanewise.work.list_item_bytes` reads it off some kernels' names).
        list_elements: elements of one TensorList of more than 30 tensors, which Kineto does not record, where they
            are known from elsewhere: for the one optimizer call of a step, the sum of the sizes that the step's
            ``AccumulateGrad`` events have.

    Returns:
        The work, or None where the op is not known or what it needs was not recorded.
    """
    if dims is None or types is None:
        return None
    inputs = Inputs(dims, types, strides, concrete, list_item_bytes, list_elements)
    name = op.removeprefix("aten::")
    try:
        estimator = _ESTIMATORS.get(name)
        if estimator is not None:
            return estimator(name, inputs)
        if name.startswith("_foreach_"):
            return lists.foreach(name, inputs)
        if inductor.is_triton_op(name):
            return inductor.triton_work(name, inputs)
    except (UnknownInput, ArithmeticError, ValueError):
        pass  # not recorded; or numbers that the op does not take, as a stride of 0
    return None
