"""Theoretical occupancy: how many warps of a kernel an SM can keep at a time, and what keeps it from more.

The arithmetic of NVIDIA's occupancy calculator (``cuda_occupancy.h``); AMD's compute units follow the same rules with other
units (LLVM's ``llvm-calc-occupancy``). It takes the largest shared-memory carve-out, which the driver chooses when a kernel
needs it. A thread block cluster or a launch limit can lower what is reached, never raise it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .device import DeviceLimits

__all__ = ["Occupancy", "occupancy"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What an SM keeps at a time.

    Attributes:
        blocks_per_sm: thread blocks; 0 where one block does not fit.
        warps_per_sm: their warps.
        ratio: warps over the most that an SM keeps, 0 to 1.
        limiter: what bounds it: ``registers``, ``shared memory``, ``warps`` (a full SM, or blocks that do not divide it),
            ``blocks``; the first of these where several bound it alike. ``none`` where every warp slot is used.
    """

    blocks_per_sm: int
    warps_per_sm: int
    ratio: float
    limiter: str


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _by_registers(limits: DeviceLimits, registers: int, warps: int) -> int:
    """Blocks for which there are registers.

    A warp's registers come in units from the part of the file that belongs to its scheduler.
    """
    if registers <= 0:
        return limits.max_blocks
    if registers > limits.max_registers_per_thread:
        return 0
    warp = _rounded_up(registers * limits.threads_per_warp, limits.register_unit)
    # The hardware admits a block as if its warps were spread over all schedulers evenly.
    if warp * _rounded_up(warps, limits.schedulers) > limits.registers_per_sm:
        return 0
    return limits.registers_per_sm // limits.schedulers // warp * limits.schedulers // warps


def _by_shared_memory(limits: DeviceLimits, shared_bytes: int) -> int:
    """Blocks for which there is shared memory."""
    block = _rounded_up(shared_bytes + limits.shared_reserved_bytes, limits.shared_unit_bytes)
    return limits.shared_per_sm_bytes // block if block else limits.max_blocks


def _by_slots(limits: DeviceLimits, warps: int) -> int:
    """Blocks for which there are slots, and barriers where they are scarcer."""
    if limits.max_barrier_blocks is not None and warps > 1:
        return min(limits.max_blocks, limits.max_barrier_blocks)
    return limits.max_blocks


def occupancy(limits: DeviceLimits, registers_per_thread: int, shared_bytes: int, block_threads: int) -> Occupancy | None:
    """Theoretical occupancy of a launch.

    Args:
        limits: what one SM holds (`Device.limits`, `limits_for`).
        registers_per_thread: as the kernel record has it; 0 counts as no bound.
        shared_bytes: static and dynamic shared memory of a block, without what the system reserves.
        block_threads: threads of a block.

    Returns:
        None where the block has no threads or more than may start.
    """
    if not 0 < block_threads <= limits.max_threads_per_block:
        return None
    warps = -(-block_threads // limits.threads_per_warp)
    # In the order in which they are named where they bound alike: what the kernel's author can change comes first.
    bounds = {
        "registers": _by_registers(limits, registers_per_thread, warps),
        "shared memory": _by_shared_memory(limits, shared_bytes),
        "warps": limits.max_warps // warps,
        "blocks": _by_slots(limits, warps),
    }
    limiter = min(bounds, key=lambda name: bounds[name])
    blocks = bounds[limiter]
    resident = blocks * warps
    if resident == limits.max_warps:
        limiter = "none"
    return Occupancy(blocks, resident, resident / limits.max_warps, limiter)
