"""Limits of traces with arguments that no profiler writes: not known, and nothing worse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lanewise.analyses.limits import limits
from limit_traces import ADD, BF16, FULL, NVJET, Calls, shape


@pytest.mark.parametrize(
    "recorded",
    [
        {"Input Dims": [["x"], [4096, 4096]], "Input type": [BF16, BF16]},
        {"Input Dims": [[4096, 4096], 7], "Input type": [BF16, BF16]},
        {"Input Dims": [[4096, None], [4096, 4096]], "Input type": [BF16, BF16]},
        {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": [1, 2]},
        {"Input Dims": [[10**200, 10**200], [10**200, 10**200]], "Input type": [BF16, BF16]},
    ],
)
def test_inputs_that_no_profiler_writes(recorded: dict[str, Any]) -> None:
    t = Calls()
    t.add("aten::mm", recorded, (NVJET, 168, shape(FULL)))
    assert np.isnan(t.load().analysis(limits).limit_ns).all()


def test_grids_at_the_end_of_their_range() -> None:
    t = Calls()
    t.add("aten::add", {}, (ADD, 20, {"grid": [2**31 - 1] * 3, "block": [2**31 - 1] * 3}))
    found = t.load().analysis(limits)
    assert found.role.tolist() == [-1]
    assert found.bound.tolist() == [-1]
