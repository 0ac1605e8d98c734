"""cuFFT, cuSOLVER, cuSPARSE, cuRAND and MAGMA, and their counterparts on AMD devices."""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.words import kind_of

__all__ = ["decoded", "matches"]

_FFT = re.compile(
    r"(?:regular|vector|composite|multi|real|bluestein|prime|mixed)_(?:\w*fft\w*|bluestein\w*)|[ds]pRadix\w+|[ds]pVector\w+"
    r"|(?:pre|post)process\w*(?:C2C|R2C|C2R)\w*|\w*bluestein\w*|fft_rtc\w*|r2c_\w*post\w*|postprocess_kernel|preprocess_kernel"
    r"|spRealComplex\w*|dpRealComplex\w*"
)
_SOLVER = re.compile(
    r"\w*(?:getrf|potrf|potf2|geqrf|geqr2|gesvd|syev|heev|laswp|larf|larft|trsm|trsv|trtri|sytrf|gebrd|ormqr|orgqr|syrk_kernel"
    r"|getrs|potrs|getf2|trmv|sytrd|stedc|householder|jacobi|steqr|getri|gesv|xxtrf)\w*"
    r"|(?:\w*_)?[sdcz]?(?:laed\d|labrd|latrd|lansy|gelange|lascl|lacpy|lasr|laset|lacgv|gebal|gebd2|gehd2|ormql|ormtr|orgql"
    r"|ipiv)_?\w*|(?:batch_)?(?:FnrmA|offA)_stage\d|(?:column|row)_rotate_batch\w*|lapack_\w+|csrqr\w+|csrchol\w+"
    r"|cusolver\w+|chase_bulge\w+"
)
# Sparse formats lead cuSPARSE's names. Tridiagonal systems: cyclic reduction, Thomas, SPIKE.
_SPARSE = re.compile(
    r"(?!csrqr|csrchol)[sdcz]?(?:csr|bsr|gebsr|bsc|csc|coo)\w*?(?:mm|mv|sv|sm|2csr|2csc|2bsr|2gebsr|geam|ilu|ic0|ic02)\w*"
    r"|cusparse\w+"
    r"|(?!csrqr|csrchol)(?:csr|bsr)\w*_(?:core|kernel)|convert_C\w+To\w+_kernel"
)
_TRIDIAGONAL = re.compile(r"pcr\w+|cr(?:Global|Copy|Shared)\w+|cuThomas\w+|spike_\w+|g[tp]sv_\w+|(?:foward|back)_marshaling\w*")
_CALLBACK = re.compile(r"(?:re|un)?pack(?:C2C|R2C|C2R)_callback\w*")
# MAGMA's templates, and its kernels that begin with the precision.
_MAGMA_STEPS = ("potf2", "getf2", "geqr2", "laswp", "laset", "lacpy", "trsm", "trtri", "lascl_2x2", "swap_kernel",
                "transpose_kernel", "transpose_inplace", "gemm_batched_smallsq", "getrf_batched_smallsq", "displace_pointers",
                "computecolumn_kernel", "scal_", "hetrf", "sytrf", "geqrf_batched_smallsq")  # fmt: skip
_MAGMA_PIVOTS = re.compile(
    r"(?:adjust_ipiv|setup_pivinfo|stepinit_ipiv|i[sdcz]amax|idisplace_pointers)\w*_kernel|kernel_[sdcz]set_p"
)
_PRECISIONS = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128", "h": "fp16"}
_MAGMA_PRECISION = re.compile(r"(?:magma_(?:lds128_)?|i)?([sdczh])(?!e|tep)")
_MAGMA = (
    *("magma", "gemm_template", "gemvn_template", "gemvc_template", "trsm_template", "herk_template"),
    *(precision + step for precision in "sdcz" for step in _MAGMA_STEPS),
)
_ROOTS = {"cusparse": "cusparse", "cusolver": "cusolver", "cufft": "cufft", "curand": "curand", "rocsparse": "rocsparse",
          "rocfft": "rocfft", "rocsolver": "rocsolver", "cusolver_internal": "cusolver"}  # fmt: skip


