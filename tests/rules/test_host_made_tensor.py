"""host-made-tensor: what is made out of numbers on the CPU, and what may hold data."""

from __future__ import annotations

import pytest
from diagnosing import diagnosis, finding, outcome
from host_traces import Body, Program, program

from lanewise.rules.context import Context
from lanewise.verdict import verdict


def made(*names: str, pause: float = 0.0, layers: int = 4) -> Body:
    """In each layer some ops on the CPU (100 us each), a copy of what they made, then work on the GPU."""

    def step(p: Program) -> None:
        for _ in range(layers):
            for name in names:
                p.op(f"aten::{name}", 100, None)
            p.idle(pause)
            p.copy(1 << 20, 60)
            p.ops(3)

    return step


def test_a_mask_in_each_layer_goes_with_its_copy() -> None:
    found = finding(program(made("ones", "tril")), "host-made-tensor")
    assert found is not None
    # Two ops of 102 us and a copy of 100 us, of which the wait for it is some 60.
    assert found.saving_us_per_step == pytest.approx(4 * (204 + 97), rel=0.05)
    assert found.title.startswith("Constants are made on the CPU and copied: 4 a step")
    assert "ones, tril" in found.text


def test_random_numbers_cost_as_many_ops_on_the_gpu() -> None:
    constant = finding(program(made("ones", "mul")), "host-made-tensor")
    found = finding(program(made("randn", "mul")), "host-made-tensor")
    assert found is not None
    assert constant is not None
    assert "Random numbers" in found.title
    assert "torch.randn_like(x)" in found.fix
    less = (constant.saving_us_per_step or 0) - (found.saving_us_per_step or 0)
    assert less == pytest.approx(4 * 2 * 20, rel=0.1)  # two ops of 20 us in each layer


@pytest.mark.parametrize(
    "body",
    [
        made("empty"),
        made("stack"),
        made("zeros", "index_put_"),
        made("zeros", "copy_"),
        made("zeros", pause=400),
        made(),
    ],
    ids=["no factory", "data", "filled by index", "filled by copies", "filled in Python", "a copy alone"],
)
def test_what_may_hold_data_is_left_alone(body: Body) -> None:
    assert outcome(program(body), "host-made-tensor") == "clear"


def test_the_verdict_names_it() -> None:
    t = program(made("randn", layers=8))
    context = Context(t.load())
    judged = verdict(context, diagnosis(t).findings, "en")
    assert judged.bound == "cpu"
    assert "computes tensors" in judged.text
