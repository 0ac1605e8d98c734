from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lanewise.recording import health
from lanewise.recording.health import health_of
from places import SHARED


def event(category: str, name: str, compact: bool) -> str:
    between = " " if compact else "\n    "
    return f'  {{\n    "ph": "X",{between}"cat": "{category}",{between}"name": "{name}", "pid": 1, "ts": 1.5, "dur": 2.0\n  }}'


def document(events: list[tuple[str, str]], compact: bool) -> str:
    body = ",\n".join(event(category, name, compact) for category, name in events)
    return f'{{\n  "schemaVersion": 1,\n  "traceEvents": [\n{body}\n  ],\n  "traceName": "x"\n}}\n'


EVENTS = [
    ("user_annotation", "ProfilerStep#3"),
    ("cpu_op", "aten::mm"),
    ("cuda_runtime", "cudaLaunchKernel"),
    ("kernel", "gemm"),
    ("cpu_op", "aten::add"),
    ("cuda_driver", "cuLaunchKernelEx"),
    ("kernel", "add"),
    ("cuda_runtime", "cudaMemsetAsync"),
    ("gpu_memset", "Memset (Device)"),
    ("cuda_runtime", "cudaDeviceSynchronize"),
    ("gpu_user_annotation", "ProfilerStep#3"),
    ("user_annotation", "ProfilerStep#4"),
    ("cuda_runtime", "cudaGraphLaunch"),
    ("cuda_runtime", "cudaLaunchHostFunc"),
    ("ac2g", "ac2g"),
]


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("chunk_bytes", [64, 100, 1 << 20])
def test_counts_are_right_in_both_spellings_wherever_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compact: bool, chunk_bytes: int
) -> None:
    monkeypatch.setattr(health, "_CHUNK_BYTES", chunk_bytes)
    text = document(EVENTS, compact)
    path = tmp_path / "x.json"
    path.write_text(text)
    found = health_of(path)
    assert found.events == {
        "cpu_op": 2,
        "cuda_driver": 1,
        "cuda_runtime": 5,
        "gpu_memset": 1,
        "gpu_user_annotation": 1,
        "kernel": 2,
        "user_annotation": 2,
    }
    assert found.launches == 3  # two kernels and a graph; memsets, syncs and host functions are none
    assert found.gpu_ops == 3
    assert found.steps == 2  # as the CPU marked them, not their copies on the GPU's lane
    assert found.complete
    assert not found.gpu_missing
    assert found.json_bytes == len(text)


def test_gzip_is_read_through(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(document(EVENTS, compact=False).encode()))
    found = health_of(path)
    assert (found.gpu_ops, found.steps) == (3, 2)
    assert found.file_bytes == path.stat().st_size < found.json_bytes


def test_launches_without_gpu_events_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(document([("cpu_op", "aten::mm"), ("cuda_runtime", "cudaLaunchKernelExC")], compact=True))
    assert health_of(path).gpu_missing


def test_a_document_without_its_end_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(document(EVENTS, compact=True)[:-30])
    assert not health_of(path).complete


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "launches", "gpu_ops", "steps"),
    [
        ("h200/01_matmul_add/64_bf16_warm_eager.json.gz", 6, 6, 3),
        ("h200/06_gpt_decode/cudagraph_replay.json.gz", 3, 244, 3),
    ],
)
def test_real_traces(name: str, launches: int, gpu_ops: int, steps: int) -> None:
    found = health_of(SHARED / "traces" / name)
    assert (found.launches, found.gpu_ops, found.steps) == (launches, gpu_ops, steps)
    assert found.complete
