"""Occupancy, waves and tail of launches, and the gap in what the profiler records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lanewise.analyses.occupancy import Launch, filled_ratio, launch_occupancies, total_blocks
from limit_traces import ADD, NVJET, Calls, shape


def _launch(header: dict[str, Any] | None = None, **how: Any) -> Launch:
    t = Calls(header=header)
    t.add("custom::op", {}, (NVJET, 10, shape(**how)))
    return t.load().analysis(launch_occupancies).launches[0]


def test_large_tiles_keep_one_block() -> None:
    """384 threads of 168 registers are 12 warps of 5,376: one block fits the 65,536 of an SM. 12 of 64 warps are 18.75 %."""
    launch = _launch(blocks=132, threads=384, registers=168, shared=213_188, occupancy=0)
    assert launch.theoretical is not None
    assert (launch.theoretical.blocks_per_sm, launch.theoretical.ratio, launch.theoretical.limiter) == (1, 0.1875, "registers")
    assert launch.waves == 1
    assert launch.tail_ratio == 0
    assert launch.is_gap


@pytest.mark.parametrize(("occupancy", "gap"), [(75, False), (0, True), (None, False)])
def test_gap(occupancy: int | None, gap: bool) -> None:
    assert _launch(blocks=16384, threads=128, registers=34, occupancy=occupancy).is_gap is gap


def test_zero_of_a_small_grid_is_no_gap() -> None:
    """4 blocks of 128 threads on 132 SMs: 0.2 % of the warps."""
    launch = _launch(blocks=4, threads=128, registers=34, occupancy=0)
    assert not launch.is_gap
    assert launch.recorded_ratio == 0
    assert launch.filled_ratio == pytest.approx(4 / 132)


def test_waves_and_tail() -> None:
    """320 blocks of 512 threads with 60 registers: 2 an SM, 264 at a time. 1.21 waves take the time of 2: 39 % is lost."""
    launch = _launch(blocks=320, threads=512, registers=60)
    assert launch.theoretical is not None
    assert launch.theoretical.blocks_per_sm == 2
    assert launch.waves == pytest.approx(320 / 264)
    assert launch.tail_ratio == pytest.approx(1 - 320 / 264 / 2)


def test_tail_within_one_wave() -> None:
    """200 blocks, 16 an SM: the busiest SMs get 2, the mean is 1.52."""
    launch = _launch(blocks=200, threads=128, registers=32)
    assert launch.waves == pytest.approx(200 / (132 * 16))
    assert launch.tail_ratio == pytest.approx(1 - 200 / 132 / 2)


def test_cards_without_a_data_sheet_have_limits_by_capability() -> None:
    properties = [{"id": 0, "name": "NVIDIA Nonesuch", "numSms": 40, "computeMajor": 9, "computeMinor": 0}]
    launch = _launch({"deviceProperties": properties}, blocks=80, threads=384, registers=168, shared=213_188)
    assert launch.theoretical is not None
    assert launch.theoretical.ratio == 0.1875
    assert launch.waves == 2


def test_capability_of_another_vendor_is_not_nvidias() -> None:
    """ROCm reports gfx90a as 9.0."""
    properties = [{"id": 0, "name": "AMD Radeon Graphics", "numSms": 104, "computeMajor": 9, "computeMinor": 0}]
    launch = _launch({"deviceProperties": properties}, blocks=80, threads=256, registers=64)
    assert launch.theoretical is None
    assert launch.waves is None
    assert launch.tail_ratio is None


def test_rows_and_distinct_launches() -> None:
    t = Calls()
    for blocks in (100, 200, 100):
        t.add("custom::op", {}, (ADD, 10, shape(blocks)))
    t.add("custom::op", {}, ("Memset (Device)", 1, {"cat": "gpu_memset", "bytes": 4}), ("bare", 1, {}))
    trace = t.load()
    found = trace.analysis(launch_occupancies)
    assert [launch.blocks for launch in found.launches] == [100, 200]
    assert found.of_row.tolist() == [0, 1, 0, -1, -1]
    assert total_blocks(trace).tolist() == [100, 200, 100, -1, -1]
    assert filled_ratio(trace)[:3].tolist() == pytest.approx([100 / 132, 1, 100 / 132])
    assert np.isnan(filled_ratio(trace)[3:]).all()
