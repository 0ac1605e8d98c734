"""What GPUs can do at most: by their data sheets, and as measured on this machine.

`find_device` finds a card by the name that CUDA or HIP reports, `ceilings_for` says which rates to compare with and whether
they were measured, `occupancy` how many warps of a kernel an SM can keep. The data are in ``nvidia.toml`` and ``amd.toml``,
each value with its source; `docs/devices.md` shows them.
"""

from __future__ import annotations

from .catalog import devices, find_device, limits_for
from .ceilings import Ceiling, Ceilings, Measurement, ceilings_for, load_measurements, save_measurement
from .device import Device, DeviceLimits
from .occupancy import Occupancy, occupancy

__all__ = [
    "Ceiling",
    "Ceilings",
    "Device",
    "DeviceLimits",
    "Measurement",
    "Occupancy",
    "ceilings_for",
    "devices",
    "find_device",
    "limits_for",
    "load_measurements",
    "occupancy",
    "save_measurement",
]
