from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, Call, op, product, tensors, trace

SHAPE = (32, 1024, 512)
TURNED = (1024 * 512, 1, 1024)
BYTES = 32 * 1024 * 512 * 2
USUAL_US = 3 * BYTES / (4.8e12 * 0.88) * 1e6


def add(us: float, turned: bool = True, shape: tuple[int, ...] = SHAPE, name: str = "add") -> Call:
    return op(name, MUL, us, tensors(shape, shape, strides=[(), TURNED if turned else ()]))


def test_a_sum_against_the_grain_would_take_the_time_of_its_traffic() -> None:
    found = finding(trace([product(4096, 512, 4096, 100), add(120)]), "mixed-layouts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(120 - USUAL_US, rel=0.02)
    assert "32 x 1024 x 512" in found.text
    assert "[524288, 1, 1024]" in found.text


def test_an_op_in_place_writes_what_it_reads() -> None:
    found = finding(trace([product(4096, 512, 4096, 100), add(120, name="add_")]), "mixed-layouts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(120 - USUAL_US, rel=0.02)


def test_one_order_is_clear_however_slow() -> None:
    assert outcome(trace([add(120, turned=False)]), "mixed-layouts") == "clear"


def test_a_kernel_as_fast_as_its_traffic_is_clear() -> None:
    assert outcome(trace([add(1.4 * USUAL_US)]), "mixed-layouts") == "clear"


def test_small_tensors_are_clear() -> None:
    small = tensors((64, 64), (64, 64), strides=[(), (1, 64)])
    assert outcome(trace([op("add", MUL, 120, small)]), "mixed-layouts") == "clear"


def test_a_row_that_is_repeated_has_no_order() -> None:
    inputs = tensors(SHAPE, SHAPE, strides=[(), (0, 0, 1)])
    assert outcome(trace([op("add", MUL, 120, inputs)]), "mixed-layouts") == "clear"
