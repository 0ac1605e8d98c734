from __future__ import annotations

import numpy as np
import pytest
from gpu_traces import DTOD, MUL, TENSOR, Call, op, product, tensors, trace

from builder import TraceBuilder
from lanewise.rules.context import Context
from lanewise.rules.limits import Attention, arithmetic_ns, attention_ns, product_ns, stream_ns
from lanewise.rules.sequence import Op
from lanewise.work.inputs import Inputs


def context(*calls: Call) -> Context:
    return Context(trace(list(calls)).load())


def test_rows_are_in_launch_order_with_their_ops() -> None:
    ctx = context(product(64, 32, 16, 10), op("mul", MUL, 10, tensors((64, 16))), product(64, 32, 16, 10))
    seq = ctx.sequence
    assert seq.named.tolist() == ["mm", "mul", "mm"] * 3  # the first of four steps is left out
    assert seq.called_name.tolist() == ["matmul", "mul", "matmul"] * 3
    assert len(seq.ops) == 2  # the same inputs are one op
    found = seq.op(0).product
    assert found is not None
    assert (found.batch, found.m, found.k, found.n, found.flops, found.elements) == (1, 64, 32, 16, 2 * 64 * 32 * 16, 1024)
    assert seq.op(1).product is None
    assert seq.step.tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_products_of_all_spellings() -> None:
    def of(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...] | None:
        recorded = tensors(*shapes)
        p = Op(name, Inputs(recorded["Input Dims"], recorded["Input type"])).product
        return None if p is None else (p.batch, p.m, p.k, p.n)

    assert of("addmm", (16,), (64, 32), (32, 16)) == (1, 64, 32, 16)
    assert of("bmm", (8, 64, 32), (8, 32, 16)) == (8, 64, 32, 16)
    assert of("baddbmm", (8, 64, 16), (8, 64, 32), (8, 32, 16)) == (8, 64, 32, 16)
    assert of("bmm", (8, 64, 32), (4, 32, 16)) is None
    assert of("mm", (64, 32), (31, 16)) is None
    assert of("mul", (64, 32), (32, 16)) is None


def test_backward_work_belongs_to_the_forward_op_with_its_number() -> None:
    ctx = context(
        op("mul", MUL, 10, tensors((8, 8)), sequence=1),
        op("sin", MUL, 10, tensors((8, 8)), sequence=2),
        op("mul", MUL, 10, tensors((8, 8)), backward="SinBackward0", sequence=2),
        op("mul", MUL, 10, tensors((8, 8)), backward="MulBackward0", sequence=1),
    )
    seq = ctx.sequence
    assert seq.backward.tolist() == [False, False] * 3 + [True, True] * 3
    sin = ctx.called.event[seq.call[np.flatnonzero(seq.named == "sin")]]
    made = seq.made_in_backward(sin, sin)
    assert made[:6].tolist() == [-1] * 6
    assert made[6:].tolist() == [0, -1, 1, -1, 2, -1]


def test_compiled_code_is_told() -> None:
    ctx = context(Call(("Torch-Compiled Region: 0/0", "aten::mm"), [(TENSOR, 10)]), op("mul", MUL, 10))
    assert ctx.sequence.compiled.tolist() == [True, False] * 3


def test_a_trace_without_launches_has_an_empty_sequence() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 10)
    seq = Context(t.load()).sequence
    assert len(seq) == 0
    assert len(seq.called_name) == 0


def test_limits_of_a_card() -> None:
    ctx = context(op("copy_", DTOD, 10))
    assert stream_ns(ctx, 4.8e9) == pytest.approx(1e6 / 0.88)
    assert stream_ns(ctx, 8) == 2500
    assert product_ns(ctx, 989.4e9, 1, "bf16") == pytest.approx(1e6 / 0.8 + 2500, rel=1e-3)
    assert product_ns(ctx, 66.9e9, 1, "fp32") == pytest.approx(1e6 / 0.72 + 2500, rel=1e-3)
    assert product_ns(ctx, 1, 4.8e9, "bf16") == pytest.approx(1e6 / 0.88 + 2500)
    assert product_ns(ctx, 1e9, 1e6, "no such type") is None
    assert arithmetic_ns(ctx, 66.9e9 / 2) == pytest.approx(1e6, rel=1e-3)
    small = Attention(8, 512, 512, 64, 64, "bf16")
    assert attention_ns(ctx, small, backward=False) == pytest.approx(
        4 * 8 * 512**2 * 64 / (989.4e12 * 0.3) * 1e9 + 2500, rel=1e-3
    )


def test_an_unknown_card_has_no_limits() -> None:
    t = trace([op("mul", MUL, 10)])
    t.header["deviceProperties"] = [{"id": 0, "name": "Some GPU", "numSms": 100}]
    ctx = Context(t.load())
    assert stream_ns(ctx, 1e9) is None
    assert product_ns(ctx, 1e12, 1e9, "bf16") is None
    assert arithmetic_ns(ctx, 1e9) == 0
    assert attention_ns(ctx, Attention(8, 512, 512, 64, 64, "bf16"), backward=True) is None
