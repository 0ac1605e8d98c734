"""Triton and CuTe-DSL kernels that people wrote: Liger, Unsloth, vLLM, SGLang, triton_kernels, FlashAttention ...

A Triton kernel's name is that of its Python function, so its words tell the kind, and types and sizes do not occur;
the tables say whose function it is. CuTe DSL mangles its arguments into the name:

    kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__tensorptrbf16gmem...
                                                                |                                         type
                                                                class
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, word_string
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_OWNERS: dict[str, str] = {
    name: owner
    for owner, names in {
        "liger": "_rms_norm_forward_kernel _rms_norm_backward_kernel _block_rms_norm_forward_kernel _triton_rope"
        " _block_rms_norm_backward_kernel _layer_norm_forward_kernel _layer_norm_backward_kernel _geglu_tanh_forward_kernel"
        " _geglu_tanh_backward_kernel _swiglu_forward_kernel _swiglu_backward_kernel liger_cross_entropy_kernel"
        " _fused_add_rms_norm_forward_kernel _fused_add_rms_norm_backward_kernel _group_norm_forward_kernel"
        " _group_norm_backward_kernel _kldiv_kernel_forward _kldiv_kernel_backward _jsd_kernel _tv_distance_kernel"
        " _triton_qwen2vl_mrope _triton_llama4_rope element_mul_kernel _dyt_fwd_kernel _dyt_bwd_kernel"
        " _grpo_loss_fwd_kernel _grpo_loss_bwd_kernel _softmax_single_block_forward_kernel"
        " _softmax_multi_block_forward_kernel _softmax_single_block_backward_kernel embedding_forward_kernel"
        " embedding_backward_kernel _fused_neighborhood_attention_qk_kernel _poly_norm_forward_kernel"
        " _poly_norm_backward_kernel _sparsemax_forward_kernel _sparsemax_backward_kernel",
        "unsloth": "_rms_layernorm_forward _rms_layernorm_backward _gemma_rms_layernorm_forward layernorm_forward"
        " layernorm_backward _cross_entropy_forward _chunked_cross_entropy_forward _cross_entropy_backward _rope_embedding"
        " _rope_embedding_QK _fg_kernel _DWf_DW_dfg_kernel _exact_forward_kernel _exact_backward_kernel"
        " _approx_forward_kernel _approx_backward_kernel _grouped_gemm_forward_kernel _grouped_gemm_dX_kernel"
        " _grouped_gemm_dW_kernel",
        "vllm": "kernel_unified_attention_2d kernel_unified_attention_3d reduce_segments kernel_paged_attention_2d"
        " _lora_expand_kernel _lora_shrink_kernel _topk_topp_kernel eagle_prepare_inputs_padded_kernel"
        " rejection_greedy_sample_kernel rejection_random_sample_kernel sample_recovered_tokens_kernel expand_kernel"
        " eagle_prepare_next_token_padded_kernel merge_attn_states_kernel reshape_and_cache_kernel_flash"
        " _compute_slot_mapping_kernel batched_triton_kernel _silu_mul_fp8_quant_deep_gemm _moe_mmk expert_triton_kernel"
        " _causal_conv1d_fwd_kernel _causal_conv1d_update_kernel _gather_block_tables_kernel scaled_mm_kernel"
        " fused_moe_kernel_gptq_awq _pack_seq_kernel _unpack_seq_triton_kernel",
        "sglang": "_fwd_grouped_kernel_stage1 _fwd_kernel_stage2 _fwd_kernel_stage1 write_req_to_token_pool_triton"
        " create_flashinfer_kv_indices_triton _per_token_group_quant_fp8_colmajor deepep_permute_triton_kernel"
        " compute_position_kernel alloc_extend_kernel alloc_decode_kernel get_last_loc_kernel assign_req_to_token_pool"
        " set_mla_kv_buffer_kernel compute_src2dst_triton_kernel deepep_compute_src2dst_triton_kernel"
        " deepep_post_reorder_triton_kernel pre_reorder_triton_kernel post_reorder_triton_kernel"
        " compute_seg_indptr_triton_kernel silu_and_mul_triton_kernel _silu_and_mul_post_quant_kernel"
        " grouped_gemm_triton_kernel create_flashmla_kv_indices_triton fused_moe_router_kernel _gate_up_lora_b_kernel"
        " _qkv_lora_b_kernel _sgemm_lora_a_kernel _sgemm_lora_b_kernel fused_dual_residual_rmsnorm_kernel",
        "flash-attention": "rotary_kernel _layer_norm_fwd_1pass_kernel _layer_norm_bwd_kernel cross_entropy_fwd_kernel"
        " cross_entropy_bwd_kernel",
        "aotriton": "attn_fwd bwd_kernel_dk_dv bwd_kernel_dq bwd_kernel_fuse bwd_preprocess bwd_preprocess_varlen"
        " debug_simulate_encoded_softmax bwd_postprocess",
    }.items()
    for name in names.split()
}
# (kind, direction) where the words do not say it.
_NAMED: dict[str, tuple[str, str | None]] = {
    "reduce_segments": ("attention", None), "_fwd_kernel": ("attention", "forward"),
    "_fwd_kernel_stage1": ("attention", "forward"), "_fwd_kernel_stage2": ("attention", "forward"),
    "_fwd_grouped_kernel_stage1": ("attention", "forward"), "_bwd_kernel": ("attention", "backward"),
    "_bwd_preprocess": ("attention", "backward"), "_attn_fwd": ("attention", "forward"),
    "attn_fwd": ("attention", "forward"), "bwd_kernel_dk_dv": ("attention", "backward"),
    "bwd_kernel_dq": ("attention", "backward"), "bwd_kernel_fuse": ("attention", "backward"),
    "bwd_preprocess": ("attention", "backward"), "bwd_preprocess_varlen": ("attention", "backward"),
    "_attn_bwd": ("attention", "backward"), "_attn_bwd_dkdv": ("attention", "backward"),
    "_attn_bwd_preprocess": ("attention", "backward"), "element_mul_kernel": ("elementwise", None),
    "_fg_kernel": ("fused-pointwise", "forward"), "_DWf_DW_dfg_kernel": ("fused-pointwise", "backward"),
    "_exact_forward_kernel": ("fused-pointwise", "forward"), "_exact_backward_kernel": ("fused-pointwise", "backward"),
    "_approx_forward_kernel": ("fused-pointwise", "forward"), "liger_cross_entropy_kernel": ("loss", None),
    "_approx_backward_kernel": ("fused-pointwise", "backward"), "_dyt_fwd_kernel": ("norm", "forward"),
    "_dyt_bwd_kernel": ("norm", "backward"), "_silu_and_mul_post_quant_kernel": ("fused-pointwise", None),
    "_silu_mul_fp8_quant_deep_gemm": ("fused-pointwise", None), "_moe_mmk": ("moe", None),
    "expert_triton_kernel": ("moe", None), "batched_triton_kernel": ("moe", None), "expand_kernel": ("other", None),
    "create_flashinfer_kv_indices_triton": ("index", None), "create_flashmla_kv_indices_triton": ("index", None),
    "write_req_to_token_pool_triton": ("index", None), "assign_req_to_token_pool": ("index", None),
    "compute_position_kernel": ("fill", None), "alloc_extend_kernel": ("other", None),
    "alloc_decode_kernel": ("other", None), "get_last_loc_kernel": ("index", None),
    "_topk_forward": ("moe", None), "_topk_backward": ("moe", None), "_sum_bitmatrix_rows": ("moe", None),
    "_sum_bitmatrix_memset": ("moe", None), "_finalize_matmul": ("moe", None), "_reduce_grouped": ("moe", None),
    "_compute_slot_mapping_kernel": ("index", None), "fused_moe_kernel": ("moe", None), "matmul_kernel": ("gemm", None),
    "_fwd_kernel_ep_scatter_1": ("moe", None), "_fwd_kernel_ep_scatter_2": ("moe", None),
    "_fwd_kernel_ep_gather": ("moe", None), "_selective_scan_update_kernel": ("rnn", None),
}  # fmt: skip
# flash-linear-attention's, which serving engines carry copies of.
_LINEAR_ATTENTION = re.compile(
    r"(?:fused_)?(?:chunk|recurrent|parallel)_(?:\w+_)?(?:fwd|bwd|update)_\w+|chunk_(?:local|global)_cumsum\w*|recompute_w_u\w*"
    r"|fused_recurrent_\w+|chunk_(?:gated|kda|delta|gla|gsa|simple)_\w+"
    r"|prepare_wy\w*|solve_tril\w*|merge_16x16\w*|l2norm_(?:fwd|bwd)\w*"
    r"|fused_sigmoid_gating\w*|fused_gdn_\w*"
)
_SEGMENT = re.compile(r"(?:compute_src2dst|compute_seg_indptr|reorder|permute|deepep_)\w*_triton_kernel")
_OGS = r"((?:mx)?(?:bf|fp|f|u?int)\d+(?:e\dm\d\w*?)?)"
_MATMUL_OGS = re.compile(rf"_(?:p_)?matmul(?:_ogs)?_[NTXYW]{{2,4}}_{_OGS}x{_OGS}x{_OGS}_(\d+x\d+x\d+)(?:x\d+)?(?:_(\w+))?")
_TRITON_KERNELS = re.compile(r"_(?:combined_routing|expt_data|bitmatrix|routing_compute|finalize_matmul|masked_compaction)\w*")
_CUTE = re.compile(r"kernel_cutlass_(\w+)")
_CUTE_CLASS = re.compile(r"([A-Z][A-Za-z0-9]+)_object_at")
_CUTE_TYPE = re.compile(r"(?:tensorptr|Valuetype|ptr)(bf16|f16|f32|f64|f8E4M3\w*?|f8E5M2\w*?|f4E2M1\w*?|i8)(?=gmem|_|smem)")
_CUTE_OWNERS = (("flashinfer", "flashinfer"), ("flash_attn", "flash-attention"), ("FlashAttention", "flash-attention"),
                ("quack", "quack"), ("tensorrt_llm", "trtllm"), ("sglang", "sglang"), ("vllm", "vllm"))  # fmt: skip
_CUTE_TYPES = {"f8E4M3": "fp8_e4m3", "f8E5M2": "fp8_e5m2", "f4E2M1": "fp4"}
_CUTE_ARCH = re.compile(r"[Ss]m(\d{2,3})(?!\d)")


def matches(name: Name) -> bool:
    """Whether this is a plain identifier that a table or a grammar of this module knows."""
    base = name.base
    if name.root or name.tail:
        return False
    return (
        base in _OWNERS
        or base in _NAMED
        or base.startswith(("kernel_cutlass_", "_w8a8_", "_per_token_", "_matmul_ogs", "_p_matmul", "_fused_", "_fwd_"))
        or base.startswith(("liger_", "_liger_"))
        or _LINEAR_ATTENTION.match(base) is not None
        or _TRITON_KERNELS.match(base) is not None
        or _SEGMENT.match(base) is not None
    )


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name, or None."""
    base = name.base
    cute = _CUTE.match(base)
    if cute:
        return _cute_dsl(name, cute[1])
    product = _MATMUL_OGS.match(base)
    if product:
        return _matmul_ogs(name, product)
    if _TRITON_KERNELS.match(base):
        return Kernel(name.raw, "moe", "triton")
    if _SEGMENT.match(base):
        return Kernel(name.raw, "moe", _OWNERS.get(base, "sglang"))
    if base.startswith("_per_token_group_quant"):
        return Kernel(name.raw, "quantize", _OWNERS.get(base, "triton"))
    kind, direction = _NAMED.get(base) or (kind_of(name.words), direction_of(name.words))
    if kind is None:
        if _LINEAR_ATTENTION.match(base):
            return Kernel(name.raw, "rnn", "triton", direction=direction)
        if base not in _OWNERS:
            return None
        kind = "other"  # the engines' small helpers for indices and sizes
    return Kernel(name.raw, kind, _owner(base), dtype=_dtype(base, kind), direction=direction)


