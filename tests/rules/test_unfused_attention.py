from __future__ import annotations

from collections.abc import Callable

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import MUL, REDUCE, SOFTMAX, TENSOR, Call, op, tensors, trace

HEADS, LENGTH, DIM = 64, 1024, 64
SCORES = (4, 16, LENGTH, LENGTH)
BACK_SOFTMAX = "void (anonymous namespace)::softmax_warp_backward<c10::BFloat16, c10::BFloat16, float, 10, false, false>"


def bmm(m: int, k: int, n: int, us: float = 50, **more: object) -> Call:
    return Call(("aten::matmul", "aten::bmm"), [(TENSOR, us)], tensors((HEADS, m, k), (HEADS, k, n)), **more)  # type: ignore[arg-type]


def attention(dim: int = DIM, between: tuple[Call, ...] = (), numbered: bool = False) -> list[Call]:
    """Products of 50 us, 500 us of pointwise ops between them."""
    number: Callable[[int], int | None] = lambda i: i if numbered else None  # noqa: E731
    return [
        bmm(LENGTH, dim, LENGTH, sequence=number(1)),
        op("mul", MUL, 200, tensors(SCORES), sequence=number(2)),
        *between,
        op("softmax", SOFTMAX, 300, tensors(SCORES, scalars=("-1", "False")), sequence=number(3)),
        bmm(LENGTH, LENGTH, dim, sequence=number(4)),
    ]


def named_softmax(calls: list[Call]) -> list[Call]:
    """softmax as torch records it: `softmax` around `_softmax`."""
    for call in calls:
        if call.names == ("aten::softmax",):
            call.names = ("aten::softmax", "aten::_softmax")
    return calls


# 4 x 64 x 1024^2 x 64 operations at 30 % of 989.4 TFLOP/s, and the launch.
FORWARD_US = 4 * HEADS * LENGTH**2 * DIM / (989.4e12 * 0.3) * 1e6 + 2.5


def test_attention_by_hand_is_priced_as_one_kernel() -> None:
    found = finding(trace(named_softmax(attention())), "unfused-attention")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(600 - FORWARD_US, rel=0.02)
    assert found.text.startswith("matmul, mul, softmax, matmul:")
    assert "128 MiB" in found.text  # 64 x 1024 x 1024 scores of 2 bytes
    assert found.fix == "y = F.scaled_dot_product_attention(q, k, v)"


@pytest.mark.parametrize(("name", "says"), [("masked_fill", "is_causal=True"), ("dropout", "dropout_p")])
def test_advice_keeps_mask_and_dropout(name: str, says: str) -> None:
    found = finding(trace(named_softmax(attention(between=(op(name, MUL, 100, tensors(SCORES)),)))), "unfused-attention")
    assert found is not None
    assert says in found.fix


def test_backward_nodes_of_the_ops_count_too() -> None:
    back = [
        Call(
            ("aten::bmm",),
            [(TENSOR, 50)],
            tensors((HEADS, LENGTH, LENGTH), (HEADS, LENGTH, DIM)),
            backward="BmmBackward0",
            sequence=4,
        ),
        Call(
            ("aten::_softmax_backward_data",),
            [(BACK_SOFTMAX, 400)],
            tensors(SCORES, SCORES),
            backward="SoftmaxBackward0",
            sequence=3,
        ),
        op("mul", MUL, 200, tensors(SCORES), backward="MulBackward0", sequence=2),
        # Made by an op after the attention: not its own.
        op("mul", MUL, 500, tensors((512, 512)), backward="MulBackward0", sequence=9),
    ]
    calls = [*named_softmax(attention(numbered=True)), op("mul", MUL, 5, tensors((512, 512)), sequence=9), *back]
    found = finding(trace(calls), "unfused-attention")
    assert found is not None
    back_us = 2.5 * 4 * HEADS * LENGTH**2 * DIM / (989.4e12 * 0.27) * 1e6 + 2.5
    assert found.saving_us_per_step == pytest.approx(600 - FORWARD_US + 650 - back_us, rel=0.03)


