"""Clocks, power and limits of NVIDIA GPUs through the driver's own library, with no package installed.

`libnvidia-ml` comes with every driver. What a driver, a container or a virtual GPU does not tell is None.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["GpuMonitor"]

_SUCCESS = 0
_CLOCKS = {"sm_clock_mhz": 1, "memory_clock_mhz": 2}
# Bits of the throttle (clocks event) reasons, from nvml.h. Idle and the settings of the user are no
# throttling.
_THROTTLE = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}


def _library_names() -> tuple[str, ...]:
    return ("nvml.dll",) if sys.platform == "win32" else ("libnvidia-ml.so.1", "libnvidia-ml.so")


class GpuMonitor:
    """Reads one GPU's state; every reading takes well under a millisecond."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._library: Any = None
        for name in _library_names():
            try:
                library = load(name)
            except OSError:
                continue
            if library.nvmlInit_v2() == _SUCCESS:
                self._library = library
            break

    @property
    def available(self) -> bool:
        """Whether the driver's library is there and answers."""
        return self._library is not None

    def driver(self) -> str | None:
        """Version of the driver."""
        if self._library is None:
            return None
        text = ctypes.create_string_buffer(96)
        if self._library.nvmlSystemGetDriverVersion(text, 96) != _SUCCESS:
            return None
        return text.value.decode(errors="replace")

    def state(self, uuid: str | None, index: int = 0) -> dict[str, Any]:
        """Clocks, power state, power, limit, temperature and throttling of one GPU; empty where unreadable.

        Args:
            uuid: as torch gives it, without ``GPU-``; None falls back on the index.
            index: position among all GPUs of the machine.
        """
        handle = self._handle(uuid, index)
        if handle is None:
            return {}
        out: dict[str, Any] = {}
        for name, which in _CLOCKS.items():
            out[name] = self._number("nvmlDeviceGetClockInfo", handle, which)
            out[f"max_{name}"] = self._number("nvmlDeviceGetMaxClockInfo", handle, which)
        out["performance_state"] = self._number("nvmlDeviceGetPerformanceState", handle)
        out["temperature_c"] = self._number("nvmlDeviceGetTemperature", handle, 0)
        for name, call in (
            ("power_w", "nvmlDeviceGetPowerUsage"),
            ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit"),
        ):
            milliwatts = self._number(call, handle)
            out[name] = None if milliwatts is None else milliwatts / 1e3
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, kind=ctypes.c_ulonglong)
        out["throttled"] = None if reasons is None else [text for bit, text in _THROTTLE.items() if reasons & bit]
        return out

    def _handle(self, uuid: str | None, index: int) -> Any:
        if self._library is None:
            return None
        handle = ctypes.c_void_p()
        if uuid is not None:
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            found = self._library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        else:
            found = self._library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
        return handle if found == _SUCCESS else None

    def _number(self, call: str, handle: Any, *arguments: int, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        function = getattr(self._library, call, None)
        if function is None or function(handle, *arguments, ctypes.byref(value)) != _SUCCESS:
            return None
        return int(value.value)
