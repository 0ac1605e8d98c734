"""Which kernels move data between devices: NCCL and its relatives, and everybody's own all-reduce."""

from __future__ import annotations

import re
from functools import lru_cache

from lanewise.kernels.names import parsed

__all__ = ["gpu_kind", "is_communication"]

# Beginnings of identifiers: `my_ncclish_gemm` is none of them.
_LIBRARIES = (
    r"\b(?:nccl(?:Dev|Sym|Kern|Gin|_|Generic|All|Broadcast|Reduce|Send)\w*|rccl\w*|oneccl\w*|msccl\w*|mscclpp::"
    r"|gloo::|\w*(?:multimem|lamport|mnnvl)\w*|kernel_barrier\b|(?:nv|roc)shmem\w*|mori::|pplx\w*::"
    r"|comm::|k?userbuffers_\w*|cross_device_reduce\w*|barrier_on_stream_kernel\w*"
    r"|(?:barrier|put_signal|wait_signal)_kernel\b|exchangeSplitAndOffset\b)"
)
_DEEP_EP = r"\bdeep_ep(?:_\w+)?::(?!layout::)"
# "allreduce", "all_reduce", "AllReduce"... wherever an identifier has it.
_WORDS = (
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv"
    r"|a2a_(?:dispatch|combine)|moe_?a2a|moe_?comm"
)
# One of them is in every name that the expression matches; looking for them first is what makes it fast.
_HINTS = (
    *(
        "gloo",
        "multimem",
        "lamport",
        "mnnvl",
        "ccl",
        "shmem",
        "reduce",
        "gather",
        "all",
        "sendrecv",
        "deep_ep",
        "comm",
        "a2a",
        "mori",
        "pplx",
        "barrier",
    ),
    *("signal_kernel", "exchangesplit", "userbuffers"),
)
_COMMUNICATION = re.compile(f"{_LIBRARIES}|{_DEEP_EP}|(?i:{_WORDS})")


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
    return "communication" if is_communication(parsed(name).path) else "compute"


def is_communication(path: str) -> bool:
    """Whether the function at this path (`lanewise.kernels.names.Name.path`) moves data between devices.

    Only the function's own name counts, not its template arguments. Kernels compiled by Inductor list
    operations whose work other kernels do: ``triton_poi_fused_all_gather_into_tensor_cat_0`` is none.
    """
    lowered = path.lower()
    for hint in _HINTS:
        if hint in lowered:
            return not path.startswith("triton_") and _COMMUNICATION.search(path) is not None
    return False
