"""``lanewise expect`` on traces that are built: counts, names, ratios, baselines, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import one, status

from builder import TraceBuilder
from lanewise.errors import UsageError
from lanewise.expectations.checking import checked
from lanewise.expectations.document import Outcome
from lanewise.expectations.keys import KEYS
from lanewise.expectations.proposing import proposed
from lanewise.expectations.reading import expectations_of, read_expectations, tomllib
from places import ROOT

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, 3ul>(int)"


def training(
    steps: int = 4,
    *,
    syncs: tuple[int, ...] = (),
    first_more: int = 0,
    more: tuple[int, ...] = (),
    step_us: int = 2000,
) -> TraceBuilder:
    """Steps of two products and an addition; some with an `.item()`, some with one more addition."""
    t = TraceBuilder()
    for number in range(steps):
        at = step_us * number
        t.step(number, at, step_us - 100)
        t.annotation("mlp_fwd", at + 5, 400)
        for i, (op, name) in enumerate((("aten::mm", GEMM), ("aten::mm", GEMM), ("aten::add", ADD))):
            t.op(op, at + 10 + 100 * i, 50)
            t.launch(at + 20 + 100 * i, 5, gpu=(at + 40 + 100 * i, 60), name=name)
        for i in range(first_more if number == 0 else number in more):
            t.op("aten::add", at + 500 + 100 * i, 50)
            t.launch(at + 510 + 100 * i, 5, gpu=(at + 530 + 100 * i, 10), name=ADD)
        if number in syncs:
            t.op("aten::item", at + 1200, 100)
            t.op("aten::_local_scalar_dense", at + 1205, 90)
            t.launch(
                at + 1210,
                5,
                gpu=(at + 1230, 5),
                name="Memcpy DtoH (Device -> Pageable)",
                cat="gpu_memcpy",
                call="cudaMemcpyAsync",
            )
            t.call("cudaStreamSynchronize", at + 1220, 60)
    return t


def test_counts_per_step() -> None:
    trace = training().load()
    for expected in (
        {"kernels": 3},
        {"launches": "3"},
        {"kernels": {"gemm": 2}},
        {"gpu_ops": "<=3"},
        {"memsets": 0},
        {"copies": 0},
    ):
        assert status(trace, **expected) == "held", expected
    for expected in ({"kernels": 4}, {"launches": "<3"}, {"kernels": {"gemm": ">=3"}}, {"kernels": {"softmax": 1}}):
        assert status(trace, **expected) == "breached", expected


def test_every_usual_step_must_satisfy_it_and_the_breach_names_the_step() -> None:
    row = one(training(more=(2,)).load(), {"step": {"kernels": 3}})
    assert row.status == "breached"
    assert row.found == "3 in step 1, 3; 4 in step 2"
    # What the other steps have as well is no evidence.
    (line,) = row.evidence
    assert "add" in line
    assert "aten::add" in line


def test_the_first_step_may_differ_and_that_is_said() -> None:
    row = one(training(first_more=2).load(), {"step": {"kernels": 3}})
    assert row.status == "held"
    assert row.reason == "the first step (0) has 5"


def test_of_two_steps_both_count() -> None:
    assert status(training(2, first_more=2).load(), kernels=3) == "breached"


def test_host_syncs_and_copies_by_direction() -> None:
    trace = training(syncs=(2,)).load()
    row = one(trace, {"step": {"host_syncs": 0}})
    assert row.status == "breached"
    assert row.found == "0 in step 1, 3; 1 in step 2"
    assert "aten::item" in row.evidence[0]
    rows = checked(trace, expectations_of({"step": {"copies": {"dtoh": "<=1", "htod": 0, "total": 0}}})).rows
    assert [r.status for r in rows] == ["held", "held", "breached"]
    assert [r.key for r in rows] == ["copies.dtoh", "copies.htod", "copies.total"]


def test_annotations() -> None:
    trace = training(more=(2,)).load()
    rows = checked(trace, expectations_of({"annotation": {"mlp_fwd": {"kernels": 3, "calls": 1, "ops": {"aten::mm": 2}}}})).rows
    assert {r.status for r in rows} == {"held"}
    assert rows[0].where == "annotation.mlp_fwd"
    row = one(trace, {"annotation": {"mlp_bwd": {"kernels": 3}}})
    assert row.status == "not-checked"
    assert "Did you mean mlp_fwd" in (row.reason or "")


def test_a_step_without_a_call_of_an_annotation_has_none() -> None:
    t = training()
    for number in (1, 3):
        t.annotation("now_and_then", 2000 * number + 450, 40)
    row = one(t.load(), {"annotation": {"now_and_then": {"calls": 1}}})
    assert (row.status, row.found) == ("breached", "1 in step 1, 3; 0 in step 2")


def test_names_of_kernels_and_libraries() -> None:
    trace = training().load()
    assert status(trace, kernels_required=["nvjet*"]) == "held"
    assert status(trace, kernels_forbidden=["*FLASH*"]) == "held"
    row = one(trace, {"step": {"kernels_required": ["*flash*"]}})
    assert (row.status, row.wanted) == ("breached", "*flash*")
    assert row.evidence
    assert status(trace, kernels_forbidden=["*nvjet*"]) == "breached"
    assert status(trace, libraries_required=["cublas"]) == "held"
    assert status(trace, libraries_forbidden=["aten"]) == "breached"


def test_tensor_cores() -> None:
    assert status(training().load(), tensor_cores=True) == "held"
    assert status(training().load(), tensor_cores=False) == "breached"
    t = TraceBuilder()
    for number in range(3):
        t.step(number, 1000 * number, 900)
        t.op("aten::mm", 1000 * number + 5, 50)
        t.launch(1000 * number + 10, 5, gpu=(1000 * number + 30, 60), name=FP32)
    assert one(t.load(), {"step": {"tensor_cores": True}}).found == "1 of 1 without tensor cores"


def test_compiled_regions_breaks_and_recompiles() -> None:
    t = TraceBuilder()
    for number in range(3):
        at = 1000 * number
        t.step(number, at, 900)
        t.op("Torch-Compiled Region: 0/0", at + 10, 100)
        t.op("aten::mm", at + 20, 50)
        t.op("Torch-Compiled Region: 1/0", at + 200, 100)
        if number == 2:
            t.op("_compile.compile_inner (dynamo_timed)", at + 400, 200)
            t.op("_compile.compile_inner (dynamo_timed)", at + 450, 100)
    trace = t.load()
    rows = checked(trace, expectations_of({"step": {"compiled_regions": 2, "graph_breaks": 0, "recompiles": 0}})).rows
    assert [r.status for r in rows] == ["held", "breached", "breached"]
    assert rows[1].found == "1"
    assert rows[2].found == "0 in step 1; 1 in step 2"


def test_what_a_trace_cannot_tell_is_not_checked() -> None:
    t = TraceBuilder(gpus=0)
    for number in range(3):
        t.step(number, 1000 * number, 900)
        t.op("aten::mm", 1000 * number + 10, 50)
    trace = t.load()
    document = {
        "step": {
            "kernels": 1, "copies": 0, "host_syncs": 0, "allocations": 0, "tensor_cores": True, "gpu_busy_share": ">=0%",
            "limit_share": ">=0%", "peak_memory": "<=1 TiB", "launches": 0, "libraries_forbidden": ["aten"], "memsets": 0,
            "ops": {"aten::mm": 1}, "graph_breaks": 0, "tensor_allocations": 0,
        }
    }  # fmt: skip
    outcomes = checked(trace, expectations_of(document))
    assert {r.key for r in outcomes.of("held")} == {"ops.aten::mm", "graph_breaks"}
    assert not outcomes.of("breached")
    assert all(r.reason for r in outcomes.of("not-checked"))
    assert not outcomes.failed()
    assert outcomes.failed(strict=True)


def test_without_steps_nothing_of_a_step_has_passed() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 100)
    t.launch(10, 5, gpu=(20, 50), name=GEMM)
    assert status(t.load(), kernels=1) == "not-checked"


def test_lost_gpu_records_are_no_count() -> None:
    t = training()
    t.call("cudaLaunchKernel", 2000 * 2 + 1500, 10, correlation=9999)
    row = one(t.load(), {"step": {"kernels": 3}})
    assert (row.status, row.reason) == ("not-checked", "not all GPU work of these steps was recorded")


def test_findings() -> None:
    trace = training(8, syncs=(1, 2, 3, 4, 5, 6, 7)).load()
    row = one(trace, {"trace": {"findings_absent": ["host-sync"]}})
    assert row.status == "breached"
    assert row.evidence[0].startswith("host-sync: ")
    assert one(trace, {"trace": {"findings_absent": ["sdpa-math"]}}).status == "held"
    assert one(trace, {"trace": {"findings_absent": ["*"]}}).status == "breached"


def test_a_ratio_of_two_times_of_one_trace() -> None:
    trace = training().load()
    rows = checked(
        trace,
        expectations_of(
            {
                "ratio": [
                    {"of": "mlp_fwd", "to": "step", "time": "gpu", "is": "100%"},
                    {"of": "mlp_fwd", "time": "wall", "is": "<=25%"},
                    {"of": "mlp_fwd", "time": "wall", "is": "<=20%"},
                ]
            }
        ),
    ).rows
    assert [r.status for r in rows] == ["held", "held", "breached"]


def test_a_baseline_with_its_noise(tmp_path: Path) -> None:
    training().write(tmp_path / "good.json")
    slower = training()
    for number in range(4):
        at = 2000 * number
        slower.op("aten::mm", at + 700, 50)
        slower.launch(at + 710, 5, gpu=(at + 720, 60), name=GEMM)
    file = tmp_path / "e.toml"
    file.write_text('[baseline]\ntrace = "good.json"\ngpu_time = "<=1.05"\nstep_time = "<=1.05"\n')
    same = checked(training().load(), read_expectations(str(file)))
    assert [r.status for r in same.rows] == ["held", "held"]
    found = checked(slower.load(), read_expectations(str(file)))
    assert [r.status for r in found.rows] == ["breached", "held"]
    assert found.rows[0].found == "133 % (240 µs / 180 µs)"
    # 8 % more is within what two recordings differ by (7 %) and the bound.
    near = training(more=(0, 1, 2, 3))
    row = checked(near.load(), read_expectations(str(file))).rows[0]
    assert row.status == "not-checked"
    assert "noise" in (row.reason or "")


def test_a_step_is_compared_with_the_baseline_outside_the_profiler(tmp_path: Path) -> None:
    def recorded(median: float | None, mad: float = 1.0) -> TraceBuilder:
        builder = training()
        if median is not None:
            timed = {"median": median, "steps": 10, "mad": mad}
            builder.header["lanewise"] = {"schema": "lanewise.recording/1", "unprofiled_step_us": timed}
        return builder

    file = tmp_path / "e.toml"
    file.write_text('[baseline]\ntrace = "good.json"\nstep_time = "<=1.1"\n')

    def row(median: float | None, mad: float = 1.0) -> Outcome:
        [found] = checked(recorded(median, mad).load(), read_expectations(str(file))).rows
        return found

    recorded(1000).write(tmp_path / "good.json")
    assert row(1000).status == "held"
    assert row(1000).found == "100 % (1.00 ms / 1.00 ms)"
    # The CPU is the limit: two recordings may differ by 40 %, so that 1.1 * 1.4 = 1.54 is the last that may still be noise.
    assert row(1500).status == "not-checked"
    assert row(1600).status == "breached"
    # Steps that vary among themselves tell less.
    assert row(1600, mad=300).status == "not-checked"
    # Under the profiler, CPU-bound times differ by more than three times: nothing is said.
    assert row(None).status == "held"
    slow = training(step_us=5000)
    assert checked(slow.load(), read_expectations(str(file))).rows[0].status == "not-checked"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[step]\nkernel = 5\n", "Did you mean kernels?"),
        ("[steps]\nkernels = 5\n", "Did you mean step?"),
        ("[step]\nkernels = 'many'\n", "Write a number"),
        ("[step]\nkernels = { gemmm = 3 }\n", "Did you mean gemm?"),
        ("[step]\ncopies = { h2d = 3 }\n", "htod"),
        ("[step]\nsdpa = 'flash2'\n", "Did you mean flash?"),
        ("[step]\ntensor_cores = 'yes'\n", "true or false"),
        ("[step]\nkernels_required = 'x'\n", "list of texts"),
        ("[step]\ncalls = 1\n", "nothing called 'calls'"),
        ("[trace]\nfindings_absent = ['host-sink']\n", "Did you mean host-sync?"),
        ("[annotation]\nmlp = 3\n", "stands directly"),
        ("[[ratio]]\nof = 'x'\nis = 'small'\n", "Write: of ="),
        ("[[ratio]]\nfo = 'x'\n", "nothing called 'fo'"),
        ("[baseline]\ngpu_time = '<=1'\n", "names no trace"),
        ("step = 3\n", "not a value"),
        ("[step]\nkernels = \n", "not TOML"),
        ("", "expects nothing"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "expectations.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"expectations\.toml") as raised:
        read_expectations(str(file))
    assert message in str(raised.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="lanewise expect --write"):
        read_expectations("nowhere.toml")


GUIDES = ("docs/expectations.md", "docs/ja/expectations.md")


@pytest.mark.parametrize("guide", GUIDES)
def test_every_key_is_documented(guide: str) -> None:
    page = (ROOT / guide).read_text("utf-8")
    for key in KEYS:
        assert f"`{key.name}`" in page, key.name


@pytest.mark.parametrize("guide", GUIDES)
def test_the_example_of_the_documentation_is_read(guide: str) -> None:
    page = (ROOT / guide).read_text("utf-8")
    example = page.split("```toml\n", 1)[1].split("```", 1)[0]
    found = expectations_of(tomllib.loads(example))
    assert [s.label for s in found.sections] == ["step", "annotation.mlp_fwd", "trace"]
    assert len(found.ratios) == 1
    assert found.baseline is not None


def test_a_trace_with_nothing_in_it_is_refused() -> None:
    t = TraceBuilder()
    t.named("thread_name", "main", 100, 1)
    t.gpu("k", 0, 10, 5)
    with pytest.raises(UsageError, match="nothing can be expected"):
        proposed(t.load())