def _owner(base: str) -> str:
    return _OWNERS.get(base) or ("liger" if base.startswith(("liger_", "_liger_")) else "triton")


def _dtype(base: str, kind: str) -> str | None:
    return "fp8" if kind == "gemm" and "_fp8" in base else None


def _matmul_ogs(name: Name, match: re.Match[str]) -> Kernel:
    """triton_kernels' product for experts: types of out, activations, weights; its letters are strides, not BLAS."""
    return Kernel(
        name.raw,
        "moe",
        "triton",
        dtype=SHORT.get(match[2]),
        tile=match[4],
        epilogue="swiglu" if match[5] and "swiglu" in match[5] else None,
        tensor_cores=True,
    )


def _cute_dsl(name: Name, rest: str) -> Kernel:
    called = _CUTE_CLASS.search(rest)
    function = called[1] if called else re.split(r"_(?:tensor|TiledMMA|CopyAtom|ptr)", rest, maxsplit=1)[0]
    words = word_string(function)
    kind = kind_of(words) or kind_of(word_string(rest.split("_object_at")[0]))
    dtype, arch = _CUTE_TYPE.search(rest), _CUTE_ARCH.search(rest.split("_object_at")[0])
    return Kernel(
        name.raw,
        kind,
        next((owner for part, owner in _CUTE_OWNERS if part in rest), "cutlass"),
        dtype=_CUTE_TYPES.get(dtype[1][:6]) or SHORT.get(dtype[1]) if dtype else None,
        arch=f"sm{arch[1]}" if arch else None,
        tensor_cores=True if kind in ("gemm", "attention") and "Combine" not in function else None,
        direction=direction_of(words),
    )
