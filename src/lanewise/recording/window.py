"""The window of a recorder: what is noted while it is open, and the files that come of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from lanewise.recording.accelerator import Accelerator
from lanewise.recording.capture import Capture, step_name
from lanewise.recording.causes import cause_of, facts_here
from lanewise.recording.health import Health, health_of
from lanewise.recording.metadata import device_state, run_metadata
from lanewise.recording.nvml import GpuMonitor
from lanewise.recording.outcome import Recording
from lanewise.recording.plan import Plan
from lanewise.recording.ranks import ranks
from lanewise.recording.texts import Notice
from lanewise.recording.writing import default_label, free_name, rewrite, suffix_of, target, temporary_beside

__all__ = ["SCHEMA", "Window", "rehearsal_bytes", "store"]

SCHEMA = "lanewise.recording/1"
# torch builds one Python object an event for its table: about a minute for this many.
_TABLE_EVENTS = 1_000_000
# Below this share of the time to the last synchronisation, the steps' own host times do not contain the GPU's work.
_HOST_COVERS_RATIO = 0.9


class Window:
    """Facts of the open window.

    Args:
        first_step: number of the first step in it.
        device: whose state and allocations are noted.
    """

    def __init__(self, first_step: int, device: Accelerator) -> None:
        self.first_step = first_step
        self.step_ns: list[int] = []
        self.device = device
        self.device_state: dict[str, Any] | None = None
        self.allocations = 0
        self._allocated_before = _allocations(device)
        self.wall_ns = 0
        self._began = 0
        self._opened = 0

    @property
    def profiled_step_ns(self) -> int | None:
        """What a step cost under the profiler: by the host clock, or, where the CPU ran ahead of the GPU, by the GPU's."""
        if not self.step_ns:
            return None
        by_host = round(statistics.median(self.step_ns))
        ran_ahead = self.device.in_use and sum(self.step_ns) < _HOST_COVERS_RATIO * self.wall_ns
        return self.wall_ns // len(self.step_ns) if ran_ahead else by_host

    @property
    def last_step(self) -> int:
        """Number of the last whole step."""
        return self.first_step + max(len(self.step_ns), 1) - 1

    def begin(self) -> None:
        """A step begins."""
        self._began = time.perf_counter_ns()
        self._opened = self._opened or self._began

    def end(self) -> None:
        """A step ends."""
        self.step_ns.append(time.perf_counter_ns() - self._began)

    def close(self, monitor: GpuMonitor) -> None:
        """Wait for the work of the window and read the GPU's state while the clocks are still those of that work."""
        self.device.synchronize()
        self.wall_ns = time.perf_counter_ns() - self._opened
        self.device_state = device_state(self.device, monitor)
        self.allocations = _allocations(self.device) - self._allocated_before


def _allocations(device: Accelerator) -> int:
    """Allocations that torch has made on the device so far: evidence of GPU work that needs no profiler."""
    if not device.in_use or device.module is None:
        return 0
    return int(device.module.memory_stats().get("allocation.all.allocated", 0))


def rehearsal_bytes(rehearsal: Capture) -> int:
    """Stop a capture of one step and weigh it as JSON; the file is thrown away."""
    rehearsal.stop()
    with tempfile.TemporaryDirectory(prefix="lanewise-") as folder:
        path = Path(folder) / "rehearsal.json"
        rehearsal.export(path)
        return path.stat().st_size


