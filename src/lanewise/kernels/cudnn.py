"""cuDNN: convolutions and their helpers, norms, layout changes, pooling, RNNs, generated attention.

cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0
                            |    |          |           |          query block x key block x head dimension
                            |    |          forward     16 bits, fp16 or bf16: the name does not say which
                            |    what it was built for
                            what is computed
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import first_type
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name
from lanewise.kernels.words import convolution_algorithm, direction_of, kind_of

__all__ = ["BASES", "decoded", "matches"]

# Engines of cuDNN that stand in no namespace.
_ENGINES = re.compile(
    r"(?:im|ex)plicit_convolve|precomputed_convolve|convolve(?:Nd)?_|[dw]grad(?:2d|_1d|_2d)?_(?:alg\d|engine|grouped_direct)"
    r"|fft[123]d_(?:r2c|c2r|c2c)|conv[23]d_(?:c1_k1|grouped_direct)"
)
_SPELLED_GEMM = re.compile(r"(?:im|ex)plicit_convolve\w*_[sdh]+gemm|precomputed_convolve_[sdh]+gemm")
_BEGINNINGS: tuple[tuple[re.Pattern[str], tuple[str, str | None]], ...] = (
    # Of the attention's gradient: products of outputs and their gradients, sums and casts of dQ, the bias.
    (
        re.compile(r"compute_dot_do_o|convert_dq|rearrange_n_convert_dq|matmul_dq|contract_dbias|init_packed_dbias|fmha_dbias"),
        ("attention", "backward"),
    ),
    (_SPELLED_GEMM, ("conv", "forward")),
    (re.compile(r"\w*[rR]eorder"), ("conv-aux", None)),
    (re.compile(r"SBAR_|arbitrary_fusion"), ("fused-pointwise", None)),  # scale, bias, add, ReLU
)
_STARTS = ("cudnn_generated", "LSTM_elementWise", "GRU_elementWise", "GENERIC_elementWise", "RNN_blockPersist", "persistRNN",
           "elemWiseRNN")  # fmt: skip
_ROOTS = ("cudnn", "cask", "xmma_cudnn", "xmma__5x")
_GENERATED = re.compile(r"cudnn_generated_(?:fort_native_)?(\w+)")
_ARCH = re.compile(r"_sm(\d+)")
_SHAPE = re.compile(r"_(\d+)x(\d+)(?:x(\d+))?(?=_|$)")

# (kind, direction) of kernels whose words do not say it, or say something else.
_DIRECT_CONVOLUTIONS = dict.fromkeys(
    listed(
        "implicit_convolve_sgemm implicit_convolveNd_sgemm explicit_convolve_sgemm precomputed_convolve_sgemm"
        " convolve_common_engine_float_NHWC conv2d_grouped_direct_kernel conv2d_c1_k1_nchw_hw_packed_kernel"
        " conv2d_c1_k1_nhwc_kernel conv2d_c1_k1_nhwc_kernel_specialized conv3d_c1_k1_nchw_hw_packed_kernel"
        " implicit_convolve_hgemm implicit_convolveNd_hgemm"
    ),
    ("conv", "forward"),
)
_AUXILIARY = dict.fromkeys(
    listed(
        "computeOffsetsKernel computeBOffsetsKernel computeOffsetsKernel3D computeWgradBOffsetsKernel"
        " computeWgradSplitKOffsetsKernel computeWgradOffsetsKernel init_device_workspace_kernel im2col4d_kernel"
        " kern_precompute_indices flip_filter flip_filter_kernel scalePackedTensor_kernel setOffsetKernel"
        " reduce_wgrad_nchw_helper compute_gemm_pointers transpose_filter_kernel"
    ),
    ("conv-aux", None),
)
_NAMED: dict[str, tuple[str, str | None]] = {
    **_DIRECT_CONVOLUTIONS,
    **_AUXILIARY,
    "reduce_wgrad_nchw_helper": ("conv-aux", "backward"),
    "transpose_readWrite_alignment_kernel": ("transpose-layout", None),
    "nchwAddPaddingKernel": ("cast-copy", None),
    "nhwcAddPaddingKernel": ("cast-copy", None),
    "tensorTransformGeneric": ("transpose-layout", None),
    "nchwToFoldedNhwcKernel": ("transpose-layout", None),
    "convertTensor_kernel": ("cast-copy", None),
    "op_tensor_kernel": ("elementwise", None),
    "op_generic_tensor_kernel": ("elementwise", None),
    "op_tensor_kernel_alpha2_zero": ("elementwise", None),
    "add_tensor_kernel_v3": ("elementwise", None),
    "setTensor_kernel": ("fill", None),
    "setTensor4d_kernel": ("fill", None),
    "setTensor5d_kernel": ("fill", None),
    "pointwise_mult_and_sum_complex": ("conv", None),
    "compute_alphas_and_betas": ("loss", "forward"),
    "compute_alphas_and_betas_v8": ("loss", "forward"),
    "compute_grads_deterministic": ("loss", "backward"),
    "compute_grads_non_deterministic": ("loss", "backward"),
    "generate_grid_fw_4d": ("resample", "forward"),
    "generate_grid_bw_4d": ("resample", "backward"),
    "split_k_kernel": ("gemm-aux", None),
    "elemWiseRNNcell": ("rnn", "forward"),
    "generateWinogradTilesKernel": ("conv", None),
}
# Kernels of cuDNN without a namespace.
BASES = frozenset(_NAMED) | frozenset(
    listed(
        "nchwToNhwcKernel nhwcToNchwKernel dgrad2d_c1_k1_nchw_hw_packed_kernel dgrad2d_c1_k1_nhwc_kernel"
        " wgrad2d_c1_k1_nhwc_kernel"
        " wgrad2d_c1_k1_nchw_hw_packed_kernel add_tensor_kernel_v3 op_tensor_kernel op_generic_tensor_kernel"
        " elemWiseRNNcell LSTM_elementWise_fp LSTM_elementWise_bp1 LSTM_elementWise_bp2 GRU_elementWise_fp"
        " GRU_elementWise_bp1 RNN_blockPersist_fp_LSTM RNN_blockPersist_bp_LSTM RNN_blockPersist_fp_GRU"
        " RNN_blockPersist_bp_GRU flip_filter compute_gemm_pointers pointwise_mult_and_sum_complex"
        " scalePackedTensor_kernel im2col4d_kernel computeOffsetsKernel kern_precompute_indices"
        " persistRNN_fp persistRNN_bp"
    )
)


def matches(name: Name) -> bool:
    """Whether this is a name of cuDNN's: its namespaces, its generated kernels, or a kernel without either."""
    if name.root:
        return name.root.startswith(_ROOTS)
    base = name.base
    return base.startswith(_STARTS) or base in BASES or _ENGINES.match(base) is not None or "cudnn" in name.tail[:200]


