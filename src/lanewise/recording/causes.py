"""Why no GPU event arrived although kernels were launched: the usual causes, checked one by one.

Each check is a pure function of the facts, so that every cause can be tested without the broken machine that
has it. The subscription codes are those of `CUptiResult` in CUPTI's headers.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lanewise.recording.accelerator import torch_module

__all__ = ["Facts", "cause_of", "facts_here", "subscription_code"]

_INJECTION_VARIABLES = (
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
)
_INJECTED_LIBRARIES = re.compile(
    r"libToolsInjection|libcuda-injection|libnsys|libInterceptorInjection|libnvperf_host_injection|libdlprof|librocprof"
)
_DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
# CUptiResult, as cupti_result.h numbers them.
_MULTIPLE_SUBSCRIBERS = 39
_NO_PRIVILEGES = 35
_VIRTUALISED = {16, 37, 38}  # unsupported device: older, virtual GPU, debugger or confidential mode


@dataclass(frozen=True)
class Facts:
    """What was found on this machine and in this process.

    Attributes:
        activities: names of the activities that torch can record (``CPU``, ``CUDA`` ...).
        environment: this process's variables.
        libraries: paths of the libraries that are mapped into this process.
        admin_only: whether the driver reserves profiling for the administrator; None where unknown.
        root: whether this process may pass as the administrator.
        code: what CUPTI answered to a second subscriber; None where it was not asked.
    """

    activities: frozenset[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    admin_only: bool | None = None
    root: bool = False
    code: int | None = None


def cause_of(facts: Facts) -> str:
    """The most likely cause: the key of a text.

    ``cause-torch-without-cupti``, ``cause-other-profiler``, ``cause-permission``, ``cause-device``, or
    ``cause-unknown``.
    """
    if not facts.activities & {"CUDA", "XPU"}:
        return "cause-torch-without-cupti"
    if _other_profiler(facts):
        return "cause-other-profiler"
    if facts.code == _NO_PRIVILEGES or (facts.admin_only and not facts.root):
        return "cause-permission"
    return "cause-device" if facts.code in _VIRTUALISED else "cause-unknown"


def _other_profiler(facts: Facts) -> bool:
    return (
        facts.code == _MULTIPLE_SUBSCRIBERS
        or any(facts.environment.get(name) for name in _INJECTION_VARIABLES)
        or any(_INJECTED_LIBRARIES.search(path) for path in facts.libraries)
    )


def facts_here(code: int | None = None) -> Facts:
    """The facts of this process. torch must have been imported."""
    torch = torch_module()
    return Facts(
        activities=frozenset(activity.name for activity in torch.profiler.supported_activities()),
        environment=dict(os.environ),
        libraries=_mapped_libraries(),
        admin_only=_admin_only(),
        root=getattr(os, "geteuid", lambda: -1)() == 0,
        code=code,
    )


def _mapped_libraries() -> tuple[str, ...]:
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(sorted({fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6 and ".so" in fields[5]}))


def _admin_only() -> bool | None:
    """The driver's switch `RmProfilingAdminOnly`, as the loaded module reports it."""
    try:
        text = _DRIVER_PARAMETERS.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", text, re.MULTILINE)
    return None if found is None else found.group(1) == "1"


def subscription_code(library: str) -> int | None:
    """What CUPTI answers to a subscriber; run it in a process of its own, before torch takes the only place.

    Args:
        library: path of libcupti.

    Returns:
        0 if it was granted, the `CUptiResult` if not, None if the library cannot be loaded.
    """
    try:
        cupti = ctypes.CDLL(library)
    except OSError:
        return None
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
    subscriber = ctypes.c_void_p()
    code = int(cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None))
    if code == 0:
        cupti.cuptiUnsubscribe(subscriber)
    return code
