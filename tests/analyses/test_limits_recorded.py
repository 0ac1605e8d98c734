"""Limits on recorded traces: hand-checked figures of the H200 ladder, and what holds for every trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lanewise
from lanewise.analyses.limit_table import KernelLimit, kernel_limits, step_limits
from lanewise.analyses.limits import BOUNDS, ROLES, limits
from lanewise.analyses.occupancy import launch_occupancies
from lanewise.model.trace import Trace
from places import DATA, SHARED

TRACES = sorted((SHARED / "traces").rglob("*.json.gz"))


@pytest.fixture(autouse=True)
def _no_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))


def _rows(trace: Trace) -> dict[str, KernelLimit]:
    return {row.kernel.label(): row for row in kernel_limits(trace)}


def test_layers_of_the_mlp() -> None:
    """8192 rows of 768 to 3072 and back: 2 x 8192 x 768 x 3072 = 38.65 GFLOP in each of three products of a step.

    At 989.4 TFLOP/s one takes 39.07 us. Pointwise: 8192 x 3072 bf16 are 50.3 MB; gelu moves two of them, mul three.
    """
    trace = lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_eager_shapes_stack_mem.json.gz")
    rows, found = _rows(trace), trace.analysis(limits)
    up, down = rows["GEMM bf16 256x128"], rows["GEMM bf16 192x128"]
    flops, one = 2 * 8192 * 768 * 3072, 39.068
    assert (up.count, down.count) == (6, 3)
    assert up.limit_ns == pytest.approx(6 * one * 1e3, rel=1e-4)
    assert up.flops_per_s == pytest.approx(6 * flops / (up.total_ns * 1e-9))
    assert up.flops_per_s == pytest.approx(687e12, rel=2e-3)
    assert down.flops_per_s == pytest.approx(757e12, rel=2e-3)
    gelu = next(row for row in rows.values() if row.kernel.op == "gelu")
    mul = next(row for row in rows.values() if row.kernel.op == "mul")
    assert gelu.bytes_per_s == pytest.approx(3 * 2 * 8192 * 3072 * 2 / (gelu.total_ns * 1e-9))
    assert gelu.bytes_per_s == pytest.approx(3.08e12, rel=2e-3)
    assert mul.bytes_per_s == pytest.approx(4.20e12, rel=2e-3)
    assert [row.bound for row in (up, down, gelu, mul)] == ["compute", "compute", "memory", "memory"]
    assert not np.isnan(found.limit_ns).any()
    step = step_limits(trace)
    assert step.mean(step.limit_ns) == pytest.approx(3 * one * 1e3 + 5 * 50_331_648 / 4.8e12 * 1e9, rel=1e-3)


def test_sum_of_the_ladder_without_shapes() -> None:
    """The product of 4096 is not known, the sum is by its grid: 100.7 MB in 22.35 us, 4.5 TB/s."""
    trace = lanewise.load(DATA / "01_matmul_add" / "4096_bf16_20steps_eager.json.gz")
    rows = {row.kernel.kind: row for row in kernel_limits(trace)}
    product, total = rows["gemm"], rows["elementwise"]
    assert (product.limit_ns, product.flops_per_s, product.bound) == (None, None, None)
    assert (total.role, total.bound) == ("grid", "memory")
    assert total.bytes_per_s == pytest.approx(20 * 100_663_296 / (total.total_ns * 1e-9))
    assert total.bytes_per_s == pytest.approx(4.5e12, rel=0.02)


@pytest.mark.shared
def test_large_product() -> None:
    """8192^3: 1.0995 TFLOP take 1,111 us at the data sheet's rate, and 1,362 recorded."""
    rows = _rows(lanewise.load(SHARED / "traces/planted/nothing_wrong_gemm/bad.json.gz"))
    row = rows["GEMM bf16 320x128"]
    assert row.limit_ns == pytest.approx(row.count * 1_111_279, rel=1e-4)
    assert row.flops_per_s == pytest.approx(807e12, rel=2e-3)


@pytest.mark.shared
def test_attention_with_recorded_inputs() -> None:
    """Forward and backward of cuDNN in a training step: five products backward for two forward."""
    trace = lanewise.load(SHARED / "traces/planted/nothing_wrong_train/bad.json.gz")
    found = trace.analysis(limits)
    works = {w.kind + (" back" if w.bytes and w.bytes > 2e8 else ""): w for w in found.works if w.kind == "attention"}
    forward, backward = works["attention"], works["attention back"]
    assert backward.flops is not None
    assert forward.flops is not None
    assert backward.flops / forward.flops == pytest.approx(2.5)
    helpers = [row for row in kernel_limits(trace) if row.kernel.kind == "attention" and row.role == "helper"]
    assert len(helpers) == 2  # the row sums before, the conversion after


@pytest.fixture(scope="module", params=TRACES, ids=lambda p: str(p.relative_to(SHARED / "traces")))
def recorded(request: pytest.FixtureRequest) -> Trace:
    """Each shared trace, loaded once."""
    return lanewise.load(request.param)


@pytest.mark.shared
def test_what_always_holds(recorded: Trace) -> None:
    """Parts sum to the whole, limits are limits, and no product is faster than the data sheet's rate."""
    found, times, rows = recorded.analysis(limits), step_limits(recorded), kernel_limits(recorded)
    known = ~np.isnan(found.limit_ns)
    assert (found.limit_ns[known] >= 0).all()
    assert (found.headroom_ns[known] >= 0).all()
    assert set(np.unique(found.bound)) <= set(range(-1, len(BOUNDS)))
    assert set(np.unique(found.role)) <= set(range(-1, len(ROLES)))
    assert sum(times.by_bound_ns.values()) == pytest.approx(times.sum_ns)
    assert (times.known_ns <= times.sum_ns).all()
    assert sum(row.total_ns for row in rows) == found.ns.sum()
    assert sum(row.known_ns or 0 for row in rows) == found.ns[known].sum()
    arithmetic = ~np.isnan(found.arithmetic_ns) & (found.arithmetic_ns > found.memory_ns) & (found.ns > 20_000)
    assert (found.arithmetic_ns[arithmetic] <= found.ns[arithmetic]).all()


@pytest.mark.shared
def test_recorded_occupancy_is_the_theory_or_a_gap(recorded: Trace) -> None:
    """The profiler's figure is the theory's, for the blocks that an SM gets; where it is 0, more than 48 KiB are why."""
    checked = 0
    for launch in recorded.analysis(launch_occupancies).launches:
        theory, figure = launch.theoretical, launch.recorded_ratio
        if theory is None or figure is None or launch.sms is None:
            continue
        checked += 1
        expected = theory.ratio * min(launch.blocks / launch.sms / max(theory.blocks_per_sm, 1), 1)
        large = launch.shared_bytes is not None and launch.shared_bytes > 48 * 1024
        if launch.is_gap:
            assert large
        elif not large:
            assert figure == pytest.approx(expected, abs=0.0051)
    assert checked or "h200" not in recorded.path
