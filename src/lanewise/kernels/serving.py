"""Kernels of serving engines written in CUDA: vLLM, SGLang, FlashInfer, TensorRT-LLM, DeepGEMM, Marlin, bitsandbytes.

Their names are plain, so the words tell the kind; this module knows the exceptions and where types and tiles stand.
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import cast, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name
from lanewise.kernels.owners import owner_of
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_ROOTS = frozenset(
    listed(
        "vllm sgl_kernel sglang sgl_hip flashinfer tensorrt_llm tensorrt moe deep_gemm marlin marlin_moe_wna16 awq gptq"
        " deep_ep sgl gptq_marlin fp8_marlin marlin_dense expert_specialization"
    )
)
_NAMED = {
    "act_and_mul_kernel": "fused-pointwise", "act_and_mul_quant_kernel": "fused-pointwise",
    "activation_kernel": "elementwise", "swigluoai_and_mul_kernel": "fused-pointwise",
    "segmented_max_reduction": "quantize", "segmented_max_reduction_strided": "quantize",
    "convert_fp8_kernel": "cast-copy", "per_token_quant_fp8_kernel": "quantize", "cvt_fp16_to_fp4": "quantize",
    "silu_and_cvt_fp16_to_fp4": "fused-pointwise", "silu_mul_cvt_fp16_to_fp4": "fused-pointwise",
    "advance_step_flashattn_kernel": "other", "advance_step_flashinfer_kernel": "other",
    "apply_repetition_penalties_kernel": "elementwise", "dequantize_weights": "quantize",
    "count_and_sort_expert_tokens_kernel": "moe", "moe_sum_kernel": "moe", "deepseek_v3_topk_kernel": "moe",
    "get_dispatch_layout": "moe", "merge_attn_states_kernel": "attention", "cascade": "attention",
    "scale_1x128_kernel": "quantize", "scale_128x128_kernel": "quantize", "smxx_clean_logits": "fill",
    "kernel_mha": "attention", "indexer_k_quant_and_cache_kernel": "kv-cache",
    "grouped_topk_fused_small_expert_count_kernel": "moe", "topKPerRowPrefill": "sort-scan",
    "topKPerRowDecode": "sort-scan", "routingTopKExperts": "moe", "moe_fused_gate_kernel": "moe",
}  # fmt: skip
# Kernels of these engines that stand in no namespace.
_PLAIN = {
    "topkGatingSoftmax": ("moe", "sglang"), "moe_align_block_size_kernel": ("moe", "sglang"),
    "per_token_group_quant_8bit_kernel": ("quantize", "sglang"), "per_token_quant_fp8_kernel": ("quantize", "sglang"),
    "per_tensor_quant_fp8_kernel": ("quantize", "sglang"), "moe_fused_gate_kernel": ("moe", "sglang"),
    "count_and_sort_expert_tokens_kernel": ("moe", "sglang"),
    "moe_sum_kernel": ("moe", None), "fused_a_gemm_kernel": ("gemm", None),
    "awq_dequantize": ("quantize", "vllm"), "gemm_half_q_half_gptq_4bit_kernel": ("gemm", "vllm"),
    "kernel_mha": ("attention", "trtllm"), "cudaCoreGemm": ("gemv", "trtllm"), "Marlin": ("gemm", "marlin"),
    "gemm_half_q_half_kernel": ("gemm", "vllm"), "gemm_forward_4bit_cuda_m16n128k32": ("gemm", "vllm"),
    "gemm_forward_4bit_cuda_m16nXk32": ("gemm", "vllm"), "LLGemm1_kernel": ("gemv", "vllm"),
    "Marlin_24": ("gemm", "marlin"), "dequantize_block": ("quantize", "vllm"),
    "concat_mla_k_kernel": ("cast-copy", "sglang"), "concat_mla_absorb_q_kernel": ("cast-copy", "sglang"),
    "expandInputRowsKernel": ("moe", None), "shuffleInputRowsKernel": ("moe", None), "shuffleRowsKernel": ("moe", "sglang"),
    "compute_arg_sorts": ("moe", None), "compute_problem_sizes": ("moe", None), "preprocessTopkIdKernel": ("moe", None),
    "compute_problem_sizes_w4a8": ("moe", "sglang"), "apply_shuffle_mul_sum_kernel": ("moe", "sglang"),
    "transfer_kernel_impl": ("kv-cache", "sglang"), "transfer_page_head_kernel_impl": ("kv-cache", "sglang"),
    "fused_downcast_kernel": ("quantize", "sglang"), "per_tensor_absmax_kernel": ("reduction", "sglang"),
}  # fmt: skip
_TRTLLM = re.compile(r"(bmm|gemm|batchedGemm)_([A-Z]\w*?)_([A-Z]\w*?)_Fp32_")
_TRTLLM_TILE = re.compile(r"_t(\d+x\d+x\d+)(?:u\d+)?_")
_TRTLLM_STAGES = re.compile(r"_s(\d+)_")
_ARCH = re.compile(r"_sm(\d+)[af]?(?:_|$)")
_TRTLLM_TYPE = re.compile(r"(?:Mx)?(E4m3|E2m1|E5m2|Bfloat16|Fp16|Int4|Int8|E3m2)")
_TRTLLM_TYPES = {"E4m3": "fp8_e4m3", "E2m1": "fp4", "E5m2": "fp8_e5m2", "Bfloat16": "bf16", "Fp16": "fp16",
                 "Int4": "int4", "Int8": "int8", "E3m2": "fp6"}  # fmt: skip
# Families of plain names: kind and owner by how they begin.
_FAMILIES = (
    ("per_token_group_quant", "quantize", "sglang"), ("per_token_quant", "quantize", "sglang"),
    ("per_tensor_quant", "quantize", "sglang"), ("moe_align_block_size", "moe", "sglang"), ("moe_sum_reduce", "moe", "sglang"),
    ("moe_fused_gate", "moe", "sglang"), ("topkGating", "moe", "sglang"), ("moe_wna16_gemm", "moe", "vllm"),
    ("cvt_fp16_to_fp4", "quantize", "sglang"),
    ("mul_mat_q", "gemm", None), ("mul_mat_vec_q", "gemv", None), ("moe_vec_q", "moe", "vllm"), ("moe_q", "moe", "vllm"),
    ("dequantize_block_", "quantize", None), ("gemm_4bit_", "gemm", "bitsandbytes"),
)  # fmt: skip
_PLAIN_FAMILIES = re.compile("(" + "|".join(start for start, _, _ in _FAMILIES) + ")")
_BITSANDBYTES = re.compile(r"k(?:Deq|Q|Opt|Precond|gemm|Int8|dequant|spmm|Percentile|Estimate|Histogram)\w*")
_SKINNY = re.compile(r"wvSplitK|wv_splitk")
_STARTS = ("wvSplitK", "wv_splitk", "paged_attention_")
# (exponent bits, mantissa bits, signed) of vLLM's scalar types.
_SCALARS = {(5, 10, 1): "fp16", (8, 7, 1): "bf16", (4, 3, 1): "fp8_e4m3", (5, 2, 1): "fp8_e5m2", (8, 23, 1): "fp32",
            (0, 7, 1): "int8", (2, 1, 1): "fp4"}  # fmt: skip
_INTEGER = re.compile(r"-?\d+")


def matches(name: Name) -> bool:
    """Whether this is a kernel of one of these engines."""
    if name.root:
        return name.root in _ROOTS
    base = name.base
    if base.startswith(("bmm_", "gemm_", "batchedGemm_")) and _TRTLLM.match(base):
        return True
    return (
        base in _PLAIN
        or base.startswith(_STARTS)
        or bool(_PLAIN_FAMILIES.match(base))
        or (base[:1] == "k" and bool(_BITSANDBYTES.match(base)))
    )


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name, or None."""
    base = name.base
    if name.root == "deep_gemm":
        return _deep_gemm(name)
    if base.startswith("Marlin") or "marlin" in name.root:
        return _marlin(name)
    generated = _TRTLLM.match(base)
    if generated:
        return _trtllm_generated(name, generated)
    if _SKINNY.match(base):
        return Kernel(name.raw, "gemm", "vllm", dtype=type_of(name.tail[:200], integers=False))
    if not name.root and _BITSANDBYTES.match(base):
        return _bitsandbytes(name)
    plain = _plain(base) if not name.root else None
    kind = plain[0] if plain else _NAMED.get(base) or _by_namespace(name) or kind_of(name.words)
    if kind is None:
        return None
    arch = _ARCH.search(base)
    return Kernel(
        name.raw,
        kind,
        plain[1] if plain else owner_of(name.root or "vllm"),
        dtype=_dtype(name, kind),
        arch=f"sm{arch[1]}" if arch else None,
        tensor_cores=_tensor_cores(name, kind),
        direction=_direction(name, kind),
    )


