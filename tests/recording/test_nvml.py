"""The GPU's state, read through a driver library that is made up."""

from __future__ import annotations

import ctypes
from typing import Any

from lanewise.recording.nvml import GpuMonitor


class Driver:
    """Answers as libnvidia-ml does: 0 and a value behind a pointer."""

    def __init__(self, **missing: bool) -> None:
        self.missing = missing
        self.asked: list[Any] = []

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, _length: int) -> int:
        text.value = b"580.1"
        return 0

    def nvmlDeviceGetHandleByUUID(self, name: bytes, _handle: Any) -> int:
        self.asked.append(name)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, _handle: Any) -> int:
        self.asked.append(index.value)
        return 0

    def nvmlDeviceGetClockInfo(self, _handle: Any, which: int, value: Any) -> int:
        value._obj.value = {1: 1980, 2: 3201}[which]
        return 0

    def nvmlDeviceGetMaxClockInfo(self, _handle: Any, which: int, value: Any) -> int:
        value._obj.value = {1: 1980, 2: 3201}[which]
        return 0

    def nvmlDeviceGetPerformanceState(self, _handle: Any, value: Any) -> int:
        value._obj.value = 0
        return 0

    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: int, value: Any) -> int:
        value._obj.value = 41
        return 0

    def nvmlDeviceGetPowerUsage(self, _handle: Any, value: Any) -> int:
        value._obj.value = 512_500
        return 3 if self.missing.get("power") else 0

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle: Any, value: Any) -> int:
        value._obj.value = 700_000
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: Any, value: Any) -> int:
        assert isinstance(value._obj, ctypes.c_ulonglong)
        value._obj.value = 0x4 | 0x40 | 0x1
        return 0


def test_state_in_units_that_people_use() -> None:
    driver = Driver()
    monitor = GpuMonitor(load=lambda _name: driver)
    assert monitor.driver() == "580.1"
    assert monitor.state("abc-1") == {
        "sm_clock_mhz": 1980,
        "max_sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "max_memory_clock_mhz": 3201,
        "performance_state": 0,
        "temperature_c": 41,
        "power_w": 512.5,
        "power_limit_w": 700.0,
        "throttled": ["power cap", "thermal (hardware)"],
    }
    assert driver.asked == [b"GPU-abc-1"]


def test_what_the_driver_does_not_tell_is_none() -> None:
    state = GpuMonitor(load=lambda _name: Driver(power=True)).state(None, 3)
    assert state["power_w"] is None
    assert state["power_limit_w"] == 700.0


def test_without_a_driver_nothing_is_known() -> None:
    def load(name: str) -> Any:
        raise OSError(name)

    monitor = GpuMonitor(load=load)
    assert not monitor.available
    assert monitor.driver() is None
    assert monitor.state("abc") == {}
