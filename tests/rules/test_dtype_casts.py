from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import BF16, CAST, FP32, MUL, TENSOR, Call, op, product, tensors, trace

HALF = ["c10::BFloat16", FP32]
WEIGHT, INPUT = (4096, 4096), (64, 4096)
LINEAR = tensors(INPUT, WEIGHT, dtype=FP32)


def cast(shape: tuple[int, ...], us: float, around: tuple[str, ...] = ("aten::linear",), **more: object) -> Call:
    """A cast that autocast makes inside an op."""
    names = (*around, "aten::to", "aten::_to_copy", "aten::copy_")
    return Call(names, [(CAST, us)], tensors(shape, shape, dtype=HALF), outer=LINEAR, **more)  # type: ignore[arg-type]


def test_weights_and_activations_of_autocast_go() -> None:
    found = finding(trace([cast(WEIGHT, 300), cast(INPUT, 50), product(64, 4096, 4096, 200)]), "dtype-casts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(350, rel=0.03)
    assert "torch.bfloat16" in found.fix
    assert "96.0 MiB" in found.text  # the weight: 6 bytes for each of 4096 x 4096


def test_activations_alone_are_no_weights() -> None:
    assert outcome(trace([cast(INPUT, 50), product(64, 4096, 4096, 200)]), "dtype-casts") == "clear"


def test_in_training_weights_change() -> None:
    calls = [cast(WEIGHT, 300), op("mul", CAST, 100, tensors(WEIGHT), backward="MulBackward0")]
    assert outcome(trace(calls), "dtype-casts") == "clear"


def training(casts: int, gradients: int) -> list[Call]:
    """A step in which autocast casts a weight so often, and so many gradients of its shape are accumulated."""
    accumulate = Call(
        ("torch::autograd::AccumulateGrad", "aten::detach"),
        [(MUL, 1)],
        outer=tensors(WEIGHT, dtype=FP32),
        backward="torch::autograd::AccumulateGrad",
    )
    return [*[cast(WEIGHT, 300)] * casts, product(64, 4096, 4096, 200), *[accumulate] * gradients]


def test_one_cast_for_each_gradient_is_mixed_precision() -> None:
    assert outcome(trace(training(3, 3)), "dtype-casts") == "clear"


def test_a_weight_that_is_cast_more_often_than_its_gradient_is_made() -> None:
    found = finding(trace(training(4, 1)), "dtype-casts")
    assert found is not None
    assert "3 casts a step too many" in found.title
    assert found.saving_us_per_step == pytest.approx(900, rel=0.05)


def test_weights_without_a_gradient_are_frozen() -> None:
    other = cast((1024, 4096), 100)
    other.outer = tensors(INPUT, (1024, 4096), dtype=FP32)
    found = finding(trace([other, other, *training(1, 1)]), "dtype-casts")
    assert found is not None
    assert "frozen weights" in found.title
    assert found.saving_us_per_step == pytest.approx(200, rel=0.05)


def test_casts_that_the_program_asked_for_are_its_own() -> None:
    assert outcome(trace([cast(WEIGHT, 300, around=())]), "dtype-casts") == "clear"


def test_casts_to_fp32_are_no_autocast_of_weights() -> None:
    widened = Call(
        ("aten::linear", "aten::to", "aten::copy_"),
        [(CAST, 300)],
        tensors(WEIGHT, WEIGHT, dtype=[FP32, "c10::BFloat16"]),
        outer=LINEAR,
    )
    assert outcome(trace([widened]), "dtype-casts") == "clear"


def test_half_precision_weights_are_clear() -> None:
    linear = Call(("aten::linear", "aten::mm"), [(TENSOR, 200)], tensors(INPUT, (4096, 4096)))
    assert outcome(trace([linear]), "dtype-casts") == "clear"


ROWS = (16384, 1024)


def asked(to: str, source: str, us: float, shape: tuple[int, ...] = ROWS) -> Call:
    """A cast that the program asks for."""
    return Call(("aten::to", "aten::_to_copy", "aten::copy_"), [(CAST, us)], tensors(shape, shape, dtype=[to, source]))


def test_casts_there_and_back_go() -> None:
    layer = [product(16384, 1024, 1024, 50), asked(FP32, BF16, 50), asked(BF16, FP32, 25)]
    found = finding(trace(layer * 8), "dtype-casts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(8 * 75, rel=0.03)
    assert "bf16 to fp32 and back: 8 times" in found.title
    assert "192 MiB" in found.text  # 16 Mi elements: read 2, write 4, read 4, write 2 bytes


def test_an_op_that_computes_in_fp32_anyway_needs_no_casts() -> None:
    """gelu(x.float()).bfloat16(): the casts go, and gelu moves half the bytes."""
    gelu = op("gelu", MUL, 60, tensors(ROWS, dtype=FP32))
    found = finding(trace([asked(FP32, BF16, 50), gelu, asked(BF16, FP32, 50), product(16384, 1024, 1024, 50)]), "dtype-casts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(130, rel=0.03)


@pytest.mark.parametrize(
    "between",
    [
        [product(16384, 1024, 1024, 50, dtype=FP32)],
        [op("mul", MUL, 50, tensors(ROWS, ROWS, dtype=FP32))],
        [op("exp", MUL, 60, tensors(ROWS, dtype=FP32)), op("log", MUL, 60, tensors(ROWS, dtype=FP32))],
    ],
    ids=["a product", "another fp32 tensor", "two ops"],
)
def test_what_needs_fp32_keeps_its_casts(between: list[Call]) -> None:
    calls = [asked(FP32, BF16, 50), *between, asked(BF16, FP32, 50)]
    assert outcome(trace(calls), "dtype-casts") == "clear"


def test_casts_of_different_tensors_do_not_undo_each_other() -> None:
    calls = [asked(FP32, BF16, 50), asked(BF16, FP32, 50, (16384, 512))]
    assert outcome(trace(calls), "dtype-casts") == "clear"


def with_weight(cast_first: bool = True, **more: object) -> list[Call]:
    """F.linear(x, weight.bfloat16()): the layer's second input is what the cast made."""
    linear = Call(
        ("aten::linear", "aten::mm"), [(TENSOR, 100)], tensors(INPUT, (4096, 1024)), outer=tensors(INPUT, (1024, 4096))
    )
    return [
        asked(BF16, FP32, 40, (1024, 4096) if cast_first else INPUT),
        linear,
        *([op("mul", MUL, 5, tensors(INPUT), **more)]),
    ]  # type: ignore[arg-type]


def test_weights_that_the_program_casts_itself() -> None:
    found = finding(trace(with_weight() * 6), "dtype-casts")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(6 * 40, rel=0.03)
    assert "6 weights are cast to bf16" in found.title
    assert "layer.to(torch.bfloat16)" in found.fix


def test_inputs_that_the_program_casts_and_weights_in_training_are_clear() -> None:
    assert outcome(trace(with_weight(cast_first=False) * 6), "dtype-casts") == "clear"
    assert outcome(trace([*with_weight(), *with_weight(backward="MulBackward0")]), "dtype-casts") == "clear"


@pytest.mark.shared
def test_planted() -> None:
    case = "autocast_recasts_weights"
    assert claim(case, "bad", "dtype-casts") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", "dtype-casts") == 0