def _plain(base: str) -> tuple[str, str | None] | None:
    """Kind and owner of a kernel without a namespace, by its name or how it begins."""
    if base in _PLAIN:
        return _PLAIN[base]
    family = _PLAIN_FAMILIES.match(base)
    if family is None:
        return None
    return next((kind, owner) for start, kind, owner in _FAMILIES if start == family[1])


def _by_namespace(name: Name) -> str | None:
    """Namespaces tell what their kernels are for."""
    for space, kind in (
        ("::moe::", "moe"), ("moe::", "moe"), ("cutlass_kernels::", "moe"), ("::norm::", "norm"), ("::mmha::", "attention"),
        ("OnlineSoftmax", "softmax"),
        ("::sampling::", "random"), ("::mla::", "attention"), ("::gptq::reconstruct", "quantize"),
        ("::gptq::shuffle", "transpose-layout"), ("::gptq::", "gemm"), ("::fused_moe", "moe"),
        ("::quantization::", "quantize"),
        ("::weight_only::", "gemv"),
    ):  # fmt: skip
        if (space.startswith(("::", "Online")) and space in name.path) or name.path.startswith(space):
            return kind if kind_of(name.words) != "collective" else "collective"
        if space == "cutlass_kernels::" and "::cutlass_kernels::" in name.path:
            return kind
    return None


