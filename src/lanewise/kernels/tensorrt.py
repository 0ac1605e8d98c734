"""Kernels that TensorRT's Myelin generates: ``__myl_CastMulAdd_0x1eab7...``, ``_gemm_mha_v2_0x...``.

The operations that were merged stand in a row, shortened to a few letters each (``Resh``, ``Tran``, ``Slic``); the number
is a hash of the kernel's code.
"""

from __future__ import annotations

import re

from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name

__all__ = ["decoded", "matches"]

_MERGED = re.compile(r"__myl_(\w+?)(?:_(?:myl\w*|0x[0-9a-f]+))*$")
_ATTENTION = re.compile(r"_gemm_mha_v\d_0x[0-9a-f]+|_mha_v\d\w*_0x[0-9a-f]+")
_OPERATION = re.compile(r"[A-Z][a-z0-9]*")
_PRODUCTS = frozenset(listed("Fc Gemm Matm Matmul Mul2 Bmm"))
_SUMS = frozenset(listed("Sum Max Min Mean Prod Redu Red"))
_MOVES = frozenset(listed("Cast Conc Copy Move Pad Repl Resh Slic Tran Gath Expa Sque Unsq"))


def matches(name: Name) -> bool:
    """Whether this is one of Myelin's names."""
    return name.base.startswith(("__myl_", "_gemm_mha_", "_mha_v"))


def decoded(name: Name) -> Kernel | None:
    """The kernel of such a name, or None."""
    if _ATTENTION.match(name.base):
        return Kernel(name.raw, "attention", "tensorrt", tensor_cores=True)
    match = _MERGED.match(name.base)
    if match is None:
        return None
    operations = frozenset(_OPERATION.findall(match[1]))
    return Kernel(name.raw, _kind(operations), "tensorrt")


def _kind(operations: frozenset[str]) -> str | None:
    if not operations:
        return None
    if operations & _PRODUCTS:
        return "gemm"
    if operations & _SUMS:
        return "fused-reduction" if len(operations) > 1 else "reduction"
    if operations <= _MOVES:
        return "cast-copy"
    return "fused-pointwise" if len(operations) > 1 else "elementwise"
