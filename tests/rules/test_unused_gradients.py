"""unused-gradients: which gradients no optimizer updates a parameter with, and what computing them costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import pytest
from diagnosing import diagnosis, finding, outcome
from gpu_traces import MUL, TENSOR, Shape, contiguous, tensors

from builder import TraceBuilder

TOKENS = 4096
BASE, DOWN, UP, HEAD = (1024, 512), (16, 512), (1024, 16), (256, 512)
WEIGHT_US, DATA_US, ADD_US = 100.0, 80.0, 6.0
OP_US = 4.0
LIST = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>>"


@dataclass
class Layer:
    """One weight of the network, in the order of the backward pass."""

    weight: Shape
    kept: bool = False
    passes_on: bool = True


@dataclass
class Training:
    """Steps of a network: one forward op, the backward pass of its layers, and the optimizer.

    Attributes:
        layers: as the backward pass comes to them.
        updated: what the optimizer's list holds; None leaves the sizes out, as those of long lists are.
        blocks: of the optimizer's kernel.
        others: what a second optimizer, of another kind, holds.
        every: steps between two of the optimizer.
        mark: whether the optimizer's step is marked.
    """

    layers: list[Layer]
    updated: list[Shape] | None
    blocks: int = 1
    every: int = 1
    others: list[Shape] = field(default_factory=list)
    mark: bool = True
    nested: bool = False
    t: TraceBuilder = field(default_factory=TraceBuilder)
    now: float = 0.0
    free: float = 0.0

    def built(self) -> TraceBuilder:
        step_us = 60 + 40 * len(self.layers)
        for k in range(4):
            begin = self.now = 100.0 + k * step_us
            self.t.step(k, begin, step_us - 1)
            self.now += 2
            self.op("mm", tensors((TOKENS, 512), (512, 512)), 50, tid=1)
            for layer in self.layers:
                self.backward(layer)
            if k % self.every == self.every - 1:
                self.optimizer("AdamW", "_fused_adamw_", self.updated)
                if self.others:
                    self.optimizer("SGD", "_fused_sgd_", self.others)
        return self.t

    def op(self, name: str, inputs: dict[str, Any], us: float, tid: int = 2, kernel: str = TENSOR, blocks: int = 1024) -> None:
        self.t.op(f"aten::{name}", self.now, OP_US, tid, **inputs)
        self.free = max(self.free, self.now + 2)
        self.t.launch(self.now + 0.5, 0.5, gpu=(self.free, us), name=kernel, tid=tid, grid=[blocks, 1, 1])
        self.free += us
        self.now += OP_US + 0.5

    def node(self, name: str, begin: float, given: Shape) -> None:
        self.t.op(name, begin + 0.5, self.now - begin - 0.5, 2, **tensors(given))
        self.t.op(f"autograd::engine::evaluate_function: {name}", begin, self.now - begin, 2)
        self.now += 1

    def backward(self, layer: Layer) -> None:
        out, into = layer.weight
        begin = self.now
        self.now += 1
        if layer.passes_on:
            self.op("mm", tensors((TOKENS, out), (out, into)), DATA_US)
        self.op("mm", tensors((out, TOKENS), (TOKENS, into), strides=((1, out), (into, 1))), WEIGHT_US)
        self.node("MmBackward0", begin, (TOKENS, out))
        begin = self.now
        self.now += 1
        self.node("TBackward0", begin, (into, out))
        begin = self.now
        self.now += 1
        if layer.kept:
            self.op("add_", tensors(layer.weight, layer.weight), ADD_US, kernel=MUL)
        self.node("torch::autograd::AccumulateGrad", begin, layer.weight)
        if self.nested:
            self.t.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", begin - 0.1, self.now - begin, 2)

    def optimizer(self, name: str, op: str, updated: list[Shape] | None) -> None:
        begin, shapes = self.now, updated or []
        self.now += 1
        lists = {
            "Input Dims": [[list(s) for s in shapes]],
            "Input type": ["TensorList"],
            "Input Strides": [[contiguous(s) for s in shapes]],
            "Concrete Inputs": [""],
        }
        self.op(op, lists, 5, 1, LIST, self.blocks)
        if self.mark:
            self.t.annotation(f"Optimizer.step#{name}.step", begin, self.now - begin)


def adapters(base_kept: bool = True) -> list[Layer]:
    """Two layers, each with an adapter beside its weight."""
    return [layer for _ in range(2) for layer in (Layer(DOWN), Layer(UP), Layer(BASE, kept=base_kept))]


def chunks(*shapes: Shape) -> int:
    """Blocks of the list kernels: one for 65536 elements of each tensor."""
    return sum(-(-prod(s) // 65536) for s in shapes)


def test_weights_beside_trained_adapters() -> None:
    """Of the base weights the gradient's product and its sum go, and what comes after the last adapter's gradient."""
    found = finding(Training(adapters(), [DOWN, UP] * 2).built(), "unused-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * (WEIGHT_US + ADD_US) + DATA_US, rel=0.02)
    assert found.title.startswith("2 of 6 gradients")
    assert "mostly 1024 x 512 (2 of them), and goes on for them" in found.text
    assert "2.00 MiB of memory" in found.text
    assert "requires_grad_(id(p) in ids)" in found.fix


def test_a_head_that_alone_is_trained_ends_the_backward_pass() -> None:
    layers = [Layer(HEAD), *[Layer(BASE)] * 5]
    found = finding(Training(layers, [HEAD]).built(), "unused-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(5 * (WEIGHT_US + DATA_US), rel=0.02)


def test_of_equal_weights_those_that_zero_grad_does_not_clear_are_unused() -> None:
    """The last two of four layers are trained: they come first, and the rest of the backward pass goes."""
    layers = [Layer(BASE), Layer(BASE), Layer(BASE, kept=True), Layer(BASE, kept=True)]
    found = finding(Training(layers, [BASE] * 2).built(), "unused-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * (WEIGHT_US + DATA_US + ADD_US), rel=0.02)


def test_where_equal_weights_cannot_be_told_apart_their_products_count_alone() -> None:
    found = finding(Training([Layer(BASE)] * 4, [BASE] * 2).built(), "unused-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * WEIGHT_US, rel=0.02)


def test_steps_that_only_gather_gradients_are_judged_by_those_that_step() -> None:
    built = Training(adapters(), [DOWN, UP] * 2, every=2).built()
    found = finding(built, "unused-gradients")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(2 * (WEIGHT_US + ADD_US) + DATA_US, rel=0.02)


@pytest.mark.parametrize("kept", [True, False], ids=["cleared by the optimizer", "all cleared"])
def test_lists_without_sizes_are_told_by_their_blocks(kept: bool) -> None:
    """8 blocks for each base weight, 1 for each adapter weight."""
    found = finding(Training(adapters(kept), None, chunks(*[DOWN, UP] * 2)).built(), "unused-gradients")
    assert found is not None
    assert found.title.startswith("2 of 6 gradients")


@pytest.mark.parametrize(
    "training",
    [
        Training(adapters(), [DOWN, UP, BASE] * 2),
        Training(adapters(), None, chunks(*[DOWN, UP, BASE] * 2)),
        Training([Layer(BASE, kept=True)] * 4, [BASE] * 4),
        Training([Layer(BASE)] * 4, [BASE] * 2, others=[BASE] * 2),
    ],
    ids=["all updated", "all updated, by blocks", "gathered over steps", "two optimizers"],
)
def test_gradients_that_are_used(training: Training) -> None:
    assert outcome(training.built(), "unused-gradients") == "clear"


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(adapters(), [DOWN, UP], mark=False), "no optimizer step was recorded"),
        (Training(adapters(), [(1081344,)]), "the optimizer works on tensors of sizes that no gradient has"),
        (Training(adapters(), None, 11), "too long to be recorded"),
        (Training(adapters(), None, 2), "too long to be recorded"),
        (Training(adapters(), [DOWN, UP] * 2, nested=True), "inside one another"),
    ],
    ids=["no step of an optimizer", "a flat copy", "blocks of nothing", "blocks of two choices", "nested"],
)
def test_what_cannot_be_told(training: Training, reason: str) -> None:
    check = next(c for c in diagnosis(training.built()).checks if c.id == "unused-gradients")
    assert check.outcome == "not-checked"
    assert reason in (check.reason or "")


def test_a_leaf_that_is_no_weight_counts_as_used() -> None:
    """The gradient of the network's input, for an attack or a penalty: what leads to it is not spared."""
    training = Training([Layer(HEAD), Layer(BASE)], [HEAD, BASE])
    backward = training.backward

    def with_input(layer: Layer) -> None:
        backward(layer)
        if layer.weight == BASE:
            begin = training.now
            training.now += 1
            training.node("torch::autograd::AccumulateGrad", begin, (TOKENS, 512))

    training.backward = with_input  # type: ignore[method-assign]
    assert outcome(training.built(), "unused-gradients") == "clear"


def test_a_pass_without_an_optimizer_and_gradients_is_clear() -> None:
    assert outcome(Training([], [BASE]).built(), "unused-gradients") == "clear"
