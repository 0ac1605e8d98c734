"""unfused-optimizer: fused steps that go through one parameter group for each parameter."""

from __future__ import annotations

from typing import Any

import pytest
from diagnosing import finding, outcome

from builder import TraceBuilder

LIST = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>>"
FOREACH = LIST.replace("FusedOptimizer", "")
GROUP_US, KERNEL_US = 40.0, 2.5


def lists(tensors: int, lr: str, *, lr_type: str = "Scalar", sizes: bool = True) -> dict[str, Any]:
    """Recorded inputs of `_fused_adamw_`: the tensors' sizes, the options, and what a gradient scaler would give."""
    shapes = [[256]] * tensors if sizes else []
    return {
        "Input Dims": [shapes, shapes, shapes, shapes, [], shapes, [], [], [], []],
        "Input type": [*["TensorList"] * 6, lr_type, "Scalar", "", ""],
        "Input Strides": [[]] * 10,
        "Concrete Inputs": ["", "", "", "", "", "", lr, "0.01", "", ""],
    }


def trace(groups: int, options: int, tensors: int = 1, op: str = "_fused_adamw_", **more: Any) -> TraceBuilder:
    """Steps that the CPU bounds: one product, and an optimizer that goes through groups with some options in turn."""
    t = TraceBuilder()
    step_us = 60 + groups * GROUP_US
    for k in range(4):
        begin = 100 + k * step_us
        t.step(k, begin, step_us)
        t.op("aten::mm", begin + 2, 8)
        t.launch(begin + 4, 1, gpu=(begin + 10, 20))
        t.annotation("Optimizer.step#AdamW.step", begin + 40, groups * GROUP_US)
        for i in range(groups):
            now = begin + 40 + i * GROUP_US
            t.op(f"aten::{op}", now + GROUP_US - 10, 10, **lists(tensors, f"0.{i % options + 1}", **more))
            t.launch(now + GROUP_US - 8, 1, gpu=(now + GROUP_US, KERNEL_US), name=LIST, grid=[1, 1, 1])
    return t


def test_a_group_for_each_parameter_costs_its_call() -> None:
    """Of 48 groups 4 have options of their own: the others cost 40 us each, and 8 us to gather their tensor elsewhere."""
    found = finding(trace(48, 4), "unfused-optimizer")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(44 * (GROUP_US - 8), rel=0.02)
    assert found.title == "AdamW runs its fused step 48 times, once for each parameter group"
    assert "The 48 groups with 48 tensors have only 4 sets of options" in found.text
    assert "'lr': lr" in found.fix


def test_one_set_of_options_is_one_group() -> None:
    found = finding(trace(12, 1, tensors=2), "unfused-optimizer")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(11 * (GROUP_US - 2 * 8), rel=0.02)
    assert "only 1 set of options" in found.text


@pytest.mark.parametrize(
    "built",
    [
        trace(48, 48),
        trace(2, 1, tensors=20),
        trace(48, 4, lr_type="float"),
        trace(48, 4, sizes=False),
        trace(48, 4, op="_fused_dropout"),
    ],
    ids=["each with options of its own", "a few groups", "rates in tensors", "lists without sizes", "no optimizer's op"],
)
def test_groups_that_are_needed_or_cannot_be_told(built: TraceBuilder) -> None:
    assert outcome(built, "unfused-optimizer") == "clear"


def foreach(groups: int, decayed: int) -> TraceBuilder:
    """Steps of a foreach optimizer: weight decay for some groups, then two ops for each."""
    t = TraceBuilder()
    step_us = 60 + groups * GROUP_US
    shapes = [[256]]
    for k in range(4):
        begin = 100 + k * step_us
        t.step(k, begin, step_us)
        t.op("aten::mm", begin + 2, 8)
        t.launch(begin + 4, 1, gpu=(begin + 10, 20))
        t.annotation("Optimizer.step#AdamW.step", begin + 40, groups * GROUP_US)
        for i in range(groups):
            ops = [("mul_", "0.99")] if i < decayed else []
            for j, (op, number) in enumerate([*ops, ("lerp_", "0.1"), ("addcdiv_", "-0.01")]):
                now = begin + 40 + i * GROUP_US + 10 * j
                inputs = {
                    "Input Dims": [shapes, []],
                    "Input type": ["TensorList", "Scalar"],
                    "Input Strides": [[], []],
                    "Concrete Inputs": ["", number],
                }
                t.op(f"aten::_foreach_{op}", now, 8, **inputs)
                t.launch(now + 1, 1, gpu=(now + 10, KERNEL_US), name=FOREACH, grid=[1, 1, 1])
    return t


def test_foreach_steps_make_their_passes_for_each_group() -> None:
    """Groups by the op that ends the step; options by the numbers of all calls of a group."""
    found = finding(foreach(48, 20), "unfused-optimizer")
    assert found is not None
    assert found.title == "AdamW launches 116 foreach kernels a step for 48 groups"
    assert "only 2 sets of options" in found.text
    assert "'weight_decay': 0" in found.fix
    assert found.saving_us_per_step == pytest.approx(48 * (GROUP_US - 8), rel=0.02)


def test_a_few_foreach_groups_are_no_matter() -> None:
    found = finding(foreach(2, 1), "unfused-optimizer")
    assert found is not None
    assert "for 2 groups" not in found.title
