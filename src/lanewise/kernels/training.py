"""Training libraries in CUDA: Transformer Engine, Apex and Megatron, DeepSpeed, FBGEMM, torchvision."""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import cast, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name
from lanewise.kernels.owners import owner_of
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_ROOTS = frozenset(listed("transformer_engine apex deepspeed fbgemm_gpu fbgemm vision layer_norm torchao megatron"))
_FBGEMM = re.compile(
    r"(?:split|dense|ssd|int_nbit_split|batch|batched)_(?:unary_)?embedding\w*|bounds_check_indices\w*|linearize_\w*index\w*"
    r"|l[xrf]u_cache_\w+|linearize_cache_indices\w*|grad_mean_kernel\w*|batch_index_select_dim0_codegen\w+"
    r"|split_\w+_update_kernel"
)
_FBGEMM_STARTS = ("split_", "dense_", "ssd_", "int_nbit", "batch", "bounds_", "linearize_", "l", "grad_mean")
_APEX = {
    "cuApplyLayerNorm": ("norm", "forward"), "cuApplyRMSNorm": ("norm", "forward"),
    "cuComputePartGradGammaBeta": ("norm", "backward"), "cuComputeGradGammaBeta": ("norm", "backward"),
    "cuComputeGradInput": ("norm", "backward"), "welford_kernel": ("norm", "forward"),
    "welford_kernel_c_last": ("norm", "forward"), "welford_kernel_parallel": ("norm", "forward"),
    "batchnorm_forward_kernel": ("norm", "forward"), "batchnorm_backward_kernel": ("norm", "backward"),
    "batchnorm_forward_c_last_kernel": ("norm", "forward"), "batchnorm_backward_c_last_kernel": ("norm", "backward"),
    "reduce_bn_kernel": ("norm", "backward"), "reduce_bn_c_last_kernel": ("norm", "backward"),
    "scaled_upper_triang_masked_softmax_warp_forward": ("softmax", "forward"),
    "scaled_upper_triang_masked_softmax_warp_backward": ("softmax", "backward"),
    "scaled_masked_softmax_warp_forward": ("softmax", "forward"),
    "scaled_masked_softmax_warp_backward": ("softmax", "backward"),
    "cunn_SoftMaxXEntropyForward": ("loss", "forward"), "cunn_SoftMaxXEntropyBackward": ("loss", "backward"),
    "maybe_cast_kernel": ("cast-copy", None),
}  # fmt: skip
_KINDS = {
    "swizzle": "transpose-layout", "cast_fp8": "quantize", "group_cast": "quantize", "partial_cast": "quantize",
    "block_scaled_1d": "quantize", "block_scaled_2d": "quantize", "fp8_block": "quantize", "scaled_gated": "fused-pointwise",
    "kv_cache": "kv-cache", "unpadding": "cast-copy", "_to_float": "quantize", "bucketize": "index",
    "cast_transpose": "quantize", "update_amax_and_scale": "quantize", "bitrowwise": "quantize", "nms_kernel": "other",
    "permute_2D": "index", "permute_1D": "index", "block_bucketize": "index", "reorder_batched": "index",
    "fused_rope": "rope", "gated_act": "fused-pointwise", "dgated_act": "fused-pointwise", "amax_kernel": "reduction",
    "cu_seqlens": "attention", "thd_": "attention", "roi_": "resample", "deformable_": "conv-aux",
    "asynchronous_complete_cumsum": "sort-scan", "float_to_": "quantize",
    "ln_fwd": "norm", "ln_bwd": "norm", "ln_parallel": "norm", "multi_tensor": "foreach",
}  # fmt: skip


def matches(name: Name) -> bool:
    """Whether this is a kernel of one of these libraries."""
    if name.root:
        return name.root in _ROOTS
    return name.base in _APEX or (name.base.startswith(_FBGEMM_STARTS) and _FBGEMM.match(name.base) is not None)


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name, or None."""
    base = name.base
    if not name.root and base not in _APEX:
        return Kernel(
            name.raw,
            "index" if base.startswith("batch_index") else "optimizer" if base.endswith("_update_kernel") else "embedding",
            "fbgemm",
            dtype=type_of(name.tail[:60], integers=False) if name.tail.startswith("<") else None,
            direction=direction_of(name.words),
        )
    kind, direction = _APEX.get(base) or (_kind(name), direction_of(name.words))
    if kind is None:
        return None
    return Kernel(
        name.raw,
        kind,
        "apex" if not name.root else owner_of(name.root),
        dtype=_dtype(name, kind),
        direction=direction,
    )


# Transformer Engine's: the type of the arithmetic, a function, then the types of input and output.
_COMPUTE_TYPE_FIRST = frozenset(("unary_kernel", "unary_grad_kernel", "gated_act_kernel", "dgated_act_kernel"))


def _stated_types(name: Name) -> list[str]:
    """The types among the first template arguments; functions have types too, which are those of the arithmetic."""
    arguments = [a for a in name.arguments[:10] if not a.startswith(("&", "("))]
    return [t for argument in arguments if (t := type_of(argument, integers=False))]


def _kind(name: Name) -> str | None:
    known = next((kind for part, kind in _KINDS.items() if part in name.base), None)
    if known:
        return known
    if "jagged" in name.base:  # to and from padded tensors, unless they compute something on the way
        words = kind_of(name.words)
        return words if words in ("gemm", "softmax", "index", "sort-scan") else "cast-copy"
    return "embedding" if "embedding" in name.base else kind_of(name.words) or _by_namespace(name.path)


def _by_namespace(path: str) -> str | None:
    for space, kind in (
        ("::normalization::", "norm"), ("layer_norm::", "norm"), ("::fused_attn::", "attention"), ("_recipe::", "quantize"),
        ("vision::ops::", "other"),
    ):  # fmt: skip
        if space in path:
            return kind
    return None


def _dtype(name: Name, kind: str) -> str | None:
    if not name.tail.startswith("<") or kind == "other":
        return None
    if kind == "quantize":
        types = _stated_types(name)
        return cast(types[-2], types[-1]) if len(types) > 1 and types[-1].startswith(("fp8", "fp4")) else None
    if name.base in _COMPUTE_TYPE_FIRST:
        types = _stated_types(name)
        return types[-2] if len(types) > 1 else None
    return type_of(name.tail[:300], integers=False)
