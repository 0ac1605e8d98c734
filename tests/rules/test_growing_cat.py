"""growing-cat: what counts as adding a little to a large tensor, and what goes."""

from __future__ import annotations

from typing import Any

import pytest
from diagnosing import finding, outcome
from gpu_traces import COPY, TENSOR, Call, product, trace


def cat(*shapes: tuple[int, ...], us: float = 400) -> Call:
    """A call of `torch.cat`, whose inputs are one list of tensors."""
    inputs: dict[str, Any] = {
        "Input Dims": [[list(s) for s in shapes], []],
        "Input type": ["TensorList", "Scalar"],
        "Input Strides": [[], []],
        "Concrete Inputs": ["", "2"],
    }
    return Call(("aten::cat",), [(COPY, us)], inputs)


CACHE, TOKEN = (16, 16, 2047, 128), (16, 16, 1, 128)


def test_a_cache_that_grows_by_one_token_keeps_its_call_and_little_of_its_copy() -> None:
    found = finding(trace([cat(CACHE, TOKEN), product(512, 512, 512, 20)] * 2), "growing-cat")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * (400 - 2.5), rel=0.02)
    assert "16 x 16 x 2047 x 128 joined with 16 x 16 x 1 x 128" in found.text


@pytest.mark.parametrize(
    "calls",
    [
        [cat((8, 64, 32, 32), (8, 64, 32, 32))] * 4,
        [cat(CACHE, (16, 16, 512, 128))] * 4,
        [cat(CACHE, TOKEN)],
        [product(512, 512, 512, 20)] * 4,
    ],
    ids=["halves", "a fifth is new", "once a step", "no cat"],
)
def test_joining_equals_is_fine(calls: list[Call]) -> None:
    assert outcome(trace(calls), "growing-cat") == "clear"


def test_results_that_a_loop_collects_need_no_call() -> None:
    """cat([out, y]) with out from the last pass: all but the last go, each with 10 us of CPU time, which bounds the step."""
    calls = [cat((64, n), (64, 1), us=1) for n in range(32, 48)]
    found = finding(trace(calls), "growing-cat")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(15 * 10, rel=0.05)


def test_sizes_of_long_lists_are_not_recorded() -> None:
    unknown = cat(CACHE, TOKEN)
    unknown.inputs["Input Dims"] = [[], []]
    assert outcome(trace([unknown] * 4), "growing-cat") == "clear"


def test_a_call_of_several_kernels_is_one_call() -> None:
    twice = cat(CACHE, TOKEN)
    twice.kernels = [(COPY, 200), (COPY, 200)]
    found = finding(trace([twice, twice]), "growing-cat")
    assert found is not None
    assert "2 times a step" in found.title


def test_two_copies_are_no_chain_to_fuse() -> None:
    assert (
        outcome(trace([cat(CACHE, TOKEN), cat(CACHE, TOKEN), Call(("aten::mm",), [(TENSOR, 5)])]), "unfused-pointwise")
        == "clear"
    )
