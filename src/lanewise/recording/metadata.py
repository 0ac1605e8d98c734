"""What a later reader wants to know about a run: versions, device and its clocks, command, code, seed.

Everything is read after the window has closed, except the GPU's state, which is read at its end, while the
clocks are still those of the work. What cannot be read is None.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lanewise.recording.accelerator import Accelerator, torch_module
from lanewise.recording.nvml import GpuMonitor
from lanewise.recording.ranks import Ranks
from lanewise.version import __version__

__all__ = ["code_version", "command_line", "device_state", "environment", "run_metadata", "versions"]

# Variables that change what a run does or how fast; values of others stay private.
_ENVIRONMENT = re.compile(
    r"(CUDA|CUBLAS|CUDNN|NCCL|RCCL|HIP|HSA|ROCR|TORCH|PYTORCH|TORCHINDUCTOR|TORCHDYNAMO|TRITON|OMP|MKL|KINETO|XPU|SYCL|ZE)_"
    r"[A-Z0-9_]+|NVIDIA_TF32_OVERRIDE|TEARDOWN_CUPTI|DISABLE_CUPTI_LAZY_REINIT"
)
_SECRET = re.compile(r"token|secret|password|passwd|api[-_]?key|credential|auth", re.IGNORECASE)
_GIT_SECONDS = 5


def run_metadata(ranks: Ranks) -> dict[str, Any]:
    """Facts of this process and machine that hold for the whole run."""
    return {
        "versions": versions(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "pid": os.getpid(),
        "rank": ranks.rank,
        "local_rank": ranks.local_rank,
        "world_size": ranks.world_size,
        "command": command_line(),
        "git": code_version(_script_folder()),
        "seed": _seed(),
        "settings": _settings(),
        "environment": environment(),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def versions() -> dict[str, str | None]:
    """Versions of Python, torch and what torch stands on."""
    torch = torch_module()

    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {
        "lanewise": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": None if cudnn is None else str(cudnn),
        "triton": _module_version("triton"),
        "nccl": _nccl_version(),
    }


def _module_version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _nccl_version() -> str | None:
    torch = torch_module()
    if not torch.cuda.is_available() or not torch.distributed.is_available():
        return None
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except (AttributeError, RuntimeError, TypeError):
        return None


def _seed() -> int:
    torch = torch_module()
    return int(torch.initial_seed())


def _settings() -> dict[str, Any]:
    """Switches of torch that change which kernels run."""
    torch = torch_module()
    return {
        "tf32_matmul": bool(torch.backends.cuda.matmul.allow_tf32),
        "tf32_cudnn": bool(torch.backends.cudnn.allow_tf32),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "threads": torch.get_num_threads(),
    }


def environment() -> dict[str, str]:
    """The environment variables that change what torch and the device libraries do."""
    return {
        name: value for name, value in sorted(os.environ.items()) if _ENVIRONMENT.fullmatch(name) and not _SECRET.search(name)
    }


def command_line() -> list[str]:
    """How this process was started, with values of options that look like secrets left out."""
    out: list[str] = []
    hide = False
    for word in [*sys.orig_argv]:
        if hide and not word.startswith("-"):
            out.append("***")
            hide = False
            continue
        name, equals, _ = word.partition("=")
        hidden = word.startswith("-") and _SECRET.search(name) is not None
        out.append(f"{name}=***" if hidden and equals else word)
        hide = hidden and not equals
    return out


def _script_folder() -> Path:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(main).resolve().parent if main else Path.cwd()


def code_version(folder: Path) -> dict[str, Any] | None:
    """Commit, branch and dirtiness of the git checkout around a folder, or None outside one.

    `dirty` says whether tracked files differ from the commit; untracked files are not looked at.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "branch": _git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": None if changes is None else bool(changes),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def device_state(device: Accelerator, monitor: GpuMonitor) -> dict[str, Any] | None:
    """Name, driver, clocks and power of the current device, or None on a CPU."""
    if device.module is None or not device.in_use:
        return None
    index = int(device.module.current_device())
    properties = device.module.get_device_properties(index)
    out: dict[str, Any] = {
        "kind": device.kind,
        "index": index,
        "name": getattr(properties, "name", None),
        "total_memory_bytes": getattr(properties, "total_memory", None),
        "multiprocessors": getattr(properties, "multi_processor_count", None),
        "driver": None,
    }
    if device.kind == "cuda":
        uuid = getattr(properties, "uuid", None)
        out["driver"] = monitor.driver()
        out |= monitor.state(None if uuid is None else str(uuid), index)
    return out
