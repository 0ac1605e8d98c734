"""What a GPU can do at most, and what one of its SMs holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Device", "DeviceLimits", "canonical_dtype"]

# Rates do not depend on how the bits of an 8-bit number are split, or on its sign.
_CANONICAL = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "uint8": "int8", "nvfp4": "fp4", "mxfp4": "fp4"}


def canonical_dtype(dtype: str) -> str:
    """The name that rates are kept under: ``fp8_e4m3`` is ``fp8``, ``uint8`` is ``int8``."""
    return _CANONICAL.get(dtype, dtype)


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What one SM (AMD: one compute unit) holds, and in which units it gives it to blocks.

    Attributes:
        threads_per_warp: 32; AMD's wave has 64.
        max_warps: warps that an SM keeps at a time.
        max_blocks: blocks that it keeps at a time.
        registers_per_sm: 32-bit registers.
        register_unit: registers that a warp's share is rounded up to.
        schedulers: equal parts of an SM, each with its own registers; a warp lives in one of them.
        max_registers_per_thread: more cannot be addressed.
        max_threads_per_block: larger blocks do not start.
        shared_per_sm_bytes: shared memory with the largest carve-out.
        shared_unit_bytes: what a block's shared memory is rounded up to.
        shared_reserved_bytes: what the system takes of it for each block.
        max_barrier_blocks: blocks of more than one warp at a time where that is less than `max_blocks`; None where not.
        sources: where this comes from.
    """

    threads_per_warp: int
    max_warps: int
    max_blocks: int
    registers_per_sm: int
    register_unit: int
    schedulers: int
    max_registers_per_thread: int
    max_threads_per_block: int
    shared_per_sm_bytes: int
    shared_unit_bytes: int
    shared_reserved_bytes: int
    max_barrier_blocks: int | None = None
    sources: tuple[str, ...] = ()

    @property
    def max_threads(self) -> int:
        """Threads that an SM keeps at a time."""
        return self.max_warps * self.threads_per_warp


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a part of one that CUDA or HIP shows as a device, by its data sheet. Sparsity is never counted.

    Attributes:
        name: short name: ``H100 SXM``.
        vendor: ``NVIDIA`` or ``AMD``.
        architecture: ``Hopper``, ``CDNA 3``.
        compute_capability: ``9.0``; AMD: LLVM's name, ``gfx942``.
        sms: SMs (AMD: compute units).
        memory_bytes: size of the GPU's memory.
        memory_bandwidth: bytes/s, reads and writes together.
        l2_bytes: size of the L2 cache.
        boost_clock: Hz; None where none is published.
        vector_flops: FLOP/s of the CUDA cores (AMD: vector units) by dtype, a multiply-add counted as two.
        matrix_flops: FLOP/s of the tensor cores (AMD: matrix cores) by dtype, accumulating in fp32; int8: OP/s.
        limits: what one SM holds.
        sources: data sheets and white papers, with their editions.
        note: what was derived, and how.
        partition: name of the MIG profile where this is a slice of the card; "" for the whole.
        reported_name: the name that it was found by.
    """

    name: str
    vendor: str
    architecture: str
    compute_capability: str
    sms: int
    memory_bytes: int
    memory_bandwidth: float
    l2_bytes: int
    boost_clock: float | None
    vector_flops: Mapping[str, float] = field(hash=False)
    matrix_flops: Mapping[str, float] = field(hash=False)
    limits: DeviceLimits
    sources: tuple[str, ...]
    note: str = ""
    partition: str = ""
    reported_name: str = field(default="", compare=False)

    def peak_flops(self, dtype: str, tensor_cores: bool) -> float | None:
        """Dense peak rate in FLOP/s (int8: OP/s), a multiply-add counted as two.

        Args:
            dtype: type of the operands: ``bf16``, ``tf32`` (fp32 rounded for the tensor cores), ``fp8_e4m3`` ...
            tensor_cores: whether the tensor cores (AMD: matrix cores) do it.

        Returns:
            None where the card has no such units or no source states the rate.
        """
        rates = self.matrix_flops if tensor_cores else self.vector_flops
        return rates.get(canonical_dtype(dtype))
