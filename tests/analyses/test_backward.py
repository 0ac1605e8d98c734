"""Backward nodes and their forward ops."""

from __future__ import annotations

from typing import Any

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.analyses.backward import backward
from lanewise.model.trace import Trace
from places import DATA


def links(trace: Trace) -> dict[str, str | None]:
    """Name of each backward node to the name of its forward op."""
    found = backward(trace)
    return {
        trace.name_of(int(n)): None if f < 0 else trace.name_of(int(f)) for n, f in zip(found.node, found.forward, strict=True)
    }


def seq(number: int, thread: int | None = None) -> dict[str, Any]:
    return {"Sequence number": number} | ({} if thread is None else {"Fwd thread id": thread})


def test_the_last_op_with_the_number_made_the_node() -> None:
    t = TraceBuilder()
    t.op("aten::linear", 0, 50, **seq(5, 0))
    t.op("aten::t", 5, 5, **seq(5, 0))
    t.op("aten::addmm", 20, 20, **seq(5, 0))
    t.op("autograd::engine::evaluate_function: AddmmBackward0", 100, 50, tid=2, **seq(5, 1))
    t.op("AddmmBackward0", 110, 30, tid=2, **seq(5, 1))
    assert links(t.load()) == {
        "autograd::engine::evaluate_function: AddmmBackward0": "aten::addmm",
        "AddmmBackward0": "aten::addmm",
    }


def test_an_op_after_the_node_made_another() -> None:
    t = TraceBuilder()
    t.op("aten::mul", 0, 5, **seq(5, 0))
    t.op("MulBackward0", 100, 5, tid=2, **seq(5, 1))
    # Under no_grad the number is asked for and not used up.
    t.op("aten::add_", 200, 5, **seq(5, 0))
    assert links(t.load()) == {"MulBackward0": "aten::mul"}


def test_each_thread_counts_for_itself() -> None:
    t = TraceBuilder()
    for tid, number, name in ((1, 5, "aten::mul"), (2, 5, "aten::add"), (1, 6, "aten::sin"), (2, 9, "aten::cos")):
        t.op(name, 10 * number, 5, tid=tid, **seq(number, 0))
    t.op("MulBackward0", 200, 5, tid=3, **seq(5, 1))
    t.op("SinBackward0", 210, 5, tid=3, **seq(6, 1))
    t.op("AddBackward0", 220, 5, tid=3, **seq(5, 7))
    t.op("CosBackward0", 230, 5, tid=3, **seq(9, 7))
    assert links(t.load()) == {
        "MulBackward0": "aten::mul",
        "SinBackward0": "aten::sin",
        "AddBackward0": "aten::add",
        "CosBackward0": "aten::cos",
    }


def test_threads_that_cannot_be_told_apart_are_not_guessed() -> None:
    t = TraceBuilder()
    t.op("aten::mul", 0, 5, tid=1, **seq(5, 0))
    t.op("aten::add", 0, 5, tid=2, **seq(5, 0))
    t.op("MulBackward0", 200, 5, tid=3, **seq(5, 1))
    assert links(t.load()) == {"MulBackward0": None}


def test_arrows_decide_where_the_file_has_them() -> None:
    t = TraceBuilder()
    t.op("aten::mul", 0, 5, tid=1, **seq(5, 0))
    t.op("aten::add", 0, 5, tid=2, **seq(5, 0))
    t.op("MulBackward0", 200, 9, tid=3, **seq(5, 1))
    t.event(ph="s", id=1, pid=100, tid=1, ts=0, cat="fwdbwd", name="fwdbwd")
    t.event(ph="f", id=1, pid=100, tid=3, ts=200, cat="fwdbwd", name="fwdbwd", bp="e")
    assert links(t.load()) == {"MulBackward0": "aten::mul"}


def test_arrows_are_enough_without_numbers() -> None:
    t = TraceBuilder()
    t.op("aten::linear", 0, 50)
    t.op("aten::addmm", 10, 30)
    t.op("AddmmBackward0", 200, 9, tid=3)
    t.event(ph="s", id=1, pid=100, tid=1, ts=10, cat="fwdbwd", name="fwdbwd")
    t.event(ph="f", id=1, pid=100, tid=3, ts=200, cat="fwdbwd", name="fwdbwd", bp="e")
    assert links(t.load()) == {"AddmmBackward0": "aten::addmm"}


def test_an_arrow_with_one_end_says_nothing() -> None:
    t = TraceBuilder()
    t.op("AddmmBackward0", 200, 9, tid=3, **seq(5, 1))
    t.event(ph="f", id=1, pid=100, tid=3, ts=200, cat="fwdbwd", name="fwdbwd", bp="e")
    assert links(t.load()) == {"AddmmBackward0": None}


def test_inference_has_no_backward_nodes() -> None:
    t = TraceBuilder()
    t.op("aten::mul", 0, 5, **seq(5, 0))
    trace = t.load()
    assert links(trace) == {}
    assert backward(trace).forward_of(len(trace)).tolist() == [-1]
    assert links(TraceBuilder().load()) == {}


@pytest.mark.parametrize("name", ["05_gpt_train/clean_eager.json.gz", "distributed/08_ddp/rank0.json.gz"])
def test_numbers_and_arrows_agree_on_real_traces(name: str) -> None:
    trace = lanewise.load(DATA / name, processes=0)
    drawn = backward(trace)
    assert len(drawn.node) > 1000
    assert (drawn.forward >= 0).all()
    del trace.tables["flows"]
    counted = backward(trace)
    assert counted.node.tolist() == drawn.node.tolist()
    assert counted.forward.tolist() == drawn.forward.tolist()
