"""Which kernels move data between devices: NCCL and its relatives, and everybody's own all-reduce."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["gpu_kind", "is_communication"]

# Beginnings of identifiers: `my_ncclish_gemm` is none of them.
_LIBRARIES = (
    r"\b(?:nccl(?:Dev|Sym|Kern|Gin|_|Generic)\w*|rccl\w*|oneccl\w*|msccl\w*|(?:nv|roc)shmem\w*|mori::|mscclpp::"
    r"|k?userbuffers_\w*|cross_device_reduce\w*|barrier_on_stream_kernel\w*|pplx\w*::)"
)
_DEEP_EP = r"\bdeep_ep(?:_\w+)?::(?!layout::)"
# "allreduce", "all_reduce", "AllReduce"... wherever an identifier has it.
_WORDS = (
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv"
    r"|a2a_(?:dispatch|combine)|moe_?a2a|moe_?comm"
)
_COMMUNICATION = re.compile(f"{_LIBRARIES}|{_DEEP_EP}|(?i:{_WORDS})")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")
_RETURN_TYPE = re.compile(r"(?:void|std::enable_if<.*?>::type)\s+")


@lru_cache(maxsize=65536)
def gpu_kind(name: str, cat: str = "kernel") -> str:
    """The coarse split of GPU work: ``compute``, ``communication``, ``copy`` or ``memset``.

    Args:
        name: name of the event.
        cat: its category in the trace: ``kernel``, ``gpu_memcpy``, ``gpu_memset`` or older spellings.
    """
    category = cat.lower()
    if category.endswith("memcpy"):
        return "copy"
    if category.endswith("memset"):
        return "memset"
    if name.startswith(("Memcpy ", "Memset ")):
        return "copy" if name.startswith("Memcpy") else "memset"
    return "communication" if is_communication(name) else "compute"


def is_communication(name: str) -> bool:
    """Whether a kernel of this name moves data between devices.

    Only the function's own name counts, not its template arguments. Kernels compiled by Inductor list
    operations whose work other kernels do: ``triton_poi_fused_all_gather_into_tensor_cat_0`` is none.
    """
    if name.startswith("triton_"):
        return False
    head = _ANONYMOUS.sub("", name)
    start = _RETURN_TYPE.match(head)
    head = head[start.end() :] if start else head
    if not head.startswith("_Z"):
        head = re.split(r"[<(]", head, maxsplit=1)[0]
    return _COMMUNICATION.search(head) is not None
