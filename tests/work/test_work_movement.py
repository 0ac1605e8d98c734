"""Ops that touch part of their arguments, lists of tensors, Inductor's kernels, and what is not known: by
hand.
"""

from __future__ import annotations

import pytest

from lanewise.work import Work, estimate, known_ops, list_item_bytes
from lanewise.work import estimation as registry

BF16 = "c10::BFloat16"


def known(*arguments: object, **options: object) -> Work:
    work = estimate(*arguments, **options)  # type: ignore[arg-type]
    assert work is not None
    return work


def test_embedding_reads_a_row_for_each_index() -> None:
    dims = [[30522, 512], [1, 141], [], [], []]
    types = [BF16, "long int", "Scalar", "Scalar", "Scalar"]
    work = known("aten::embedding", dims, types, None, ["", "", "0", "False", "False"])
    assert work.kind == "embedding"
    assert work.bytes == 141 * 8 + 2 * 141 * 512 * 2


def test_a_table_smaller_than_the_lookups_is_read_once() -> None:
    work = known("aten::embedding", [[10, 4], [1000], [], [], []], ["float", "long int", *["Scalar"] * 3])
    assert work.bytes == 1000 * 8 + 10 * 4 * 4 + 1000 * 4 * 4


def test_embedding_backward_writes_the_rows_it_adds_to() -> None:
    """The other rows are zeros, which an op of its own writes."""
    dims = [[24, 512, 1536], [24, 512], [], [], []]
    types = ["float", "long int", *["Scalar"] * 3]
    work = known("aten::embedding_dense_backward", dims, types, None, ["", "", "8192", "-1", "False"])
    assert work.bytes == 24 * 512 * 1536 * 4 + 24 * 512 * 8 + 8192 * 1536 * 4  # more indices than rows
    assert work.flops == 24 * 512 * 1536


def test_gather_does_not_read_the_whole_source() -> None:
    dims = [[32000, 512], [], [80, 512], [], [80, 512]]
    types = [BF16, "Scalar", "long int", "Scalar", BF16]
    strides = [[512, 1], [], [1, 0], [], [512, 1]]
    work = known("aten::gather", dims, types, strides, ["", "0", "", "False", ""])
    assert work.bytes == 80 * 8 + 2 * 80 * 512 * 2


def test_index_select_and_scatter() -> None:
    select = known("aten::index_select", [[100, 6], [], [7]], ["float", "Scalar", "long int"], None, ["", "0", ""])
    assert select.bytes == 7 * 8 + 2 * 7 * 6 * 4
    types = ["float", "Scalar", "long int", "float"]
    scatter = known("aten::scatter_add_", [[100], [], [7], [7]], types, None, ["", "0", "", ""])
    assert scatter.bytes == 7 * 8 + 7 * 4 + 2 * 7 * 4
    assert scatter.flops == 7


def test_what_depends_on_values_is_a_lower_bound_or_not_known() -> None:
    nonzero = known("aten::nonzero", [[64, 512]], ["bool"])
    assert nonzero.bytes == 64 * 512
    assert nonzero.at_least
    # The indices are a list that Kineto does not record.
    assert estimate("aten::index", [[64, 512], []], ["float", ""], None, ["", ""]) is None
    put = known(
        "aten::_index_put_impl_",
        [[64, 512], [], [16379], [], []],
        ["float", "", "float", "Scalar", "Scalar"],
        None,
        ["", "", "", "False", "False"],
    )
    assert put.bytes == 2 * 16379 * 4
    assert put.at_least


def test_losses_read_what_they_need() -> None:
    types = ["float", "long int", "", "Scalar", "Scalar"]
    forward = known("aten::nll_loss_forward", [[128, 1000], [128], [], [], []], types, None, ["", "", "", "1", "-100"])
    assert forward.bytes == 128 * 8 + 128 * 4 + 2 * 4
    types = ["float", "float", "long int", "", "Scalar", "Scalar", "float"]
    dims = [[], [128, 1000], [128], [], [], [], []]
    backward = known("aten::nll_loss_backward", dims, types, None, ["", "", "", "", "1", "-100", ""])
    assert backward.bytes == 4 + 128 * 8 + 128 * 4  # the zeros are written by zero_


