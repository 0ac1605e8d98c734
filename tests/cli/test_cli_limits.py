"""``lanewise kernels --limits``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from running import Outcome

from limit_traces import ADD, BF16, FULL, NVJET, Calls, inputs, mm, shape

Run = Callable[..., Outcome]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two steps of a product of 4096 in 168 us and a sum in 22.4 us."""
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))
    t = Calls()
    for number in range(2):
        t.step(number, t.now, 1900)
        t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL, 384, 168, 213188, 0)))
        t.add("aten::add", inputs([[4096, 4096], [4096, 4096], []], [BF16, BF16, "Scalar"]), (ADD, 22.4, shape(16384)))
    return t.write(tmp_path / "trace.json")


def test_table(lanewise: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = lanewise("kernels", trace, "--limits").out.splitlines()
    assert all(cell_len(line) <= 80 for line in narrow)
    assert "total" not in narrow[0]  # the name has the room
    monkeypatch.setenv("COLUMNS", "100")
    done = lanewise("kernels", trace, "--limits")
    assert done.status == 0
    head, product, total = done.out.splitlines()
    assert head.split() == ["kernel", "calls", "total", "TFLOP/s", "GB/s", "of", "limit", "bound", "by", "headroom/step"]
    for cell in ("GEMM bf16 256x128", "336 µs", " 818 ", " 599 ", "83 %", "compute", "29.1 µs"):
        assert cell in product
    for cell in ("44.8 µs", " 4,494 ", "94 %", "memory", "1.43 µs"):
        assert cell in total


def test_what_was_compared_with_is_said(lanewise: Run, trace: Path) -> None:
    done = lanewise("kernels", trace, "--limits")
    assert "Ceilings of H200 SXM: memory 4.80 TB/s, bf16 989 TFLOP/s (data sheet)." in done.err
    assert "Ceilings" not in lanewise("kernels", trace, "--limits", "--quiet").err
    assert "Ceilings" not in lanewise("kernels", trace).err


def test_sorted_by_headroom(lanewise: Run, trace: Path) -> None:
    lines = lanewise("kernels", trace, "--limits", "-q", "--sort", "limit").out.splitlines()
    assert "element-wise add bf16" in lines[1]


def test_as_json(lanewise: Run, trace: Path) -> None:
    rows = json.loads(lanewise("kernels", trace, "--limits", "-q", "--format", "json").out)
    product = rows[0]
    assert product["name"] == NVJET
    assert product["flops_per_s"] == pytest.approx(2 * 4096**3 / 168e-6, rel=1e-6)
    assert product["limit_ratio"] == pytest.approx(0.8269, abs=1e-4)
    assert product["headroom_per_step_us"] == pytest.approx(29.089, abs=0.002)
    assert product["occupancy_ratio"] == 0.1875
    assert product["recorded_occupancy_ratio"] is None
    assert (product["blocks"], product["waves"], product["source"]) == (132, 1.0, "op")


def test_as_csv(lanewise: Run, trace: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(lanewise("kernels", trace, "--limits", "-q", "--format", "csv").out)))
    assert [row["bound"] for row in rows] == ["compute", "memory"]


def test_japanese(lanewise: Run, trace: Path) -> None:
    done = lanewise("kernels", trace, "--limits", "--lang", "ja")
    assert "演算" in done.out
    assert "改善余地" in done.out
    assert "データシート値" in done.err
