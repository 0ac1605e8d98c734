"""Names that no family knows: what their words, types and architecture say, and nothing that they do not."""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name, word_string
from lanewise.kernels.owners import owner_of
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded"]

_ARCH = re.compile(r"_sm_?(\d{2,3})[af]?(?=_|$)|_(gfx\d{3,4}[a-z]?)(?=_|$)")
_ARGUMENT = re.compile(r"<\s*(?:\w+::)*([A-Za-z_]\w+)")
_LAYOUT = re.compile(r"_(nhwc|nchw)_")
_SHAPE = re.compile(r"_(\d+x\d+(?:x\d+)?)(?=_|$)")
# SageAttention multiplies queries and keys in int8; its template states the types of sums and outputs.
_SAGE = re.compile(r"qk_int_sv_f\w+_attn_kernel")
_TYPE_WORDS = frozenset(listed("bf16 fp16 f16 fp32 f32 tf32 fp8 e4m3 e5m2 int8 s8 fp64 f64"))
_SAYS_NOTHING = re.compile("_(?:(?:kernel|impl|main|run|launch)_)+")
# Kinds whose first template type is that of the data.
_TYPED = frozenset(
    listed(
        "gemm gemv conv attention norm softmax loss elementwise fused-pointwise reduction rope kv-cache pooling optimizer rnn"
        " random embedding fused-reduction resample"
    )
)


def decoded(name: Name) -> Kernel:
    """The kernel of any name; without a telling word, only the owner of its namespace."""
    if _SAGE.match(name.base):
        return Kernel(name.raw, "attention", "sageattention", tensor_cores=True)
    kind = kind_of(name.words) or _kind_of_argument(name) or _kind_of_namespace(name)
    arch = _ARCH.search(name.base)
    layout = _LAYOUT.search(name.words)
    dtype = None
    if kind in _TYPED:
        dtype = type_of(name.tail[:300], integers=False) if name.tail.startswith("<") else _type_of_words(name.words)
    return Kernel(
        name.raw,
        kind,
        owner_of(name.root) or _owner_of_plain(name),
        dtype=dtype,
        arch=(f"sm{arch[1]}" if arch[1] else arch[2]) if arch else None,
        tile=_tile(name.base) if kind == "gemm" else None,
        layout=layout[1] if layout and kind in ("conv", "norm", "pooling") else None,
        direction=direction_of(name.words) if kind else None,
    )


def _tile(base: str) -> str | None:
    """The only shape in the name of a product."""
    shapes = _SHAPE.findall(base)
    return shapes[0] if len(shapes) == 1 else None


def _kind_of_argument(name: Name) -> str | None:
    """``kernel<getrf_wo_pivot_params_<float> >``: a wrapper is named after what it wraps."""
    inner = _ARGUMENT.match(name.tail)
    return kind_of(word_string(inner[1])) if inner else None


def _kind_of_namespace(name: Name) -> str | None:
    """``layernorm::kernel`` is named after the namespace around it."""
    if not _SAYS_NOTHING.fullmatch(name.words):
        return None
    return kind_of(word_string(name.path.rpartition("::")[0].rpartition("::")[2]))


def _type_of_words(words: str) -> str | None:
    """A type stated as a word, where one is."""
    found = {SHORT[word] for word in words.split("_") if word in _TYPE_WORDS}
    return found.pop() if len(found) == 1 else None


def _owner_of_plain(name: Name) -> str | None:
    """A library's types among the parameters; functions of Triton are Python's, mostly private, and have none."""
    head = name.tail[:300]
    for library in ("cublas", "cudnn", "cusparse", "cusolver", "curand"):
        if library in head:
            return library
    if name.base.startswith("__amd_rocclr_"):
        return "driver"
    if "triton" in name.base:
        return "triton"
    return "triton" if name.base.startswith("_") and not name.tail and name.base.islower() else None
