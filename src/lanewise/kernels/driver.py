"""Copies and memsets of the driver, as the profiler names them: ``Memcpy HtoD (Pinned -> Device)``."""

from __future__ import annotations

import re

from lanewise.kernels.kernel import Kernel

__all__ = ["decoded"]

# Kineto: "Memcpy HtoD (Pageable -> Device)", on ROCm "(Host -> Device)"; Nsight Systems:
# "[CUDA memcpy Host-to-Device]"; roctracer: "CopyHostToDevice".
_COPY = re.compile(
    r"\[?(?:cuda\s+(?:unified memory\s+)?|hip)?(?:memcpy|copy)[\s_]*(?P<source>host|device|peer|h|d|p|a)-?\s?(?:to|2)-?\s?"
    r"(?P<target>host|device|peer|h|d|p|a)(?:async)?\b",
    re.IGNORECASE,
)
_MEMSET = re.compile(r"\[?(?:cuda\s+|hip)?memset(?:d\d+)?(?:async)?\b|fillbuffer$", re.IGNORECASE)


_INITIALS = frozenset("[MmCchF")


def decoded(name: str) -> Kernel | None:
    """The copy or memset of this name, or None where it is neither."""
    if name[:1] not in _INITIALS:
        return None
    if _MEMSET.match(name):
        return Kernel(name, kind="memset", library="driver")
    copy = _COPY.match(name)
    if copy is None:
        return None
    source, target = copy["source"][0].lower(), copy["target"][0].lower()
    return Kernel(
        name,
        kind=_copy_kind(source, target),
        library="driver",
        host_memory=_host_memory(name) if "h" in (source, target) else None,
    )


def _copy_kind(source: str, target: str) -> str | None:
    """Arrays ("a") live on the device; a copy from host to host has no kind of its own."""
    ends = source.replace("a", "d") + target.replace("a", "d")
    kinds = {"hd": "memcpy-htod", "dh": "memcpy-dtoh", "dd": "memcpy-dtod", "pp": "memcpy-ptop"}
    return kinds.get(ends)


def _host_memory(name: str) -> str | None:
    lowered = name.lower()
    if "pageable" in lowered:
        return "pageable"
    return "pinned" if "pinned" in lowered else None
