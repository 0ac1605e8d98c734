"""Number types as kernel names spell them: C++ types, PyTorch's, and the short forms of cuBLAS, CUTLASS and NCCL."""

from __future__ import annotations

import re

__all__ = ["SHORT", "cast", "first_type", "type_of"]

_FP16 = ("Half", "__half", "__half2", "half", "half2", "half_t", "_Float16", "Float16", "fp16_t")
_BF16 = (
    "BFloat16", "__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16", "bfloat16_t", "__hip_bfloat16", "hip_bfloat16",
    "bfloat16", "__bf16", "bf16_t", "bhalf_t", "bf16",
)  # fmt: skip
_E4M3 = ("Float8_e4m3fn", "Float8_e4m3fnuz", "__nv_fp8_e4m3", "float_e4m3_t", "float_ue4m3_t", "__hip_fp8_e4m3",
         "__hip_fp8_e4m3_fnuz", "fp8_e4m3", "f8_fnuz_t", "f8_ocp_t")  # fmt: skip
_E5M2 = ("Float8_e5m2", "Float8_e5m2fnuz", "__nv_fp8_e5m2", "float_e5m2_t", "__hip_fp8_e5m2", "bf8_fnuz_t",
         "__hip_fp8_e5m2_fnuz", "fp8_e5m2", "bf8_ocp_t", "bf8_t")  # fmt: skip

_CPP: dict[str, str | None] = {
    "float": "fp32", "double": "fp64", "tfloat32_t": "tf32", "bool": "bool",
    "signed char": "int8", "int8_t": "int8", "unsigned char": "uint8", "uint8_t": "uint8",
    "short": "int16", "int16_t": "int16", "unsigned short": "uint16", "uint16_t": "uint16",
    "int": "int32", "int32_t": "int32", "unsigned int": "uint32", "uint32_t": "uint32",
    "long": "int64", "long long": "int64", "int64_t": "int64",
    "unsigned long": "uint64", "unsigned long long": "uint64", "uint64_t": "uint64",
    "float_e2m1_t": "fp4", "__nv_fp4_e2m1": "fp4", "fp4x2_t": "fp4", "Float4_e2m1fn_x2": "fp4",
    "f8_t": "fp8", "fp8_t": "fp8", "int4b_t": "int4", "uint4b_t": "int4",
    "complex<float>": "complex64", "complex<double>": "complex128",
    "cuComplex": "complex64", "cuDoubleComplex": "complex128", "float2": "complex64", "double2": "complex128",
    "OpaqueType": None,  # so many bytes, of any type
    **dict.fromkeys(_FP16, "fp16"), **dict.fromkeys(_BF16, "bf16"),
    **dict.fromkeys(_E4M3, "fp8_e4m3"), **dict.fromkeys(_E5M2, "fp8_e5m2"),
}  # fmt: skip

_WORD = re.compile(r"complex<\w+>|(?:(?:un)?signed )?long long|(?:un)?signed \w+|[A-Za-z_]\w*")
# Mostly indices, sizes and masks. Signed bytes and half bytes are none: products multiply them.
_INTEGERS = frozenset(
    spelling
    for spelling, dtype in _CPP.items()
    if dtype is not None and dtype.startswith(("int", "uint", "bool")) and dtype not in ("int8", "int4")
)

SHORT: dict[str, str] = {
    "f64": "fp64", "fp64": "fp64", "f32": "fp32", "fp32": "fp32", "tf32": "tf32", "tf32x3": "tf32",
    "f16": "fp16", "fp16": "fp16", "bf16": "bf16", "half": "fp16", "float": "fp32", "double": "fp64",
    "e4m3": "fp8_e4m3", "f8e4m3": "fp8_e4m3", "fe4m3": "fp8_e4m3", "ue4m3": "fp8_e4m3", "fp8e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2", "f8e5m2": "fp8_e5m2", "fe5m2": "fp8_e5m2", "f8": "fp8", "fp8": "fp8",
    "e2m1": "fp4", "f4": "fp4", "fp4": "fp4", "fp4e2m1": "fp4", "mxfp4": "fp4", "nvfp4": "fp4", "mxfp8": "fp8",
    "i8": "int8", "s8": "int8", "int8": "int8", "u8": "uint8", "uint8": "uint8",
    "int8x4": "int8", "uint8x4": "uint8", "i4": "int4", "s4": "int4",
    "u4": "int4", "int4": "int4", "i32": "int32", "s32": "int32", "i64": "int64", "b1": "bool",
    "cf32": "complex64", "cf64": "complex128", "bfloat16": "bf16", "float16": "fp16", "float32": "fp32",
}  # fmt: skip
"""What the short forms in names such as ``ampere_fp16_s16816gemm_fp16`` mean."""


def type_of(text: str, *, integers: bool = True) -> str | None:
    """The first number type that `text` names, or None; see `first_type`."""
    return first_type(text, 0, len(text), integers=integers)


def first_type(text: str, start: int, end: int, *, integers: bool = True) -> str | None:
    """The first number type named in ``text[start:end]``.

    A type known only by its size (``OpaqueType<4>``) ends the search: the name does not tell. Integer types
    but int8 and int4 are passed over where `integers` is False, since most of them are indices.
    """
    for match in _WORD.finditer(text, start, end):
        spelling = match[0]
        if spelling in _CPP and (integers or spelling not in _INTEGERS):
            return _CPP[spelling]
    return None


def cast(source: str | None, target: str | None) -> str | None:
    """``source->target``; None where one of them is not known, the type itself where both are the same."""
    if source is None or target is None:
        return None
    return source if source == target else f"{source}->{target}"
