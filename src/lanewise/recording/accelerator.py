"""The accelerator of this process as torch has it: CUDA, ROCm (which torch also calls cuda), XPU, or none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Accelerator", "accelerator", "torch_module"]


def torch_module(name: str = "torch") -> Any:
    """torch or a part of it, imported now. Untyped, so that type checks do not depend on an installed torch."""
    return import_module(name)


class Accelerator:
    """One kind of device: its torch module, its profiler activities, and how to wait for it.

    Args:
        kind: ``cuda``, ``rocm``, ``xpu`` or ``cpu``.
        module: `torch.cuda`, `torch.xpu`, or None on a CPU.
    """

    def __init__(self, kind: str, module: Any | None) -> None:
        self.kind = kind
        self.module = module

    @property
    def in_use(self) -> bool:
        """Whether this process has already used the device; asking does not start it."""
        return self.module is not None and bool(self.module.is_initialized())

    def synchronize(self) -> None:
        """Wait for all work on the current device."""
        if self.in_use and self.module is not None:
            self.module.synchronize()

    def mark(self) -> Any | None:
        """An event at this point of the current stream, or None on a CPU."""
        if not self.in_use or self.module is None:
            return None
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def activities(self) -> list[Any]:
        """What torch's profiler is asked to record here."""
        activity = torch_module("torch.profiler").ProfilerActivity
        wanted = [activity.CPU]
        if self.kind in ("cuda", "rocm"):
            wanted.append(activity.CUDA)
        elif self.kind == "xpu":
            wanted.append(activity.XPU)
        return wanted


def accelerator() -> Accelerator:
    """The device that torch would use in this process."""
    torch = torch_module()
    if torch.cuda.is_available():
        return Accelerator("rocm" if torch.version.hip else "cuda", torch.cuda)
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        return Accelerator("xpu", xpu)
    return Accelerator("cpu", None)
