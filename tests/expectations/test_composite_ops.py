"""Ops that call one other op for all of their work: people guess the op that they called."""

from __future__ import annotations

import pytest

from builder import TraceBuilder
from lanewise.expectations.checking import checked
from lanewise.expectations.guessing import guess, guessed_words
from lanewise.expectations.proposing import proposed
from lanewise.expectations.reading import expectations_of
from lanewise.model.trace import Trace

CLAMP = "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar>"


def relu(*, gpu: bool) -> Trace:
    """`aten::relu`, which is `aten::clamp_min`, and `aten::dropout`, which is two ops."""
    t = TraceBuilder()
    for i in range(3):
        at = 100.0 * i
        t.step(i, at, 90)
        t.op("aten::relu", at + 1, 20)
        t.op("aten::clamp_min", at + 2, 18)
        t.op("aten::dropout", at + 30, 40)
        t.op("aten::bernoulli_", at + 31, 15)
        t.op("aten::mul", at + 50, 15)
        if gpu:
            for begin, name in ((at + 5, CLAMP), (at + 35, "bernoulli"), (at + 55, "void mul_kernel")):
                t.launch(begin, 5, gpu=(begin + 6, 4), name=name)
    return t.load()


@pytest.mark.parametrize("gpu", [True, False])
def test_the_op_that_was_called_is_guessed(gpu: bool) -> None:
    found = guess(relu(gpu=gpu), guessed_words("relu random mul"))
    assert [(r.status, r.word) for r in found.rows] == [("matched", "relu"), ("matched", "random"), ("matched", "mul")]


@pytest.mark.parametrize("gpu", [True, False])
def test_what_was_not_guessed_has_its_word(gpu: bool) -> None:
    found = guess(relu(gpu=gpu), guessed_words("random"))
    assert next(r.word for r in found.of("unexpected")) == "relu"


def test_an_op_of_several_pieces_is_none_of_them() -> None:
    found = guess(relu(gpu=False), guessed_words("dropout"))
    assert [r.status for r in found.rows if r.word == "dropout"] == ["missing"]


def test_an_op_that_did_not_run_is_explained_by_those_that_did() -> None:
    trace = relu(gpu=False)
    document = {"step": {"ops": {"aten::gelu": 1, "aten::mul": 1, "aten::bern*": 1}}}
    [breach] = checked(trace, expectations_of(document)).of("breached")
    assert (breach.key, breach.found) == ("ops.aten::gelu", "0")
    assert breach.evidence == ["what ran that is not in the file:", "aten::clamp_min"]


def test_values_read_into_python_are_guarded_without_a_gpu() -> None:
    assert 'ops."aten::_local_scalar_dense" = 0' in proposed(relu(gpu=False))
    assert "_local_scalar_dense" not in proposed(relu(gpu=True))