def written(*, normalised: bool = True) -> list[Call]:
    """Attention whose softmax is written out: exp(s - max) / sum."""
    rows = (HEADS, LENGTH, 1)
    calls = [bmm(LENGTH, DIM, LENGTH), op("amax", REDUCE, 100, tensors(SCORES)), op("sub", MUL, 100, tensors(SCORES, rows))]
    calls += [op("exp", MUL, 100, tensors(SCORES))]
    if normalised:
        calls += [op("sum", REDUCE, 100, tensors(SCORES)), op("div", MUL, 100, tensors(SCORES, rows))]
    return [*calls, bmm(LENGTH, LENGTH, DIM)]


def test_a_softmax_written_out_is_one_too() -> None:
    found = finding(trace(written()), "unfused-attention")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(600 - FORWARD_US, rel=0.02)
    assert "7 kernels" in found.title


def test_an_exponential_alone_is_no_softmax() -> None:
    assert outcome(trace(written(normalised=False)), "unfused-attention") == "clear"


@pytest.mark.parametrize("name", ["aten::_masked_softmax", "ScaledUpperTriangMaskedSoftmax"])
def test_softmax_of_other_ops(name: str) -> None:
    """Kernels of other libraries may be launched outside any op and record no shapes: then the products tell."""
    kernel = (
        "void (anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10>"
    )
    inputs = tensors(SCORES) if name.startswith("aten") else {}
    calls = [bmm(LENGTH, DIM, LENGTH), Call((name,), [(kernel, 500)], inputs), bmm(LENGTH, LENGTH, DIM)]
    found = finding(trace(calls), "unfused-attention")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(600 - FORWARD_US, rel=0.02)


def test_backward_nodes_that_launch_nothing_go_too() -> None:
    """On the CPU's side: views and permutes of the backward pass are nodes as well, of which one fused node remains."""
    calls = [*named_softmax(attention(numbered=True)), op("mul", MUL, 5, tensors((512, 512)), sequence=9)]
    view = Call(("aten::transpose",), [], {}, backward="TransposeBackward0", sequence=3)
    last = op("bmm", TENSOR, 400, tensors((HEADS, LENGTH, LENGTH), (HEADS, LENGTH, DIM)), backward="BmmBackward0", sequence=2)
    few = finding(trace([*calls, last], op_us=300), "unfused-attention")
    many = finding(trace([*calls, *[view] * 20, last], op_us=300), "unfused-attention")
    assert few is not None
    assert few.saving_us_per_step is not None
    assert many is not None
    # Of 21 nodes one stays; each of the others takes 302 us until the next begins.
    assert many.saving_us_per_step == pytest.approx(few.saving_us_per_step + 20 * 302, rel=0.02)


def test_a_layer_before_a_softmax_is_no_attention() -> None:
    """Heads of 1024 exist in no fused kernel: this is a classifier, or a router."""
    assert outcome(trace(named_softmax(attention(dim=1024))), "unfused-attention") == "clear"


def test_softmax_alone_is_clear() -> None:
    assert outcome(trace(named_softmax(attention()[1:])), "unfused-attention") == "clear"


def test_anything_else_between_breaks_it() -> None:
    sort = op("topk", "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", 50, tensors(SCORES))
    assert outcome(trace(named_softmax(attention(between=(sort,)))), "unfused-attention") == "clear"


def test_without_shapes_it_is_told_by_the_order_of_batched_products() -> None:
    calls = named_softmax(attention())
    for call in calls:
        call.inputs = {}
    found = finding(trace(calls), "unfused-attention")
    assert found is not None
    assert found.confidence == "low"
    assert found.saving_us_per_step == pytest.approx(600 - 100, rel=0.02)  # the products alone remain


@pytest.mark.shared
def test_planted() -> None:
    case = "hand_written_attention"
    assert claim(case, "bad", "unfused-attention") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", "unfused-attention") == 0
