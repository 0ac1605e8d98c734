"""Tensile: the GEMM kernels of rocBLAS and hipBLASLt.

Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_..._ISA942_...
     |    |    |      |                        |            |            gfx942
     |    |    |      |                        |            matrix instruction
     |    |    |      what the kernel can do   tile MxNxK
     |    |    types: in, out, compute
     |    B: ljk as stored, jlk transposed
     A: ilk as stored, lik transposed
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.words import kind_of

__all__ = ["decoded", "matches"]

_INDICES = re.compile(r"Cijk_A(lik|ilk)(C?)_B(ljk|jlk)(C?)_([A-Z0-9]+)(?:_([A-Z0-9]+))?")
_TILE = re.compile(r"_MT(\d+x\d+x\d+)")
_INSTRUCTION = re.compile(r"_MI(\d+x\d+)")
_ISA = re.compile(r"_ISA(\w+?)(?:_|$)|_gfx(\w+?)(?:_|$)")
_OPERANDS = {
    "S": "fp32", "D": "fp64", "H": "fp16", "B": "bf16", "C": "complex64", "Z": "complex128", "I8": "int8",
    "F8": "fp8_e4m3", "B8": "fp8_e5m2", "F8N": "fp8_e4m3", "B8N": "fp8_e5m2", "I": "int32", "F4": "fp4", "X": "tf32",
    "F6": "fp6",
}  # fmt: skip
_OPERAND = re.compile(r"F8N|B8N|F8|B8|F4|F6|I8|[SDHBCZIX]")
_MIXED = re.compile(r"(F8N?|B8N?)(F8N?|B8N?)(?:[SHB]S?|S)")


def matches(name: Name) -> bool:
    """Whether this is a kernel of rocBLAS or hipBLASLt."""
    return name.base.startswith(("Cijk_", "Custom_Cijk_")) or "rocblas" in name.path[:16]


def decoded(name: Name) -> Kernel | None:
    """The kernel of a Tensile name, or of one of rocBLAS's own kernels."""
    base = name.base.removeprefix("Custom_")
    if base.startswith("rocblas") or "rocblas" in name.root:
        kind = kind_of(name.words) or "other"
        return Kernel(name.raw, kind, "tensile", dtype=type_of(name.tail[:200], integers=False))
    if "PostGSU" in base:
        return Kernel(name.raw, "gemm-aux", "tensile")
    match = _INDICES.match(base)
    if match is None:
        return Kernel(name.raw, "gemm-aux" if "_BiasS" in base else "gemm", "tensile")
    tile, isa, instruction = _TILE.search(base), _ISA.search(base), _INSTRUCTION.search(base)
    return Kernel(
        name.raw,
        "gemm",
        "tensile",
        dtype="tf32" if "_S_MX_" in base else _dtype(match[5]),
        arch=f"gfx{(isa[1] or isa[2]).lower()}" if isa else None,
        tile=tile[1] if tile else None,
        layout=("t" if match[1] == "lik" else "n") + ("t" if match[3] == "jlk" else "n"),
        tensor_cores=_matrix_instructions(base, instruction is not None),
    )


def _matrix_instructions(base: str, stated: bool) -> bool | None:
    """MI names the instruction; a complete name (it ends in the work group) without one uses vector units."""
    if stated:
        return True
    return False if "_WG" in base else None


def _dtype(letters: str) -> str | None:
    """The type of the operands; two 8-bit floats of different kinds are a pair."""
    mixed = _MIXED.fullmatch(letters)
    if mixed:
        return "+".join(dict.fromkeys((_OPERANDS[mixed[1]], _OPERANDS[mixed[2]])))
    first = _OPERAND.match(letters)
    return _OPERANDS[first[0]] if first else None