def test_fills_only_write_and_expanded_sources_are_read_once() -> None:
    assert known("aten::fill_", [[64, 64], []], ["float", "Scalar"]).bytes == 64 * 64 * 4
    copied = known(
        "aten::copy_",
        [[8, 64], [8, 64], []],
        [BF16, "float", "Scalar"],
        [[64, 1], [0, 1], []],
        ["", "", "False"],
    )
    assert copied.bytes == 8 * 64 * 2 + 64 * 4
    assert copied.note == "fp32->bf16"


def test_a_triangle_reads_what_it_keeps() -> None:
    work = known("aten::tril", [[4, 4], []], ["float", "Scalar"], None, ["", "-1"])
    assert work.bytes == (1 + 2 + 3) * 4 + 16 * 4
    upper = known("aten::triu", [[2, 3, 4], []], ["float", "Scalar"], None, ["", "0"])
    assert upper.bytes == 2 * (4 + 3 + 2) * 4 + 24 * 4


def test_arange_by_its_numbers() -> None:
    types = ["Scalar", "Scalar", "Scalar", "long int"]
    assert known("aten::arange", [[], [], [], [0]], types, None, ["0", "10", "3", ""]).bytes == 4 * 8


def test_batch_norm_training_and_inference() -> None:
    dims = [[16, 24, 32, 32], [24], [24], [24], [24], [], [], []]
    types = [BF16, *["float"] * 4, *["Scalar"] * 3]
    image = 16 * 24 * 32 * 32 * 2
    concrete = ["", "", "", "", "", "True", "0.1", "1e-05"]
    training = known("aten::native_batch_norm", dims, types, None, concrete)
    # Running statistics read and written, the batch's own saved.
    assert training.bytes == 2 * image + 4 * 24 * 4 + 2 * 24 * 4 + 2 * 24 * 4
    concrete[5] = "False"
    inference = known("aten::native_batch_norm", dims, types, None, concrete)
    assert inference.bytes == 2 * image + 4 * 24 * 4


def test_lists_need_the_size_of_an_element() -> None:
    dims, types = [[[8, 4], [8, 4]], []], ["TensorList", "Scalar"]
    untyped = known("aten::cat", dims, types, None, ["", "0"])
    assert untyped.bytes is None
    assert untyped.note == "64 elements of a type that is not recorded"
    assert known("aten::cat", dims, types, None, ["", "0"], list_item_bytes=2).bytes == 2 * 64 * 2


def test_a_fused_adamw_step() -> None:
    """Parameter, gradient and two states read; parameter and states written."""
    lists = [[[128, 64], [64]]] * 4
    dims = [*lists, [], [[], []], *[[]] * 9]
    types = ["TensorList"] * 6 + ["Scalar"] * 7 + ["", ""]
    concrete = [""] * 6 + ["0.0001", "0.9", "0.999", "0.01", "1e-08", "False", "False", "", ""]
    n = 128 * 64 + 64
    work = known("aten::_fused_adamw_", dims, types, None, concrete, list_item_bytes=4)
    assert work.kind == "optimizer"
    assert work.bytes == 7 * n * 4
    concrete[11] = "True"
    assert known("aten::_fused_adamw_", dims, types, None, concrete, list_item_bytes=4).bytes == 9 * n * 4


def test_a_list_that_was_too_long_to_record_is_not_known() -> None:
    assert estimate("aten::_foreach_add_", [[], []], ["TensorList", "Scalar"], None, ["", "1"], list_item_bytes=4) is None


def test_a_list_that_was_too_long_by_its_elements_from_elsewhere() -> None:
    dims, types = [[]] * 15, ["TensorList"] * 6 + ["Scalar"] * 7 + ["", ""]
    concrete = [""] * 6 + ["0.0001", "0.9", "0.999", "0.01", "1e-08", "False", "False", "", ""]
    options = {"list_item_bytes": 4, "list_elements": 1000}
    assert known("aten::_fused_adamw_", dims, types, None, concrete, **options).bytes == 7 * 1000 * 4