def matches(name: Name) -> bool:
    """Whether this is a kernel of a library for transforms, solvers or sparse matrices."""
    base = name.base
    return (
        name.root in _ROOTS
        or _of_magma(base)
        or base.startswith(("rocsolver", "rocfft", "rocsparse"))
        or (not name.root and _sparse_library(base) is not None)
        or (not name.root and (_CALLBACK.match(base) or _FFT.fullmatch(base) or _SOLVER.fullmatch(base)) is not None)
        or (base == "kernel" and _SOLVER.match(name.tail[1:60]) is not None)
    )


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name, or None."""
    base = name.base
    root = _ROOTS.get(name.root)
    sparse = root if root in ("cusparse", "rocsparse") else None if root else _sparse_library(base)
    if sparse:
        return _sparse(name, sparse)
    if root in ("cufft", "rocfft") or base.startswith("rocfft") or _FFT.fullmatch(base) or _CALLBACK.match(base):
        library = root or ("rocfft" if base.startswith(("rocfft", "fft_rtc")) else "cufft")
        return Kernel(name.raw, "fft", library, dtype=type_of(name.tail[:200], integers=False))
    if root == "curand":
        return Kernel(name.raw, "random", "curand")
    if _of_magma(base):
        return _magma(name)
    triangular = base.startswith(("trsm", "trsv", "batch_trsm", "trmv", "kernel_trsm")) or base[1:5] == "trsv"
    library = root or ("rocsolver" if base.startswith("rocsolver") else "cublas" if triangular else "cusolver")
    kind = "gemv" if base.startswith("trmv") else "linalg"
    return Kernel(name.raw, kind, library, dtype=type_of(name.tail[:100], integers=False))


def _of_magma(base: str) -> bool:
    return base.startswith(_MAGMA) or _MAGMA_PIVOTS.match(base) is not None


def _magma(name: Name) -> Kernel:
    """Products run on CUDA cores. Those with cuBLAS's types among the parameters are parts of cuBLAS."""
    base = name.base
    product = "gemm" in base or "trmm" in base or "bdmm" in base
    precision = None if "template" in base else _MAGMA_PRECISION.match(base)
    return Kernel(
        name.raw,
        "gemm" if product else "gemv" if "gemv" in base else "linalg",
        "cublas" if "cublas" in name.tail or base.endswith("Ex_kernel") else "magma",
        dtype=_PRECISIONS[precision[1]] if precision else type_of(name.tail[:100], integers=False),
        tensor_cores=False if product else None,
    )


_SOLVES = re.compile(r"(?:csr|bsr)r?s[mv]|ilu|ic0")


def _sparse_library(base: str) -> str | None:
    if base.startswith("rocsparse"):
        return "rocsparse"
    return "cusparse" if _SPARSE.fullmatch(base) or _TRIDIAGONAL.fullmatch(base) else None


def _of_words(name: Name) -> str:
    """Steps around sparse products; ``partition`` cuts a matrix into pieces of equal work and sorts nothing."""
    words = kind_of(name.words)
    plain = words in ("cast-copy", "transpose-layout", "fill", "index", "reduction", "elementwise", "sort-scan")
    return words if words and plain and "partition" not in name.base else "other"


def _sparse(name: Name, library: str) -> Kernel:
    """Sparse products by their letters: mm times a matrix, mv times a vector; partitioning and the like is the rest."""
    base = name.base.lower()
    if re.search(r"(?:csr|coo|bsr|csc|ell|sp|dense)\w*mm|sddmm|spgemm|gemmi", base):
        kind = "gemm"
    elif re.search(r"(?:csr|coo|bsr|csc|ell|sp)\w*mv", base):
        kind = "gemv"
    else:
        kind = "linalg" if _TRIDIAGONAL.fullmatch(name.base) or _SOLVES.search(base) else _of_words(name)
    return Kernel(name.raw, kind, library, dtype=type_of(name.tail[:200], integers=False))
