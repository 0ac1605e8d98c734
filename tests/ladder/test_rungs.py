"""Every rung on a CPU, at reduced sizes: it leaves its trace, or says in one line why it cannot."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from test_hub import write_kernel
from warm import WarmPython

from lanewise.ladder.registry import script_path

pytestmark = pytest.mark.torch
CPU = ("--device", "cpu")


Rung = Callable[..., subprocess.CompletedProcess[str]]
ENVIRONMENT = {**os.environ, "LANEWISE_LANG": "en", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch")
    return subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=200, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmPython]:
    pytest.importorskip("torch")
    python = WarmPython(ENVIRONMENT)
    yield python
    python.close()


@pytest.fixture
def rung(tmp_path: Path, warm: WarmPython) -> Rung:
    """Runs a rung in a folder of its own."""
    return lambda name, *flags: warm.lanewise(tmp_path, "run", name, *CPU, *flags)


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def annotations(trace: dict[str, Any]) -> set[str]:
    return {event["name"] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"}


RUNS = [
    ("01_matmul_add", ("--warmup",), "64_bf16_warm_eager", "matmul_add"),
    ("01_matmul_add", ("--batched", "--dtype", "fp32", "--size", "8"), "8_batched_fp32_cold_eager", "matmul_add"),
    ("02_linear", (), "1024_32_64_bf16_warm_eager", "linear_fwd"),
    ("03_simple_mlp", ("--hidden", "512"), "4_128_256_512_bf16_warm_eager", "mlp_fwd"),
    ("04_a_naive_attention", (), "1_8_256_64_bf16_warm_eager", "attn_fwd"),
    ("04_b_inplace_ops_attention", (), "1_8_256_64_bf16_warm_eager", "attn_fwd"),
    ("04_c_sdpa_attention", ("--backend", "math"), "1_8_256_64_bf16_math_warm_eager", "sdpa_fwd"),
    ("05_transformer", (), "2_128_4_64_2_bf16_forward_warm_eager", "forward"),
    ("05_transformer", ("--train", "--optimizer", "for-loop"), "2_128_4_64_2_bf16_train_for-loop_warm_eager", "optimizer"),
    ("06_decode", ("--tokens", "2"), "2_2_128_4_64_bf16_warm_eager", "decode"),
    ("07_data_pipeline", ("--workers", "1", "--work", "0.1"), "8_256_4_bf16_1workers_0.1ms_warm_eager", "train_step"),
]


@pytest.mark.parametrize(("name", "flags", "tag", "annotation"), RUNS)
def test_a_rung_leaves_its_trace(
    rung: Rung, tmp_path: Path, name: str, flags: tuple[str, ...], tag: str, annotation: str
) -> None:
    done = rung(name, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Next: lanewise explain traces/{name}/{tag}.json.gz"
    trace = document(tmp_path / "traces" / name / f"{tag}.json.gz")
    assert annotation in annotations(trace)
    assert sum(mark.startswith("ProfilerStep#") for mark in annotations(trace)) == 3
    assert trace["lanewise"]["label"] == f"{name}/{tag}"
    assert ("unprofiled_step_us" in trace["lanewise"]) == ("cold" not in tag)
    assert "aten::" in (tmp_path / "traces" / name / f"{tag}.txt").read_text()


def test_compiled(rung: Rung, tmp_path: Path) -> None:
    done = rung("01_matmul_add", "--warmup", "--compile", "--size", "16")
    if done.returncode != 0 and "compiler" in done.stderr.lower():
        pytest.skip("no C compiler")
    assert done.returncode == 0, done.stderr
    trace = document(tmp_path / "traces" / "01_matmul_add" / "16_bf16_warm_compile.json.gz")
    assert any("Torch-Compiled Region" in event.get("name", "") for event in trace["traceEvents"])


def test_a_script_runs_alone_and_compares_the_guess(tmp_path: Path) -> None:
    done = run(tmp_path, str(script_path("04_a_naive_attention")), *CPU, "--guess", "gemm mul mask softmax gemm")
    assert done.returncode == 0, done.stderr
    assert "guess: gemm mul mask softmax gemm" in done.stdout
    # On a CPU the scaling may be folded away or not; the two products and the softmax always show.
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith("  = ")]
    assert rows.count(["=", "gemm"]) == 2
    assert ["=", "softmax"] in rows


def test_a_right_guess_is_told(rung: Rung, tmp_path: Path) -> None:
    done = rung("01", "--guess", "gemm add", "--lang", "ja")
    assert done.returncode == 0, done.stderr
    assert "正解です" in done.stdout


def test_a_second_run_does_not_replace_the_first(rung: Rung, tmp_path: Path) -> None:
    assert rung("01").returncode == 0
    again = rung("01")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert rung("01", "--force").returncode == 0


@pytest.mark.parametrize(
    ("name", "flags", "alternative"),
    [
        ("03_kernels_mlp", (), "03_simple_mlp.py --compile"),
        ("04_c_sdpa_attention", ("--backend", "cudnn"), "--backend math or flash"),
        ("04_d_kernels_attention", (), "04_c_sdpa_attention.py --backend flash"),
        ("06_decode", ("--graph",), "without --graph"),
        ("08_distributed", (), "torchrun"),
        ("01_matmul_add", ("--guess", "!"), "--guess"),
    ],
)
def test_what_cannot_run_here_says_so_in_one_line(
    rung: Rung, tmp_path: Path, name: str, flags: tuple[str, ...], alternative: str
) -> None:
    done = rung(name, *flags)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith(f"{name}: ")]
    assert len(said) == 1
    assert alternative in said[0]
    assert not (tmp_path / "traces").exists()


@pytest.mark.skipif(getattr(find_spec("kernels"), "origin", None) is None, reason="kernels is not installed")
@pytest.mark.parametrize(("name", "annotation"), [("03_kernels_mlp", "mlp_fwd"), ("04_d_kernels_attention", "attn_fwd")])
def test_kernels_of_a_folder(rung: Rung, tmp_path: Path, name: str, annotation: str) -> None:
    done = rung(name, "--kernel", str(write_kernel(tmp_path / "kernel")))
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "traces" / name).glob("*.json.gz")
    assert annotation in annotations(document(path))


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_several_ranks(tmp_path: Path, mode: str) -> None:
    done = run(tmp_path, "-m", "lanewise", "run", "08", "--ranks", "2", *CPU, "--mode", mode, "--dim", "32", "--straggle", "1")
    assert done.returncode == 0, done.stderr
    paths = sorted((tmp_path / "traces" / "08_distributed").glob("*.json.gz"))
    assert [path.name for path in paths] == [
        f"{mode}_4_32_16_bf16_2ranks_straggle1ms_warm_eager.rank{n}.json.gz" for n in (0, 1)
    ]
    assert [document(path)["lanewise"]["rank"] for path in paths] == [0, 1]


def test_the_list_and_the_help(rung: Rung, tmp_path: Path) -> None:
    listed = run(tmp_path, "-m", "lanewise", "run")
    assert listed.returncode == 0
    assert len(listed.stdout.splitlines()) == 12
    unknown = run(tmp_path, "-m", "lanewise", "run", "nothing")
    assert unknown.returncode == 2
    assert "no rung" in unknown.stderr
    assert "GeGLU" not in run(tmp_path, "-m", "lanewise", "run", "--help").stdout
    assert "cold: the first calls" in rung("01", "--help").stdout
