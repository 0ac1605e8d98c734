"""Comparison on the shared traces: what was done to each pair is what it says."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest

import lanewise
from diffing import figure, labels, pair, repeats, shared_pair, side
from lanewise.comparison.document import Pair
from lanewise.comparison.figures import TraceSide
from places import ROOT, SHARED

pytestmark = pytest.mark.shared

H200 = "h200"
OWN = ROOT / "benchmarks" / "causes" / "traces"


def h200(base: str, new: str) -> Pair:
    return shared_pair(f"{H200}/{base}.json.gz", f"{H200}/{new}.json.gz")


# ---- the ladder
def test_linear_compiled_runs_the_same_gemm_with_a_wrapper_around_it() -> None:
    found = h200("02_linear/1024_32_64_eager", "02_linear/1024_32_64_compile")
    assert found.kernels == []
    assert found.kernels_same == 1
    verdict = found.compile
    assert verdict is not None
    assert (verdict.same_products, verdict.other_products) == (1, 0)
    assert verdict.verdict == "not-worth-it"
    layers = {x.id: (x.base_us, x.new_us) for x in verdict.layers}
    assert layers["views"][0] > 5
    assert layers["views"][1] == 0
    for layer in ("lookup", "prologue", "wrapper", "graph-call"):
        assert layers[layer][0] == 0
        assert layers[layer][1] > 5
    assert "compile-overhead" in [c.id for c in found.findings if c.change == "gained"]


def test_matmul_add_compiled_puts_the_add_into_the_gemm_and_seeds_it_by_a_copy() -> None:
    found = h200("01_matmul_add/4096_bf16_warm_eager", "01_matmul_add/4096_bf16_warm_compile")
    [group] = found.kernels
    assert group.kind == "epilogue"
    assert labels(group)[0][1] == "element-wise add bf16"
    assert labels(group)[1] == ["copy DtoD", "GEMM bf16 256x128 +add"]
    assert group.call == "not-seen"
    assert found.compile is not None
    assert found.compile.copies_added == 1
    assert found.compile.verdict == "not-worth-it"


def test_reduce_overhead_copies_three_inputs_and_is_slower_on_the_gpu() -> None:
    found = h200("01_matmul_add/4096_bf16_warm_compile", "01_matmul_add/4096_bf16_warm_compile_reduce-overhead")
    gpu = figure(found, "gpu_us")
    assert gpu.call == "more"
    assert gpu.base is not None
    assert gpu.new is not None
    assert gpu.new - gpu.base == pytest.approx(73, abs=10)
    [group] = found.kernels
    assert group.kind == "added"
    assert sum(p.count for p in group.new) == 3
    assert {p.op for p in group.new} == {"aten::_foreach_copy_"}
    assert figure(found, "graphs").call == "more"
    eager = h200("01_matmul_add/4096_bf16_warm_eager", "01_matmul_add/4096_bf16_warm_compile_reduce-overhead")
    assert eager.compile is not None
    assert eager.compile.verdict == "gpu-slower"
    assert eager.compile.copies_added == 4


@pytest.mark.parametrize("other", ["03_simple_mlp/64_128_768_3072_compile", "03_kernels_mlp/64_128_768_3072_liger"])
def test_gelu_and_mul_become_one_kernel_and_the_gemms_stay(other: str) -> None:
    found = h200("03_simple_mlp/64_128_768_3072_eager", other)
    [group] = found.kernels
    assert group.kind == "fused"
    assert [p.op for p in group.base] == ["aten::gelu", "aten::mul"]
    assert len(group.new) == 1
    assert group.call == "less"
    assert found.kernels_same == 5
    assert (found.compile is None) == ("liger" in other)
    if found.compile is not None:
        assert (found.compile.same_products, found.compile.other_products) == (3, 0)
        assert found.compile.fused == (2, 1)
        assert found.compile.verdict == "not-at-this-size"


def test_in_place_attention_loses_one_copy() -> None:
    found = h200("04_a_naive_attention/8_16_1024_64_eager", "04_b_inplace_ops_attention/8_16_1024_64_eager")
    [group] = found.kernels
    assert (group.kind, labels(group)[0]) == ("removed", ["copy DtoD"])
    assert group.base_us == pytest.approx(130, abs=3)
    assert figure(found, "time_profiled_us").call == "less"


def test_flash_is_one_kernel_of_another_type() -> None:
    found = h200("04_c_sdpa_attention/8_16_1024_64_math", "04_c_sdpa_attention/8_16_1024_64_flash")
    assert (figure(found, "kernels").base, figure(found, "kernels").new) == (20, 1)
    assert "Products in other types: fp32 without tensor cores; in new: bf16." in [c.text for c in found.conditions]
    assert [c.id for c in found.findings if c.change == "lost" and c.certain] == ["sdpa-math"]


def test_cudnn_attention_is_faster_on_the_gpu_and_dearer_on_the_cpu() -> None:
    found = h200("04_c_sdpa_attention/8_16_1024_64_flash", "04_c_sdpa_attention/8_16_1024_64_cudnn")
    assert figure(found, "gpu_us").call == "less"
    assert figure(found, "launches").call == "more"
    assert figure(found, "cpu_us").call == "not-seen"
    # The CPU of the first recording is slower as a whole; the op itself costs more all the same.
    [group] = [g for g in found.kernels if g.kind == "replaced"]
    assert (group.base[0].op, group.new[0].op) == ("aten::_flash_attention_forward", "aten::_cudnn_attention_forward")
    assert (group.call, group.cpu_call) == ("less", "more")
    assert (group.base_cpu_us, group.new_cpu_us) == (pytest.approx(19.8, abs=0.1), pytest.approx(34.0, abs=0.1))


def test_a_fused_optimizer_is_one_group() -> None:
    found = h200("05_gpt_train/clean_eager", "05_gpt_train/clean_eager_fused")
    [group] = found.kernels
    assert {"aten::_foreach_lerp_", "aten::_foreach_addcdiv_"} <= {p.op for p in group.base}
    assert "aten::_fused_adamw_" in {p.op for p in group.new}
    assert group.call == "less"
    assert "unfused-optimizer" in [c.id for c in found.findings if c.change == "lost"]
    # Without shapes the base cannot tell, so that nothing is new.
    assert [(c.id, c.certain) for c in found.findings if c.change == "unchecked"] == [("unfused-pointwise", False)]
    assert "unfused-pointwise" not in " ".join(found.points)
    # Shapes were recorded in one only: nothing is said of the CPU.
    assert figure(found, "time_profiled_us").call == "withheld"


# ---- planted causes
def _truth(folder: Path) -> dict[str, str]:
    """Causes by pair, of those whose traces are there."""
    found = json.loads((folder / "truth.json").read_text())
    here = {k: v for k, v in found.items() if "cause" in v and (folder / k).is_dir()}
    return {k: v["cause"].replace("_", "-") for k, v in here.items()}


def _named(folder: Path, case: str) -> tuple[set[str], bool]:
    """Causes that the comparison of a bad and a fixed trace calls gone, and whether it sees any change."""
    bad, fixed = (TraceSide(lanewise.load(folder / case / f"{which}.json.gz"), "en") for which in ("bad", "fixed"))
    found = pair(bad, fixed)
    gone = [c for c in found.findings if c.certain and c.change in ("lost", "smaller")]
    return {c.id for c in gone} | {x for c in gone for x in c.folded}, found.changed


# 22 of 25; in our own set, of which some causes are known to be told as another one, 4 of 5.
@pytest.mark.parametrize(("folder", "least"), [(SHARED / "traces/planted", 0.88), (OWN, 0.8)], ids=["planted", "own"])
def test_the_removed_cause_is_named(folder: Path, least: float) -> None:
    if not (folder / "truth.json").is_file():
        pytest.skip("no such traces")
    truth = _truth(folder)
    causes = {case: cause for case, cause in truth.items() if cause != "none"}
    found = {case: _named(folder, case)[0] for case in causes}
    right = [case for case, cause in causes.items() if cause in found[case]]
    assert len(right) >= least * len(causes), {c: (causes[c], found[c]) for c in causes if c not in right}
    for case in truth.keys() - causes.keys():
        assert not _named(folder, case)[1], case


# ---- noise
@pytest.mark.parametrize("workload", ["mlp", "encoder_train"])
def test_recordings_of_one_program_show_no_change(workload: str) -> None:
    sides = [side(f"repeats/{p.name}") for p in repeats(workload)]
    pairs = list(itertools.combinations(sides, 2))
    false = [(a.trace.path, b.trace.path) for a, b in pairs if pair(a, b).changed]
    assert len(pairs) >= 15
    assert len(false) <= len(pairs) / 45, false


@pytest.mark.parametrize("recording", ["mlp_00", "mlp_30"])
def test_one_kernel_that_takes_3_percent_longer_is_named(recording: str, tmp_path: Path) -> None:
    original = SHARED / f"traces/repeats/{recording}.json.gz"
    events = json.loads(gzip.decompress(original.read_bytes()))
    names = sorted({e["name"] for e in events["traceEvents"] if e.get("cat") == "kernel"})
    assert len(names) == 4
    for name in names:
        edited = json.loads(gzip.decompress(original.read_bytes()))
        for event in edited["traceEvents"]:
            if event.get("cat") == "kernel" and event["name"] == name:
                event["dur"] = round(event["dur"] * 1.03, 3)
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(edited))
        found = pair(side(f"repeats/{recording}.json.gz"), TraceSide(lanewise.load(path), "en"))
        assert [(g.base[0].name, g.call) for g in found.kernels] == [(name, "more")]
        assert "3.0 % longer" in found.headline
