"""cuBLAS and cuBLASLt: nvjet, GEMV and small GEMM templates, split-K sums, BLAS 1.

nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_bias_TNT
      |    |   |       |    |   | |  |     |    op(A), op(B), and one letter whose meaning is not established
      |    |   |       |    |   | |  |     epilogue
      |    |   |       |    |   | |  cooperation of warp groups
      |    |   |       |    |   | beta: z 0, add 1, x another
      |    |   |       |    |   not established
      |    |   |       |    cluster
      |    |   |       K block x stages
      |    |   tile
      |    types: in, compute, out; with five letters A, B, C, compute, D
      what it was built for
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import first_type
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name

__all__ = ["BASES", "decoded", "nvjet"]

# "o" is e2m1: those kernels name the scales of NVFP4 (Avec16UE4M3).
_LETTERS = {"t": "bf16", "h": "fp16", "s": "tf32", "d": "fp64", "q": "fp8_e4m3", "r": "fp8_e5m2", "o": "fp4"}
_TYPES = re.compile(r"[a-z]{3}(?:[a-z]{2})?$")
_TILE = re.compile(r"\d+x\d+(?:x\d+)?$")
_LAYOUT = re.compile(r"[NT]{2,4}$")
_EPILOGUE_PART = re.compile(r"dgelu|drelu|gelu|relu|biast?|bgrad[ab]?|aux|swiglu")
# As they are applied; the name has them in any order.
_ORDER = ("add", "bias", "relu", "gelu", "swiglu", "aux", "drelu", "dgelu", "bgrad")
_BETA = {"bz": None, "badd": "add", "bx": "add"}

_GEMV = frozenset(
    listed(
        "gemv2T_kernel_val gemv2T_kernel gemv2N_kernel gemv2N_kernel_val gemvNSP_kernel gemvNSP_kernel_val gemv_kernel"
        " gemv2T gemv2N gemv2T_kernel_ref dot_kernel dotc_kernel dot_product_kernel reduce_1Block_kernel"
        " gemv_dot_kernel sgemvn_kernel"
        " gemvTN_kernel gemvStridedBatched_kernel"
    )
)
_GEMM = frozenset(
    listed(
        "gemmSN_NN_kernel gemmSN_TN_kernel gemmSN_NT_kernel gemmSN_TT_kernel gemmk1_kernel gemm_kernel1x1_core"
        " gemm_kernel2x2_core gemm_kernel1x1_tile_multiple_core gemm_kernel2x2_tile_multiple_core gemm_kernel"
        " gemm_kernel2x1_core gemmSN_kernel batch_gemm_kernel gemm_largek gemm_lds64 gemmBatched_kernel"
        " gemm_kernel64addr_1x1_core batch_gemm_kernel1x1_core"
    )
)
_GEMM_AUX = frozenset(("splitKreduce_kernel", "globalKernel", "splitKreduce_kernel_64addr", "epilogueKernel"))
_VECTOR = {
    "axpy_kernel_val": "elementwise", "axpy_kernel_ref": "elementwise", "scal_kernel_val": "elementwise",
    "scal_kernel_ref": "elementwise", "scal_64addr_kernel": "elementwise", "copy_kernel": "cast-copy",
    "nrm2_kernel": "reduction", "asum_kernel": "reduction", "iamax_kernel": "reduction",
    "iamin_kernel": "reduction", "swap_kernel": "cast-copy", "rot_kernel": "elementwise",
    "ger_kernel": "gemm", "trsv_kernel": "linalg", "trsm_left_kernel": "linalg", "trsm_right_kernel": "linalg",
    "batch_trsm_left_kernel": "linalg", "batch_trsm_right_kernel": "linalg", "trsm_ln_up_kernel": "linalg",
}  # fmt: skip
_ROOTS = ("cublas", "cublasLt", "internal", "inf_patching")
_BY_LETTER = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128", "h": "fp16"}
BASES = _GEMV | _GEMM | _GEMM_AUX | frozenset(_VECTOR)

# "fermiPlusCgemmLDS128_batched", "sgemm_sm35_ldg_nn_64x16x64x16x16", "zgemm1x1_kernel_core".
_OLD_GEMM = re.compile(r"([sdczh])gemm(?:_(?:largek|lds|sm_?\w*\d|\d)|\dx\d_)|(?:fermi|kepler)(?:Plus)?([SDCZH])gemm")
# BLAS 2 and 3 by their letters: packed, banded, symmetric, Hermitian and triangular matrices.
_BLAS = (
    ("gemv", re.compile(r"(?:g[bp]|t[bpr]|sy|he|sphp|sbhb|syhe)mv|cuds_symv")),
    ("linalg", re.compile(r"t[bpr]s[mv]|kernel_trsm|matinv")),
    ("gemm", re.compile(r"(?:sy|he|syhe)r2?k|(?:sy|he|syhe)mm|trmm|(?:sy|he|sphp)r2?_|patch_gemm")),
    ("elementwise", re.compile(r"geam|dgmm|rotm?g?_|kernel_conjugate")),
    ("cast-copy", re.compile(r"tpttr|trttp")),
    ("transpose-layout", re.compile(r"transpose_|region_transform")),
    ("reduction", re.compile(r"nrm2|asum|iamax|iamin")),
)
_ONLY_CUBLAS = re.compile(r"cuds_symv|syhemv[lu]_|symv_(?:lo|up)_|rotm?g_(?:real|complex|kernel)|kernel_conjugate|kernel_trsm_")
_VARIANT = re.compile(r"_64addr|_half(?=$|_)|_int32$")
_SMALL_LAYOUT = re.compile(r"_(NN|NT|TN|TT)(?:_|$)")


def decoded(name: Name) -> Kernel | None:
    """The kernel of a name that begins or ends as cuBLAS's do, or None."""
    base = _VARIANT.sub("", name.base)
    if base.startswith("nvjet"):
        return nvjet(name)
    if name.root and name.root not in _ROOTS and "cublas" not in name.tail:
        return None
    if base == "kernel" and "gemvx" in name.path:
        return _product(name, "gemv")
    if base in _GEMV:
        return _product(name, "gemv")
    if base in _GEMM:
        return _product(name, "gemm")
    if base in _GEMM_AUX:
        return _auxiliary(name)
    if base in _VECTOR:
        return Kernel(name.raw, _VECTOR[base], "cublas", dtype=_element_type(name), op=base.split("_")[0])
    old = _OLD_GEMM.match(base)
    if old:
        dtype = _BY_LETTER[(old[1] or old[2]).lower()]
        return Kernel(name.raw, "gemm", "cublas", dtype=dtype, layout=_layout(base), tensor_cores=False)
    if name.root == "cublasLt" and ("educe" in base or base.startswith("globalKernel")):
        return Kernel(name.raw, "gemm-aux", "cublas")
    plain = _ONLY_CUBLAS.match(base) and name.tail
    return _by_letters(name, base) if plain or name.root in _ROOTS or "cublas" in name.tail else None


