"""MIOpen: convolutions, norms, pooling and tensor operations on AMD devices.

igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8_...
      |   |     |    |            tile
      |   |     |    type
      |   |     layout
      |   generation of matrix cores: gtcx gfx908, gtcx2 gfx90a, gtcx3 gfx942
      fwd, bwd (input gradient), wrw (weight gradient)
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.words import convolution_algorithm, kind_of

__all__ = ["STARTS", "decoded"]

_GENERATION = {"gtcx": "gfx908", "gtcx2": "gfx90a", "gtcx3": "gfx942"}
_IGEMM = re.compile(r"igemm_(fwd|bwd|wrw)_(gtcx?\d?|gtcn\w*)_(nhwc|nchwc?|ndhwc)_(\w+?)_")
_TILE = re.compile(r"_bt(\d+x\d+x\d+)")
_ARCH = re.compile(r"gfx(9(?:0[0-9a]|4[0-2]|50)|1[0-9]\d\d)")
_TYPE = re.compile(r"_(bf16|fp16|fp32|f16|f32|fp16fp32)(?:_|$)")
# Reference convolutions state the types of the tensors, of the sum, and of the result.
_NAIVE = re.compile(r"naive_conv_\w*?_(float|half|ushort|int8_t)_(?:double|float|int32_t)_")
_NAIVE_TYPES = {"float": "fp32", "half": "fp16", "ushort": "bf16", "int8_t": "int8"}
_WORD = re.compile(r"(?i)fwd|forward|bwd|backward|wrw|bprop")

STARTS = (
    "igemm_", "miopen", "MIOpen", "mlo", "mIOpen", "Im2d2Col", "Im3d2Col", "Col2Im", "SubTensorOp", "Op1dTensor",
    "Op2dTensor", "Op3dTensor", "Op4dTensor", "OpTensor", "Op5dTensor", "batched_transpose_", "transpose_NCHW2CNHW",
    "transpose_CNHW2NCHW", "transpose_packed_", "gcnAsmConv", "naive_conv_", "gridwise_convolution",
    "SoftmaxForward", "SoftmaxBackward",
    "gridwise_generic_reduce", "xformers_miopen", "CastTensor", "SetTensor", "ScaleTensor", "LRN", "tensor_reorder",
    "conv1x1u", "ActiveFwd", "ActiveBwd", "gfx9_f", "gfx10_f", "gfx11_f", "gfx12_f",
)  # fmt: skip
_KINDS = (
    ("conv", ("ConvUni", "_f2x3_", "_f3x2_")),
    ("conv-aux", ("Im2d2Col", "Im3d2Col", "Col2Im", "WinogradXform", "Winograd_Xform")),
    ("transpose-layout", ("batched_transpose", "transpose_", "tensor_reorder")),
    ("norm", ("BatchNorm", "LRN", "LayerNorm", "GroupNorm", "RMSNorm")),
    ("pooling", ("Pool", "pool")),
    ("softmax", ("Softmax", "softmax", "SoftMax")),
    ("random", ("Dropout",)),
    ("cast-copy", ("CastTensor", "SubTensorOpWithCast", "SubTensorOpWithSubTensor", "SubTensorOpWithTransform")),
    ("fill", ("SubTensorOpWithScalar", "SetTensor")),
    ("elementwise", ("OpTensor", "dTensor", "Neuron", "ScaleTensor", "Active")),
    ("rnn", ("Lstm", "LSTM", "GRU", "RNN")),
    ("reduction", ("generic_reduce", "Reduce")),
    ("loss", ("CTC", "Loss")),
    ("conv", ("onv", "Winograd", "Sp3Asm", "igemm", "CvD3x3", "gridwise_convolution", "AsmConv")),
)


def decoded(name: Name) -> Kernel | None:
    """The kernel of a MIOpen name, or None."""
    base = name.base
    match = _IGEMM.match(base)
    if match:
        return _implicit_gemm(name, match)
    kind = next((kind for kind, parts in _KINDS if any(part in base for part in parts)), None) or kind_of(name.words)
    if kind is None:
        return None
    # Winograd kernels serve the forward pass and input gradients alike.
    alike = "Sp3Asm" in base or "Winograd" in base or base.startswith("gfx")
    tells_type = kind not in ("transpose-layout", "fill")
    arch = _ARCH.search(base)
    return Kernel(
        name.raw,
        kind,
        "miopen",
        dtype=(_stated_type(base) or type_of(name.tail[:100], integers=False)) if tells_type else None,
        arch=f"gfx{arch[1]}" if arch else None,
        layout=_layout(base) if kind in ("conv", "pooling") else None,
        tensor_cores=False if base.startswith("naive_conv") else None,
        op=convolution_algorithm(base) if kind == "conv" else None,
        direction=None if alike or kind in ("conv-aux", "transpose-layout") else _direction(base),
    )


def _implicit_gemm(name: Name, match: re.Match[str]) -> Kernel:
    tile = _TILE.search(name.base)
    generation = match[2]
    return Kernel(
        name.raw,
        "conv",
        "miopen",
        dtype=SHORT.get(match[4]),
        arch=_GENERATION.get(generation),
        tile=tile[1] if tile else None,
        layout="nchw" if match[3].startswith("nchw") else "nhwc",
        tensor_cores=True if generation.startswith("gtcx") else None,
        direction="forward" if match[1] == "fwd" else "backward",
        op="implicit_gemm",
    )


def _stated_type(base: str) -> str | None:
    naive = _NAIVE.match(base)
    if naive:
        return _NAIVE_TYPES[naive[1]]
    match = _TYPE.search(base)
    if match is None:
        return None
    return SHORT.get("fp16" if match[1] == "fp16fp32" else match[1])


def _layout(base: str) -> str | None:
    lowered = base.lower()
    return "nhwc" if "nhwc" in lowered else "nchw" if "nchw" in lowered else None


def _direction(base: str) -> str | None:
    match = _WORD.search(base)
    if match is None:
        return None
    return "forward" if match[0].lower() in ("fwd", "forward") else "backward"
