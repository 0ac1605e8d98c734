"""AITER, AMD's inference kernels: assembly with all in the name, and templates.

aiter::fmha_fwd_hd128_bf16_rtz                                  attention, head dimension 128
aiter::fmoe_stage1_bf16_pertokenFp8_blockscale_g1u1_32x128_...  experts, tile 32x128
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT, cast, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_SHAPE = re.compile(r"_(\d+)x(\d+)(?:x(\d+))?(?:_|$)")
_TYPE = re.compile(r"_(bf16|fp16|f16|fp8|f8|fp32)(?:_|$)")
_ATTENTION = re.compile(r"fmha|mla_|^pa_|paged_attention")
_GEMM_LED = re.compile(r"^(bf16|fp8|f4|i8|f8)gemm")


def matches(name: Name) -> bool:
    """Whether this is one of AITER's kernels."""
    return name.root == "aiter" or name.text.startswith("aiter::")


def decoded(name: Name) -> Kernel | None:
    """The kernel of an AITER name."""
    base, words = name.base, name.words
    kind = _kind(base, words)
    if kind is None:
        return None
    template = name.tail.startswith("<")
    shape = _SHAPE.search(base) if kind in ("moe", "gemm") else None
    product = kind in ("gemm", "attention") and not template and "reduce" not in base
    return Kernel(
        name.raw,
        kind,
        "aiter",
        dtype=_template_type(name, kind) if template else _named_type(base, kind),
        tile="x".join(filter(None, shape.groups())) if shape else None,
        tensor_cores=True if product or "mfma" in base else None,
        direction=direction_of(words) if kind != "moe" else None,
    )


def _kind(base: str, words: str) -> str | None:
    if _ATTENTION.search(base) and "cache" not in base:
        return "attention"
    if _GEMM_LED.match(base) or base.startswith(("wv_splitk", "LLGemm", "wvSplitK")):
        return "gemm"
    if base.startswith("kn_entry") and ("sbhd" in base or "thd" in base or "2d" in base):
        return "rope"
    if "moe" in base:
        return "moe"
    return kind_of(words)


def _named_type(base: str, kind: str) -> str | None:
    """Assembly names state the type of the activations first; what is quantised is not told apart from them."""
    led = _GEMM_LED.match(base)
    if led:
        return {"f4": "fp4", "i8": "int8", "f8": "fp8"}.get(led[1], led[1])
    found = _TYPE.search(base)
    return SHORT.get(found[1]) if found and kind == "attention" else None


def _template_type(name: Name, kind: str) -> str | None:
    types = [t for a in name.arguments[:3] if (t := type_of(a, integers=False) or _small(a))]
    if kind == "quantize":
        return cast(types[0], types[1]) if len(set(types)) > 1 and types[1].startswith(("fp8", "int8", "fp4")) else None
    return types[0] if types else None


def _small(argument: str) -> str | None:
    return "int8" if argument.strip() in ("signed char", "int8_t") else None
