"""The ladder's structure, guarded on a CPU by lanewise's own pytest plugin: which ops each rung runs, exactly.

In fp32, where no machine's matrix extensions change the choice of ops.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lanewise.ladder.registry import script_path

pytestmark = pytest.mark.torch
CPU = ("--device", "cpu", "--dtype", "fp32")
MLP = ("--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32")
ATTENTION = ("--batch", "1", "--heads", "2", "--seq", "16", "--head_dim", "8")


def step_of(name: str, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The step of a rung: its script runs, and what it would record is taken from it."""
    pytest.importorskip("torch")
    from lanewise.ladder import Lesson

    taken: list[Callable[[], Any]] = []
    monkeypatch.setattr(Lesson, "record", lambda self, step, **_: taken.append(step))
    monkeypatch.setattr(sys, "argv", [name, *CPU, *flags])
    runpy.run_path(str(script_path(name)), run_name="__main__")
    (step,) = taken
    return step


RUNGS = [
    ("01_matmul_add", ("--size", "8"), "mm add"),
    ("01_matmul_add", ("--size", "8", "--batched"), "bmm add"),
    ("02_linear", ("--batch", "4", "--in_dim", "8", "--out_dim", "16"), "addmm"),
    ("03_simple_mlp", MLP, "mm gelu mm mul mm"),
    ("04_a_naive_attention", ATTENTION, "bmm mul copy_ masked_fill_ _softmax bmm"),
    ("04_b_inplace_ops_attention", ATTENTION, "bmm mul masked_fill_ _softmax bmm"),
    ("04_c_sdpa_attention", (*ATTENTION, "--backend", "flash"), "_scaled_dot_product_flash_attention_for_cpu"),
]


@pytest.mark.parametrize(("name", "flags", "ops"), RUNGS, ids=[" ".join((n, *f[-2:])) for n, f, _ in RUNGS])
def test_ops_of_a_rung(
    name: str, flags: tuple[str, ...], ops: str, lanewise_trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lanewise_trace(step_of(name, flags, monkeypatch))
    assert t.step.sequence == [f"aten::{op}" for op in ops.split()]
    assert t.graph_breaks == 0
    assert t.step.compiled_regions == 0
    assert t.step.collectives == 0


def test_one_letter_is_one_copy(lanewise_trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out_of_place = lanewise_trace(step_of("04_a_naive_attention", ATTENTION, monkeypatch))
    in_place = lanewise_trace(step_of("04_b_inplace_ops_attention", ATTENTION, monkeypatch))
    assert (out_of_place.step.copies, in_place.step.copies) == (1, 0)


def test_the_math_backend_goes_op_by_op(lanewise_trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    t = lanewise_trace(step_of("04_c_sdpa_attention", (*ATTENTION, "--backend", "math"), monkeypatch), expect={"sdpa": "math"})
    assert len(t.step.sequence) >= 10
    assert t.step.ops["aten::bmm"] == 2
    assert t.uses("softmax")
    assert not t.uses("flash")


def test_annotations_are_called_once_a_step(lanewise_trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lanewise_trace(
        step_of("03_simple_mlp", MLP, monkeypatch),
        expect={
            "annotation": {"mlp_fwd": {"calls": 1, "ops": {"aten::mm": 3, "aten::gelu": 1, "aten::mul": 1, "aten::copy_": 0}}}
        },
    )
