"""Attention in one op: which tensors it takes, whatever backend runs it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .limits import Attention
from .sequence import Op

__all__ = ["AttentionCall", "attention_of"]


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """Sizes of an attention op, and whether it is the backward pass."""

    sizes: Attention
    backward: bool


# Ops with (batch, length, heads, dim) instead of (batch, heads, length, dim).
_LENGTH_FIRST = ("_flash_attention", "_efficient_attention", "flash_attn::")


def attention_of(op: Op) -> AttentionCall | None:
    """The sizes of an attention op; None for other ops and where shapes were not recorded or sequences are packed."""
    if ("attention" not in op.name and not op.name.startswith("flash_attn::")) or op.inputs is None:
        return None
    backward = op.name.endswith("backward")
    first = 1 if backward else 0
    q, k, v = (op.inputs.tensor(first + i) for i in range(3))
    if q is None or k is None or v is None or q.dtype is None or not len(q.shape) == len(k.shape) == len(v.shape):
        return None
    if len(q.shape) < 3:
        return None
    length_first = op.name.startswith(_LENGTH_FIRST) and len(q.shape) == 4
    if length_first:
        heads, queries, keys = q.shape[0] * q.shape[2], q.shape[1], k.shape[1]
    else:
        heads, queries, keys = prod(q.shape[:-2]), q.shape[-2], k.shape[-2]
    causal = op.name.endswith("_attention_math") or op.name == "scaled_dot_product_attention"
    is_causal = bool(causal and op.inputs.boolean(5))
    return AttentionCall(Attention(heads, queries, keys, q.shape[-1], v.shape[-1], q.dtype, is_causal), backward)
