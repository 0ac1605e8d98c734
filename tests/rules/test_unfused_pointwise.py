from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import CAST, DTOD, FP32, MUL, REDUCE, TENSOR, Call, op, product, tensors, trace

from lanewise.rules.pointwise_chains import Chain, chains_of, result_of
from lanewise.rules.sequence import Op
from lanewise.work.inputs import Inputs

X = (8192, 4096)
X_BYTES = 8192 * 4096 * 2
BANDWIDTH = 4.8e12 * 0.88


def one(name: str, *shapes: tuple[int, ...], dtype: str | list[str] = "c10::BFloat16", scalars: tuple[str, ...] = ()) -> Op:
    recorded = tensors(*shapes, dtype=dtype, scalars=scalars)
    return Op(
        name, Inputs(recorded["Input Dims"], recorded["Input type"], recorded["Input Strides"], recorded["Concrete Inputs"])
    )


def only(*ops: Op) -> Chain:
    chains = chains_of(list(ops))
    assert len(chains) == 1
    return chains[0]


def test_a_chain_reads_its_inputs_once_and_writes_once() -> None:
    chain = only(one("add", X, (4096,)), one("relu", X), one("mul", X, scalars=("2",)))
    assert chain.bytes == 2 * X_BYTES + 4096 * 2
    # Now: add reads x and bias and writes, relu and mul read and write.
    assert chain.moved == 6 * X_BYTES + 4096 * 2


def test_two_operands_of_the_first_op_are_both_outside() -> None:
    assert only(one("sub", X, X), one("abs", X)).bytes == 3 * X_BYTES


def test_an_operand_that_looks_like_one_of_the_chain_is_in_doubt() -> None:
    chain = only(one("silu", X), one("mul", X, X))
    assert chain.least_bytes == 2 * X_BYTES
    assert chain.most_bytes == 3 * X_BYTES  # a gate from outside
    assert chain.least_bytes < chain.bytes < chain.most_bytes


def test_a_norm_by_hand_is_one_chain() -> None:
    row = (8192, 1)
    chain = only(
        one("pow", X, scalars=("2",)),
        one("mean", X, scalars=("[-1]", "True")),
        one("rsqrt", row),
        one("mul", X, row),
    )
    assert chain.norm
    assert chain.least_bytes == 2 * X_BYTES


def test_other_tensors_begin_another_chain() -> None:
    found = chains_of([one("relu", X), one("neg", X), one("relu", (77, 3)), one("neg", (77, 3))])
    assert [(c.begin, c.end) for c in found] == [(0, 2), (2, 4)]


def test_slices_belong_to_the_tensor_that_they_were_cut_from() -> None:
    half = Op("neg", Inputs([[8192, 2048]], ["c10::BFloat16"], [[4096, 1]], [""]))
    assert (only(one("mul", X, scalars=("2",)), half).begin, only(one("mul", X, scalars=("2",)), half).end) == (0, 2)


def test_results() -> None:
    compared = result_of(one("gt", X, (4096,)))
    assert compared is not None
    assert (compared.shape, compared.dtype) == (X, "bool")
    mixed = result_of(one("add", X, X, dtype=["c10::BFloat16", "float"]))
    assert mixed is not None
    assert mixed.dtype == "fp32"
    assert result_of(Op("mul", None)) is None


def pointwise(name: str, us: float, *shapes: tuple[int, ...], kernel: str = MUL, **more: object) -> Call:
    return op(name, kernel, us, tensors(*(shapes or (X,))), **more)  # type: ignore[arg-type]


def test_a_chain_is_priced_by_its_bytes() -> None:
    large = (8 * 8192, 4096)
    found = finding(trace([pointwise(name, 1000, large) for name in ("relu", "neg", "abs")]), "unfused-pointwise")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(3000 - 2 * 8 * X_BYTES / BANDWIDTH * 1e6, rel=0.02)
    assert "torch.compile(f)" in found.fix


