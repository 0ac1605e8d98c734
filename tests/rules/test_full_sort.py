"""full-sort: sorts of which a few values are taken."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import FP32, MUL, REDUCE, SOFTMAX, Call, op, tensors, trace

SORT = "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<Policy, float, int>"
ROWS, N = 64, 128256
FULL = (ROWS, N)
LONG = "long int"


def sort(name: str = "sort", shape: tuple[int, ...] = FULL, us: float = 600.0) -> Call:
    """A sort of the last dimension in three kernels."""
    inner = tensors(shape, dtype=FP32, scalars=["False", "-1", "True"])
    outer = tensors(shape, dtype=FP32, scalars=["-1", "True"])
    return Call((f"aten::{name}", "aten::sort"), [(SORT, us / 3)] * 3, inner, outer=outer)


def take(begin: int, end: int, shape: tuple[int, ...] = FULL, dtype: str = FP32, dim: int = 1) -> Call:
    """A slice, which launches nothing."""
    scalars = [str(dim), str(begin), str(end), "1"]
    return Call(("aten::slice",), [], tensors(shape, dtype=dtype, scalars=scalars))


DRAW = op("softmax", SOFTMAX, 2, tensors((ROWS, 50), dtype=FP32, scalars=["-1"]))
LOOK_UP = op("gather", MUL, 2, tensors(FULL, (ROWS, 1), dtype=[LONG, LONG], scalars=["1", "False"]))
BELOW = op("lt", MUL, 20, tensors(FULL, (ROWS, 1), dtype=FP32))
MASK = op("masked_fill", MUL, 20, tensors(FULL, FULL, dtype=[FP32, "bool"], scalars=["-inf"]))


def topk_us(k: int) -> float:
    """What topk takes of 64 rows of 128256 fp32 values by the page's measurements."""
    passes = 8 * 6 * ROWS * N / (4.8e12 * 0.88) * 1e6
    return 16 + 4 * 6 + passes + ROWS / 132 * 2 + N / 131072 * 4 * 1.75 + 5 + ROWS * k * 0.05e-3


def test_the_first_values_of_a_sort() -> None:
    found = finding(trace([sort(), take(0, 50), DRAW, LOOK_UP]), "full-sort")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(600 - topk_us(50), rel=0.02)
    assert "Sorting 128,256 values to take 50" in found.title


@pytest.mark.parametrize(
    ("calls", "taken"),
    [
        ([sort(), take(39, 40), BELOW, MASK], "40"),
        ([sort(), take(-20, 9223372036854775807), DRAW], "20"),
        ([sort("argsort"), take(0, 30, dtype=LONG), DRAW, MASK], "30"),
    ],
    ids=["a threshold, then what was sorted", "the last ones", "indices"],
)
def test_what_topk_finds_too(calls: list[Call], taken: str) -> None:
    found = finding(trace(calls), "full-sort")
    assert found is not None
    assert f"take {taken}:" in found.title


def test_one_value_is_a_maximum() -> None:
    found = finding(trace([sort(), take(0, 1), DRAW]), "full-sort")
    assert found is not None
    assert "x.max" in found.fix


CUMSUM = op("cumsum", MUL, 30, tensors(FULL, dtype=FP32, scalars=["-1"]))


@pytest.mark.parametrize(
    "calls",
    [
        [sort(), op("softmax", SOFTMAX, 30, tensors(FULL, dtype=FP32, scalars=["-1"])), CUMSUM, LOOK_UP],
        [sort(), take(0, 50), CUMSUM, DRAW],
        [sort(), take(0, 50), op("scatter", MUL, 30, tensors(FULL, FULL, FULL, dtype=[FP32, LONG, FP32])), DRAW],
        [sort(), take(0, N // 2), DRAW],
        [sort(), take(0, 8, dim=0), DRAW],
        [sort(), DRAW],
        [sort(shape=(1, 1_000_000), us=91), take(0, 50, (1, 1_000_000)), DRAW],
        [sort(shape=(4096, 512), us=110), take(0, 50, (4096, 512)), op("sum", REDUCE, 5, tensors((4096, 50), dtype=FP32))],
    ],
    ids=["top-p", "a sum in order", "put back", "half", "some rows", "nothing taken", "one long row", "many short rows"],
)
def test_sorts_that_are_needed(calls: list[Call]) -> None:
    assert outcome(trace(calls), "full-sort") == "clear"
