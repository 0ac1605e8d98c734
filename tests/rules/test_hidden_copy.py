from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import CAST, DTOD, FP32, MUL, TENSOR, Call, op, tensors, trace

X = (64, 1024, 1024)


def masked_fill(**more: object) -> list[Call]:
    """masked_fill as torch records it: a copy within clone, then its form in place (two calls here, one inside the other)."""
    copy = Call(("aten::masked_fill", "aten::clone", "aten::copy_"), [(DTOD, 200)], tensors(X, X), **more)  # type: ignore[arg-type]
    return [copy, op("masked_fill_", MUL, 400, tensors(X, (1024, 1024), dtype=["c10::BFloat16", "bool"]))]


def test_the_copy_is_what_in_place_would_save() -> None:
    found = finding(trace(masked_fill()), "hidden-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(200, rel=0.02)
    assert "x.masked_fill_(...)" in found.fix
    assert "128 MiB" in found.text


CLONE = Call(("aten::clone", "aten::copy_"), [(DTOD, 200)], tensors(X, X))


def test_one_clone_may_be_the_result() -> None:
    assert outcome(trace([CLONE]), "hidden-copy") == "clear"


def test_clones_to_which_nothing_is_written_are_not_needed() -> None:
    found = finding(trace([CLONE, op("mul", MUL, 50, tensors(X, X))] * 3), "hidden-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(600, rel=0.02)
    assert "before = h instead of" in found.fix


@pytest.mark.parametrize(
    "write",
    [
        op("mul_", MUL, 50, tensors(X, X)),
        op("fill_", MUL, 5, tensors((64, 512, 1024), strides=[(1 << 20, 1024, 1)])),
        Call(("aten::copy_",), [(DTOD, 20)], tensors((64, 1024), (64, 1024), strides=[(1 << 20, 1), (1024, 1)])),
    ],
    ids=["to all of it", "to a slice", "to a row of each"],
)
def test_a_write_in_place_keeps_the_clones(write: Call) -> None:
    assert outcome(trace([CLONE, write] * 3), "hidden-copy") == "clear"


def test_writes_to_what_cannot_be_the_clone_change_nothing() -> None:
    """Another type, and a layout that no part of the clone has."""
    other = op("mul_", MUL, 5, tensors((64, 64), dtype=FP32))
    turned = op("mul_", MUL, 5, tensors((64, 64), strides=[(1, 64)]))
    assert finding(trace([CLONE, other, turned] * 3), "hidden-copy") is not None


def test_copies_inside_other_ops_are_not_inputs() -> None:
    reshaped = Call(("aten::matmul", "aten::reshape", "aten::clone", "aten::copy_"), [(MUL, 200)], tensors(X, X))
    assert outcome(trace([reshaped]), "hidden-copy") == "clear"


def test_a_cast_is_not_a_mere_copy() -> None:
    cast = Call(("aten::index_add", "aten::copy_"), [(CAST, 200)], tensors(X, X, dtype=["c10::BFloat16", FP32]))
    assert outcome(trace([cast]), "hidden-copy") == "clear"


def test_autograd_chooses_its_own_ops() -> None:
    assert outcome(trace(masked_fill(backward="MaskedFillBackward0")), "hidden-copy") == "clear"


def test_the_addend_of_a_product_is_copied_first() -> None:
    addmm = Call(("aten::addmm",), [(DTOD, 100), (TENSOR, 300)], tensors((4096, 4096), (4096, 1024), (1024, 4096)))
    found = finding(trace([addmm]), "hidden-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(100, rel=0.02)
    assert "addmm_" in found.fix


def test_linear_cannot_choose() -> None:
    linear = Call(("aten::linear", "aten::addmm"), [(MUL, 100), (TENSOR, 300)], tensors((4096,), (4096, 1024), (1024, 4096)))
    assert outcome(trace([linear]), "hidden-copy") == "clear"


def test_compiled_code_cannot_choose() -> None:
    call = Call(
        ("Torch-Compiled Region: 0/0", "aten::addmm"), [(DTOD, 100), (TENSOR, 300)], tensors((64, 64), (64, 64), (64, 64))
    )
    assert outcome(trace([call]), "hidden-copy") == "clear"


def test_it_needs_no_shapes() -> None:
    calls = masked_fill()
    for call in calls:
        call.inputs = {}
    found = finding(trace(calls), "hidden-copy")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(200, rel=0.02)


@pytest.mark.shared
def test_planted() -> None:
    case = "out_of_place_masked_fill"
    assert claim(case, "bad", "hidden-copy") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.05)
    assert claim(case, "fixed", "hidden-copy") == 0
