from __future__ import annotations

from typing import Any

import pytest
from diagnosing import finding, outcome
from gpu_traces import FP32, tensors

from builder import TraceBuilder

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"
ROWS_ADDED = "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>(long const*)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >"
BANDWIDTH = 4.8e12 * 0.88


def training(
    rows: int, used: int, width: int = 64, optimizer: str = "AdamW", cpu: float = 8, calls: Any = None
) -> TraceBuilder:
    """Steps that the GPU bounds: 400 us of zeros and 20 us of rows for a table's gradient, 3,000 us for the optimizer."""
    inputs: dict[str, Any] = tensors((used, 64), (used,), dtype=(FP32, "long int"), scalars=(str(rows), "-1", "False"))
    t = TraceBuilder()
    free = 0.0
    for step in range(4):
        begin = 100.0 + step * 200
        t.step(step, begin, 190)
        t.op("autograd::engine::evaluate_function: EmbeddingBackward0", begin + 5, 40)
        t.op("aten::embedding_dense_backward", begin + 6, 38, **inputs)
        t.annotation(f"Optimizer.step#{optimizer}.step", begin + 60, 60)
        t.op("aten::_fused_adamw_", begin + 68, cpu, **(calls or {}))
        for at, name, us in ((10, FILL, 400), (20, ROWS_ADDED, 20), (70, ADAM, 3000)):
            free = max(free, begin + at + 6)
            t.launch(begin + at, 1, gpu=(free, us), name=name)
            free += us
    return t


def test_zeros_and_the_passes_of_the_optimizer_go() -> None:
    rows, used = 2_000_000, 4096
    found = finding(training(rows, used), "dense-embedding-gradient")
    assert found is not None
    dense = 7 * rows * 64 * 4 / BANDWIDTH * 1e6
    sparse = 10 * used * 64 * 4 / BANDWIDTH * 1e6
    assert 700 < dense < 900  # what is left of the 3,000 us belongs to other parameters
    assert found.saving_us_per_step == pytest.approx(400 + dense - sparse, rel=0.02)
    assert "2,000,000 rows" in found.title
    assert "sparse=True" in found.fix


def test_the_table_s_part_of_a_recorded_list_goes() -> None:
    """Lists of parameters, gradients and state in which the table is four fifths."""
    rows, used = 2_000_000, 4096
    lists = [[[rows, 64], [rows // 4, 64]]] * 4
    builder = training(rows, used, cpu=4, calls={"Input Dims": lists, "Input type": ["TensorList"] * 4})
    found = finding(builder, "dense-embedding-gradient")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(400 + 3000 * 0.8 - 10 * used * 64 * 4 / BANDWIDTH * 1e6, rel=0.02)


def test_what_the_sparse_step_costs_the_cpu_remains() -> None:
    found = finding(training(200_000_000, 4096, cpu=40), "dense-embedding-gradient")
    assert found is not None
    # The step's own 200 us and 70 calls like the optimizer's of 40 us.
    assert found.saving_us_per_step == pytest.approx(3420 - 200 - 70 * 40, rel=0.05)


def test_a_table_that_the_batch_covers_is_clear() -> None:
    assert outcome(training(16 * 4096, 4096), "dense-embedding-gradient") == "found"
    assert outcome(training(16 * 4096 - 1, 4096), "dense-embedding-gradient") == "clear"


def test_plain_sgd_touches_each_row_three_times() -> None:
    rows = 2_000_000
    found = finding(training(rows, 4096, optimizer="SGD"), "dense-embedding-gradient")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(400 + 3 * rows * 64 * 4 / BANDWIDTH * 1e6, rel=0.02)
