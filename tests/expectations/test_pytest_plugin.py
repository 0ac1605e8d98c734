"""The plugin in a pytest of its own, as somebody who installed lanewise has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

TESTS = """
import torch

def step():
    with torch.no_grad(), torch.profiler.record_function("block"):
        x = torch.ones(8, 8)
        return torch.nn.functional.gelu(x @ x).masked_fill(x.bool(), 0.0)

def test_ops(lanewise_trace):
    t = lanewise_trace(step)
    assert t.step.ops["aten::mm"] == 1
    assert t.annotation("block").ops["aten::gelu"] == 1
    assert t.uses("gelu") and t.uses("matmul") and not t.uses("softmax")
    assert t.graph_breaks == 0
    assert t.step.copies == 2  # the conversion to bool, and the copy of an out-of-place fill
    assert t.path.exists() and len(t.trace) > 0

def test_gpu_numbers_skip(lanewise_trace):
    assert lanewise_trace(step, steps=1, warmup=0).step.kernels == 5

def test_expectations_hold(lanewise_trace):
    t = lanewise_trace(step, expect={"ops": {"aten::mm": 1}, "kernels": 5})
    assert [r.status for r in t.outcomes.rows] == ["held", "not-checked"]

def test_expectations_of_gpu_only_skip(lanewise_trace):
    lanewise_trace(step, expect={"kernels": 5, "memsets": 0})

def test_block_fails(lanewise_trace):
    with lanewise_trace(expect={"ops": {"aten::mm": 2, "aten::softmax": 1}}):
        step()

def test_assertion_fails(lanewise_trace):
    t = lanewise_trace(step, steps=1, warmup=0)
    assert t.step.copies == 0

def test_error_in_a_block_is_that_error(lanewise_trace):
    with lanewise_trace(expect={"ops": {"aten::mm": 2}}):
        raise ValueError("of my own")

def test_graph_break(lanewise_trace):
    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()
    compiled = torch.compile(broken, backend="eager")
    t = lanewise_trace(lambda: compiled(torch.ones(3)))
    assert t.graph_breaks == 1
    assert "graph_break" in next(iter(t.break_reasons))
    assert t.step.recompiles == 0
    again = lanewise_trace(lambda: compiled(torch.ones(3)))
    assert again.graph_breaks == 1

def test_no_break(lanewise_trace):
    compiled = torch.compile(lambda x: x.sin().cos(), backend="eager")
    t = lanewise_trace(lambda: compiled(torch.ones(3)))
    assert t.graph_breaks == 0
    assert t.step.compiled_regions == 1
"""


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--show-capture=all", "--log-level=CRITICAL"]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_steps.py").write_text(TESTS)
    return folder, run(folder, "-v", "--lanewise-artifacts", "kept")


def test_outcomes(output: tuple[Path, str]) -> None:
    outcomes = dict(re.findall(r"test_steps\.py::(\w+) (PASSED|FAILED|SKIPPED|ERROR)", output[1]))
    assert outcomes == {
        "test_ops": "PASSED",
        "test_gpu_numbers_skip": "SKIPPED",
        "test_expectations_hold": "PASSED",
        "test_expectations_of_gpu_only_skip": "SKIPPED",
        "test_block_fails": "FAILED",
        "test_assertion_fails": "FAILED",
        "test_error_in_a_block_is_that_error": "FAILED",
        "test_graph_break": "PASSED",
        "test_no_break": "PASSED",
    }


def test_the_reason_of_a_skip_names_what_is_missing(output: tuple[Path, str]) -> None:
    assert "kernels: a CPU-only trace" in output[1]


def test_a_breach_is_explained_and_the_trace_kept(output: tuple[Path, str]) -> None:
    folder, text = output
    assert re.search(r"BREACHED step: ops\.aten::mm\n\s+wanted 2, found 1", text)
    assert "BREACHED step: ops.aten::softmax" in text
    assert "ValueError: of my own" in text
    kept = sorted(p.name for p in (folder / "kept").iterdir())
    assert kept == [
        "test_steps.py_test_assertion_fails.json.gz",
        "test_steps.py_test_block_fails.json.gz",
        "test_steps.py_test_error_in_a_block_is_that_error.json.gz",
    ]
    assert "next: lanewise explain kept/test_steps.py_test_block_fails.json.gz" in text
    listing = text.split("a usual step ran these CPU ops", 1)[1][:400]
    assert "1x aten::mm" in listing
    assert "1x aten::gelu" in listing


def test_what_cannot_be_told_can_be_made_to_fail(output: tuple[Path, str]) -> None:
    text = run(output[0], "-q", "--lanewise-no-skip", "-k", "gpu_numbers")
    assert "cannot be told here: kernels: a CPU-only trace" in text
    assert "1 failed" in text


def test_without_torch_a_test_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "absent" / "torch"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    (tmp_path / "test_steps.py").write_text(
        "def test_step(lanewise_trace):\n    lanewise_trace(lambda: None)\n\n"
        "def test_block(lanewise_trace):\n    with lanewise_trace():\n        pass\n\n"
        "def test_other():\n    pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(absent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]))
    text = run(tmp_path, "-q")
    assert "1 passed, 2 skipped" in text
    assert "lanewise_trace needs torch" in text


def test_with_several_workers_each_failure_keeps_its_trace(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_steps.py").write_text(
        TESTS.split("def test_ops", 1)[0] + "import pytest\n\n@pytest.mark.parametrize('n', [1, 2, 3])\n"
        "def test_counts(lanewise_trace, n):\n    assert lanewise_trace(step, steps=1, warmup=0).step.ops['aten::mm'] == n\n"
    )
    text = run(tmp_path, "-q", "-n", "2", "--lanewise-artifacts", "kept")
    assert "2 failed, 1 passed" in text
    kept = sorted(p.name for p in (tmp_path / "kept").iterdir())
    assert kept == ["test_steps.py_test_counts[2].json.gz", "test_steps.py_test_counts[3].json.gz"]
    assert text.count("a usual step ran these CPU ops") == 2
