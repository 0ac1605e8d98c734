"""xmma kernels of cuBLAS, cuDNN, cuSPARSELt and TensorRT.

sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel_cublas
     |    |    |      |       |   |    |
     |    |    |      |       |   |    tile MxNxK
     |    |    |      |       |   op(A) and op(B); of C
     |    |    |      |       type of C
     |    |    |      types of the multiplication and of the sum
     |    |    types of A and B in memory
     |    what is computed
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name

__all__ = ["decoded", "matches"]

_START = re.compile(r"(?:trt_)?sm(\d+[af]?)_xmma_")
_TYPE = re.compile(r"tf32|cbf16|bf16|cf32|cf64|cf16|ci8|f64|f32|f16|f8|e4m3|e5m2|i8|u8|i4|i32|s32|s8|u32|b1")
_TYPES = re.compile(f"(?:{_TYPE.pattern}){{1,3}}$")
_TILE = re.compile(r"tile(?:size)?(\d+x\d+(?:x\d+)?)")
_STAGE = re.compile(r"stages?(\d+)")
_LAYOUT = re.compile(r"[ntc]{2}$")
_TENSOR = ("tensor", "sptensor", "warpgroupsize", "hmma", "imma", "gmma", "cgasize", "utcmma")
_DIRECTIONS = {"fprop": "forward", "dgrad": "backward", "wgrad": "backward", "bprop": "backward"}
# What xmma names do tell of their epilogues; bias and relu they do not.
_EPILOGUES = {"dgelu": "dgelu", "drelu": "drelu", "bgrada": "bgrad", "bgradb": "bgrad"}


def matches(base: str) -> bool:
    """Whether this is an xmma name."""
    return "_xmma_" in base[:12]


def decoded(name: Name) -> Kernel | None:
    """The kernel of an xmma name, or None."""
    start = _START.match(name.base)
    if start is None:
        return None
    tokens = name.base[start.end() :].lower().split("_")
    direction = next((_DIRECTIONS[token] for token in tokens if token in _DIRECTIONS), None)
    kind = "conv" if direction or "deconv" in tokens or "conv" in tokens else "gemm"
    sums_parts = "split_k_kernel" in name.base
    dtype, after = _dtype(tokens)
    tile, stage = _TILE.search(name.base), _STAGE.search(name.base)
    return Kernel(
        name.raw,
        f"{kind}-aux" if sums_parts else kind,
        _library(name.base, kind),
        dtype=dtype,
        arch=f"sm{start[1]}",
        tile=tile[1] if tile and not sums_parts else None,
        stages=int(stage[1]) if stage and not sums_parts else None,
        layout=_layout(tokens[after:], kind),
        epilogue="+".join(dict.fromkeys(_EPILOGUES[t] for t in tokens if t in _EPILOGUES)) or None,
        tensor_cores=None if sums_parts else _tensor_cores(tokens, dtype),
        direction=direction,
        op="implicit_gemm" if "implicit" in tokens else None,
    )


def _library(base: str, kind: str) -> str:
    lowered = base.lower()
    if "cusparselt" in lowered or "sparse_gemm" in lowered:
        return "cusparselt"
    if "cudnn" in lowered:
        return "cudnn"
    return "cublas" if "cublas" in lowered or kind == "gemm" else "cudnn"


def _dtype(tokens: list[str]) -> tuple[str | None, int]:
    """The types of the operands, and where the types end. Both operands stand there where they differ.

    Narrower operands that CUDA cores multiply in fp32 count as what they are in memory.
    """
    for place, token in enumerate(tokens):
        stored = _types(token)
        if not stored:
            continue
        following = _types(tokens[place + 1]) if place + 1 < len(tokens) else []
        multiplied = stored if len(following) < 2 or stored[0].startswith("c") else following
        if multiplied[0] == "f32" and stored[0] in ("f16", "bf16"):
            multiplied = stored
        operands = multiplied[:2] if len(multiplied) > 2 else multiplied[:1]
        end = place
        while end < len(tokens) and _types(tokens[end]):
            end += 1
        return "+".join(dict.fromkeys(SHORT[t] for t in operands if t in SHORT)) or None, end
    return None, 0


def _types(token: str) -> list[str]:
    """``f16f32`` gives both; an empty list for all other tokens."""
    return _TYPE.findall(token) if _TYPES.match(token) else []


def _layout(tokens: list[str], kind: str) -> str | None:
    """Of a convolution: that of its input, which stands before the filter's (``nhwckrsc``), then the output's."""
    if not tokens:
        return None
    if kind == "gemm":
        return tokens[0] if _LAYOUT.match(tokens[0]) else None
    return _tensor_layout(tokens[0])


def _tensor_layout(token: str) -> str | None:
    if token.startswith(("nhwc", "ndhwc")):
        return "nhwc"
    return "nchw" if token.startswith(("nchw", "ncdhw")) and not token.startswith("nchw4") else None


def _tensor_cores(tokens: list[str], dtype: str | None) -> bool | None:
    if "ffma" in tokens or "simt" in tokens:
        return False
    if any(token.startswith(_TENSOR) for token in tokens):
        return True
    return True if dtype in ("tf32", "fp8_e4m3", "fp8_e5m2") else None
