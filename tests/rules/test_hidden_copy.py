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


def test_a_clone_that_the_program_asked_for_is_not_hidden() -> None:
    clone = Call(("aten::clone", "aten::copy_"), [(DTOD, 200)], tensors(X, X))
    assert outcome(trace([clone]), "hidden-copy") == "clear"


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
