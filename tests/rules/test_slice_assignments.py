"""slice-gradients: parts of a tensor that are written in place, each of which copies the gradient of the whole."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import DTOD, FP32, MUL, TENSOR, Shape, tensors

from builder import TraceBuilder

WHOLE, PART = (64, 512, 1024), (64, 1024)
COPY_US, PART_US, SCALE_US = 50.0, 3.0, 7.0
OP_US = 4.0


class Writing:
    """Steps that write parts of a tensor one by one, with a product that the GPU is busy with."""

    def __init__(self, parts: int, *, plain: bool = True, between: Shape = PART, product_us: float = 3000) -> None:
        self.t = TraceBuilder()
        self.parts, self.plain, self.between = parts, plain, between
        step_us = 40 + parts * 55
        self.free = 0.0
        for k in range(4):
            begin = 100.0 + k * step_us
            self.t.step(k, begin, step_us - 1)
            self.now = begin + 2
            self.op("mm", PART, product_us, 1, TENSOR)
            for i in range(parts):
                self.t.op("aten::copy_", self.now, 2, 1, **{"Sequence number": 1000 * k + i, "Fwd thread id": 0})
                self.now += 3
            for i in reversed(range(parts)):
                self.written(1000 * k + i)
                self.node("AddmmBackward0", self.now, between, -1)

    def op(self, name: str, shape: Shape, us: float, tid: int = 2, kernel: str = MUL) -> None:
        self.t.op(f"aten::{name}", self.now, OP_US, tid, **tensors(shape, shape, dtype=FP32))
        self.free = max(self.free, self.now + 2)
        copy = {"cat": "gpu_memcpy"} if kernel == DTOD else {}
        self.t.launch(self.now + 0.5, 0.5, gpu=(self.free, us), name=kernel, tid=tid, **copy)
        self.free += us
        self.now += OP_US + 0.5

    def node(self, name: str, begin: float, given: Shape, number: int) -> None:
        self.now += 1
        self.t.op(name, begin + 0.25, self.now - begin - 0.25, 2, **tensors(given, dtype=FP32))
        self.t.op(
            f"autograd::engine::evaluate_function: {name}",
            begin,
            self.now - begin,
            2,
            **{"Sequence number": number, "Fwd thread id": 1},
        )
        self.now += 1

    def written(self, number: int) -> None:
        begin = self.now
        self.now += 1
        self.op("copy_", WHOLE, COPY_US, kernel=DTOD)
        self.op("copy_", PART, PART_US)
        inner = self.now
        if self.plain:
            self.op("zero_", PART, PART_US)
        else:
            self.op("mul", PART, SCALE_US)
        self.t.op(
            "torch::autograd::CopyBackwards" if self.plain else "MulBackward0", inner - 0.2, OP_US + 0.6, 2, **tensors(PART)
        )
        self.op("copy_", PART, PART_US)
        self.node("torch::autograd::CopySlices", begin, WHOLE, number)


def test_assigned_parts_copy_the_whole_gradient_each() -> None:
    """A list and one `stack` have none of it: its gradient is views."""
    found = finding(Writing(16).t, "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(16 * (COPY_US + 3 * PART_US), rel=0.02)
    assert found.title == "16 writes to parts of one tensor copy its gradient each"
    assert "64 x 512 x 1024 (128 MiB)" in found.text
    assert "torch.stack(parts)" in found.fix


def test_scaled_parts_are_still_scaled() -> None:
    """The copies of the whole go; the product and the copies of the part stay, for a product with a mask to do."""
    found = finding(Writing(16, plain=False).t, "slice-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(16 * COPY_US, rel=0.02)


def test_where_the_cpu_bounds_the_step_nodes_and_writes_count() -> None:
    """Of 16 nodes and writes all but the first go: 21 us and 2 us each, with 1 us between two writes."""
    found = finding(Writing(16, product_us=1).t, "slice-gradients")
    assert found is not None
    node = 1 + 4 * (OP_US + 0.5) + 1
    assert found.saving_us_per_step == pytest.approx(15 * (node + 3), rel=0.1)


@pytest.mark.parametrize(
    "writing", [Writing(1), Writing(3), Writing(16, between=WHOLE)], ids=["once", "three", "each in a tensor of its own"]
)
def test_few_writes_to_one_tensor_are_fine(writing: Writing) -> None:
    assert outcome(writing.t, "slice-gradients") == "clear"
