"""How fast the link between host and GPU is: from the trace's own copies, else by the generation of its bus."""

from __future__ import annotations

from .context import Context

__all__ = ["link_rate"]

# Bytes per second, one way, of a PCIe x16 slot of the generation that cards of an architecture have (data sheets): 3.0 has
# 15.75 GB/s, 4.0 31.5, 5.0 63.
_BUS = {"Volta": 15.75e9, "Turing": 15.75e9, "Ampere": 31.5e9, "Ada": 31.5e9, "Hopper": 63e9, "Blackwell": 63e9}
_BUS |= {"Blackwell Ultra": 63e9, "CDNA 2": 31.5e9, "CDNA 3": 63e9, "CDNA 4": 63e9}
_C2C = 450e9  # NVLink-C2C of Grace Hopper, one way (data sheet)
# Pinned copies of many MiB reach 53.7 to 55.5 GB/s of PCIe 5.0's 63 on an H200.
_REACHED = 0.87


def link_rate(ctx: Context, to_gpu: bool) -> tuple[float | None, bool]:
    """(bytes per second of copies from or to pinned memory, whether the trace itself shows it)."""
    measured = ctx.copies.rate(to_gpu) or ctx.copies.rate(not to_gpu)
    if measured is not None:
        return measured, True
    if ctx.device is None:
        return None, False
    bus = _C2C if ctx.device.name.startswith("GH200") else _BUS.get(ctx.device.architecture)
    return (None if bus is None else bus * _REACHED), False
