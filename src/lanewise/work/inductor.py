"""Inductor's Triton kernels, which Kineto records as ops with the sizes of their arguments.

The name tells the kind (``poi`` pointwise, ``red`` and ``per`` reductions, ``tem`` a template) and which
operations were fused. The arguments are the tensors read and written, in no recorded role, then the sizes of
the iteration space. Each tensor counted once is therefore a lower bound: one that is updated in place
(``in_out_ptr``) is read and written.
"""

from __future__ import annotations

import re
from math import prod

from .inputs import Inputs, Tensor, UnknownInput
from .result import Work

__all__ = ["is_triton_op", "triton_work"]

_NAME = re.compile(r"triton_(poi|red|per|tem|for|split_scan)_fused_?(.*?)_?\d*$")
# Operations that touch only part of an argument, or the same part again, depending on values or offsets.
_PARTIAL = re.compile(r"embedding|index|gather|scatter|slice|select|narrow|unfold|pool|upsample|grid_sampl|topk|sort")
_NOTE = "each argument counted once; one updated in place moves twice"


def is_triton_op(op: str) -> bool:
    """Whether the op is a kernel that Inductor generated."""
    return op.startswith("triton_") and _NAME.match(op) is not None


def triton_work(op: str, inputs: Inputs) -> Work:
    """Bytes of a generated kernel; operations only of a template that is plainly one matrix product.

    Raises:
        UnknownInput: parts of an argument may be all that is accessed.
    """
    match = _NAME.match(op)
    if match is None:
        raise UnknownInput
    form, fused = match.groups()
    tensors = inputs.tensors()
    if not tensors:
        raise UnknownInput
    if form == "tem":
        return _template(fused, tensors)
    sizes = _iteration_space(inputs)
    # What is larger than the iteration space is not accessed as a whole, or by several loads of each thread.
    partial = _PARTIAL.search(fused) is not None or any(tensor.numel > sizes for tensor in tensors)
    if partial:
        raise UnknownInput
    kind = "fused-reduction" if form in ("red", "per") else "fused-pointwise"
    total = sum(tensor.stored_bytes for tensor in tensors)
    return Work(kind, None, total, tensors[0].dtype, at_least=True, note=_NOTE)


def _iteration_space(inputs: Inputs) -> int:
    """Product of the recorded ``xnumel``, ``ynumel``, ``rnumel``.

    Raises:
        UnknownInput: there are none.
    """
    sizes = [inputs.integer(index) for index in range(len(inputs)) if inputs.types[index] == "Scalar"]
    if not sizes or any(size is None for size in sizes):
        raise UnknownInput
    return prod(size for size in sizes if size is not None)


def _template(fused: str, tensors: list[Tensor]) -> Work:
    """A template of mm or addmm: two matrices whose product is as large as another argument, the result."""
    if not re.search(r"(^|_)(add)?mm(_|$)", fused):
        raise UnknownInput
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2]
    results = {tensor.numel for tensor in tensors}
    products = {
        (a.shape[0], b.shape[1], a.shape[1])
        for first, a in enumerate(matrices)
        for b in matrices[first + 1 :]
        if a.shape[1] == b.shape[0] and a.shape[0] * b.shape[1] in results
    }
    if len(products) != 1:
        raise UnknownInput
    m, n, k = products.pop()
    total = sum(tensor.stored_bytes for tensor in tensors)
    return Work("gemm", 2 * m * n * k, total, matrices[0].dtype, at_least=True, note=_NOTE)
