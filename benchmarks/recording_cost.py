"""What recording costs: a step under the recorder and under bare torch.profiler, and an unmodified script under its eyes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_CALLS = 100_000


def environment() -> dict[str, str]:
    inherited = dict(os.environ)
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), inherited.get("PYTHONPATH")]))
    return {**inherited, "HF_HUB_OFFLINE": "1", "LANEWISE_LANG": "en"}


def workload(torch: Any, device: str) -> Any:
    """A training step that is bound by the CPU: many small kernels, where an overhead shows."""
    torch.manual_seed(0)
    layers: list[Any] = []
    for _ in range(24):
        layers += [torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(64, 256, device=device)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps_of_recorder(step: Any, active: int, folder: str) -> list[float]:
    """Times of the recorded steps by the host clock, under lanewise."""
    from lanewise.recording import record

    recorder = record(out=folder, skip=3, timed=5, warmup=2, active=active, quiet=True)
    times = []
    for _ in recorder:
        began = time.perf_counter_ns()
        step()
        if recorder.phase == "active":
            times.append((time.perf_counter_ns() - began) / 1e3)
    return times


def steps_of_torch(torch: Any, step: Any, active: int, folder: str) -> list[float]:
    """The same under bare torch.profiler."""
    schedule = torch.profiler.schedule(wait=8, warmup=2, active=active, repeat=1)
    path = os.path.join(folder, "bare.json")
    times = []
    with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda p: p.export_chrome_trace(path)) as profile:
        for number in range(10 + active):
            began = time.perf_counter_ns()
            step()
            if number >= 10:
                times.append((time.perf_counter_ns() - began) / 1e3)
            profile.step()
    return times


def call_ns(function: Callable[[], None]) -> float:
    """Time of one call, from many."""
    began = time.perf_counter_ns()
    for _ in range(_CALLS):
        function()
    return (time.perf_counter_ns() - began) / _CALLS


def overhead(torch: Any, device: str, rounds: int, active: int) -> dict[str, Any]:
    """Medians of both, alternating; and the cost of a boundary outside the window."""
    from lanewise.recording import Plan, Recorder

    step = workload(torch, device)
    for _ in range(10):
        step()
    ours: list[float] = []
    bare: list[float] = []
    plain: list[float] = []
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            first, second = (ours, bare) if number % 2 else (bare, ours)
            for times in (first, second):
                times += (
                    steps_of_recorder(step, active, folder) if times is ours else steps_of_torch(torch, step, active, folder)
                )
            ratios.append(statistics.median(ours[-active:]) / statistics.median(bare[-active:]))
            for _ in range(active):
                began = time.perf_counter_ns()
                step()
                plain.append((time.perf_counter_ns() - began) / 1e3)
        idle = Recorder(Plan(skip=10**9, out=folder))
        idle.open()
        boundary_ns = call_ns(idle.step)
        idle.close()
        done_ns = call_ns(idle.step)
    # A CPU-bound step takes up to a third longer in one session of the profiler than in the next: rounds are compared, not all
    # steps with all.
    ratio = statistics.median(ratios)
    return {
        "steps": len(ours),
        "recorder_us": statistics.median(ours),
        "bare_profiler_us": statistics.median(bare),
        "no_profiler_us": statistics.median(plain),
        "recorder_to_bare": ratio,
        "least_and_most_of_a_round": [min(ratios), max(ratios)],
        "within_3_percent": ratio <= 1.03,
        "boundary_before_window_ns": boundary_ns,
        "boundary_after_window_ns": done_ns,
    }


_SCRIPT = """
import json, statistics, sys, time
sys.path.insert(0, {root!r})
from recording_cost import workload
import torch
step = workload(torch, {device!r})
for _ in range(5):
    step()
times = []
for _ in range({steps}):
    began = time.perf_counter_ns()
    step()
    times.append((time.perf_counter_ns() - began) / 1e3)
print(json.dumps(times))
"""


def script_overhead(device: str, steps: int) -> dict[str, Any]:
    """An unmodified script alone and under `lanewise record`, whose window lies beyond the script's end: the cost of finding
    steps and counting them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "recording_cost.py").write_text(Path(__file__).read_text(encoding="utf-8"))
        script = Path(folder) / "script.py"
        script.write_text(_SCRIPT.format(root=folder, device=device, steps=steps))
        medians: dict[str, list[float]] = {"alone": [], "recorded": []}
        for _ in range(2):
            for name, front in (
                ("alone", []),
                ("recorded", ["-m", "lanewise", "record", "--skip", "100000", "--quiet", "--", sys.executable]),
            ):
                command = [sys.executable, *front, str(script)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(), check=False)
                if done.returncode != 0:
                    return {"error": done.stderr.strip().splitlines()[-1]}
                medians[name].append(statistics.median(json.loads(done.stdout.strip().splitlines()[-1])))
    alone, recorded = min(medians["alone"]), min(medians["recorded"])
    return {"alone_us": alone, "under_lanewise_record_us": recorded, "ratio": recorded / alone}
