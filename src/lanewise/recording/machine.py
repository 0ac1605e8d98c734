"""Can this machine record? One check a row, each with what to do about it.

Every check is a function that returns its row and never raises; the capture itself runs in a process of its own, so that a
crash of a driver library is a row too. Works without torch and without a GPU.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lanewise.recording.nvml import GpuMonitor

__all__ = ["Check", "checks", "probe"]

_TORCH_OLDEST = (2, 4)
_PYTHON_OLDEST = (3, 10)
# A capture of a few steps with stacks takes tens of MB; less than this fills up in a day of work.
_DISK_BYTES = 2 * 2**30
_PROBE_SECONDS = 180  # the first import of torch and the first CUDA context on a cold machine


@dataclass(frozen=True)
class Check:
    """One row of `lanewise doctor`.

    Attributes:
        id: what is checked; ``check-ID`` is the key of its name.
        state: ``ok``, ``warning`` (records, but not well), ``failed`` (does not record), or ``absent`` (does not apply).
        facts: what was found, as text.
        advice: key of what to do about it, empty where nothing is to do.
        slots: for the advice.
    """

    id: str
    state: str
    facts: str = ""
    advice: str = ""
    slots: dict[str, Any] = field(default_factory=dict)


def checks(folder: Path, run_probe: Callable[[], dict[str, Any]] | None = None) -> list[Check]:
    """All rows, in the order of a recording.

    Args:
        folder: where traces would go.
        run_probe: gives what `probe` gives; another one in tests.
    """
    found = (run_probe or probe)()
    return [
        _python(),
        _torch(found),
        _kineto(found),
        _gpu(found),
        _capture(found),
        _cupti(found),
        _permission(found),
        _clocks(found),
        _triton(found),
        _compiler(found),
        _disk(folder),
    ]


def _python() -> Check:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < _PYTHON_OLDEST:
        return Check("python", "failed", found, "advice-python")
    return Check("python", "ok", found)


def _torch(found: dict[str, Any]) -> Check:
    if "torch" not in found:
        state = "failed"
        if found.get("missing"):
            return Check("torch", state, "", "advice-torch-missing")
        return Check("torch", state, str(found.get("error", "")), "advice-torch-broken")
    numbers = tuple(int(part) for part in found["torch"].split("+")[0].split(".")[:2] if part.isdigit())
    built = found.get("cuda") or found.get("hip")
    facts = f"{found['torch']}{f', built for {built}' if built else ''}"
    if numbers < _TORCH_OLDEST:
        return Check("torch", "failed", facts, "advice-torch-old")
    return Check("torch", "ok", facts)


def _kineto(found: dict[str, Any]) -> Check:
    if "kineto" not in found:
        return Check("kineto", "absent")
    facts = ", ".join(found.get("activities", []))
    return Check("kineto", "ok", facts) if found["kineto"] else Check("kineto", "failed", facts, "advice-kineto")


def _gpu(found: dict[str, Any]) -> Check:
    devices = found.get("devices", [])
    driver = GpuMonitor().driver()
    if devices:
        return Check("gpu", "ok", ", ".join(devices) + (f"; driver {driver}" if driver else ""))
    if driver:
        # There is a GPU, and torch does not see it.
        advice = "advice-gpu-unseen" if found.get("cuda") else "advice-gpu-cpu-build"
        return Check("gpu", "warning" if "torch" in found else "absent", f"driver {driver}", advice)
    return Check("gpu", "absent")


def _capture(found: dict[str, Any]) -> Check:
    if "torch" not in found:
        return Check("capture", "absent")
    if "capture" not in found:
        return Check("capture", "failed", str(found.get("error", "")), "advice-capture")
    capture = found["capture"]
    facts = f"{capture['cpu_ops']} CPU ops, {capture['launches']} launches, {capture['gpu_ops']} GPU ops"
    if capture["cpu_ops"] == 0:
        return Check("capture", "failed", facts, "advice-capture")
    if found.get("devices") and capture["gpu_ops"] == 0:
        return Check("capture", "failed", facts, found.get("cause", "cause-unknown"))
    return Check("capture", "ok", facts)


def _cupti(found: dict[str, Any]) -> Check:
    code = found.get("cupti_code")
    if not found.get("devices") or found.get("hip"):
        return Check("cupti", "absent")
    if code is None:
        return Check("cupti", "ok", "")  # linked into torch, so that it cannot be asked alone
    return Check("cupti", "ok", "free") if code == 0 else Check("cupti", "failed", f"CUPTI {code}", found["cause"])


def _permission(found: dict[str, Any]) -> Check:
    if found.get("admin_only") is None:
        return Check("permission", "absent")
    if found["admin_only"] and not found.get("root"):
        # Tracing works for users with current drivers, hardware counters do not; a failed capture has its own row.
        return Check("permission", "warning", "RmProfilingAdminOnly: 1", "cause-permission")
    return Check("permission", "ok", f"RmProfilingAdminOnly: {int(found['admin_only'])}")


def _clocks(found: dict[str, Any]) -> Check:
    if not found.get("devices") or found.get("hip"):
        return Check("clocks", "absent")
    state = GpuMonitor().state(found.get("uuid"))
    if state.get("sm_clock_mhz") is None:
        return Check("clocks", "warning", "", "advice-clocks")
    facts = f"{state['sm_clock_mhz']} MHz, {state.get('power_w') or 0:.0f} W"
    if state.get("throttled"):
        return Check("clocks", "warning", f"{facts}, {', '.join(state['throttled'])}", "advice-throttled")
    return Check("clocks", "ok", facts)


def _triton(found: dict[str, Any]) -> Check:
    if not found.get("devices"):
        return Check("triton", "absent")
    try:
        return Check("triton", "ok", version("triton"))
    except PackageNotFoundError:
        return Check("triton", "warning", "", "advice-triton")


def _compiler(found: dict[str, Any]) -> Check:
    if "torch" not in found:
        return Check("compiler", "absent")
    for name in (os.environ.get("CC"), "gcc", "cc", "clang", "cl"):
        path = shutil.which(name) if name else None
        if path:
            return Check("compiler", "ok", path)
    return Check("compiler", "warning", "", "advice-compiler")


def _disk(folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Check("disk", "failed", str(existing), "advice-disk-unwritable", {"path": str(existing)})
    free = shutil.disk_usage(existing).free
    slots = {"free_bytes": free}
    if free < _DISK_BYTES:
        return Check("disk", "warning", str(existing), "advice-disk-full", slots)
    return Check("disk", "ok", str(existing), slots=slots)


def probe() -> dict[str, Any]:
    """Record a tiny program in a process of its own and say what came of it.

    Returns:
        torch, cuda, hip, kineto, activities, devices, uuid, capture {cpu_ops, launches, gpu_ops}, cause, cupti_code,
        admin_only, root: as far as the process got; missing (torch is not installed) or error.
    """
    with tempfile.TemporaryDirectory(prefix="lanewise-doctor-") as folder:
        out = Path(folder) / "facts.json"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "lanewise.recording.machine_probe", str(out)],
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS,
            )
            error = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        except (OSError, subprocess.TimeoutExpired) as failure:
            error = str(failure)
        facts: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return facts if facts.get("finished") else {**facts, "error": facts.get("error", error)}
