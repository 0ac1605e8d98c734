"""Occupancy, by hand and against what NVIDIA's calculator says for known launches."""

from __future__ import annotations

import pytest

from lanewise.devices import DeviceLimits, Occupancy, limits_for, occupancy


def limits(capability: str) -> DeviceLimits:
    found = limits_for(capability)
    assert found is not None
    return found


def of(capability: str, registers: int, shared: int, threads: int) -> Occupancy:
    found = occupancy(limits(capability), registers, shared, threads)
    assert found is not None
    return found


def test_few_registers_fill_the_sm() -> None:
    assert of("9.0", 32, 0, 256) == Occupancy(8, 64, 1.0, "none")


def test_registers_come_in_units_of_256_a_warp() -> None:
    """33 registers of 32 threads are 1,056, given as 1,280: 12 warps in a quarter of 16,384, 48 in the SM."""
    assert of("9.0", 33, 0, 128) == Occupancy(12, 48, 0.75, "registers")


def test_the_most_registers_of_a_thread() -> None:
    """255 registers are 8,192 a warp: two in each quarter."""
    assert of("8.0", 255, 0, 256) == Occupancy(1, 8, 0.125, "registers")
    assert of("8.0", 255, 0, 512) == Occupancy(0, 0, 0.0, "registers")


def test_shared_memory_with_what_the_system_takes() -> None:
    """A GEMM of 200 KiB on an H100: 228 KiB hold one such block; 113 KiB each would hold two but for the reserved KiB."""
    assert of("9.0", 168, 200 * 1024, 384) == Occupancy(1, 12, 12 / 64, "registers")
    assert of("9.0", 32, 200 * 1024, 384) == Occupancy(1, 12, 12 / 64, "shared memory")
    assert of("9.0", 32, 113 * 1024, 128).blocks_per_sm == 2
    assert of("9.0", 32, 113 * 1024 + 1, 128).blocks_per_sm == 1


def test_before_ampere_nothing_is_reserved() -> None:
    assert of("7.0", 32, 48 * 1024, 128).blocks_per_sm == 2
    assert of("8.0", 32, 82 * 1024, 128).blocks_per_sm == 1


def test_small_blocks_run_out_of_slots() -> None:
    assert of("9.0", 16, 0, 32) == Occupancy(32, 32, 0.5, "blocks")
    assert of("7.5", 16, 0, 64) == Occupancy(16, 32, 1.0, "none")


def test_blocks_that_do_not_divide_the_sm() -> None:
    """1,024 threads of 1,536: one block, a third of the slots stays empty."""
    assert of("8.9", 32, 0, 1024) == Occupancy(1, 32, 32 / 48, "warps")


def test_a_partial_warp_takes_a_whole_one() -> None:
    assert of("9.0", 32, 0, 33) == of("9.0", 32, 0, 64)


def test_impossible_blocks() -> None:
    assert occupancy(limits("9.0"), 32, 0, 0) is None
    assert occupancy(limits("9.0"), 32, 0, 2048) is None
    assert of("9.0", 32, 300 * 1024, 128) == Occupancy(0, 0, 0.0, "shared memory")


@pytest.mark.parametrize(("registers", "waves"), [(50, 32), (64, 32), (65, 28), (128, 16), (256, 8), (512, 4)])
def test_amd_waves_by_vector_registers(registers: int, waves: int) -> None:
    """CDNA 2 and 3: 512 registers a lane of each SIMD unit, in units of 8, at most 8 waves: 72 allow 7."""
    assert of("gfx90a", registers, 0, 64).warps_per_sm == waves


def test_amd_barriers_limit_blocks_of_several_waves() -> None:
    assert of("gfx942", 32, 0, 64).blocks_per_sm == 32
    assert of("gfx942", 32, 0, 128) == Occupancy(16, 32, 1.0, "none")


def test_more_room_on_cdna4() -> None:
    assert of("gfx942", 32, 40 * 1024, 256).blocks_per_sm == 1
    assert of("gfx950", 32, 40 * 1024, 256).blocks_per_sm == 4
