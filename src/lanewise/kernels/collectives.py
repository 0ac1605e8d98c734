"""Kernels that move data between devices: NCCL and its relatives, and everybody's own all-reduce.

ncclDevKernel_AllReduce_Sum_f32_RING_LL       since 2.19: one kernel serves all reductions, protocols and most
                                              algorithms; what stands in the name is not what ran
ncclKernel_AllReduce_RING_LL_Sum_float        before: it did say algorithm, protocol and reduction
"""

from __future__ import annotations

import re

from lanewise.kernels.communication import is_communication
from lanewise.kernels.dtypes import SHORT, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.owners import owner_of

__all__ = ["decoded", "matches"]

_NCCL = re.compile(r"(nccl|rccl|msccl|oneccl|nvshmem|rocshmem)")
_OPERATION = re.compile(
    r"(all_?reduce|reduce_?scatter|all_?gather|broadcast|all_?to_?allv?|send_?recv|cross_device_reduce|dispatch|combine"
    r"|barrier|reduce)",
    re.IGNORECASE,
)
_REDUCES = ("AllReduce", "ReduceScatter", "Reduce", "allreduce", "reduce_scatter", "all_reduce")
_MODERN_TYPE = re.compile(r"_(bf16|f16|f32|f64|f8e4m3|f8e5m2|[iu](?:8|32|64))(?:_|$)")
_OLDER_TYPE = re.compile(r"_(half|float|double|__nv_bfloat16|rccl_bfloat16|hip_bfloat16|rccl_float8|u?int(?:8|32|64)_t)(?:$|_)")
# One kernel sums signed and unsigned integers alike; PyTorch sends signed 32 and 64 bits, and either of 8 bits.
_NCCL_TYPES: dict[str, str | None] = {
    "u64": "int64", "i64": "int64", "uint64_t": "int64", "int64_t": "int64", "u32": "int32", "i32": "int32",
    "uint32_t": "int32", "int32_t": "int32", "u8": None, "i8": "int8", "int8_t": "int8", "uint8_t": None,
    "__nv_bfloat16": "bf16", "rccl_bfloat16": "bf16", "hip_bfloat16": "bf16", "rccl_float8": "fp8",
}  # fmt: skip


def matches(name: Name) -> bool:
    """Whether this kernel moves data between devices."""
    return is_communication(name.path)


def decoded(name: Name) -> Kernel | None:
    """The collective of this name."""
    library = _NCCL.match(name.base)
    operation = _OPERATION.search(name.base)
    if library and library[1] in ("nccl", "rccl"):
        dtype = _nccl_type(name.base)
    else:
        end = name.tail.find(">(") if name.tail.startswith("<") else -1  # parameters tell only where no template does
        dtype = type_of(name.tail[: end if 0 <= end < 200 else 200], integers=False) or _type_of_words(name.words)
    return Kernel(
        name.raw,
        "collective",
        library[1] if library else owner_of(name.root) or _owner_of_plain(name.base),
        dtype=dtype,
        op=operation[1].lower() if operation else None,
    )


def _nccl_type(base: str) -> str | None:
    """The type of a reduction. Where nothing is reduced, the type in the name is a placeholder."""
    if not any(reduction in base for reduction in _REDUCES):
        return None
    match = _MODERN_TYPE.search(base) or _OLDER_TYPE.search(base)
    if match is None:
        return None
    return _NCCL_TYPES[match[1]] if match[1] in _NCCL_TYPES else SHORT.get(match[1])


def _type_of_words(words: str) -> str | None:
    return next((SHORT[w] for w in words.split("_") if w in ("bf16", "fp16", "f16", "f32", "fp32")), None)


def _owner_of_plain(base: str) -> str | None:
    """Symmetric-memory kernels of PyTorch stand in no namespace; userbuffers are Transformer Engine's."""
    if base.startswith(("multimem_", "one_shot_all_reduce", "two_shot_all_reduce")):
        return "aten"
    return "transformer-engine" if "userbuffers" in base else None
