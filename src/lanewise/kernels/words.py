"""What the words of a function's name tell, whatever library it is from.

Used for functions that no table names: libraries add kernels faster than tables grow, and name them plainly. Only
whole words count (`lanewise.kernels.names.word_string`), so ``my_ncclish_gemm`` is a GEMM and no collective.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lanewise.kernels.lists import listed

__all__ = ["convolution_algorithm", "direction_of", "kind_of"]

# A kernel that does two things is named after the larger one, so the larger ones come first: an all-reduce with a
# norm is a collective, a norm that quantises is a norm. Entries are words, or words in sequence.
_VOCABULARY: tuple[tuple[str, str], ...] = (
    ("collective", "all_reduce allreduce all_gather allgather reduce_scatter reducescatter all_to_all alltoall all2all a2a"
     " send_recv sendrecv cross_device_reduce"),
    ("kv-cache", "and_cache and_kv_cache append_paged paged_kv_cache_append kv_buffer kv_cache_update kv_cache_write"
     " kv_cache_store kv_cache_scatter kv_cache_insert kv_cache_quant write_kv store_kv update_kv set_kv"
     " set_mla_kv copy_kv save_kv transfer_kv write_kv_cache store_kv_cache append_kv copy_kv_cache store_cache gather_cache"
     " copy_blocks swap_blocks store_kvcache kvcache maybe_dequant_cache cp_gather and_upconvert full_cache"
     " to_kv_cache reindex_kv process_kv flatten_kv update_cache write_to_cache kvcache_copy kv_insert cache_mla"),
    ("rope", "rope mrope m_rope rotary ropes qk_rope"),
    # Activations and products that quantise what they give, or split what they take.
    ("fused-pointwise", "mul_fp8_quant mul_quant mul_per_block mul_per_token mul_post_quant mul_cvt mul_group_quant mul_mxfp8"
     " mul_nvfp4 mul_fp4_quant split_gelu"),
    ("moe", "moe moe1 moe2 fmoe expert experts expt routing topk_gating top_k_gating grouped_topk grouped_top_k"
     " topk_softmax topk_sigmoid moesorting moegemm bitmatrix"),
    ("rnn", "rnn lstm gru lstm_cell gru_cell selective_scan chunk_scan chunk_state state_passing delta_rule ssm ssd"
     " mamba wkv rwkv gla gdn gdr kkt kda gated_delta delta_net fused_recurrent retention"),
    ("attention", "attention attn fmha mha mla mmha xqa sdpa flash kernel_dkdv kernel_dq bwd_dkdv bwd_dq prefill_with"
     " decode_with flashattn flashattention merge_state merge_states merge_attn mqa mqa_logits gqa fwd_splitkv"
     " split_kv splitkv qkv_attn paged_attn attention_2d unified_attention"),
    ("conv-aux", "im2col im2_col col2_im im_2_col im2d2col col2im col_2_im vol2col vol2im im2col4d filter_transform"),
    ("conv", "conv conv1d conv2d conv3d convolution convolve deconv winograd wgrad dgrad fprop depthwise igemm"
     " conv1x1u convolution2d"),
    ("gemm-aux", "gemm_starts gemm_pre_compute gemm_args gemm_data gemm_ptrs gemm_arrays split_k_reduce splitk_reduce"
     " splitkreduce reduce_split_k reduce_splitk post_gsu"),
    ("gemv", "mul_mat_vec spmv gemv gemv2t gemv2n gemvx gemvt gemvn gemvnsp matvec dot_product"),
    ("gemm", "spmm sddmm spgemm gemm gemms matmul matmuls mm bmm addmm syrk symm_kernel ssymm dsymm trmm wvsplitk"
     " lora_shrink lora_expand sgmv_shrink sgmv_expand bgmv_shrink bgmv_expand sgmv bgmv segment_gemm hgemm sgemm"
     " dgemm gemmv2 mul_mat mul_mat_q"),
    ("loss", "loss nll cross_entropy crossentropy l1_criterion margin_criterion kldiv kl_div jsd bce mse ctc focal"
     " class_nll_criterion tv_distance logits_loss"),
    ("norm", "norm norms layer_norm layernorm rms_norm rmsnorm batch_norm batchnorm group_norm groupnorm instance_norm"
     " bn ln welford rowwise_moments lrn l2norm rms ln_fwd ln_bwd"),
    ("softmax", "softmax soft_max logsumexp log_softmax"),
    ("quantize", "quant quants quantize quantized quantise quantization quantizer dequant dequantize dequantise requant"
     " requantize fp8_quant fp4_quant int8_quant cvt_fp16_to_fp4 to_fp8 to_fp4 to_mxfp8 to_mxfp4 scaled_fp8"
     " scaled_fp4 nvfp4_quant hadamard"),
    ("optimizer", "adam adamw adamax sgd lamb lion adagrad rmsprop optimizer optimiser adafactor muon novograd novo_grad"
     " adadelta ademamix optimizer32bit optimizer8bit"),
    ("embedding", "embed embedding embeddings embedding_bag embeddingbag"),
    ("pooling", "pool pool1d pool2d pool3d pooling maxpool avgpool max_pool avg_pool max_pool2d avg_pool2d"
     " adaptive_average adaptiveaveragepool adaptivemaxpool unpooling"),
    ("resample", "upsample upsampling interpolate interpolation grid_sample grid_sampler roi ro_i_align ro_i_pool"
     " roi_align roi_pool resize bilinear bicubic trilinear"),
    ("random", "dropout rand randn random randint randperm philox bernoulli uniform normal multinomial poisson curand"
     " sampling sample exponential gumbel rejection rng"),
    ("sort-scan", "sort sorting sorted argsort topk top_k top_p topp min_p scan cumsum cumprod cummax cummin prefix_sum"
     " radix bitonic unique nonzero kth median searchsorted search_sorted partition mergesort radixsort"
     " select_if onesweep exclusive_sum logcumsumexp"),
    ("index", "gather scatter index indices indexing take put masked_select masked_scatter segment_csr index_select"
     " index_put lookup embedding_lookup"),
    ("transpose-layout", "repack swizzle unswizzle transpose transposed permute permutation pixel_shuffle"
     " nchw_to_nhwc nhwc_to_nchw nchw2nhwc nhwc2nchw layout_transform"),
    ("cast-copy", "copy copies cast cat concat concatenate split pad padding unpad memcpy convert conversion pack unpack"
     " contiguous flip roll slice repeat reflection_pad replication_pad"),
    ("fft", "fft ifft rfft irfft stft fft2d fft1d"),
    ("linalg", "cholesky potrf potrs getrf getrs geqrf qr svd gesvd eig eigh syev syevd syevj heev trsm trsv laswp larf"
     " larft solve solver inverse pivot pivots lu triangular"),
    ("fused-pointwise", "and_mul swiglu geglu reglu glu bias_gelu bias_relu gelu_and silu_mul act_mul bias_act gated_act dgeglu"
     " dswiglu"),
    ("reduction", "reduce reduction sum mean argmax argmin amax amin max min var std average l2_norm reducer"),
    ("fill", "fill zero zeros zerofill memset arange ones eye linspace clear iota"),
    ("elementwise", "add sub mul div gelu silu relu sigmoid tanh exp log pow sqrt rsqrt clamp where masked_fill abs neg"
     " pointwise elementwise element_wise elemwise activation axpy axpby scale scal bias residual unary binary triu tril"
     " penalty penalties temperature bitmask"
     " element_mul"),
)  # fmt: skip

_RANK = {phrase: rank for rank, (_, phrases) in enumerate(_VOCABULARY) for phrase in phrases.split()}
_KINDS = tuple(kind for kind, _ in _VOCABULARY)
_LONGEST = max(phrase.count("_") + 1 for phrase in _RANK)  # words of a phrase
_BEGINS_PHRASE = frozenset(phrase.split("_")[0] for phrase in _RANK if "_" in phrase)
# Words that end so: `s16816gemm`, `dequantize_layernorm`, `cudaCoreGemm` ...
_ENDINGS = {"gemm": "gemm", "matmul": "matmul", "gemv": "gemv", "norm": "norm", "softmax": "softmax", "attn": "attn"}
_ENDING = re.compile("(?:" + "|".join(_ENDINGS) + ")(?=_)")

_LONG_ENOUGH = 4  # letters of a word that a number may follow: gemm2, quantize8, but m16 and mm1 are sizes

_BACKWARD = frozenset(
    listed(
        "backward bwd bprop dgrad wgrad grad grads gradient gradients gradinput bw dx dw dq dk dv dkv dqdkdv wrw dgamma"
        " updategradinput dgeglu dswiglu dgated dact"
        " dsilu dgelu drelu dqgelu dsrelu"
    )
)
_FORWARD = frozenset(listed("forward fwd fprop fw updateoutput"))


def _undimensioned(word: str) -> str:
    """``rmsnorm2d`` without its dimensions, ``dequantize4`` without its number."""
    if word[-1:] == "d" and word[-2:-1].isdigit():
        return word[:-2]
    bare = word.rstrip("0123456789")
    return bare if word not in _RANK and len(bare) >= _LONG_ENOUGH else word


@lru_cache(maxsize=16384)
def kind_of(words: str) -> str | None:
    """The kind that these words name (``_add_rms_norm_`` is a norm), or None."""
    parts = words[1:-1].split("_")
    best = len(_KINDS)
    for start, part in enumerate(parts):
        part = _undimensioned(part)
        best = min(best, _RANK.get(part, best))
        if part in _BEGINS_PHRASE:
            for end in range(start + 2, min(start + _LONGEST, len(parts)) + 1):
                best = min(best, _RANK.get("_".join(parts[start:end]), best))
    for match in _ENDING.finditer(words):
        best = min(best, _RANK[_ENDINGS[match[0]]])
    return _KINDS[best] if best < len(_KINDS) else None


@lru_cache(maxsize=16384)
def direction_of(words: str) -> str | None:
    """``backward`` or ``forward`` where a word says so; None where none does, or both do."""
    parts = {_undimensioned(part) for part in words[1:-1].split("_")}
    backward = not parts.isdisjoint(_BACKWARD) or "backward_" in words
    forward = not parts.isdisjoint(_FORWARD)
    if backward == forward:
        return None
    return "backward" if backward else "forward"


_ALGORITHMS = (
    ("winograd", re.compile("winograd|sp3asm", re.IGNORECASE)),
    ("fft", re.compile("fft")),
    ("depthwise", re.compile("c1_k1|depthwise")),
    ("implicit_gemm", re.compile("implicit_?(?:gemm|convolve)|precomputed_convolve|igemm_|alg0_engine", re.IGNORECASE)),
    ("explicit_gemm", re.compile("explicit_convolve")),
    ("direct", re.compile("direct_kernel|naive_conv|convdir", re.IGNORECASE)),
)


def convolution_algorithm(text: str) -> str | None:
    """How a convolution of this name is computed: ``winograd``, ``implicit_gemm`` ... or None."""
    return next((algorithm for algorithm, pattern in _ALGORITHMS if pattern.search(text)), None)
