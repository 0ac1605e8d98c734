"""What the name of a GPU kernel says: `decode` for everything in it, `gpu_kind` for the coarse split."""

from __future__ import annotations

from functools import lru_cache

from lanewise.kernels.communication import gpu_kind
from lanewise.kernels.kernel import KINDS, Kernel
from lanewise.kernels.registry import decoded

__all__ = ["KINDS", "Kernel", "decode", "gpu_kind"]


@lru_cache(maxsize=65536)
def decode(name: str) -> Kernel:
    """What `name` tells about the kernel, copy or memset. Never fails: what is not known stays None."""
    return decoded(name)
