"""Scaled dot-product attention in one op: ATen's by backend, and the FlashAttention packages' own.

Forward: two products for each score that the mask keeps, queries with keys and scores with values; backward:
five (the scores again, and the gradients of values, scores, queries and keys). A multiply-add is two
operations; the softmax is not counted, as FlashAttention's own benchmarks and `torch.utils.flop_counter`
leave it out. Unlike the latter, a causal mask or a window is counted as what it keeps: exactly the scores on
its side of the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .inputs import Inputs, Tensor, UnknownInput, item_bytes
from .result import Work

__all__ = ["ESTIMATORS", "kept_scores"]


def _row_sum(rows: int, columns: int, offset: int) -> int:
    """Sum over rows i of ``clamp(i + offset, 0, columns)``: entries with column < i + offset."""
    first = min(max(-offset, 0), rows)
    full = min(max(columns - offset, first), rows)
    # Rows first..full-1 have i + offset entries, rows full.. have all columns.
    growing = (full - first) * (first + full - 1 + 2 * offset) // 2
    return growing + (rows - full) * columns


def kept_scores(queries: int, keys: int, shift: int, left: int | None, right: int | None) -> int:
    """Scores that a causal mask or a window keeps, of a `queries` times `keys` matrix.

    Query i sits at key ``i + shift`` and sees the keys from `left` before to `right` after it; None is no
    bound. A causal mask is ``right = 0``; `shift` is 0 where the diagonal starts at the top left, ``keys -
    queries`` where it ends at the bottom right.
    """
    upto = queries * keys if right is None else _row_sum(queries, keys, shift + right + 1)
    before = 0 if left is None else _row_sum(queries, keys, shift - left)
    # Only where a window is empty (right < -left) could the difference be negative.
    return max(upto - before, 0)


@dataclass(frozen=True)
class _Signature:
    """Where an op keeps its arguments; -1 where it has none.

    Attributes:
        query: index of the query; key and value follow.
        causal: index of the flag ``is_causal``.
        mask_type: index of memory-efficient attention's number: 0 none, 1 causal from the top left, 2 from
            the bottom right (aten/src/ATen/native/transformers/cuda/mem_eff_attention, CustomMaskType).
        heads_first: sizes are (batch, heads, length, dim), else (batch, length, heads, dim).
        bottom_right: a causal mask ends at the bottom right corner (FlashAttention 2.1 and later).
        packed: index of the cumulative lengths, which mean that sequences of unrecorded lengths lie end to
            end.
        used: index of a tensor with the used lengths of a key cache.
        window: index of the window's left bound; the right one follows. -1 recorded there is no bound.
        one_window: index of a window given as one number, of memory-efficient attention (keys up to n - 1
            before).
        bias: index of an additive mask.
        out: index of the output among the inputs of a backward pass; also says that it is one.
    """

    causal: int = -1
    mask_type: int = -1
    query: int = 0
    heads_first: bool = True
    bottom_right: bool = False
    packed: int = -1
    used: int = -1
    window: int = -1
    one_window: int = -1
    bias: int = -1
    out: int = -1


_SIGNATURES = {
    "_scaled_dot_product_flash_attention": _Signature(causal=4, bottom_right=True),
    "_scaled_dot_product_flash_attention_backward": _Signature(causal=11, query=1, out=4, bottom_right=True),
    "_scaled_dot_product_flash_attention_for_cpu": _Signature(causal=4, bias=5),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _Signature(causal=7, query=1, out=4, bias=8),
    "_scaled_dot_product_efficient_attention": _Signature(causal=6, bias=3),
    "_scaled_dot_product_efficient_attention_backward": _Signature(causal=11, query=1, out=5, bias=4),
    "_scaled_dot_product_cudnn_attention": _Signature(causal=6, bias=3),
    "_scaled_dot_product_cudnn_attention_backward": _Signature(causal=14, query=1, out=4, bias=8),
    "_scaled_dot_product_fused_attention_overrideable": _Signature(causal=5, bias=3),
    "_scaled_dot_product_fused_attention_overrideable_backward": _Signature(causal=13, query=1, out=6, bias=4),
    "scaled_dot_product_attention": _Signature(causal=5, bias=3),
    "_scaled_dot_product_attention_math": _Signature(causal=5, bias=3),
    "_flash_attention_forward": _Signature(causal=8, heads_first=False, bottom_right=True, packed=3, window=11, used=13),
    "_flash_attention_backward": _Signature(
        causal=11, query=1, out=4, heads_first=False, bottom_right=True, packed=6, window=15
    ),
    "_efficient_attention_forward": _Signature(mask_type=9, heads_first=False, packed=4, bias=3, used=12, one_window=13),
    "_efficient_attention_backward": _Signature(
        mask_type=14, query=1, out=5, heads_first=False, packed=6, bias=4, one_window=18
    ),
    "_cudnn_attention_forward": _Signature(causal=10, packed=4, bias=3),
    "_cudnn_attention_backward": _Signature(causal=14, query=1, out=4, packed=9, bias=8),
    # The package flash-attn (2.6 and later registers its functions as ops).
    "flash_attn::_flash_attn_forward": _Signature(causal=5, heads_first=False, bottom_right=True, window=6),
    "flash_attn::_flash_attn_backward": _Signature(causal=11, query=1, out=4, heads_first=False, bottom_right=True, window=12),
    "flash_attn::_flash_attn_varlen_forward": _Signature(causal=9, heads_first=False, packed=3),
    "flash_attn::_flash_attn_varlen_backward": _Signature(causal=15, query=1, out=4, heads_first=False, packed=9),
    # An autograd function in Python, which older releases of the package launch from.
    "FlashAttnFunc": _Signature(causal=5, heads_first=False, bottom_right=True),
}


@dataclass(frozen=True)
class _Sizes:
    batch: int
    heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int


def _sizes(query: Tensor, key: Tensor, value: Tensor, heads_first: bool) -> _Sizes:
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise UnknownInput
    length, heads = (2, 1) if heads_first else (1, 2)
    if query.shape[3] != key.shape[3] or key.shape[length] != value.shape[length]:
        raise UnknownInput
    return _Sizes(
        batch=query.shape[0],
        heads=query.shape[heads],
        queries=query.shape[length],
        keys=key.shape[length],
        dim=query.shape[3],
        value_dim=value.shape[3],
    )


def _scores(inputs: Inputs, where: _Signature, sizes: _Sizes) -> tuple[int, bool]:
    """Scores of one head that are kept, and whether a causal mask was among the reasons.

    Raises:
        UnknownInput: the flag or number that says so was not recorded.
    """
    bottom_right, right = where.bottom_right, None
    if where.mask_type >= 0:
        mask_type = inputs.integer(where.mask_type)
        if mask_type is None:
            raise UnknownInput
        causal, bottom_right = mask_type in (1, 2), mask_type == 2
    else:
        flag = inputs.boolean(where.causal)
        if flag is None:
            raise UnknownInput
        causal = flag
    left, bound = _window(inputs, where)
    right = 0 if causal else bound
    # A window is placed like the bottom-right mask in both libraries that have one.
    shift = sizes.keys - sizes.queries if bottom_right or (left is not None and where.window >= 0) else 0
    return kept_scores(sizes.queries, sizes.keys, shift, left, right), causal


def _window(inputs: Inputs, where: _Signature) -> tuple[int | None, int | None]:
    """Bounds of a sliding window to the left and to the right; None is none."""
    if where.one_window >= 0:
        size = inputs.integer(where.one_window)
        return (size - 1, None) if size is not None and size > 0 else (None, None)
    bounds = [inputs.integer(where.window + side) if where.window >= 0 else None for side in (0, 1)]
    left, right = (bound if bound is not None and bound >= 0 else None for bound in bounds)
    return left, right


def _traffic(inputs: Inputs, where: _Signature, backward: bool) -> int:
    """Bytes: inputs once, the output and the row sums (fp32, one for each query and head) once; backward also
    dO and O.
    """
    query, key, value = (inputs.need(where.query + offset) for offset in range(3))
    bias = inputs.tensor(where.bias)
    item = item_bytes(query.dtype)
    rows = prod(query.shape[:-1])
    total = query.stored_bytes + key.stored_bytes + value.stored_bytes + (bias.stored_bytes if bias else 0)
    output = rows * value.shape[-1] * item
    row_sums = rows * 4
    if not backward:
        return total + output + row_sums
    gradients = query.numel * item + key.numel * item + value.numel * item
    return total + inputs.need(0).stored_bytes + inputs.need(where.out).stored_bytes + row_sums + gradients


def _attention(op: str, inputs: Inputs) -> Work:
    where = _SIGNATURES[op]
    query, key, value = (inputs.need(where.query + offset) for offset in range(3))
    backward = where.out >= 0
    total = _traffic(inputs, where, backward)
    packed = inputs.tensor(where.packed)
    if (packed is not None and packed.numel) or len(query.shape) == 3:
        causal = inputs.boolean(where.causal)
        note = "sequences of different lengths lie end to end, and their lengths are not recorded"
        return Work("attention", None, total, query.dtype, causal, note=note)
    if inputs.tensor(where.used) is not None:
        note = "how much of the key cache is used is not recorded"
        return Work("attention", None, None, query.dtype, inputs.boolean(where.causal), note=note)
    sizes = _sizes(query, key, value, where.heads_first)
    scores, causal = _scores(inputs, where, sizes)
    inner = 3 * sizes.dim + 2 * sizes.value_dim if backward else sizes.dim + sizes.value_dim
    flops = 2 * sizes.batch * sizes.heads * scores * inner
    return Work("attention", flops, total, query.dtype, causal, note=_note(inputs, where, sizes, scores, causal))


def _note(inputs: Inputs, where: _Signature, sizes: _Sizes, scores: int, causal: bool) -> str:
    every = sizes.queries * sizes.keys
    if causal:
        return f"causal: {scores} of {every} scores of each head counted"
    if scores != every:
        return f"window: {scores} of {every} scores of each head counted"
    if inputs.tensor(where.bias) is not None:
        return "a mask was given; all scores counted"
    return ""


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = dict.fromkeys(_SIGNATURES, _attention)
