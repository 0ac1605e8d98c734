"""Alignment of two sequences of GPU ops."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from lanewise.comparison.pairing import Match, aligned, grouped
from lanewise.comparison.sequence import Slot
from lanewise.kernels import decode


def slot(name: str, op: str | None = None, place: str | None = None) -> Slot:
    kernel = decode(name)
    return Slot(name, kernel, kernel.kind or "other", op, op, place, -1, None, -1)


GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
GEMM_ADD = "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT"
COPY = "Memcpy DtoD (Device -> Device)"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"

letters = st.lists(st.sampled_from("abcd"), max_size=12)


def checked(base: list[Slot], new: list[Slot]) -> list[Match]:
    """An alignment in which each op of both is exactly once, and its groups."""
    for matches in (aligned(base, new), grouped(aligned(base, new), base, new)):
        assert sorted(i for m in matches for i in m.base) == list(range(len(base)))
        assert sorted(j for m in matches for j in m.new) == list(range(len(new)))
    return aligned(base, new)


@given(letters, letters)
@settings(max_examples=200)
def test_each_op_is_in_one_match_and_what_both_have_is_paired(a: list[str], b: list[str]) -> None:
    base, new = ([slot(f"kernel_{x}", f"my::{x}") for x in side] for side in (a, b))
    matches = checked(base, new)
    pairs = [m for m in matches if len(m.base) == len(m.new) == 1 and base[m.base[0]].name == new[m.new[0]].name]
    assert len(pairs) == sum(min(a.count(x), b.count(x)) for x in "abcd")


def test_one_op_taken_out_of_many_layers() -> None:
    layer = [slot(f"kernel_{x}", f"my::{x}") for x in "abcde"]
    found = aligned(layer * 40, [s for s in layer * 40 if s.name != "kernel_c"])
    assert [m.base for m in found if not m.new] == [[5 * k + 2] for k in range(40)]


def test_an_add_in_the_epilogue_takes_its_copy_along_either_way() -> None:
    eager = [slot(GEMM, "aten::mm"), slot(ADD, "aten::add")]
    fused = [slot(COPY, "aten::addmm"), slot(GEMM_ADD, "aten::addmm")]
    [forward] = grouped(aligned(eager, fused), eager, fused)
    assert (sorted(forward.base), sorted(forward.new)) == ([0, 1], [0, 1])
    [back] = grouped(aligned(fused, eager), fused, eager)
    assert (sorted(back.base), sorted(back.new)) == ([0, 1], [0, 1])


def test_long_steps_are_aligned_in_seconds() -> None:
    layer = [slot(f"kernel_{x}", f"my::{x}") for x in "abcdefgh"]
    other = [s for s in layer if s.name != "kernel_d"]
    begun = time.perf_counter()
    found = aligned(layer * 500, other * 500)
    assert sum(not m.new for m in found) == 500
    assert time.perf_counter() - begun < 20
