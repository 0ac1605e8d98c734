"""One capture with torch's profiler: warm up, start, mark steps, stop, export.

Built on `torch.profiler._KinetoProfile`, the documented low-level class beneath `torch.profiler.profile`: its
phases are calls instead of a schedule, so a window can open at any step, end early, and cost nothing before
it opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lanewise.recording.accelerator import Accelerator, torch_module
from lanewise.recording.plan import Plan

__all__ = ["Capture", "step_name"]


def step_name(step: int) -> str:
    """The annotation of a step, spelled as torch spells it."""
    return f"ProfilerStep#{step}"


class Capture:
    """A window of torch's profiler.

    Args:
        plan: the flags of the capture.
        device: what to record besides the CPU.
    """

    def __init__(self, plan: Plan, device: Accelerator) -> None:
        self._device = device
        self._profile = torch_module("torch.profiler")._KinetoProfile(
            activities=device.activities(),
            record_shapes=plan.shapes or plan.flops,
            profile_memory=plan.memory,
            with_stack=plan.stack,
            with_flops=plan.flops,
            with_modules=plan.modules,
        )
        self._step: Any = None
        self.prepared = False
        self.running = False

    def prepare(self) -> None:
        """Let the profiler set up its device side; nothing is kept yet."""
        self._profile.prepare_trace()
        self.prepared = True

    def start(self) -> None:
        """Record from here on."""
        if not self.prepared:
            self.prepare()
        self._profile.start_trace()
        self.running = True

    def begin_step(self, step: int) -> None:
        """Open the annotation of a step."""
        self._step = torch_module("torch.profiler").record_function(step_name(step))
        self._step.__enter__()

    def end_step(self) -> None:
        """Close the annotation of the step that is open."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def stop(self) -> None:
        """Record no further. A step that is still open ends here."""
        if self.prepared and not self.running:
            # Torch can stop only what it has started.
            self._profile.start_trace()
        self.end_step()
        if self.prepared:
            self._profile.stop_trace()
        self.prepared = self.running = False

    def export(self, path: Path) -> None:
        """Write the trace as plain JSON, as torch writes it."""
        self._profile.export_chrome_trace(str(path))

    def table(self) -> str:
        """Torch's own table of ops, the most expensive first."""
        averages = self._profile.key_averages()
        key = "self_cpu_time_total" if self._device.kind == "cpu" else "self_device_time_total"
        return str(averages.table(sort_by=key, row_limit=-1, max_name_column_width=100))
