"""The clock with a device and a host clock that obey: times are exact."""

from __future__ import annotations

from typing import Any

from lanewise.recording.accelerator import Accelerator
from lanewise.recording.clock import StepClock


class Event:
    def __init__(self, at_ns: int) -> None:
        self.at_ns = at_ns

    def elapsed_time(self, other: Event) -> float:
        return (other.at_ns - self.at_ns) / 1e6


class Machine(Accelerator):
    """A GPU with one queue: work is launched by the host and runs after the work before it."""

    def __init__(self, events: bool = True) -> None:
        super().__init__("cuda", None)
        self.host_ns = 0
        self.gpu_free_ns = 0
        self.synchronized_at: list[int] = []
        self._events = events

    def run(self, host_ns: int, gpu_ns: int) -> None:
        self.host_ns += host_ns
        self.gpu_free_ns = max(self.gpu_free_ns, self.host_ns) + gpu_ns

    def now(self) -> int:
        return self.host_ns

    def synchronize(self) -> None:
        self.host_ns = max(self.host_ns, self.gpu_free_ns)
        self.synchronized_at.append(self.host_ns)

    def mark(self) -> Any:
        return Event(max(self.host_ns, self.gpu_free_ns)) if self._events else None


def timed(machine: Machine, steps: list[tuple[int, int]]) -> Any:
    clock = StepClock(machine, machine.now)
    clock.begin()
    for host_ns, gpu_ns in steps:
        clock.start()
        machine.run(host_ns, gpu_ns)
        clock.stop()
    return clock.finish()


def test_a_gpu_bound_step_takes_as_long_as_the_gpu_although_the_host_runs_ahead() -> None:
    times = timed(Machine(), [(1_000, 50_000)] * 5)
    assert times.median_ns == 50_000
    assert (times.min_ns, times.max_ns) == (50_000, 51_000)  # the first waits for its launch
    assert times.source == "device events"
    assert times.steps == 5


def test_a_cpu_bound_step_takes_as_long_as_the_host() -> None:
    times = timed(Machine(), [(50_000, 1_000)] * 6)
    assert times.median_ns == 50_000
    assert times.source == "device events"


def test_the_device_is_waited_for_only_at_both_ends() -> None:
    machine = Machine()
    timed(machine, [(1_000, 50_000)] * 5)
    assert len(machine.synchronized_at) == 2


def test_without_a_device_the_host_clock_counts() -> None:
    times = timed(Machine(events=False), [(10_000, 0), (30_000, 0), (20_000, 0)])
    assert (times.median_ns, times.min_ns, times.max_ns, times.source) == (20_000, 10_000, 30_000, "host clock")


def test_work_on_other_streams_is_found_missing_and_the_mean_is_given() -> None:
    class OtherStream(Machine):
        def mark(self) -> Any:
            return Event(self.host_ns)  # the current stream is empty: an event passes at once

    times = timed(OtherStream(), [(1_000, 50_000)] * 4)
    assert times.source == "mean"
    assert times.median_ns == (1_000 + 4 * 50_000) // 4
    assert times.min_ns is None
    assert times.max_ns is None


def test_time_between_calls_belongs_to_no_step() -> None:
    machine = Machine()
    clock = StepClock(machine, machine.now)
    clock.begin()
    for _ in range(3):
        machine.run(1_000_000, 0)  # waiting for a request
        clock.start()
        machine.run(20_000, 5_000)
        clock.stop()
    times = clock.finish()
    assert times is not None
    assert times.median_ns == 25_000
    assert times.source == "device events"


def test_no_step_no_time() -> None:
    machine = Machine()
    clock = StepClock(machine, machine.now)
    clock.begin()
    assert clock.finish() is None


def test_metadata_is_in_microseconds_and_leaves_out_what_is_not_known() -> None:
    spread = timed(Machine(events=False), [(10_000, 0), (30_000, 0)])
    assert spread.metadata() == {"median": 20.0, "min": 10.0, "max": 30.0, "steps": 2, "source": "host clock", "mad": 10.0}

    class OtherStream(Machine):
        def mark(self) -> Any:
            return Event(self.host_ns)

    mean = timed(OtherStream(), [(1_000, 50_000)] * 4)
    assert set(mean.metadata()) == {"median", "steps", "source"}