def decoded(name: Name) -> Kernel | None:
    """The kernel of a cuDNN name, or None."""
    generated = _GENERATED.match(name.base)
    if generated:
        return _generated(name, generated[1])
    kind, direction = _NAMED.get(name.base) or _by_words(name)
    if kind is None:
        return None
    return Kernel(
        name.raw,
        kind,
        "cublas" if "cublas" in name.root else "cudnn",
        dtype=_dtype(name, kind),
        layout=_layout(name.words) if kind in ("conv", "norm", "pooling", "softmax") else None,
        tensor_cores=False if kind == "conv" and _on_cuda_cores(name) else None,
        direction=direction,
        op=convolution_algorithm(name.path) if kind == "conv" else None,
    )


def _by_words(name: Name) -> tuple[str | None, str | None]:
    words, base = name.words, name.base
    begins = next((told for pattern, told in _BEGINNINGS if pattern.match(base)), None)
    if begins:
        return begins
    if "::batchnorm::" in name.path:
        return "norm", "backward" if "dbn" in base else None
    if "winograd" in name.text[:80]:
        # winogradForward serves forward and input gradient; only the weight gradient has kernels of its own.
        return "conv", "backward" if "Wgrad" in base or "wgrad" in base else None
    if base.startswith(("fft1d", "fft2d", "fft3d")):
        return "conv", None
    if "fft" in words:
        return "conv", None
    if base.startswith(("bn_", "batchnorm_")):
        return "norm", "backward" if "_bw" in base else "forward"
    if base.startswith(("LSTM_", "GRU_", "RNN_", "GENERIC_elementWise", "persistRNN")):
        return "rnn", "backward" if "_bp" in base else "forward"
    if "Nhwc" in base or "Nchw" in base:
        return "transpose-layout", None
    kind = kind_of(words) or ("conv-aux" if name.root.startswith("cask") else None)
    if kind == "gemm":
        kind = "elementwise" if "_bias_" in words else "conv"
    return kind, _direction(words)


