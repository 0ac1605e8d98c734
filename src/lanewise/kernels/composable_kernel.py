"""AMD's composable kernel: ``ck::`` and ``ck_tile::``.

The template states, after the GemmSpecialization or the number of prefetch stages: threads, then the tile M, N, K.
``xdl`` and ``wmma`` are matrix instructions, ``dl`` is not; ``unsigned short`` is bf16 here.
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, word_string
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_TILE = re.compile(r"GemmSpecialization\)\d+, \d+, (\d+), (\d+), (\d+)")
_TILE_AB_SCALE = re.compile(r"GemmSpecialization\)\d+, \d+, \d+, \d+, \d+, (\d+), (\d+), (\d+)")
_TILE_B_SCALE = re.compile(r"GemmSpecialization\)\d+, \d+, \d+, \d+, (\d+), (\d+), (\d+)")
_TILE_MULTIPLE_D = re.compile(r"InMemoryDataOperationEnum\)\d+, \d+, \d+, (\d+), (\d+), (\d+)")
_INNER = re.compile(r"ck_tile::(\w+)")
_MATRIX = re.compile(r"xdl|wmma|mfma|Xdl|Wmma", re.IGNORECASE)
_GEMM_TILE = re.compile(r"TileGemmShape<ck_tile::sequence<(\d+), (\d+), (\d+)>")
_ATTENTION_TILE = re.compile(r"TileFmhaShape<ck_tile::sequence<(\d+), (\d+)")
_HEAD = 1600  # of a name: types and tiles stand first, and the rest can be tens of kB


def matches(name: Name) -> bool:
    """Whether the function is composable kernel's."""
    return name.root in ("ck", "ck_tile")


def decoded(name: Name) -> Kernel | None:
    """The kernel of a composable-kernel name."""
    head = name.text[:_HEAD].replace("unsigned short", "bhalf_t")
    if name.root == "ck_tile":
        return _tile_programming(name, head)
    kind, direction = _operation(name)
    product = kind in ("gemm", "conv", "moe", "attention")
    shape = _scaled(head) or _TILE.search(head) or _TILE_MULTIPLE_D.search(head)
    return Kernel(
        name.raw,
        kind,
        "composable-kernel",
        dtype=type_of(head, integers=False) or ("int8" if "signed char" in head else None),
        tile="x".join(shape.groups()) if shape and product else None,
        tensor_cores=_matrix_cores(head) if product else None,
        direction=direction,
    )


def _scaled(head: str) -> re.Match[str] | None:
    """With block scales, the scales' blocks stand between the threads and the tile."""
    if "ABScale" in head:
        return _TILE_AB_SCALE.search(head)
    return _TILE_B_SCALE.search(head) if "BScale" in head else None


def _matrix_cores(head: str) -> bool | None:
    """xdl, wmma and mfma in the kernel's or the grid-wise GEMM's name; MoE GEMMs and v3 pipelines have no others."""
    if _MATRIX.search(head) or "BlockGemmPipelineVersion" in head:
        return True
    return False if "_dl_" in head else None


def _operation(name: Name) -> tuple[str | None, str | None]:
    base = name.base
    for part, direction in (
        ("conv_fwd", "forward"), ("conv_bwd", "backward"), ("conv2d_fwd", "forward"), ("conv2d_bwd", "backward"),
        ("xdlops_bwd_weight", "backward"), ("xdl_cshuffle_bwd", "backward"), ("bwd_data", "backward"),
        ("bwd_weight", "backward"),
    ):  # fmt: skip
        if part in base:
            return "conv", direction
    if "softmax_gemm" in base:
        return "attention", direction_of(name.words)
    if "contraction" in base:
        return "gemm", None
    if "MeanVar" in base or "layernorm" in base or "normalization" in base:
        return "norm", direction_of(name.words)
    return kind_of(name.words) or _by_template(name), direction_of(name.words)


def _by_template(name: Name) -> str | None:
    inner = name.arguments[0].partition("<")[0].rpartition("::")[2] if name.arguments else ""
    return kind_of(word_string(inner))


def _tile_programming(name: Name, head: str) -> Kernel:
    """``ck_tile::kentry<1, ck_tile::FmhaFwdKernel<...> >``: the class within says what it is."""
    classes = [m[1] for m in _INNER.finditer(name.tail[:200])]
    inner = next((c for c in classes if c.startswith("Fmha") or kind_of(word_string(c))), classes[0] if classes else name.base)
    words = word_string(inner)
    kind = "attention" if inner.startswith("Fmha") else kind_of(words) or kind_of(name.words)
    product = kind in ("gemm", "conv", "moe") or (kind == "attention" and "DotO" not in inner and "Convert" not in inner)
    if kind == "moe" and "Gemm" not in inner:
        product = False
    shape = (_ATTENTION_TILE if kind == "attention" else _GEMM_TILE).search(head)
    if kind == "attention" and "AppendKV" in inner:
        kind, product = "kv-cache", False
    return Kernel(
        name.raw,
        kind,
        "composable-kernel",
        dtype=type_of(head, integers=False),
        tile="x".join(filter(None, shape.groups())) if shape and product else None,
        tensor_cores=True if product else None,
        direction=_direction(inner, words),
    )


def _direction(inner: str, words: str) -> str | None:
    if "Bwd" in inner:
        return "backward"
    return "forward" if "Fwd" in inner else direction_of(words)