def _dtype(name: Name, kind: str) -> str | None:
    """Of a quantisation source and target; else the first number type. vLLM's ``uint16_t`` is fp16."""
    head = name.tail[:400]
    if name.root in ("vllm", "tensorrt_llm"):  # raw bits of fp16
        head = head.replace("unsigned short", "half")
    if kind == "quantize":
        return _quantised(name)
    if kind in ("other", "sort-scan", "index") or (kind == "moe" and "gemm" not in name.base):
        return None
    if name.base == "convert_fp8_kernel":
        return None  # to or from one byte, of a type that a number says
    return type_of(head, integers=False)


def _quantised(name: Name) -> str | None:
    """``from->to``. Names state the target where the template does not."""
    types = [t for a in name.arguments[:3] if (t := type_of(a)) and not t.startswith(("int32", "int64", "bool"))]
    small = [t for t in types[1:] if t.startswith(("fp8", "int8", "fp4"))]
    if small or not types or types[0] not in ("fp32", "fp16", "bf16") or "dequant" in name.words:
        return cast(types[0], small[0]) if small else None
    words = name.words
    stated = "fp4" if "to_fp4" in words else "int8" if "_int8_" in words else None
    return cast(types[0], stated)


def _tensor_cores(name: Name, kind: str) -> bool | None:
    """Prefill kernels use them; decode kernels of one query a head read the cache on CUDA cores."""
    base = name.base
    if "mfma" in base or base.startswith("gemm_4bit_sm"):
        return True
    if base == "gemm_4bit_simt":
        return False
    if kind != "attention" or "educe" in base or "erge" in base:
        return None
    if name.root == "flashinfer":
        if "Prefill" in base or "MLA" in base or "POD" in base:
            return True
        return False if base in ("BatchDecodeWithPagedKVCacheKernel", "SingleDecodeWithKVCacheKernel") else None
    return False if base in ("paged_attention_v1_kernel", "paged_attention_v2_kernel") else None


def _direction(name: Name, kind: str) -> str | None:
    """Engines that only serve run forward, but only paged attention's name says that there is no other way."""
    if kind == "attention" and "paged_attention" in name.base:
        return "forward"
    return direction_of(name.words)


