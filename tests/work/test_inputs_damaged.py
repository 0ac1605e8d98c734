"""Inputs that are no inputs: what was not recorded as Kineto records it is unknown, and nothing fails on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lanewise.analyses.call_work import parsed_inputs
from lanewise.rules.sequence import Op
from lanewise.work import estimate
from lanewise.work.inputs import Inputs, UnknownInput


def texts(*values: Any) -> tuple[bytes | None, ...]:
    return tuple(None if value is None else json.dumps(value).encode() for value in values)


def test_sound_inputs_stay_as_they_are() -> None:
    recorded = ([[2, 3], [[4], [5, 6]], []], ["float", "TensorList", "Scalar"], [[3, 1], [[1], [6, 1]], []], ["", "", "1.5"])
    assert parsed_inputs(texts(*recorded)) == recorded
    assert parsed_inputs(texts(None, None, None, None)) == (None, None, None, None)


@pytest.mark.parametrize("dims", [7, {}, "x", [7], [["x"]], [[1.5]], [[[["x"]]]], [None], [[True]]])
def test_other_forms_are_unknown(dims: Any) -> None:
    assert parsed_inputs(texts(dims, ["float"], dims, [""])) == (None, ["float"], None, [""])


@pytest.mark.parametrize("dims", [[[[2], [3]]], [[2, -3]], [[2, [3]]]])
def test_one_tensor_has_one_list_of_sizes(dims: Any) -> None:
    assert parsed_inputs(texts(dims, ["float"], None, None)) == (None, ["float"], None, None)
    assert parsed_inputs(texts([[[2], [3]]], ["TensorList"], None, None))[0] == [[[2], [3]]]


@pytest.mark.parametrize("concrete", [[["1"]], [1], {}, [None]])
def test_scalars_are_texts(concrete: Any) -> None:
    assert parsed_inputs(texts([[2]], concrete, None, concrete)) == ([[2]], None, None, None)


@pytest.mark.parametrize("dims", [[[2, 3]], [[2, [3]]], [[[2, -3]]]])
def test_a_list_of_tensors_has_a_list_of_sizes_for_each(dims: Any) -> None:
    inputs = Inputs(dims, ["TensorList"], None, None)
    with pytest.raises(UnknownInput):
        inputs.members(0)
    assert Op("cat", inputs).tensors == []


def test_strides_of_another_form_are_left_out() -> None:
    tensor = Inputs([[2, 3]], ["float"], [[[3], 1]]).tensor(0)
    assert tensor is not None
    assert tensor.strides is None
    assert Inputs([[[2, 3]]], ["TensorList"], [[7]]).members(0) == [((2, 3), None)]


@pytest.mark.parametrize(("stride", "known"), [("[2, 2]", True), ("[0, 0]", False)])
def test_a_convolution_with_a_stride_of_zero_is_unknown(stride: str, known: bool) -> None:
    dims = [[32, 3, 224, 224], [64, 3, 7, 7], *[[]] * 7]
    types = ["c10::Half", "c10::Half", *["ScalarList"] * 3, *["Scalar"] * 4]
    work = estimate(
        "aten::cudnn_convolution", dims, types, None, ["", "", "[3, 3]", stride, "[1, 1]", "1", "False", "False", "True"]
    )
    assert (work is not None) is known


@pytest.mark.parametrize(
    ("end", "step", "known"), [("8", "1", True), ("inf", "1", False), ("8", "0", False), ("8", "nan", False)]
)
def test_a_range_without_an_end_is_unknown(end: str, step: str, known: bool) -> None:
    types = ["Scalar", "Scalar", "Scalar", "float"]
    work = estimate("aten::arange", [[], [], [], [8]], types, None, ["0", end, step, ""])
    assert (work is not None) is known
