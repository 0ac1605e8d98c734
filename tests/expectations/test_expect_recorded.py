"""``lanewise expect`` on traces recorded on an H200."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import one, status

import lanewise
from lanewise.expectations.checking import checked
from lanewise.expectations.proposing import proposed
from lanewise.expectations.reading import expectations_of, read_expectations
from places import DATA, ROOT, SHARED

RECORDED = sorted([*DATA.rglob("*.json.gz"), *(ROOT / "examples").glob("*.json.gz")])


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: "-".join(p.relative_to(ROOT).parts[-2:]))
def test_a_trace_satisfies_what_is_proposed_from_it(path: Path, tmp_path: Path) -> None:
    trace = lanewise.load(path)
    file = tmp_path / "e.toml"
    file.write_text(proposed(trace), "utf-8")
    outcomes = checked(trace, read_expectations(str(file)))
    assert len(outcomes.rows) > 10
    assert [r for r in outcomes.rows if r.status != "held"] == []


def test_expectations_of_the_eager_mlp_are_broken_by_the_compiled_one() -> None:
    document = {"step": {"kernels": {"total": 5, "gemm": 3}, "compiled_regions": 0, "memsets": 2, "tensor_cores": True}}
    eager = lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_eager_shapes_stack_mem.json.gz")
    compiled = lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_compile.json.gz")
    assert not checked(eager, expectations_of(document)).failed()
    broken = {r.key: r.found for r in checked(compiled, expectations_of(document)).of("breached")}
    assert broken == {"kernels.total": "4", "compiled_regions": "1"}


def test_memory_and_limits_where_they_were_recorded() -> None:
    trace = lanewise.load(DATA / "03_simple_mlp" / "64_128_768_3072_eager_shapes_stack_mem.json.gz")
    peak = one(trace, {"step": {"peak_memory": "<=1 MiB"}})
    assert peak.status == "breached"
    assert peak.found is not None
    assert peak.found.endswith("MiB")
    share = one(trace, {"step": {"limit_share": "1%..100%"}})
    assert share.status == "held"


@pytest.mark.parametrize(("backend", "folder"), [("math", DATA / "04_c_sdpa_attention")])
def test_backend_of_attention(backend: str, folder: Path) -> None:
    trace = lanewise.load(folder / f"8_16_1024_64_{backend}.json.gz")
    assert status(trace, sdpa=backend) == "held"
    row = one(trace, {"step": {"sdpa": "flash"}})
    assert (row.status, row.found) == ("breached", "math (1)")


@pytest.mark.shared
@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn", "math"])
def test_backends_of_attention(backend: str) -> None:
    trace = lanewise.load(SHARED / "traces" / "h200" / "04_c_sdpa_attention" / f"8_16_1024_64_{backend}.json.gz")
    assert status(trace, sdpa=backend) == "held"
    assert status(trace, tensor_cores=True) == ("breached" if backend == "math" else "held")


@pytest.mark.shared
def test_a_clean_training_step_is_told_from_one_with_synchronisations() -> None:
    folder = SHARED / "traces" / "h200" / "05_gpt_train"
    document = {"step": {"host_syncs": 0, "copies": {"dtoh": 0}}, "trace": {"findings_absent": ["host-sync"]}}
    assert not checked(lanewise.load(folder / "clean_eager.json.gz"), expectations_of(document)).failed()
    rows = checked(lanewise.load(folder / "sins_eager.json.gz"), expectations_of(document)).rows
    assert [r.status for r in rows] == ["breached"] * 3
    assert rows[0].found == "71"


@pytest.mark.shared
@pytest.mark.parametrize(
    "path", sorted((SHARED / "traces" / "h200").glob("0[1-7]*/*.gz")), ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_the_ladders_traces_satisfy_what_is_proposed_from_them(path: Path, tmp_path: Path) -> None:
    trace = lanewise.load(path)
    file = tmp_path / "e.toml"
    file.write_text(proposed(trace, "ja"), "utf-8")
    assert [r for r in checked(trace, read_expectations(str(file))).rows if r.status == "breached"] == []


@pytest.mark.shared
def test_recordings_of_one_program_satisfy_what_is_proposed_from_one_of_them(tmp_path: Path) -> None:
    paths = sorted((SHARED / "traces" / "repeats").glob("mlp*.json.gz"))
    file = tmp_path / "e.toml"
    file.write_text(proposed(lanewise.load(paths[0])), "utf-8")
    wanted = read_expectations(str(file))
    broken = {p.name: [r.key for r in checked(lanewise.load(p), wanted).of("breached")] for p in paths[1:]}
    assert {name: keys for name, keys in broken.items() if keys} == {}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("cause", "keys"),
    [
        ("sync_item_each_step", {"host_syncs", "copies.total"}),
        ("sync_boolean_indexing", {"host_syncs"}),
        ("out_of_place_masked_fill", {"copies.total"}),
        ("recompile_every_step", {"recompiles"}),
        ("optimizer_for_loop", {"kernels.elementwise"}),
        ("sdpa_math_backend", {"sdpa", "tensor_cores"}),
        ("matmul_fp32_no_tensor_cores", {"tensor_cores"}),
        ("allocator_thrash", {"allocations"}),
        ("nothing_wrong_train", set()),
        ("nothing_wrong_compiled", set()),
    ],
)
def test_what_was_planted_breaks_what_is_proposed_from_the_fixed_program(cause: str, keys: set[str], tmp_path: Path) -> None:
    folder = SHARED / "traces" / "planted" / cause
    file = tmp_path / "e.toml"
    good = folder / "fixed.json.gz"
    file.write_text(proposed(lanewise.load(good if good.exists() else folder / "bad.json.gz")), "utf-8")
    broken = {r.key for r in checked(lanewise.load(folder / "bad.json.gz"), read_expectations(str(file))).of("breached")}
    assert keys <= broken
    assert bool(keys) == bool(broken)
