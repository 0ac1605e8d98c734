"""Every real trace against values that were computed independently in whole nanoseconds (`facts.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lanewise
from lanewise.analyses.gpu_time import DeviceTime, device_times
from lanewise.analyses.launches import launches
from lanewise.analyses.steps import Steps, steps
from lanewise.model.trace import Trace
from places import DATA, SHARED

TOLERANCE_US = 0.001 + 1e-6  # one nanosecond, and what the microseconds lose as doubles
# On these planted traces the GPU is never idle within a step, so profiling does not slow the step down.
GPU_BOUND = (
    "matmul_fp32_no_tensor_cores",
    "sdpa_math_backend",
    "misaligned_vocab",
    "pointwise_chain",
    "hand_written_rmsnorm",
    "needless_contiguous",
    "conv_nchw_layout",
    "nothing_wrong_train",
    "copy_on_compute_stream",
)


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "facts.json"
    facts: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {name: fact for name, fact in facts.items() if (folder / name).is_file()}


SHIPPED, ALL = _facts(DATA), _facts(SHARED / "traces")


def _device(d: DeviceTime) -> dict[str, float]:
    kinds = {f"{kind}_us": ns / 1e3 for kind, ns in d.by_kind.items()}
    return {
        "ops": d.ops,
        "sum_us": d.sum_ns / 1e3,
        "busy_us": d.busy_ns / 1e3,
        "exposed_communication_us": d.exposed_communication_ns / 1e3,
        "streams": len(d.streams),
        **kinds,
    }


def _step(trace: Trace, found: Steps, i: int) -> dict[str, Any]:
    return {
        "name": trace.name_of(int(found.event[i])),
        "wall_us": found.wall_ns[i] / 1e3,
        "time_us": found.time_ns[i] / 1e3,
        "gpu_ops": found.gpu_ops[i],
        "kernels": found.kernels[i],
        "copies": found.copies[i],
        "memsets": found.memsets[i],
        "gpu_busy_us": found.gpu_busy_ns[i] / 1e3,
    }


def _differences(got: dict[str, Any], want: dict[str, Any], where: str) -> list[str]:
    """Values that are off; a wanted null is not compared, since the facts do not say which kind of unknown it is."""
    out = []
    for key, value in want.items():
        same = got[key] == value if isinstance(value, str) else value is None or abs(got[key] - value) <= TOLERANCE_US
        if not same:
            out.append(f"{where}.{key}: wanted {value}, got {got[key]}")
    return out


def _check(path: Path, fact: dict[str, Any]) -> None:
    trace = lanewise.load(path)
    wrong: list[str] = []
    devices = {str(d.device): d for d in trace.analysis(device_times)}
    assert set(devices) == set(fact["devices"])
    for key, want in fact["devices"].items():
        wrong += _differences(_device(devices[key]), want, f"device {key}")
    found = trace.analysis(steps)
    # The facts count ProfilerStep marks only; without those there may still be steps by other marks.
    if found.marks == "ProfilerStep" or fact["steps"]:
        assert len(found) == len(fact["steps"])
        for i, want in enumerate(fact["steps"]):
            wrong += _differences(_step(trace, found, i), want, want["name"])
    links = trace.analysis(launches)
    got = {"gpu_ops": len(links.launch), "linked": int((links.launch >= 0).sum())}
    wrong += _differences(got, {key: fact[key] for key in got}, "links")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_trace(name: str) -> None:
    _check(DATA / name, SHIPPED[name])


@pytest.mark.shared
@pytest.mark.parametrize("name", sorted(ALL))
def test_shared_trace(name: str) -> None:
    _check(SHARED / "traces" / name, ALL[name])


@pytest.mark.shared
@pytest.mark.parametrize("cause", GPU_BOUND)
def test_step_time_is_the_measured_one_where_the_gpu_is_the_limit(cause: str) -> None:
    planted = SHARED / "traces" / "planted"
    measured = json.loads((planted / "truth.json").read_text("utf-8"))[cause]["bad_us"]
    report = lanewise.explain(lanewise.load(planted / cause / "bad.json.gz"))
    assert report.step.profiled_time_us == pytest.approx(measured, rel=0.04)


def test_shipped_facts_cover_all_shipped_traces() -> None:
    assert len(SHIPPED) >= 8
    assert {str(p.relative_to(DATA)) for p in DATA.rglob("*.json.gz")} == set(SHIPPED)
