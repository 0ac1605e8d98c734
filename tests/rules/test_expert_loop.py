"""expert-loop: which loops are experts, and what grouping them leaves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from diagnosing import finding, outcome
from host_traces import Program, inputs, program

ROWS = (190, 310, 250, 274, 236, 300, 244, 244)


def experts(p: Program, rows: Sequence[int], waits: bool = True, width: int = 512) -> None:
    """Each expert: find its tokens (a wait), gather them, two products, add them up; seven calls of about 22 us."""
    for m in rows:
        p.op("aten::eq", dims=[(2048,)])
        if waits:
            p.read("aten::nonzero", "bool", (2048,))
        p.op("aten::index", dims=[(2048, width)])
        p.op("aten::mm", dims=[(m, width), (width, 2048)], dtype="c10::BFloat16")
        p.op("aten::gelu", dims=[(m, 2048)])
        p.op("aten::mm", dims=[(m, 2048), (2048, width)], dtype="c10::BFloat16")
        p.op("aten::index_add_", dims=[(2048, width), (m,), (m, width)])


def test_experts_one_after_the_other_are_one_grouped_product() -> None:
    def step(p: Program) -> None:
        p.ops(4, dims=[(64, 64)])
        experts(p, ROWS)

    found = finding(program(step), "expert-loop")
    assert found is not None
    assert "8 experts" in found.title
    assert "190 to 310" in found.text
    one = 6 * 22 + 26
    # Seven of eight passes go; eight ops of 20 us come for sorting.
    assert found.saving_us_per_step == pytest.approx(7 * one - 8 * 20, rel=0.15)
    assert "host-sync" in found.folded


@pytest.mark.parametrize(
    ("rows", "waits"),
    [((256,) * 8, True), (ROWS, False), (ROWS[:3], True)],
    ids=["layers that take all rows", "no waits", "three"],
)
def test_what_is_no_loop_of_experts(rows: Sequence[int], waits: bool) -> None:
    def step(p: Program) -> None:
        p.ops(4, dims=[(64, 64)])
        experts(p, rows, waits)

    assert outcome(program(step), "expert-loop") == "clear"


def test_inputs_are_needed() -> None:
    assert inputs([(1,)])["Input type"] == ["float"]

    def step(p: Program) -> None:
        p.ops(40)

    assert outcome(program(step), "expert-loop") == "not-checked"