@pytest.mark.parametrize(
    ("op", "lists", "passes"),
    [
        ("aten::_foreach_mul_", 1, 2),
        ("aten::_foreach_mul", 1, 2),
        ("aten::_foreach_add_", 2, 3),
        ("aten::_foreach_addcdiv_", 3, 4),
        ("aten::_foreach_copy_", 2, 2),
        ("aten::_foreach_zero_", 1, 1),
    ],
)
def test_foreach(op: str, lists: int, passes: int) -> None:
    dims = [[[10], [5, 2]]] * lists + [[]]
    work = known(op, dims, ["TensorList"] * lists + ["Scalar"], None, None, list_item_bytes=4)
    assert work.bytes == passes * 20 * 4


@pytest.mark.parametrize(
    ("kernel", "item_bytes"),
    [
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<OpaqueType<2u>, unsigned int, 3>",
            2,
        ),
        (
            "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, float>",
            2,
        ),
        (
            "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4, 1, false>>",
            4,
        ),
        ("nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN", None),
    ],
)
def test_elements_by_the_name_of_the_kernel(kernel: str, item_bytes: int | None) -> None:
    assert list_item_bytes(kernel) == item_bytes


def test_inductors_pointwise_kernel() -> None:
    dims, types = [[64, 128], [8192], []], [BF16, "float", "Scalar"]
    work = known("triton_poi_fused__to_copy_view_2", dims, types, [[128, 1], [1], []], ["", "", "8192"])
    assert work.kind == "fused-pointwise"
    assert work.bytes == 8192 * 2 + 8192 * 4
    assert work.at_least


def test_inductors_kernels_that_may_read_parts_are_not_known() -> None:
    # The table is larger than the iteration space, or the name says that rows are looked up.
    assert estimate("triton_poi_fused_add_0", [[30, 8], [64], []], ["float", "float", "Scalar"], None, ["", "", "64"]) is None
    dims, types = [[8, 8], [64], []], ["float", "float", "Scalar"]
    assert estimate("triton_poi_fused_embedding_0", dims, types, None, ["", "", "64"]) is None


def test_inductors_template_of_a_product() -> None:
    dims, types = [[16, 32], [32, 48], [16, 48], []], [BF16, BF16, BF16, "Scalar"]
    work = known("triton_tem_fused_mm_3", dims, types, None, ["", "", "", "16"])
    assert work.flops == 2 * 16 * 32 * 48
    # Square matrices in a row could be multiplied in more than one way, of the same size.
    square = known("triton_tem_fused_addmm_0", [[8, 8]] * 3, [BF16] * 3, None, None)
    assert square.flops == 2 * 8 * 8 * 8


def test_numbers_take_no_memory_and_ops_out_of_the_list_are_not_known() -> None:
    assert known("aten::mul", [[16], []], ["float", "double"]).bytes == 2 * 16 * 4
    assert estimate("aten::view", [[16], []], ["float", "ScalarList"]) is None
    assert estimate("mylib::thing", [[16]], ["float"]) is None


def test_without_shapes_nothing_is_known() -> None:
    assert estimate("aten::mm", None, None) is None
    assert estimate("aten::mm", [[5, 7], [7, 9]], None) is None
    assert estimate("aten::mm", [[], []], ["", ""]) is None


def test_an_unknown_element_type_is_not_guessed() -> None:
    assert estimate("aten::relu", [[16]], ["c10::SomethingNew"]) is None


def test_old_traces_without_strides_and_values() -> None:
    assert known("aten::addcmul_", [[3, 16], [3, 16], [3, 16], []], ["float"] * 3 + ["Scalar"]).bytes == 4 * 48 * 4


def test_no_op_is_claimed_by_two_families() -> None:
    names = [name for family in registry._FAMILIES for name in family.ESTIMATORS]
    assert len(names) == len(set(names)) == len(known_ops())
