from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import CAST, FP32, TENSOR, Call, op, product, tensors, trace

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


@pytest.mark.shared
def test_planted() -> None:
    case = "autocast_recasts_weights"
    assert claim(case, "bad", "dtype-casts") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", "dtype-casts") == 0