def _by_letters(name: Name, base: str) -> Kernel | None:
    """A kernel of BLAS 1 to 3 whose parameters are cuBLAS's types."""
    kind = next((kind for kind, pattern in _BLAS if pattern.match(base)), None)
    return Kernel(name.raw, kind, "cublas", dtype=_element_type(name)) if kind else None


def nvjet(name: Name) -> Kernel:
    """A kernel of cuBLASLt's own generator, token by token; see the module's drawing."""
    arch = types = layout = None
    shapes: list[str] = []
    stages: int | None = None
    epilogue: list[str] = []
    beta_known = False
    for token in name.base.split("_")[1:]:
        if token.startswith("sm") and token[2:3].isdigit():
            arch = token
        elif _TILE.match(token):
            shapes.append(token)
        elif types is None and not shapes and _TYPES.match(token):
            types = token
        elif token.isdigit() and shapes:
            stages = int(token)
        elif token in _BETA:
            beta_known = True
            epilogue += filter(None, [_BETA[token]])
        elif _LAYOUT.match(token):
            layout = token[:2].lower()
        else:
            epilogue += _epilogue_parts(token)
    tile, stages = _tile_and_stages(shapes, stages)
    return Kernel(
        name.raw,
        "gemm",
        "cublas",
        dtype=_nvjet_type(types),
        arch=arch,
        tile=tile,
        stages=stages,
        layout=layout,
        epilogue="+".join(sorted(set(epilogue), key=_ORDER.index)) or ("none" if beta_known else None),
        tensor_cores=True,
    )


def _epilogue_parts(token: str) -> list[str]:
    """``relubias`` gives bias and relu; a token with anything else in it is no epilogue."""
    parts = _EPILOGUE_PART.findall(token)
    if "".join(parts) != token:
        return []
    return ["bias" if part == "biast" else "bgrad" if part.startswith("bgrad") else part for part in parts]


def _tile_and_stages(shapes: list[str], stages: int | None) -> tuple[str | None, int | None]:
    """``192x128`` and ``64x5`` give ``192x128x64`` and 5; the newer form ``128x208x64_2`` says so itself."""
    if not shapes:
        return None, None
    if shapes[0].count("x") == 2:
        return shapes[0], stages
    if len(shapes) < 2:
        return shapes[0], None
    block, depth = shapes[1].split("x")[:2]
    return f"{shapes[0]}x{block}", int(depth)


def _nvjet_type(types: str | None) -> str | None:
    if types is None:
        return None
    operands = [_LETTERS.get(letter) for letter in (types[:2] if len(types) == 5 else types[:1])]
    known = [operand for operand in operands if operand]
    return "+".join(dict.fromkeys(known)) if len(known) == len(operands) else None


def _element_type(name: Name) -> str | None:
    """The type of the tensors where the parameters are typed, else the first type that is no index."""
    at = name.tail.find("cublasGemvTensor")
    if at >= 0:
        return first_type(name.tail, at, at + 120, integers=False)
    return first_type(name.tail, 0, 200, integers=False)


def _layout(base: str) -> str | None:
    match = _SMALL_LAYOUT.search(base)
    return match[1].lower() if match else None


def _product(name: Name, kind: str) -> Kernel:
    """GEMV and the GEMM templates for small sizes run on CUDA cores."""
    return Kernel(name.raw, kind, "cublas", dtype=_element_type(name), layout=_layout(name.base), tensor_cores=False)


def _auxiliary(name: Name) -> Kernel:
    """The sum over the parts of a split-K product has several types; an epilogue kernel has one."""
    dtype = first_type(name.tail, 0, 100, integers=False) if name.base == "globalKernel" else None
    return Kernel(name.raw, "gemm-aux", "cublas", dtype=dtype)