def _direction(words: str) -> str | None:
    if "_bw_" in words or "_bp_" in words:
        return "backward"
    if "_fw_" in words or "_fp_" in words:
        return "forward"
    return direction_of(words)


def _dtype(name: Name, kind: str) -> str | None:
    """The first type; layout changes and convolutions state that of the tensors first."""
    if kind == "attention" or name.base.startswith("compute"):
        return None
    dtype = first_type(name.tail, 0, 120, integers=False)
    if name.base.startswith("fft"):  # complex numbers are the transforms of real tensors
        return {"complex64": "fp32", "complex128": "fp64"}.get(dtype or "", dtype)
    return dtype


def _on_cuda_cores(name: Name) -> bool:
    """The engines written in CUDA C; stages of Winograd and FFT are no products."""
    return (
        name.base in _DIRECT_CONVOLUTIONS
        or _SPELLED_GEMM.match(name.base) is not None
        or "_engine" in name.base
        or "direct_kernel" in name.base
        or ("_c1_k1_" in name.base)
    )


def _layout(words: str) -> str | None:
    if "_nhwc_" in words:
        return "nhwc"
    return "nchw" if "_nchw_" in words else None


def _generated(name: Name, rest: str) -> Kernel:
    """Kernels that cuDNN's runtime fusion engine generates."""
    arch, shape = _ARCH.search(name.base), _SHAPE.search(name.base)
    lowered = f"_{rest.lower()}_"
    attention = "sdpa" in lowered or "fmha" in lowered or "_flash_" in lowered
    kind, direction = _generated_kind(lowered)
    product = kind in ("attention", "gemm", "conv")
    tile = None
    if shape and product:
        tile = f"{shape[1]}x{shape[2]}" + (f"x{shape[3]}" if shape[3] and not attention else "")
    return Kernel(
        name.raw,
        kind,
        "cudnn",
        dtype=_generated_type(lowered),
        arch=f"sm{arch[1]}" if arch else None,
        tile=tile,
        tensor_cores=True if product else None,
        direction=direction,
    )


def _generated_kind(rest: str) -> tuple[str | None, str | None]:
    if "sdpa" in rest or "fmha" in rest or "_flash_" in rest:
        return "attention", direction_of(rest)
    for word, known, direction in (
        ("convfwd", "conv", "forward"), ("convbwd", "conv", "backward"), ("convdgrad", "conv", "backward"),
        ("convwgrad", "conv", "backward"), ("matmul", "gemm", None), ("conv", "conv", None),
    ):  # fmt: skip
        if word in rest:
            return known, direction
    kind = kind_of(rest)
    return ("fused-pointwise" if kind in (None, "elementwise") else kind), direction_of(rest)


def _generated_type(rest: str) -> str | None:
    """``f16`` is any 16-bit type."""
    if "_bf16_" in rest:
        return "bf16"
    if "_e4m3_" in rest:
        return "fp8_e4m3"
    return "fp8" if "_f8_" in rest or "_fp8_" in rest else None
