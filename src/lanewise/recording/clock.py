"""The step's real time: steps timed without the profiler.

The device is synchronised before the first timed step and after the last, nowhere between, so that the CPU
may run ahead of the GPU as it does without a clock. Each step boundary is marked twice: on the host clock,
and by an event in the current stream, which the GPU reaches when the work before it is done. Where a device
is in use, the time between two events is the step's time, whoever is the bottleneck: a GPU behind its queue
sets the distance itself, an idle GPU passes the event as soon as the CPU gives it.

An event sees the work of its own stream only. Where a run works on other streams the events keep pace with
the CPU, and their sum falls short of the time from first to last synchronisation; then the mean of that whole
time is given instead.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lanewise.recording.accelerator import Accelerator

__all__ = ["StepClock", "StepTimes"]

# Below this share of the synchronised total the marks have missed work. The last step's tail and the two
# synchronisations belong to the total and to no interval, so a few percent are always missing on short runs.
_MARKS_COVER_RATIO = 0.9


@dataclass(frozen=True)
class StepTimes:
    """Times of steps without the profiler, in ns.

    Attributes:
        median_ns, min_ns, max_ns: over single steps; min and max are None where only the mean is known.
        mad_ns: median distance of the steps from their median, None likewise.
        steps: how many were timed.
        source: ``device events``, ``host clock``, or ``mean`` (the synchronised total divided by the steps).
    """

    median_ns: int
    min_ns: int | None
    max_ns: int | None
    steps: int
    source: str
    mad_ns: int | None = None

    def metadata(self) -> dict[str, Any]:
        """The object ``unprofiled_step_us`` of the recorder's metadata."""
        out: dict[str, Any] = {"median": self.median_ns / 1e3, "steps": self.steps, "source": self.source}
        if self.min_ns is not None and self.max_ns is not None:
            out["min"] = self.min_ns / 1e3
            out["max"] = self.max_ns / 1e3
        if self.mad_ns is not None:
            out["mad"] = self.mad_ns / 1e3
        return out


class StepClock:
    """Times steps from outside: `begin`, then `start` and `stop` around each step, then `finish`.

    Args:
        device: whose work is waited for.
        now: the host clock in ns; another one in tests.
    """

    def __init__(self, device: Accelerator, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._device = device
        self._now = now
        self._marks: list[tuple[int, Any, int, Any]] = []
        self._open: tuple[int, Any] | None = None

    def begin(self) -> None:
        """Wait for the device; the timed steps follow."""
        self._device.synchronize()

    def start(self) -> None:
        """A step begins here."""
        self._open = (self._now(), self._device.mark())

    def stop(self) -> None:
        """The step that began last ends here."""
        if self._open is not None:
            self._marks.append((*self._open, self._now(), self._device.mark()))
            self._open = None

    def finish(self) -> StepTimes | None:
        """Wait for the device and give the times, or None where no step was timed."""
        self._device.synchronize()
        if not self._marks:
            return None
        total_ns = self._now() - self._marks[0][0]
        host_ns = [end - start for start, _, end, _ in self._marks]
        device_ns = [
            round(start.elapsed_time(end) * 1e6) for _, start, _, end in self._marks if start is not None and end is not None
        ]
        steps = len(self._marks)
        if len(device_ns) < steps:
            # The device came into use during these steps, or there is none: only the host clock saw all of
            # them.
            return _spread(host_ns, "host clock") if not device_ns else _mean(total_ns, steps)
        between_ns = self._marks[-1][2] - self._marks[0][0] - sum(host_ns)
        if sum(device_ns) < _MARKS_COVER_RATIO * (total_ns - max(between_ns, 0)):
            return _mean(total_ns - max(between_ns, 0), steps)
        return _spread(device_ns, "device events")


def _spread(times_ns: list[int], source: str) -> StepTimes:
    median = statistics.median(times_ns)
    return StepTimes(
        median_ns=round(median),
        min_ns=min(times_ns),
        max_ns=max(times_ns),
        steps=len(times_ns),
        source=source,
        mad_ns=round(statistics.median(abs(t - median) for t in times_ns)),
    )


def _mean(total_ns: int, steps: int) -> StepTimes:
    return StepTimes(median_ns=round(total_ns / steps), min_ns=None, max_ns=None, steps=steps, source="mean")
