"""slice-gradients: which gradients are filled for parts of one tensor, and what of them would stay."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import pytest
from diagnosing import finding, outcome
from gpu_traces import FP32, MUL, Shape, tensors

from builder import TraceBuilder

WHOLE, PART = (32, 256, 8000), (256, 8000)
FILL_US, COPY_US, ADD_US, LOSS_US = 60.0, 5.0, 180.0, 4.0
BYTES = 4 * prod(WHOLE)
# The H200's 4.8 TB/s, of which copies reach 88 %.
JOINED_US, FILLED_US = (passes * BYTES / (4.8e12 * 0.88) * 1e6 for passes in (2, 1))
OP_US = 4.0


@dataclass
class Step:
    """The backward pass of one step on the engine's thread, after a forward pass on the program's."""

    t: TraceBuilder
    now: float
    free: float

    def launch(self, us: float, tid: int) -> None:
        self.free = max(self.free, self.now + 1)
        self.t.launch(self.now, 0.5, gpu=(self.free, us), name=MUL, tid=tid)
        self.free += us

    def op(self, name: str, shape: Shape, us: float, tid: int = 2, **more: object) -> None:
        """An op that launches one kernel."""
        self.t.op(f"aten::{name}", self.now, OP_US, tid, **tensors(shape, dtype=FP32), **more)
        self.now += 0.5
        self.launch(us, tid)
        self.now += OP_US

    def node(self, name: str, given: Shape, inner: tuple[str, ...], whole: Shape, added: bool, number: int) -> None:
        """Autograd's node, which fills and copies, and the engine's sum after it."""
        begin = self.now
        self.now += 1
        for op in inner:
            us = FILL_US if op == "zero_" else COPY_US
            self.op(op, whole if op == "zero_" else given, us)
        self.t.op(f"{name}", begin + 0.5, self.now - begin - 0.5, 2, **tensors(given, dtype=FP32))
        if added:
            self.op("add_", whole, ADD_US)
        number_of = {"Sequence number": number, "Fwd thread id": 1}
        self.t.op(f"autograd::engine::evaluate_function: {name}", begin, self.now - begin, 2, **number_of)
        self.now += 1


def trace(
    parts: int = 32,
    *,
    node: str = "SelectBackward0",
    first_added: bool = False,
    whole: Shape = WHOLE,
    tensors_taken: int = 1,
    losses: Shape | None = None,
    rest_us: float = 5000,
) -> TraceBuilder:
    """Steps that take parts of a tensor, one tensor after the other, and maybe make a loss of this shape of each part."""
    t = TraceBuilder()
    per = 1 if losses is None else 2
    inner = ("zero_", "copy_") if node in ("SelectBackward0", "SliceBackward0") else ("zero_", "index_put_")
    step_us = 20 + parts * tensors_taken * per * 24 + 50 * tensors_taken
    free = 0.0
    for k in range(4):
        begin = 100 + k * step_us
        t.step(k, begin, step_us - 1)
        step = Step(t, begin + 5, free)
        number = 1000 * k
        step.op("mm", PART, rest_us, 1)  # the GPU bounds the step with and without
        for i in range(parts * tensors_taken):
            t.op("aten::select", step.now, 1, 1, **{"Sequence number": number + per * i, "Fwd thread id": 0})
            step.now += 2
            if losses is not None:
                step.op("nll_loss", PART, LOSS_US, 1, **{"Sequence number": number + per * i + 1, "Fwd thread id": 0})
        for taken in reversed(range(tensors_taken)):
            for i in reversed(range(parts)):
                place = taken * parts + i
                if losses is not None:
                    step.node("NllLossBackward0", losses, (), whole, False, number + per * place + 1)
                step.node(node, PART, inner, whole, first_added or i < parts - 1, number + per * place)
            step.node("MulBackward0", whole, (), whole, False, -1)
        free = step.free
    return t


def test_of_all_fills_copies_and_sums_one_pass_stays() -> None:
    found = finding(trace(), "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(32 * (FILL_US + COPY_US) + 31 * ADD_US - JOINED_US, rel=0.02)
    assert found.title.startswith("32 parts of one tensor")
    assert "32 x 256 x 8000 (250 MiB)" in found.text
    assert "x.unbind(dim)" in found.fix


def test_rows_by_index_are_still_looked_up_and_put() -> None:
    """The fills and sums go but for one fill; what puts the rows in stays."""
    found = finding(trace(8, node="IndexBackward0"), "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(8 * FILL_US + 7 * ADD_US - FILLED_US, rel=0.02)
    assert "x[torch.cat(indices)]" in found.fix


def test_a_sum_that_began_elsewhere_counts_too() -> None:
    found = finding(trace(8, first_added=True), "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(8 * (FILL_US + COPY_US + ADD_US) - JOINED_US, rel=0.02)


def test_each_of_several_tensors_keeps_its_pass() -> None:
    found = finding(trace(4, tensors_taken=3), "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(3 * (4 * (FILL_US + COPY_US) + 3 * ADD_US - JOINED_US), rel=0.02)
    assert found.title.startswith("4 parts of one tensor")


def test_a_loss_of_each_part_needs_no_loop() -> None:
    """A pass that ends in one number can hand nothing else to the next: the whole tensor has one loss. Where the CPU is what
    remains, its passes but the first count."""
    found, alone = (finding(trace(16, losses=shape, rest_us=1), "slice-gradients") for shape in ((), (256,)))
    assert found is not None
    assert alone is not None
    assert found.fix.startswith("No loop")
    assert alone.fix.startswith("parts = x.unbind")
    assert found.saving_us_per_step is not None
    assert alone.saving_us_per_step is not None
    passes = 15 * (2 + OP_US + 0.5) + 15 * 3  # forward from pass to pass, and the nodes of the losses
    assert found.saving_us_per_step == pytest.approx(alone.saving_us_per_step + passes, rel=0.02)


@pytest.mark.parametrize(
    "built",
    [
        trace(1),
        trace(3),
        trace(2, tensors_taken=12, first_added=True),
        trace(32, node="NllLossBackward0"),
        trace(32, node="UnbindBackward0"),
        trace(32, whole=(1,)),
    ],
    ids=["once", "queries, keys and values", "two halves in each layer", "no part of a tensor", "unbound", "numbers"],
)
def test_what_is_no_tensor_in_parts(built: TraceBuilder) -> None:
    assert outcome(built, "slice-gradients") == "clear"


def test_without_shapes_it_is_not_checked() -> None:
    t = TraceBuilder()
    t.step(0, 0, 100)
    t.op("aten::mm", 0, 10)
    t.launch(1, 1, gpu=(5, 20))
    assert outcome(t, "slice-gradients") == "not-checked"
