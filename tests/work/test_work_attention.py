"""Attention: which scores a mask keeps, and what a call costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanewise.work import Work, estimate
from lanewise.work.attention import kept_scores

BF16 = "c10::BFloat16"
sizes = st.integers(0, 12)
bounds = st.one_of(st.none(), st.integers(0, 14))


@given(queries=sizes, keys=sizes, bottom_right=st.booleans(), left=bounds, right=bounds)
def test_kept_scores_are_those_that_one_counts(
    queries: int, keys: int, bottom_right: bool, left: int | None, right: int | None
) -> None:
    shift = keys - queries if bottom_right else 0
    counted = sum(
        (left is None or key >= query + shift - left) and (right is None or key <= query + shift + right)
        for query in range(queries)
        for key in range(keys)
    )
    assert kept_scores(queries, keys, shift, left, right) == counted


def test_a_square_causal_mask_keeps_the_triangle_with_its_diagonal() -> None:
    assert kept_scores(512, 512, 0, None, 0) == 512 * 513 // 2


def forward(causal: str, keys: int = 16) -> Work:
    dims = [[2, 4, 16, 8], [2, 4, keys, 8], [2, 4, keys, 8], [], [], [], []]
    types = [BF16, BF16, BF16, "Scalar", "Scalar", "Scalar", ""]
    work = estimate(
        "aten::_scaled_dot_product_flash_attention",
        dims,
        types,
        None,
        ["", "", "", "0.", causal, "False", ""],
    )
    assert work is not None
    return work


def test_causal_counts_exactly_what_it_keeps_and_says_so() -> None:
    full, causal = forward("False"), forward("True")
    assert full.flops == 2 * 2 * 4 * (16 * 16) * (8 + 8)
    assert full.causal is False
    assert full.note == ""
    assert causal.flops == 2 * 2 * 4 * (16 * 17 // 2) * (8 + 8)
    assert causal.causal is True
    assert causal.note == "causal: 136 of 256 scores of each head counted"
    # Traffic does not depend on the mask: q, k, v, output in bf16, one fp32 sum a row.
    assert causal.bytes == full.bytes == 2 * 4 * 16 * 8 * 2 * 4 + 2 * 4 * 16 * 4


def test_a_causal_mask_of_flash_attention_ends_at_the_bottom_right() -> None:
    """One query after 15 cached keys sees them all: decoding with a cache."""
    dims = [[1, 1, 4, 8], [1, 16, 4, 8], [1, 16, 4, 8], *[[]] * 12]
    types = [BF16, BF16, BF16, "", "", *["Scalar"] * 6, "", "", "", ""]
    concrete = ["", "", "", "", "", "1", "16", "0.", "True", "False", "0.35", "", "", "", ""]
    work = estimate("aten::_flash_attention_forward", dims, types, None, concrete)
    assert work is not None
    assert work.flops == 2 * 4 * 16 * (8 + 8)


def test_a_window_counts_as_such() -> None:
    dims = [[1, 8, 2, 4], [1, 8, 2, 4], [1, 8, 2, 4], *[[]] * 12]
    types = [BF16, BF16, BF16, "", "", *["Scalar"] * 8, "", ""]
    concrete = ["", "", "", "", "", "8", "8", "0.", "True", "False", "0.5", "2", "0", "", ""]
    work = estimate("aten::_flash_attention_forward", dims, types, None, concrete)
    assert work is not None
    # Rows see 1, 2, 3, 3, 3, 3, 3, 3 keys.
    assert work.flops == 2 * 2 * 21 * (4 + 4)


@pytest.mark.parametrize(("mask_type", "scores"), [("0", 3 * 5), ("1", 1 + 2 + 3), ("2", 3 + 4 + 5)])
def test_memory_efficient_attention_by_its_mask_type(mask_type: str, scores: int) -> None:
    dims = [[1, 3, 2, 8], [1, 5, 2, 8], [1, 5, 2, 8], *[[]] * 11]
    types = ["float"] * 3 + [""] * 5 + ["Scalar"] * 3 + [""] * 3
    concrete = [""] * 8 + ["0.", mask_type, "True", "", "", ""]
    work = estimate("aten::_efficient_attention_forward", dims, types, None, concrete)
    assert work is not None
    assert work.flops == 2 * 2 * scores * (8 + 8)
    assert work.causal is (mask_type != "0")


def test_backward_of_cudnn_attention_as_recorded() -> None:
    """Five products for each kept score; q, k, v, dO, O and the row sums read, three gradients written."""
    shape = [24, 12, 512, 128]
    dims = [shape] * 5 + [[24, 12, 512, 1]] + [[]] * 10
    types = [BF16] * 5 + ["float", "long int", "long int", "", "", ""] + ["Scalar"] * 4 + [""]
    concrete = [""] * 11 + ["512", "512", "0.", "True", ""]
    work = estimate("aten::_cudnn_attention_backward", dims, types, None, concrete)
    assert work is not None
    kept = 512 * 513 // 2
    assert work.flops == 2 * 24 * 12 * kept * 5 * 128
    elements = 24 * 12 * 512 * 128
    assert work.bytes == 8 * elements * 2 + 24 * 12 * 512 * 4
    assert work.causal is True


def test_grouped_queries_share_keys() -> None:
    dims = [[2, 8, 40, 64], [2, 2, 40, 64], [2, 2, 40, 64], *[[]] * 10]
    types = [BF16] * 3 + [""] * 3 + ["Scalar"] * 7
    concrete = [""] * 6 + ["40", "40", "False", "0.", "False", "False", "0.125"]
    work = estimate("aten::_cudnn_attention_forward", dims, types, None, concrete)
    assert work is not None
    assert work.flops == 2 * 2 * 8 * 40 * 40 * 128
    assert work.bytes == (2 * 8 * 40 * 64 * 2 + 2 * 2 * 40 * 64 * 2) * 2 + 2 * 8 * 40 * 4


def test_packed_sequences_have_bytes_and_no_operations() -> None:
    dims = [[300, 4, 64], [300, 4, 64], [300, 4, 64], [5], [5], *[[]] * 10]
    types = [BF16] * 3 + ["int", "int"] + ["Scalar"] * 6 + [""] * 4
    concrete = [""] * 5 + ["128", "128", "0.", "True", "False", "0.125", "", "", "", ""]
    work = estimate("aten::_flash_attention_forward", dims, types, None, concrete)
    assert work is not None
    assert work.flops is None
    assert work.bytes == 4 * 300 * 4 * 64 * 2 + 300 * 4 * 4
    assert work.causal is True
    assert "lengths are not recorded" in work.note


def test_without_its_flag_attention_is_not_known() -> None:
    dims = [[2, 4, 16, 8]] * 3 + [[]] * 4
    types = [BF16, BF16, BF16, "Scalar", "Scalar", "Scalar", ""]
    assert estimate("aten::_scaled_dot_product_flash_attention", dims, types) is None


def test_a_given_mask_is_read_and_everything_counted() -> None:
    dims = [[2, 4, 16, 8]] * 3 + [[2, 1, 16, 16]] + [[]] * 5
    types = [BF16] * 4 + ["Scalar"] * 5
    concrete = [""] * 4 + ["True", "0.", "False", "False", ""]
    work = estimate("aten::_scaled_dot_product_cudnn_attention", dims, types, None, concrete)
    assert work is not None
    assert work.flops == 2 * 2 * 4 * 16 * 16 * 16
    assert work.bytes == 4 * (2 * 4 * 16 * 8 * 2) + 2 * 16 * 16 * 2 + 2 * 4 * 16 * 4
    assert work.note == "a mask was given; all scores counted"


def test_flash_attn_of_the_package() -> None:
    dims = [[2, 16, 4, 8]] * 3 + [[]] * 8
    types = ["c10::Half"] * 3 + ["Scalar"] * 6 + ["", "Scalar"]
    concrete = ["", "", "", "0.", "0.35", "True", "-1", "-1", "0.", "", "False"]
    work = estimate("flash_attn::_flash_attn_forward", dims, types, None, concrete)
    assert work is not None
    assert work.flops == 2 * 2 * 4 * (16 * 17 // 2) * 16
