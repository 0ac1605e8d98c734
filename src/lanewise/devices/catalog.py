"""The known GPUs, one TOML file a vendor, and finding one by what CUDA or HIP reports.

Never a wrong card: a name that is not listed, or that several cards share and the other facts do not tell apart, or that
the other facts contradict, is None.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from .device import Device, DeviceLimits

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["devices", "find_device", "limits_for"]

_FILES = {"NVIDIA": "nvidia.toml", "AMD": "amd.toml"}
_GIB = 1 << 30

# What the driver reports of the memory is a little less than the data sheet's GiB: ECC on GDDR takes 1/16, the firmware
# some hundred MB (an L4 of 24 shows 22.0, a T4 of 16 shows 14.6).
_LEAST_MEMORY_RATIO = 0.9
_MOST_MEMORY_RATIO = 1.01

# "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "... MIG 1c.3g.20gb", "... MIG 1g.10gb+me" (MIG User Guide, Partitioning).
_MIG = re.compile(r"^(?P<card>.+?) MIG (?P<profile>(?:\d+c\.)?(?P<slices>\d)g\.(?P<gb>\d+)gb(?:\+\S+)?)$")
_MIG_COMPUTE_SLICES = 7
_MIG_MEMORY_SLICES = 8
# Slices are whole GPCs or parts of one, so that a profile can have a little more than its sevenths (3g of an H100: 60 of 132).
_MIG_SLACK = 1.1


@dataclass(frozen=True)
class _Entry:
    device: Device
    names: frozenset[str]
    names_if: frozenset[str]


def _normalized(name: str) -> str:
    return " ".join(name.split()).casefold()


@cache
def _tables() -> dict[str, dict[str, Any]]:
    folder = resources.files(__package__)
    return {vendor: tomllib.loads((folder / file).read_text("utf-8")) for vendor, file in _FILES.items()}


def _limits(table: Mapping[str, Any], capability: str) -> DeviceLimits:
    row = {**table["limits"]["common"], **table["limits"][capability]}
    return DeviceLimits(
        threads_per_warp=row["threads_per_warp"],
        max_warps=row["max_warps"],
        max_blocks=row["max_blocks"],
        registers_per_sm=row["registers_per_sm"],
        register_unit=row["register_unit"],
        schedulers=row["schedulers"],
        max_registers_per_thread=row["max_registers_per_thread"],
        max_threads_per_block=row["max_threads_per_block"],
        shared_per_sm_bytes=row["shared_kib"] * 1024,
        shared_unit_bytes=row["shared_unit"],
        shared_reserved_bytes=row["shared_reserved"],
        max_barrier_blocks=row.get("max_barrier_blocks"),
        sources=tuple(table["source"][key] for key in row["sources"]),
    )


def _device(vendor: str, table: Mapping[str, Any], row: Mapping[str, Any]) -> Device:
    boost = row.get("boost_mhz")
    return Device(
        name=row["name"],
        vendor=vendor,
        architecture=row["architecture"],
        compute_capability=row["capability"],
        sms=row["sms"],
        memory_bytes=row["gib"] * _GIB,
        memory_bandwidth=row["bandwidth"] * 1e9,
        l2_bytes=int(row["l2_mib"] * (1 << 20)),
        boost_clock=None if boost is None else boost * 1e6,
        vector_flops={dtype: rate * 1e12 for dtype, rate in row["vector"].items()},
        matrix_flops={dtype: rate * 1e12 for dtype, rate in row["matrix"].items()},
        limits=_limits(table, row["capability"]),
        sources=tuple(table["source"][key] for key in row["sources"]),
        note=row.get("note", ""),
    )


@cache
def _entries() -> tuple[_Entry, ...]:
    return tuple(
        _Entry(
            device=_device(vendor, table, row),
            names=frozenset(map(_normalized, [row["name"], *row["names"]])),
            names_if=frozenset(map(_normalized, row.get("names_if", []))),
        )
        for vendor, table in _tables().items()
        for row in table["device"]
    )


def devices() -> tuple[Device, ...]:
    """All known GPUs, in the order of the files."""
    return tuple(entry.device for entry in _entries())


def limits_for(compute_capability: str) -> DeviceLimits | None:
    """What one SM of a compute capability (``9.0``, ``gfx942``) holds; None where not known.

    For cards that are not listed: a trace's device properties have the capability (``computeMajor``, ``computeMinor``).
    """
    for table in _tables().values():
        if compute_capability in table["limits"] and compute_capability != "common":
            return _limits(table, compute_capability)
    return None


def find_device(name: str, sms: int | None = None, memory_bytes: int | None = None) -> Device | None:
    """The card that CUDA or HIP reports under this name; None where that is not certain.

    Args:
        name: as reported (``NVIDIA A100-SXM4-80GB``, ``AMD Instinct MI300X``), or a short name of the list (``H100 SXM``).
        sms: multiprocessors (compute units) as reported; they tell apart cards that share a name, and a name that they
            contradict is not believed. A MIG device is found only with them.
        memory_bytes: total memory as reported, likewise.

    Returns:
        For a MIG device the card's rates scaled by its share of SMs, bandwidth and L2 by its share of memory slices.
    """
    mig = _MIG.match(" ".join(name.split()))
    if mig is not None:
        return _mig_slice(mig, sms)
    wanted = _normalized(name)
    found = [
        entry.device
        for entry in _entries()
        if (wanted in entry.names or (wanted in entry.names_if and sms is not None))
        and _agrees(entry.device, sms, memory_bytes)
    ]
    return replace(found[0], reported_name=name) if len(found) == 1 else None


def _agrees(device: Device, sms: int | None, memory_bytes: int | None) -> bool:
    if sms is not None and sms != device.sms:
        return False
    if memory_bytes is None:
        return True
    return _LEAST_MEMORY_RATIO <= memory_bytes / device.memory_bytes <= _MOST_MEMORY_RATIO


def _mig_slice(mig: re.Match[str], sms: int | None) -> Device | None:
    """A slice of a card, from the profile's name and the number of its SMs (NVIDIA Multi-Instance GPU User Guide).

    A GPU instance has whole eighths of the memory, its cache and its bandwidth; its SMs are what the driver says.
    """
    card = find_device(mig["card"])
    if card is None or sms is None:
        return None
    most = card.sms * int(mig["slices"]) / _MIG_COMPUTE_SLICES * _MIG_SLACK
    eighth = card.memory_bytes / _GIB / _MIG_MEMORY_SLICES
    memory_slices = round(int(mig["gb"]) / eighth)
    if not 0 < sms <= min(most, card.sms) or not 1 <= memory_slices <= _MIG_MEMORY_SLICES:
        return None
    arithmetic, memory = sms / card.sms, memory_slices / _MIG_MEMORY_SLICES
    return replace(
        card,
        sms=sms,
        memory_bytes=int(card.memory_bytes * memory),
        memory_bandwidth=card.memory_bandwidth * memory,
        l2_bytes=int(card.l2_bytes * memory),
        vector_flops={dtype: rate * arithmetic for dtype, rate in card.vector_flops.items()},
        matrix_flops={dtype: rate * arithmetic for dtype, rate in card.matrix_flops.items()},
        note=f"{sms} of {card.sms} SMs and {memory_slices} of {_MIG_MEMORY_SLICES} memory slices of the card",
        partition=mig["profile"],
        reported_name=mig[0],
    )