def test_arithmetic_bounds_a_chain_of_dear_functions() -> None:
    found = finding(trace([pointwise("gelu", 400), pointwise("sin", 400), pointwise("cos", 400)]), "unfused-pointwise")
    assert found is not None
    # 37, 47 and 44 instructions an element on 66.9 / 2 billion instructions a second.
    arithmetic = 8192 * 4096 * (37 + 47 + 44) / (66.9e12 / 2) * 1e6
    assert found.saving_us_per_step == pytest.approx(1200 - arithmetic, rel=0.02)


def test_a_norm_gets_its_own_advice() -> None:
    row = (8192, 1)
    calls = [
        op("to", CAST, 300, tensors(X, X, dtype=[FP32, "c10::BFloat16"])),
        pointwise("pow", 300),
        op("mean", REDUCE, 200, tensors(X, scalars=("[-1]", "True"))),
        pointwise("rsqrt", 5, row),
        pointwise("mul", 300, X, row),
    ]
    calls[0].names = ("aten::to", "aten::_to_copy", "aten::copy_")
    found = finding(trace(calls), "unfused-pointwise")
    assert found is not None
    assert "rms_norm" in found.fix


def test_small_tensors_are_a_matter_of_launches() -> None:
    small = (128, 128)
    calls = [pointwise(n, 3, small) for n in ("relu", "neg", "abs", "exp")]
    assert outcome(trace(calls), "unfused-pointwise") == "clear"


def test_one_op_and_ops_apart_are_clear() -> None:
    assert outcome(trace([pointwise("relu", 400)]), "unfused-pointwise") == "clear"
    apart = [pointwise("relu", 400), product(4096, 4096, 4096, 200), pointwise("neg", 400, (4096, 4096))]
    assert outcome(trace(apart), "unfused-pointwise") == "clear"


def test_a_copy_inside_one_call_is_its_own_affair() -> None:
    fill = Call(
        ("aten::masked_fill", "aten::masked_fill_"),
        [(DTOD, 300), (MUL, 300)],
        tensors(X, (4096,), dtype=["c10::BFloat16", "bool"]),
    )
    assert outcome(trace([fill]), "unfused-pointwise") == "clear"


def test_a_copy_beside_a_single_op_is_no_chain() -> None:
    """buffer.copy_(x.relu()): whether the copy is needed is not a matter of fusing."""
    copied = op("copy_", DTOD, 200, tensors((8192, 8192), (8192, 8192)))
    one = op("relu", MUL, 200, tensors((8192, 8192)))
    assert outcome(trace([one, copied]), "unfused-pointwise") == "clear"
    assert outcome(trace([one, one, copied]), "unfused-pointwise") == "found"


def test_optimizers_are_left_to_their_rule() -> None:
    t = trace([pointwise("mul_", 400), pointwise("add_", 400), pointwise("sqrt", 400)])
    for step in range(4):
        t.annotation("Optimizer.step#AdamW.step", 103 + step * 41, 36)
    assert outcome(t, "unfused-pointwise") == "clear"


def test_a_product_with_its_bias_is_no_member() -> None:
    biased = Call(("aten::conv2d", "aten::add_"), [(TENSOR, 100), (MUL, 400)], tensors(X, (4096,)))
    assert outcome(trace([biased, pointwise("relu", 400)]), "unfused-pointwise") == "clear"


@pytest.mark.shared
@pytest.mark.parametrize("case", ["pointwise_chain", "hand_written_rmsnorm"])
def test_planted(case: str) -> None:
    assert claim(case, "bad", "unfused-pointwise") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.1)
    assert claim(case, "fixed", "unfused-pointwise") == 0


@pytest.mark.shared
@pytest.mark.parametrize("case", ["nothing_wrong_gemm", "nothing_wrong_train", "nothing_wrong_compiled"])
def test_healthy(case: str) -> None:
    assert claim(case, "bad", "unfused-pointwise") < 0.05
