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
    r"|(?:pre|post)process\w*(?:C2C|R2C|C2R)\w*|\w*bluestein\w*|fft_rtc\w*|r2c_\w*post\w*|postprocess_kernel|preprocess_kernel|spRealComplex\w*|dpRealComplex\w*"
)
_SOLVER = re.compile(
    r"\w*(?:getrf|potrf|potf2|geqrf|geqr2|gesvd|syev|heev|laswp|larf|larft|trsm|trsv|trtri|sytrf|gebrd|ormqr|orgqr|syrk_kernel"
    r"|getrs|potrs|getf2|trmv|sytrd|stedc|householder|jacobi|steqr|getri|gesv|xxtrf)\w*"
)
# MAGMA's templates, and its kernels that begin with the precision.
_MAGMA_STEPS = ("potf2", "getf2", "geqr2", "laswp", "laset", "lacpy", "trsm", "trtri")
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
        or base.startswith((*_MAGMA, "rocsolver", "rocfft", "rocsparse"))
        or (not name.root and (_FFT.fullmatch(base) is not None or _SOLVER.fullmatch(base) is not None))
        or (base == "kernel" and _SOLVER.match(name.tail[1:60]) is not None)
    )


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name, or None."""
    base = name.base
    root = _ROOTS.get(name.root)
    if root == "cusparse" or base.startswith("rocsparse") or root == "rocsparse":
        return _sparse(name, root or "rocsparse")
    if root in ("cufft", "rocfft") or base.startswith("rocfft") or _FFT.fullmatch(base):
        library = root or ("rocfft" if base.startswith(("rocfft", "fft_rtc")) else "cufft")
        return Kernel(name.raw, "fft", library, dtype=type_of(name.tail[:200], integers=False))
    if root == "curand":
        return Kernel(name.raw, "random", "curand")
    if base.startswith(_MAGMA):
        kind = "gemm" if "gemm" in base else "gemv" if "gemv" in base else "linalg"
        return Kernel(name.raw, kind, "magma")
    triangular = base.startswith(("trsm", "trsv", "batch_trsm"))
    library = root or ("rocsolver" if base.startswith("rocsolver") else "cublas" if triangular else "cusolver")
    return Kernel(name.raw, "linalg", library, dtype=type_of(name.tail[:100], integers=False))


def _sparse(name: Name, library: str) -> Kernel:
    """Sparse products by their letters: mm times a matrix, mv times a vector; partitioning and the like is the rest."""
    base = name.base.lower()
    if re.search(r"(?:csr|coo|bsr|csc|ell|sp|dense)\w*mm|sddmm|spgemm|gemmi", base):
        kind = "gemm"
    elif re.search(r"(?:csr|coo|bsr|csc|ell|sp)\w*mv", base):
        kind = "gemv"
    else:
        words = kind_of(name.words)
        kind = words if words in ("cast-copy", "transpose-layout", "fill") else "other"
    return Kernel(name.raw, kind, library, dtype=type_of(name.tail[:200], integers=False))
