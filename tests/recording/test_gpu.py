"""The recorder on a CUDA GPU."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from captures import notices, step_names, trace_of

from lanewise.expectations.guessing import guess, guessed_words
from lanewise.loading import load
from lanewise.recording import record
from lanewise.recording.health import health_of

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def cuda(torch: Any) -> Any:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda")


def test_every_launch_has_its_gpu_op(torch: Any, cuda: Any, tmp_path: Path) -> None:
    x = torch.randn(64, 64, device=cuda, dtype=torch.bfloat16)
    for _ in (rec := record(out=str(tmp_path), quiet=True)):
        torch.add(torch.matmul(x, x), x)
    assert rec.path is not None
    found = health_of(rec.path)
    assert found.steps == 3
    assert found.events["kernel"] == found.launches == 6
    # Steps of some microseconds end before their events are read: then only their mean is known.
    assert notices(rec.recording)[:2] == ["estimate", "written"]
    assert notices(rec.recording)[2:] in (["step-time"], ["step-time-mean"])
    device = trace_of(rec.path)["lanewise"]["device"]
    assert device["name"] == torch.cuda.get_device_name()
    assert device["driver"]
    assert device["sm_clock_mhz"] > 0
    assert device["power_w"] > 0


def test_the_real_time_of_a_gpu_bound_step(torch: Any, cuda: Any, tmp_path: Path) -> None:
    x = torch.randn(8192, 8192, device=cuda, dtype=torch.bfloat16)
    for _ in range(10):
        x @ x
    measured = []
    for _ in range(20):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        x @ x
        end.record()
        torch.cuda.synchronize()
        measured.append(start.elapsed_time(end) * 1e6)
    for _ in (rec := record(out=str(tmp_path), timed=20, quiet=True)):
        x @ x
    times = rec.recording.times
    assert times is not None
    assert times.source == "device events"
    assert times.median_ns == pytest.approx(statistics.median(measured), rel=0.1)


def test_work_on_another_stream_is_not_lost(torch: Any, cuda: Any, tmp_path: Path) -> None:
    x = torch.randn(8192, 8192, device=cuda, dtype=torch.bfloat16)
    side = torch.cuda.Stream()

    def step() -> None:
        with torch.cuda.stream(side):
            torch.matmul(x, x)

    for _ in range(5):
        step()
    for _ in (rec := record(out=str(tmp_path), quiet=True)):
        step()
    times = rec.recording.times
    assert times is not None
    assert times.source == "mean"
    assert times.median_ns > 500_000  # 1.1e12 operations cannot take less on any GPU of today


def test_replays_of_a_graph_are_recorded_after_the_rehearsal(torch: Any, cuda: Any, tmp_path: Path) -> None:
    x = torch.randn(64, 64, device=cuda)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.relu(x @ x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            torch.relu(x @ x)
    for _ in (rec := record(out=str(tmp_path), quiet=True)):
        graph.replay()
    assert rec.path is not None
    found = health_of(rec.path)
    assert found.launches == 3
    assert found.events["kernel"] == 60


def test_an_unmodified_training_script(lanewise_record: Any, script: Any, traces: Any, cuda: Any) -> None:
    text = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(25):
    optimizer.zero_grad()
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
"""
    done = lanewise_record("--", script(text))
    assert done.returncode == 0, done.stderr
    (path,) = traces()
    assert step_names(trace_of(path))[0] == "ProfilerStep#17"
    found = health_of(path)
    assert found.gpu_ops > 3 * 12
    assert "no GPU events" not in done.stderr


def test_doctor(cuda: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lanewise.cli.doctor", "--lang", "en", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout
    row = next(line for line in done.stdout.splitlines() if "GPU ops" in line)
    cpu_ops, launches, gpu_ops = (int(number) for number in re.findall(r"(\d+) (?:CPU ops|launches|GPU ops)", row))
    assert cpu_ops >= 20
    assert gpu_ops >= launches >= 20


@pytest.mark.parametrize(
    ("rung", "flags", "words"),
    [
        ("01", ["--warmup"], "gemm add"),
        ("02", ["--compile"], "gemm"),
        ("04_b", [], "gemm memset mul mask softmax gemm"),
        ("04_c", ["--backend", "flash"], "attention"),
    ],
)
def test_rungs_run_what_they_teach(cuda: Any, tmp_path: Path, rung: str, flags: list[str], words: str) -> None:
    command = [sys.executable, "-m", "lanewise.cli.run", rung, *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("traces/*/*.json.gz")
    found = guess(load(path), guessed_words(words))
    assert {row.word for row in found.of("missing")} <= {"memset"}, found.rows
