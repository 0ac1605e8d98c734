from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import ALIGN1, FP32, TENSOR, product, tensors, trace

from lanewise.rules.misaligned_dims import misaligned_size
from lanewise.rules.sequence import Op
from lanewise.work.inputs import Inputs


def size_of(*shapes: tuple[int, ...], strides: list[list[int]] | None = None, dtype: str = "c10::BFloat16") -> int | None:
    recorded = tensors(*shapes, dtype=dtype, strides=strides or ())
    op = Op(
        "mm", Inputs(recorded["Input Dims"], recorded["Input type"], recorded["Input Strides"], recorded["Concrete Inputs"])
    )
    assert op.product is not None
    return misaligned_size(op.product)


def test_odd_vocabulary_is_priced_as_padded() -> None:
    found = finding(trace([product(4096, 768, 50257, 3000, ALIGN1)]), "misaligned-dims")
    assert found is not None
    expected = 2 * 4096 * 768 * 50257 / (989.4e12 * 0.8) * 1e6 + 2.5
    assert found.saving_us_per_step == pytest.approx(3000 - expected, rel=0.02)
    assert "50257" in found.title
    assert "50304" in found.fix


def test_slow_but_aligned_is_another_matter() -> None:
    assert outcome(trace([product(4096, 768, 50256, 3000, TENSOR)]), "misaligned-dims") == "clear"


def test_odd_size_in_a_fast_kernel_is_clear() -> None:
    assert outcome(trace([product(4096, 768, 50257, 500, TENSOR)]), "misaligned-dims") == "clear"


def test_memory_bound_product_is_clear() -> None:
    """8 rows: reading 77 MB of weights takes 18 us, whatever the size is a multiple of."""
    assert outcome(trace([product(8, 768, 50257, 24, TENSOR)]), "misaligned-dims") == "clear"


def test_fp32_is_not_a_type_of_16_byte_loads_here() -> None:
    assert outcome(trace([product(4096, 768, 50257, 9000, ALIGN1, FP32)]), "misaligned-dims") == "clear"


def test_sizes_that_matter() -> None:
    assert size_of((64, 768), (768, 1000)) is None
    assert size_of((63, 768), (768, 1000)) is None  # rows of the first matrix are 768 long, however many there are
    assert size_of((64, 768), (768, 1001)) == 1001
    assert size_of((64, 1001), (1001, 1000)) == 1001
    # A transposed weight: its rows are k long, but the result's are n long.
    assert size_of((64, 768), (768, 1001), strides=[[768, 1], [1, 768]]) == 1001
    # dW = dY^T X: the rows of dY lie in memory n long.
    assert size_of((1001, 64), (64, 768), strides=[[1, 1001], [768, 1]]) == 1001
    assert size_of((64, 768), (768, 1004)) == 1004  # a multiple of 4 is 8 bytes
    assert size_of((64, 768), (768, 1001), dtype="float") is None


@pytest.mark.shared
def test_planted() -> None:
    assert claim("misaligned_vocab", "bad", "misaligned-dims") == pytest.approx(
        truth()["misaligned_vocab"]["saving_pct"] / 100, abs=0.05
    )
    assert claim("misaligned_vocab", "fixed", "misaligned-dims") == 0
