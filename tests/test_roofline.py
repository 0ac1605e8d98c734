"""The report's section on limits: figures, words, and why there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lanewise.analyses.limit_table import kernel_limits
from lanewise.analyses.limits import limits
from lanewise.devices import Measurement, save_measurement
from lanewise.explaining import explain
from lanewise.model.trace import Trace
from lanewise.report import KernelLimitRow, Report, Roofline
from lanewise.roofline import remark, roofline
from lanewise.roofline_texts import TEXTS
from lanewise.rules.context import Context
from lanewise.translations import slots_of
from limit_traces import ADD, BF16, FULL, NVJET, Calls, inputs, mm, shape


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))
    return tmp_path


def _matmul_add(**header: Any) -> Trace:
    """Three steps of a product of 4096 and a sum, the first slower."""
    t = Calls(**header)
    for number, us in enumerate((500.0, 168.0, 168.0)):
        t.step(number, t.now, 1900)
        t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, us, shape(FULL, 384, 168, 213188, 0)))
        t.add("aten::add", inputs([[4096, 4096], [4096, 4096], []], [BF16, BF16, "Scalar"]), (ADD, 22.4, shape(16384)))
    return t.load()


def _kernel(found: Roofline, name: str) -> KernelLimitRow:
    return next(row for row in found.kernels if row.name == name)


def test_figures_of_a_usual_step() -> None:
    """168 us of 138.911 and 22.4 of 20.972."""
    found = roofline(_matmul_add())
    assert found.step is not None
    assert (found.step.gpu_us, found.step.known_us) == (190.4, 190.4)
    assert found.step.limit_us == pytest.approx(159.883, abs=0.002)
    assert found.step.headroom_us == pytest.approx(30.517, abs=0.002)
    assert (found.step.compute_us, found.step.memory_us, found.step.unknown_us) == (168.0, 22.4, 0.0)
    assert [(row.index, row.gpu_us) for row in found.steps] == [(0, 522.4), (1, 190.4), (2, 190.4)]
    assert found.steps[0].headroom_us == pytest.approx(362.517, abs=0.002)
    assert {(c.of, c.per_s, c.source) for c in found.ceilings} == {
        ("memory", 4.8e12, "data sheet"),
        ("bf16", 989.4e12, "data sheet"),
    }
    product = _kernel(found, NVJET)
    assert product.flops_per_s == pytest.approx(3 * 2 * 4096**3 / 836e-6, rel=1e-6)
    assert product.headroom_us_per_step == pytest.approx(29.089, abs=0.002)
    assert (product.source, product.bound) == ("op", "compute")


def test_figures_in_words() -> None:
    found = roofline(_matmul_add())
    assert found.text == (
        "A step's GPU work takes 190 µs; for 190 µs of it the limit is known. At the card's ceilings that part would take"
        " 160 µs; the headroom, op by op, is 30.5 µs. By what bounds it: memory 22.4 µs, compute 168 µs."
    )
    assert found.ceilings_text == "Ceilings of H200 SXM: memory 4.80 TB/s, bf16 989 TFLOP/s (data sheet)."
    assert found.hint is None


def test_which_ceiling_was_used(cache: Path) -> None:
    save_measurement(Measurement("NVIDIA H200", 132, 4.69e12, {}, {"bf16": 795e12}, "2025-01-01T00:00:00Z"))
    text = roofline(_matmul_add()).ceilings_text
    assert text == "Ceilings of H200 SXM: memory 4.69 TB/s, bf16 795 TFLOP/s (measured by lanewise calibrate)."


def test_unknown_card() -> None:
    found = roofline(_matmul_add(header={"deviceProperties": [{"id": 0, "name": "NVIDIA Nonesuch"}]}))
    assert "NVIDIA Nonesuch" in found.text
    assert "lanewise calibrate" in found.text
    assert (found.ceilings_text, found.hint, found.ceilings) == (None, None, [])


def test_without_shapes_it_says_how_to_get_them() -> None:
    t = Calls()
    t.add("aten::mm", {}, (NVJET, 168, shape(FULL)))
    found = roofline(t.load())
    assert found.hint == TEXTS("no-shapes")
    assert found.text == TEXTS("nothing-known")


def test_no_gpu_work() -> None:
    t = Calls()
    t.op("aten::mm", 0, 10)
    found = roofline(t.load())
    assert (found.step, found.kernels, found.ceilings) == (None, [], [])


def _remark(*gpu: tuple[str, float, dict[str, Any]], op: str = "custom::op", recorded: dict[str, Any] | None = None) -> str:
    t = Calls()
    t.add(op, recorded or {}, *gpu)
    return remark(kernel_limits(t.load())[0]) or ""


def test_low_occupancy_of_large_tiles_is_explained() -> None:
    text = _remark((NVJET, 168, shape(FULL, 384, 168, 213188, 0)), op="aten::mm", recorded=mm(4096, 4096, 4096))
    assert text.startswith("Few warps are its design")
    assert "168 registers a thread and 208 KiB of shared memory" in text
    assert "The trace's occupancy of 0 % is a gap of the profiler" in text
    assert text.endswith("by its footprint it is 19 %.")


def test_low_occupancy_of_other_kernels_is_named() -> None:
    """128 registers of 256 threads: 2 blocks of 8 warps on 64."""
    assert _remark(("my_kernel", 100, shape(5000, 256, 128))) == "Occupancy 25 %, held down by registers (128 a thread)."


def test_small_grids_and_tails() -> None:
    assert _remark(("my_kernel", 100, shape(8))) == "8 blocks for 132 SMs: most of the card is idle."
    assert _remark(("my_kernel", 100, shape(100))) == "100 blocks for 132 SMs: the rest of the card is idle."
    tail = _remark(("my_kernel", 100, shape(320, 512, 60)))
    assert tail == "1.2 waves of blocks: the last is far from full, which costs up to 39 % of the time."


def test_too_little_work() -> None:
    text = _remark((ADD, 3, shape(200)), op="aten::add", recorded=inputs([[200_000], [200_000], []], [BF16, BF16, "Scalar"]))
    assert text == TEXTS("floor")


def test_kernels_near_their_limit_need_no_remark() -> None:
    """A sum at 94 % of the bandwidth, with a tail."""
    text = _remark((ADD, 22.4, shape(320, 512, 60)), op="aten::add", recorded=inputs([[4096] * 2] * 2 + [[]], [BF16, BF16, ""]))
    assert text == ""


def test_every_remark_in_japanese() -> None:
    trace = _matmul_add()
    assert "設計どおり" in (_kernel(roofline(trace, "ja"), NVJET).remark or "")
    assert roofline(trace, "ja").text.startswith("1 ステップの GPU 処理は 190 µs です。")


def test_japanese_has_the_same_keys_and_slots() -> None:
    japanese = TEXTS.translated("ja")
    assert {key: slots_of(text) for key, text in japanese.items()} == {
        key: slots_of(text) for key, text in TEXTS.english.items()
    }


def test_section_of_the_report() -> None:
    """In the document and out of it again; a document of before the section still reads."""
    report = explain(_matmul_add())
    assert report.roofline == roofline(_matmul_add())
    assert Report.from_json(report.to_json()) == report
    older = report.to_dict()
    del older["roofline"]
    assert msgspec.convert(older, Report).roofline is None


def test_rules_use_the_same_work_and_formula() -> None:
    """What a rule asks of a call is what the analysis has for its kernels."""
    trace = _matmul_add()
    context, found = Context(trace), trace.analysis(limits)
    for row, owner in enumerate(context.owner.tolist()):
        work = context.work(owner)
        assert work is not None
        assert work is found.works[found.work[row]]
        assert context.limit_ns(work) == pytest.approx(found.limit_ns[row])
