from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, REDUCE, op, trace


def test_few_blocks_are_spread_over_all_sms() -> None:
    found = finding(trace([op("sum", REDUCE, 400, grid=(16, 1, 1)), op("mul", MUL, 300)]), "underfilled-gpu")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(400 * (1 - 16 / 132), rel=0.02)
    assert "16 blocks on 132 SMs" in found.text
    assert found.confidence == "low"


@pytest.mark.parametrize(("blocks", "expected"), [(66, "found"), (67, "clear"), (132, "clear")])
def test_half_the_sms_is_the_edge(blocks: int, expected: str) -> None:
    assert outcome(trace([op("sum", REDUCE, 400, grid=(blocks, 1, 1))]), "underfilled-gpu") == expected


def test_short_kernels_are_launches() -> None:
    assert outcome(trace([op("sum", REDUCE, 5, grid=(1, 1, 1))] * 8), "underfilled-gpu") == "clear"


def test_little_of_the_time_is_no_matter() -> None:
    calls = [op("sum", REDUCE, 40, grid=(1, 1, 1)), op("mul", MUL, 1000)]
    assert outcome(trace(calls), "underfilled-gpu") == "clear"


def test_collectives_use_few_blocks_on_purpose() -> None:
    ring = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    assert outcome(trace([op("all_reduce", ring, 400, grid=(24, 1, 1))]), "underfilled-gpu") == "clear"
