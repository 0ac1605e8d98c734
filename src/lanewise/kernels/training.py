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
    r"|l[xrf]u_cache_\w+|linearize_cache_indices\w*|grad_mean_kernel\w*"
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
    "cast_transpose": "quantize", "update_amax_and_scale": "quantize", "bitrowwise": "quantize", "nms_kernel": "other",
    "permute_2D": "index", "permute_1D": "index", "block_bucketize": "index", "reorder_batched": "index",
    "fused_rope": "rope", "gated_act": "fused-pointwise", "dgated_act": "fused-pointwise", "amax_kernel": "reduction",
    "cu_seqlens": "attention", "thd_": "attention", "roi_": "resample", "deformable_": "conv-aux",
    "jagged": "cast-copy", "asynchronous_complete_cumsum": "sort-scan", "float_to_": "quantize",
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
            "embedding",
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


def _kind(name: Name) -> str | None:
    known = next((kind for part, kind in _KINDS.items() if part in name.base), None)
    if known:
        return known
    return "embedding" if "embedding" in name.base else kind_of(name.words) or _by_namespace(name.path)


def _by_namespace(path: str) -> str | None:
    for space, kind in (("::normalization::", "norm"), ("layer_norm::", "norm"), ("::fused_attn::", "attention")):
        if space in path:
            return kind
    return None


def _dtype(name: Name, kind: str) -> str | None:
    if not name.tail.startswith("<") or kind == "other":
        return None
    if kind == "quantize":
        types = [t for argument in name.arguments[:8] if (t := type_of(argument, integers=False))]
        return cast(types[-2], types[-1]) if len(types) > 1 and types[-1].startswith(("fp8", "fp4")) else None
    return type_of(name.tail[:300], integers=False)
