"""How well launches can fill the card: theoretical occupancy, waves and tail, beside what the profiler recorded.

The profiler's own figure ("est. achieved occupancy %") is the blocks that an SM gets, or can keep where that is less, times
their threads over the threads that it could keep. Kineto computes what it can keep with CUDA's occupancy calculator for the
default limit of 48 KiB of shared memory a block; kernels that ask for more, as most with large tiles do, get 0. That is a gap
of the measurement and says nothing about the kernel. (Of 2,400 distinct launches in recorded traces all others agree with the
theory to the per cent, and all 0s that cannot be have more than 48 KiB.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.devices import DeviceLimits, Occupancy, find_device, limits_for, occupancy
from lanewise.model.trace import DeviceProperties, Trace

from .id_sets import combined

__all__ = ["Launch", "Occupancies", "filled_ratio", "launch_occupancies", "multiprocessors", "total_blocks"]

Array = npt.NDArray[Any]

# Below this the profiler's figure, which is in whole per cent, can be 0 by rounding.
_LEAST_RECORDED = 0.01
# A grid of more blocks, or a block of more threads, is none that was launched: exact in a float.
_MOST = 2**53
_NVIDIA = ("NVIDIA", "Tesla", "GeForce", "Quadro", "TITAN", "GRID")


@dataclass(frozen=True, slots=True)
class Launch:
    """One way in which kernels were launched.

    Attributes:
        device: its number.
        blocks: blocks of the grid.
        block_threads: threads of a block.
        registers: registers of a thread; None where not recorded.
        shared_bytes: shared memory of a block; None where not recorded.
        sms: multiprocessors of the device; None where not known.
        theoretical: what an SM could keep; None where the card or the footprint is not known.
        recorded_ratio: the profiler's figure, 0 to 1; None where there is none.
    """

    device: int
    blocks: int
    block_threads: int
    registers: int | None
    shared_bytes: int | None
    sms: int | None
    theoretical: Occupancy | None
    recorded_ratio: float | None

    @property
    def waves(self) -> float | None:
        """Blocks over those that the card keeps at a time."""
        if self.sms is None or self.theoretical is None or not self.theoretical.blocks_per_sm:
            return None
        return self.blocks / (self.sms * self.theoretical.blocks_per_sm)

    @property
    def filled_ratio(self) -> float | None:
        """Share of the SMs that get a block."""
        return None if not self.sms else min(self.blocks / self.sms, 1.0)

    @property
    def tail_ratio(self) -> float | None:
        """Share of the time lost because the last wave is not full, if all blocks take equally long.

        Up to one wave the busiest SM decides, which has one block more than the others where they do not divide.
        """
        if self.waves is None or self.sms is None:
            return None
        whole = self.waves if self.waves > 1 else self.blocks / self.sms
        return 1 - whole / max(-(-whole // 1), 1)

    @property
    def is_gap(self) -> bool:
        """Whether the profiler recorded 0 where its figure cannot be 0."""
        if self.recorded_ratio != 0 or self.theoretical is None or not self.theoretical.blocks_per_sm or not self.sms:
            return False
        share = min(self.blocks / self.sms / self.theoretical.blocks_per_sm, 1.0)
        return self.theoretical.ratio * share >= _LEAST_RECORDED


@dataclass(frozen=True, slots=True)
class Occupancies:
    """The distinct launches.

    Attributes:
        launches: each way of launching once.
        of_row: int32 (gpu ops,): place in `launches`, -1 for copies and where no grid was recorded.
    """

    launches: list[Launch]
    of_row: Array


def total_blocks(trace: Trace) -> Array:
    """int64 (gpu ops,): blocks of the grid, -1 where not recorded."""
    return _product(trace, "grid")


def _product(trace: Trace, what: str) -> Array:
    axes = [trace.column("gpu_ops", f"{what}_{axis}").astype(np.int64) for axis in "xyz"]
    # As float first: three sizes at the end of their range would wrap around.
    total = axes[0].astype(np.float64) * axes[1] * axes[2]
    known = (axes[0] > 0) & (axes[1] > 0) & (axes[2] > 0) & (total < _MOST)
    return np.where(known, total, -1).astype(np.int64)


def multiprocessors(trace: Trace, device: int) -> int | None:
    """SMs (AMD: compute units) of a device, by the header or else by the card's name."""
    known = trace.device(device)
    if known.sms:
        return known.sms
    card = find_device(known.name, None, known.memory_bytes) if known.name else None
    return None if card is None else card.sms


def filled_ratio(trace: Trace) -> Array:
    """float64 (gpu ops,): share of the SMs that get a block, NaN where not known."""
    blocks, device = total_blocks(trace), trace.column("gpu_ops", "device")
    sms = np.full(len(blocks), np.nan)
    for index in np.unique(device).tolist():
        sms[device == index] = multiprocessors(trace, index) or np.nan
    return np.where(blocks > 0, np.minimum(blocks / sms, 1.0), np.nan)


def launch_occupancies(trace: Trace) -> Occupancies:
    """Occupancy of each distinct way of launching: device, grid, block, footprint and the profiler's figure."""
    blocks, threads = total_blocks(trace), _product(trace, "block")
    of_row = np.full(len(blocks), -1, dtype=np.int32)
    rows = np.flatnonzero((blocks > 0) & (threads > 0))
    recorded = trace.column("gpu_ops", "occupancy")
    columns = [
        trace.column("gpu_ops", "device"),
        blocks,
        threads,
        trace.column("gpu_ops", "registers"),
        trace.column("gpu_ops", "shared_memory"),
        np.where(np.isnan(recorded), -1, np.round(np.nan_to_num(recorded) * 100)),
    ]
    first, place = combined([np.asarray(column, dtype=np.int64)[rows] for column in columns])
    of_row[rows] = place
    footprint = {index: _device_limits(trace.device(index)) for index in np.unique(columns[0][rows]).tolist()}
    known = {index: multiprocessors(trace, index) for index in footprint}
    found = []
    for row in rows[first]:
        values = [int(column[row]) for column in columns]
        found.append(_launch(values, known[values[0]], footprint[values[0]]))
    return Occupancies(found, of_row)


def _launch(values: list[int], sms: int | None, limits: DeviceLimits | None) -> Launch:
    device, blocks, threads, registers, shared, recorded = values
    theoretical = None
    if limits is not None and registers > 0 and shared >= 0:
        theoretical = occupancy(limits, registers, shared, threads)
    return Launch(
        device=device,
        blocks=blocks,
        block_threads=threads,
        registers=registers if registers > 0 else None,
        shared_bytes=shared if shared >= 0 else None,
        sms=sms,
        theoretical=theoretical,
        recorded_ratio=recorded / 10_000 if recorded >= 0 else None,
    )


def _device_limits(known: DeviceProperties) -> DeviceLimits | None:
    """What an SM of a device holds: by the card, or by its compute capability, which only NVIDIA's numbers are."""
    if not known.name:
        return None
    card = find_device(known.name, known.sms, known.memory_bytes)
    if card is not None:
        return card.limits
    if known.compute_capability is None or not known.name.startswith(_NVIDIA):
        return None
    return limits_for("{}.{}".format(*known.compute_capability))