def store(capture: Capture, window: Window, plan: Plan, recording: Recording, source: str, interrupted: str) -> None:
    """Write a stopped capture with its metadata and its table, read it back, and note what there is to say.

    Args:
        capture: stopped.
        window: what was noted while it was open.
        plan: names, flags and limits.
        recording: gets the paths and the notices.
        source: what marked the steps.
        interrupted: what ended the window before its last step; empty where nothing did.
    """
    here = ranks()
    steps = len(window.step_ns)
    first, last = (None, None) if plan.whole else (window.first_step, window.last_step)
    wanted = target(plan, here.rank, here.world_size, first, last)
    path = free_name(wanted, plan.force)
    if path != wanted:
        recording.notices.append(Notice("renamed", {"wanted": str(wanted), "path": str(path)}))
    header = {**_header(window, plan, recording, source, interrupted), **run_metadata(here)}
    unfinished = None if plan.whole or steps >= plan.active else step_name(window.first_step + steps)
    try:
        with temporary_beside(path, ".json") as raw:
            capture.export(raw)
            rewrite(raw, path, header, unfinished)
    except OSError as error:
        recording.notices.append(Notice("write-failed", {"path": str(path), "error": str(error)}))
        return
    recording.path = path
    if interrupted and not plan.whole:
        slots = {"reason": interrupted, "steps": steps, "active": plan.active}
        recording.notices.append(Notice("ended-early", slots))
    health = _read_back(path, window, plan, recording)
    if health is not None:
        _note_step_time(window, recording)
        _write_table(capture, path, health, recording)


def _header(window: Window, plan: Plan, recording: Recording, source: str, interrupted: str) -> dict[str, Any]:
    """What a trace says about its recording."""
    header: dict[str, Any] = {"schema": SCHEMA, "label": plan.label or default_label()}
    if recording.times is not None:
        header["unprofiled_step_us"] = recording.times.metadata()
    return header | {
        "flags": plan.flags,
        "window": {
            "first_step": None if plan.whole else window.first_step,
            "last_step": None if plan.whole else window.last_step,
            "steps": len(window.step_ns),
            "planned": plan.phases,
            "whole": plan.whole,
            "marked_by": source,
            "interrupted": interrupted or None,
        },
        "device": window.device_state,
    }


def _read_back(path: Path, window: Window, plan: Plan, recording: Recording) -> Health | None:
    note = recording.notices.append
    try:
        health = health_of(path)
    except (OSError, EOFError) as error:
        note(Notice("damaged", {"path": str(path), "error": str(error)}))
        return None
    if not health.complete:
        note(Notice("damaged", {"path": str(path), "error": "no closing brace"}))
    note(
        Notice(
            "written",
            {
                "path": str(path),
                "file_bytes": health.file_bytes,
                "steps": health.steps,
                "cpu_ops": health.events.get("cpu_op", 0),
                "launches": health.launches,
                "gpu_ops": health.gpu_ops,
            },
        )
    )
    if health.gpu_missing:
        slots = {"path": str(path), "launches": health.launches, "cause": cause_of(facts_here())}
        note(Notice("gpu-missing", slots))
    elif health.gpu_ops == 0 and window.allocations:
        slots = {"path": str(path), "allocations": window.allocations, "cause": cause_of(facts_here())}
        note(Notice("gpu-missing-memory", slots))
    if plan.limit_bytes and health.json_bytes > plan.limit_bytes:
        slots = {"path": str(path), "json_bytes": health.json_bytes, "limit_bytes": plan.limit_bytes}
        note(Notice("over-limit", slots))
    return health


def _note_step_time(window: Window, recording: Recording) -> None:
    times = recording.times
    profiled_ns = window.profiled_step_ns
    if times is None or profiled_ns is None:
        return
    slots: dict[str, Any] = {
        "median_ns": times.median_ns,
        "steps": times.steps,
        "profiled_ns": profiled_ns,
        "factor": profiled_ns / max(times.median_ns, 1),
    }
    if times.min_ns is None:
        recording.notices.append(Notice("step-time-mean", slots))
    else:
        slots |= {"min_ns": times.min_ns, "max_ns": times.max_ns}
        recording.notices.append(Notice("step-time", slots))


def _write_table(capture: Capture, path: Path, health: Health, recording: Recording) -> None:
    table = path.with_name(path.name[: -len(suffix_of(path.name))] + ".txt")
    if health.total_events > _TABLE_EVENTS:
        slots = {"path": str(table), "events": health.total_events}
        recording.notices.append(Notice("table-left-out", slots))
        return
    try:
        text = capture.table()
    except (RuntimeError, ValueError, IndexError, KeyError, AttributeError) as error:
        recording.notices.append(Notice("table-failed", {"path": str(table), "error": str(error)}))
        return
    table.write_text(text + "\n", encoding="utf-8")
    recording.table = table
