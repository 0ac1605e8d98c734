"""What an elementwise kernel's name and grid say of its traffic where no inputs were recorded.

ATen's vectorised kernels give each thread a fixed number of elements, but which number it is has changed between versions of
torch. Only where the vector itself has 8 elements is it certain: a thread does one such vector (aten/src/ATen/native/cuda/
CUDALoops.cuh; all recorded traces with shapes agree). Of these the name has the types and the number of operands.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from lanewise.kernels import Kernel

__all__ = ["LEAST_BLOCKS", "bytes_per_thread", "certain_grid"]

LEAST_BLOCKS = 100
"""The last block may be nearly empty: from this many on the traffic is known to a per cent."""

_ELEMENTS = 8
_VECTORISED = re.compile(
    r"\bvectorized_elementwise_kernel<8, .*\b(?:std::array|at::detail::Array)<char\*, (\d{1,3})(?:ul|u)?>", re.DOTALL
)
# Their results, or some operands, are of one byte.
_OTHER_TYPES = re.compile(r"compare|logical|bool|isnan|isinf|isfinite|signbit|nan_to_num", re.IGNORECASE)
_SIZES = {"bf16": 2, "fp16": 2, "fp32": 4}


def bytes_per_thread(kernel: Kernel) -> int | None:
    """Bytes that a thread of the kernel reads and writes; None where the name does not tell."""
    match = _VECTORISED.search(kernel.name)
    if match is None or kernel.dtype is None or _OTHER_TYPES.search(kernel.name):
        return None
    operands = int(match.group(1))
    source, _, target = kernel.dtype.partition("->")
    if target:
        sizes = [_SIZES.get(source), _SIZES.get(target)]
        return _ELEMENTS * sum(s for s in sizes if s) if operands == 2 and all(sizes) else None
    size = _SIZES.get(source)
    # A vector has 16 bytes, so it is one of 8 elements only where they have 2.
    return _ELEMENTS * operands * size if size == 2 else None


def certain_grid(blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which grids are large enough for `bytes_per_thread` times their threads to be the traffic."""
    return blocks >= LEAST_BLOCKS
