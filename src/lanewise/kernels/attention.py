"""Attention kernels: FlashAttention 2 and 3, memory-efficient attention, TensorRT-LLM's, CUTLASS's.

flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, ..., cutlass::bfloat16_t, ...
                                         |    |    key block
                                         |    query block
                                         head dimension
fmha_cutlassF_bf16_aligned_64x64_rf_sm80          F forward, B backward; query block x key block
fmhaSm100fKernel_QkvBfloat16OBfloat16H128...Q8Kv128...   types, head dimension, query block, key block
"""

from __future__ import annotations

import re

from lanewise.kernels.cutlass import shape_of
from lanewise.kernels.dtypes import SHORT, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, split_arguments
from lanewise.kernels.words import direction_of

__all__ = ["decoded", "matches"]

_TRAITS = re.compile(r"[Ff]lash_(?:fwd|bwd)_kernel_traits\w*<(\d+), (\d+), (\d+)")
_FLASH_3 = re.compile(r"FlashAttn(Fwd|Bwd)(\w*)")
_FLASH_ARCH = re.compile(r"arch::Sm(\d+)|FlashAttn(?:Fwd|Bwd)Sm(\d+)")
# Parts of an attention that multiply no matrices: preparation, conversion, merging of splits.
_NO_PRODUCT = ("combine", "dot_do_o", "convert", "clear", "preprocess", "postprocess", "prepare", "Combine", "Preprocess",
               "Postprocess", "reduce", "Reduction", "schedule", "metadata", "permute")  # fmt: skip
_EFFICIENT = re.compile(r"fmha_cutlass([FB])_(f16|bf16|f32)_(?:not)?aligned_(\d+)x(\d+)_\w*?sm(\d+)")
_XFORMERS = re.compile(r"Attention(Backward)?Kernel<(.*)")
_BLOCKS = re.compile(r"(?:true|false|0|1), (\d+), (\d+)")
_ARCH = re.compile(r"arch::Sm(\d+)")
_TRTLLM_GEN = re.compile(r"[fF]mhaSm(\d+)[af]?Kernel(?:_(\w+))?")
_TRTLLM_BLOCKS = re.compile(r"Q(\d+)Kv(\d+)")
_TRTLLM_TYPES = re.compile(r"Q(?:kv|k)?(Bfloat16|Fp16|E4m3|Int8|E2m1|Fp32)")
_TRTLLM_NAMES = {"Bfloat16": "bf16", "Fp16": "fp16", "E4m3": "fp8_e4m3", "Int8": "int8", "E2m1": "fp4"}
_FMHA_V2 = re.compile(r"fmha_v2_(?:flash_attention_)?(bf16|fp16|e4m3|int8)_(?:fp32_)?(?:(\d+)_(\d+)_)?")
_FMHA_V2_ARCH = re.compile(r"_sm(\d+)")
# FlashMLA and what is built on it: sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel.
_FLASH_MLA = re.compile(r"(?:legacy::)?sm(\d+|xx)::(?=.*(?:mla|sparse_attn|core_attn|fused_norm_rope_attn))")
_STATIC_BLOCKS = re.compile(r"tuple<cute::C<(\d+)>, cute::C<(\d+)>, cute::(?:C|tuple)<")
_FA1 = re.compile(r"fmha_(?:fprop|bprop|dgrad)\w*")
_SM = re.compile(r"_sm(\d{2,3})_")


def matches(name: Name) -> bool:
    """Whether this is one of the attention kernels of this module, whatever wraps it."""
    base = name.base
    if name.root in ("flash", "pytorch_flash", "fmha"):
        return True
    if name.root.startswith(("sm", "legacy")):
        return _FLASH_MLA.match(name.path) is not None
    if not name.root:
        return base.startswith(("fmha", "flash_fwd", "flash_bwd", "Fmha", "attention_kernel_", "flash_attn_"))
    if not name.root.startswith("cutlass"):
        return False
    head = name.text[:300]
    return "flash::" in head or "fmha" in head.lower() or "AttentionKernel<" in head


def decoded(name: Name) -> Kernel | None:
    """The attention kernel of this name, or None."""
    base = name.base
    latent = _FLASH_MLA.match(name.path)
    if latent:
        return _flash_mla(name, latent)
    efficient = _EFFICIENT.match(base)
    if efficient:
        return _memory_efficient(name, efficient)
    if base.startswith("attention_kernel_") or "AttentionKernel<" in name.text[:300]:
        return _xformers(name)
    generated = _TRTLLM_GEN.match(base)
    if generated:
        return _trtllm_generated(name, generated)
    if base.startswith("fmha_v2"):
        return _fmha_v2(name)
    if base.startswith("flash_attn_"):  # anybody's: llama.cpp's, among others
        return Kernel(name.raw, "attention", direction=direction_of(name.words))
    three = _FLASH_3.search(name.text[:400])
    if three:
        return _flash_3(name, three)
    if base.startswith(("flash_", "compute_attn")) or name.root in ("flash", "pytorch_flash"):
        return _flash_2(name)
    return _cutlass_fmha(name)


def _multiplies(text: str) -> bool | None:
    """True for the kernels with matrix products; None, not applicable, for the others."""
    return None if any(part in text for part in _NO_PRODUCT) else True