def _deep_gemm(name: Name) -> Kernel:
    """After the majors (and the scales' granularity) stand the sizes M, N, K, 0 where not compiled in, then the tile;
    kernels for sm90 have the number of groups between.
    """
    base = name.base
    arch = re.match(r"sm(\d+)", base)
    kind = "gemm" if "gemm" in base else "attention" if "mqa_logits" in base else kind_of(name.words)
    if kind != "gemm":
        return Kernel(name.raw, kind, "deepgemm", arch=f"sm{arch[1]}" if arch else None)
    numbers = [int(n[0]) for a in name.arguments if a[:1].isdigit() and (n := _INTEGER.match(a))]
    return Kernel(
        name.raw,
        kind,
        "deepgemm",
        dtype=_deep_gemm_type(name),
        arch=f"sm{arch[1]}" if arch else None,
        tile=_deep_gemm_tile(base, numbers),
        tensor_cores=True,
    )


def _deep_gemm_tile(base: str, numbers: list[int]) -> str | None:
    if "hc_prenorm" in base or not base.startswith("sm"):
        skip = 2  # sizes N and K
    else:
        skip = 3 + (2 if "fp8_fp4" in base else 0) + (1 if base.startswith("sm90") else 0)
    tile = numbers[skip : skip + 3]
    return "x".join(map(str, tile)) if len(tile) == 3 and all(tile) else None


def _deep_gemm_type(name: Name) -> str | None:
    """``fp8_fp4`` is a template whose arguments say the operands' types; all other names state them."""
    if "fp8_fp4" in name.base:
        operands = [t for a in name.arguments if "cutlass::" in a and (t := type_of(a))][:2]
        return "+".join(dict.fromkeys(operands)) or None
    for word, dtype in (("fp8", "fp8_e4m3"), ("bf16", "bf16"), ("tf32", "tf32")):
        if word in name.base:
            return dtype
    return None


def _marlin(name: Name) -> Kernel:
    """Quantised weights; the first template argument is the activations' type, in newer versions as vLLM's id."""
    first = name.arguments[0] if name.arguments else ""
    number = re.fullmatch(r"(\d{6,})l*", first)
    return Kernel(
        name.raw,
        "gemm" if name.base.startswith("Marlin") else kind_of(name.words),
        "marlin",
        dtype=_scalar_type(int(number[1])) if number else type_of(first, integers=False),
        tensor_cores=True if name.base.startswith("Marlin") else None,
    )


def _scalar_type(number: int) -> str | None:
    """vLLM packs a type into an integer: exponent bits, mantissa bits, sign (vllm/scalar_type.py)."""
    return _SCALARS.get((number & 0xFF, number >> 8 & 0xFF, number >> 16 & 1))


def _trtllm_generated(name: Name, match: re.Match[str]) -> Kernel:
    base = name.base
    operands = [_TRTLLM_TYPES[t] for t in _TRTLLM_TYPE.findall(match[3])]
    tile, stages, arch = _TRTLLM_TILE.search(base), _TRTLLM_STAGES.search(base), _ARCH.search(base)
    lowered = base.lower()
    return Kernel(
        name.raw,
        "gemm",
        "trtllm",
        dtype=_wider(operands),
        arch=f"sm{arch[1]}" if arch else None,
        tile=tile[1] if tile else None,
        stages=int(stages[1]) if stages else None,
        epilogue="swiglu" if "swiglu" in lowered else None,
        tensor_cores=True,
    )


def _wider(operands: list[str]) -> str | None:
    """With weights in fewer bits, the type of the activations."""
    wide = [operand for operand in operands if not operand.endswith("4")]
    return "+".join(dict.fromkeys(wide or operands)) or None


def _bitsandbytes(name: Name) -> Kernel | None:
    base = name.base
    kinds = (
        ("kOptimizer", "optimizer"), ("kPrecondition", "optimizer"), ("kPercentile", "optimizer"), ("kgemm", "gemv"),
        ("kspmm", "gemm"), ("kHistogram", "index"), ("kEstimate", "reduction"),
    )  # fmt: skip
    kind = next((kind for start, kind in kinds if base.startswith(start)), "quantize")
    dtype = type_of(name.tail[:100], integers=False) if kind != "quantize" else None
    return Kernel(name.raw, kind, "bitsandbytes", dtype=dtype)
