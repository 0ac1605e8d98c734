"""Ops and kernels by name; the figures beside torch's own are in test_key_averages.py."""

from __future__ import annotations

import lanewise
from builder import TraceBuilder
from lanewise.analyses.tables import kernel_table, op_table, op_table_by_shape
from lanewise.model.trace import Trace


def _built() -> Trace:
    t = TraceBuilder()
    for i, shape in enumerate(([[2, 3], [3, 4]], [[8, 8], [8, 8]], [[2, 3], [3, 4]])):
        t.op("aten::linear", i * 100, 50, **{"Input Dims": shape})
        t.op("aten::mm", i * 100 + 5, 40, **{"Input Dims": shape})
        t.launch(i * 100 + 10, 5, gpu=(i * 100 + 60, 10 * (i + 1)), name="sgemm")
    t.op("aten::relu", 400, 10)
    t.launch(402, 3, gpu=(450, 5), name="relu_kernel")
    t.launch(420, 3, gpu=(460, 7), name="sgemm")
    return t.load()


def test_ops() -> None:
    rows = {r.name: r for r in op_table(_built())}
    linear, mm = rows["aten::linear"], rows["aten::mm"]
    assert (linear.count, linear.cpu_total_ns, linear.cpu_self_ns) == (3, 150_000, 30_000)
    assert (linear.gpu_total_ns, linear.gpu_self_ns, linear.gpu_ops) == (60_000, 0, 3)
    assert (mm.count, mm.cpu_total_ns, mm.cpu_self_ns) == (3, 120_000, 105_000)
    assert (mm.gpu_total_ns, mm.gpu_self_ns, mm.gpu_ops) == (60_000, 60_000, 3)
    assert [r.name for r in op_table(_built())] == ["aten::mm", "aten::relu", "aten::linear"]


def test_ops_by_shape() -> None:
    rows = {(r.name, r.shapes): r for r in op_table_by_shape(_built())}
    assert rows["aten::mm", "[[2, 3], [3, 4]]"].gpu_self_ns == 40_000
    assert rows["aten::mm", "[[8, 8], [8, 8]]"].gpu_self_ns == 20_000
    assert rows["aten::relu", None].count == 1
    assert sum(r.count for r in rows.values()) == 7


def test_kernels() -> None:
    rows = {r.name: r for r in kernel_table(_built())}
    sgemm = rows["sgemm"]
    assert (sgemm.count, sgemm.total_ns, sgemm.mean_ns, sgemm.median_ns) == (4, 67_000, 16_750, 15_000)
    assert sgemm.ops == ("aten::mm",)
    assert list(rows) == ["sgemm", "relu_kernel"]


def test_shares_of_the_ops_are_those_of_the_kernels() -> None:
    report = lanewise.explain(_built())
    owned = sum(r.gpu_self_us for r in report.ops)
    assert owned == sum(k.total_us for k in report.kernels) - 7.0  # the one that no op launched


def test_results_are_computed_once() -> None:
    trace = _built()
    calls = []

    def counted(_: Trace) -> int:
        calls.append(1)
        return len(calls)

    assert [trace.analysis(counted) for _ in range(3)] == [1, 1, 1]
    assert trace.analysis(op_table) is trace.analysis(op_table)
    assert _built().analysis(counted) == 2