def _flash_2(name: Name) -> Kernel:
    product = _multiplies(name.base)
    traits = _TRAITS.search(name.tail[:300])
    # The paged and MLA variants keep the order head dimension, query block, key block.
    return Kernel(
        name.raw,
        "attention",
        "flash-attention",
        dtype=type_of(name.tail[:600], integers=False),
        tile=f"{traits[2]}x{traits[3]}" if traits and product else None,
        tensor_cores=product,
        direction=direction_of(name.words),
    )


def _flash_mla(name: Name, match: re.Match[str]) -> Kernel:
    """Namespaces tell the architecture, and prefill from decoding."""
    return Kernel(
        name.raw,
        "attention",
        "flashmla",
        dtype=type_of(name.text[:600], integers=False),
        arch=None if match[1] == "xx" else f"sm{match[1]}",
        tensor_cores=_multiplies(name.base),
        direction="forward" if "fwd" in name.base else None,
    )


def _flash_3(name: Name, match: re.Match[str]) -> Kernel:
    """FlashAttention 3: CollectiveMainloop...<stages, cluster, tile, ...>, wrapped by cutlass::device_kernel."""
    product = _multiplies(match[2])
    arch = _FLASH_ARCH.search(name.text[:1500])
    return Kernel(
        name.raw,
        "attention",
        "flash-attention",
        dtype=type_of(name.text[:1500], integers=False),
        arch=f"sm{arch[1] or arch[2]}" if arch else None,
        tile=_mainloop_tile(name.text) if product else None,
        tensor_cores=product,
        direction="forward" if match[1] == "Fwd" else "backward",
    )


def _mainloop_tile(text: str) -> str | None:
    """Query block x key block: of the shapes in the main loop, the one after the cluster's."""
    start = text.find("CollectiveMainloop")
    if start < 0:
        return None
    bracket = text.find("<", start)
    shapes = [shape_of(a) for a in split_arguments(text[bracket:], limit=8) if a.startswith("cute::tuple")]
    tiles = [shape for shape in shapes if len(shape) == 3]
    if not tiles:
        return None
    tile = tiles[min(1, len(tiles) - 1)]
    return f"{tile[0]}x{tile[1]}"


def _memory_efficient(name: Name, match: re.Match[str]) -> Kernel:
    """fp32 on sm80 is done by three tf32 products; before, on CUDA cores. fp16 has tensor cores from sm70 on."""
    way, dtype, queries, keys, arch = match.groups()
    tensor_cores = int(arch) >= 80 if dtype == "f32" else int(arch) >= 70
    return Kernel(
        name.raw,
        "attention",
        "memory-efficient",
        dtype=SHORT[dtype],
        arch=f"sm{arch}",
        tile=f"{queries}x{keys}",
        tensor_cores=tensor_cores,
        direction="forward" if way == "F" else "backward",
    )


def _xformers(name: Name) -> Kernel:
    """xFormers' own build of the same kernels, named by their template."""
    match = _XFORMERS.search(name.text[:1500])
    inner = match[2] if match else ""
    arch, blocks = _ARCH.search(inner), _BLOCKS.search(inner)
    dtype = type_of(inner, integers=False)
    generation = int(arch[1]) if arch else 0
    return Kernel(
        name.raw,
        "attention",
        "memory-efficient",
        dtype=dtype,
        arch=f"sm{arch[1]}" if arch else None,
        tile=f"{blocks[1]}x{blocks[2]}" if blocks else None,
        tensor_cores=(generation >= (80 if dtype == "fp32" else 70)) if generation else None,
        direction="backward" if (match and match[1]) or "backward" in name.base else "forward",
    )


def _trtllm_generated(name: Name, match: re.Match[str]) -> Kernel:
    blocks = _TRTLLM_BLOCKS.search(match[2] or "")
    dtype = _TRTLLM_TYPES.match(match[2] or "")
    return Kernel(
        name.raw,
        "attention",
        "trtllm",
        dtype=_TRTLLM_NAMES.get(dtype[1]) if dtype else None,
        arch=f"sm{match[1]}",
        tile=f"{blocks[1]}x{blocks[2]}" if blocks else None,
        tensor_cores=True,
        direction="forward",
    )


def _fmha_v2(name: Name) -> Kernel:
    match, arch = _FMHA_V2.match(name.base), _FMHA_V2_ARCH.search(name.base)
    return Kernel(
        name.raw,
        "attention",
        "trtllm",
        dtype=SHORT.get(match[1]) if match else None,
        arch=f"sm{arch[1]}" if arch else None,
        tile=f"{match[2]}x{match[3]}" if match and match[2] else None,
        tensor_cores=True,
        direction="forward",
    )


def _cutlass_fmha(name: Name) -> Kernel:
    """CUTLASS's own examples (cutlass::fmha), and kernels of FlashAttention 1."""
    arch = re.search(r"Sm(\d+)Fmha", name.text[:600]) or _SM.search(name.base)
    first = _FA1.match(name.base) is not None
    way = "backward" if "Bwd" in name.text[:600] else "forward" if "Fwd" in name.text[:600] else None
    product = _multiplies(name.text[:600])
    blocks = _STATIC_BLOCKS.search(name.text, 0, 900)
    return Kernel(
        name.raw,
        "attention",
        "flash-attention" if first or "flash::" in name.text[:100] else "cutlass",
        dtype=type_of(name.text[:1500], integers=False),
        arch=f"sm{arch[1]}" if arch else None,
        tile=f"{blocks[1]}x{blocks[2]}" if blocks and product else None,
        tensor_cores=product,
        direction=direction_of(name.words) or way,
    )
