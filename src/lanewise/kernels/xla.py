"""Kernels that XLA generates for JAX and TensorFlow: ``loop_multiply_add_fusion_2``, ``input_reduce_fusion``.

The first word is how the loop is laid out; then come operations of HLO, an excerpt of what was merged where they are
many. ``wrapped_convert`` is one operation alone, ``gemm_fusion_dot_5`` a product that Triton was asked for.
"""

from __future__ import annotations

import re

from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name

__all__ = ["decoded", "matches"]

_FUSION = re.compile(r"(?:(loop|input)_)?(?:(\w+?)_)?fusion(?:[_.]\d+)*$")
_WRAPPED = re.compile(r"wrapped_(\w+?)(?:[_.]\d+)*$")
_PRODUCT = re.compile(r"(?:triton_)?gemm_fusion_\w+|triton_gemm_\w+|nested_gemm_fusion\w*")
_OPERATIONS = re.compile(r"dynamic_update_slice|dynamic_slice|reduce_window|[a-z]+")
_MOVES = frozenset(
    listed("broadcast bitcast concatenate convert copy dynamic_slice dynamic_update_slice gather pad reshape reverse slice")
)
_DECIDES = (
    ("scatter", "index"), ("sort", "sort-scan"), ("reduce_window", "pooling"), ("reduce", "fused-reduction"),
    ("convolution", "conv"), ("transpose", "transpose-layout"),
)  # fmt: skip


def matches(name: Name) -> bool:
    """Whether this may be a fusion of XLA's."""
    base = name.base
    return not name.tail and not name.root and ("fusion" in base or base.startswith(("wrapped_", "triton_gemm_")))


def decoded(name: Name) -> Kernel | None:
    """The kernel of an XLA name, or None."""
    base = name.text
    if _PRODUCT.match(base):
        return Kernel(name.raw, "gemm", "xla")
    wrapped = _WRAPPED.match(base)
    match = wrapped or _FUSION.match(base)
    if match is None or (not wrapped and match[1] is None and match[2]):
        return None
    operations = tuple(dict.fromkeys(_OPERATIONS.findall(match[1 if wrapped else 2] or "")))
    return Kernel(name.raw, _kind(frozenset(operations), wrapped is not None), "xla", op=" ".join(operations) or None)


def _kind(operations: frozenset[str], alone: bool) -> str | None:
    if not operations:
        return None
    decided = next((kind for operation, kind in _DECIDES if operation in operations), None)
    if decided:
        return "reduction" if alone and decided == "fused-reduction" else decided
    if operations <= _MOVES:
        return "cast-copy"
    return "elementwise" if alone else "fused-pointwise"
