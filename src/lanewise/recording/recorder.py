"""The recorder: follows a plan through the steps of a run and leaves a trace.

It is told only where steps end, by `step()`, by iterating, or by the finders of `lanewise.recording.stepping`, and moves
through the phases of its `Plan`. Outside the window a step costs one method call.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from lanewise.recording.accelerator import Accelerator, accelerator, torch_module
from lanewise.recording.capture import Capture
from lanewise.recording.clock import StepClock
from lanewise.recording.nvml import GpuMonitor
from lanewise.recording.outcome import Recording
from lanewise.recording.plan import Plan
from lanewise.recording.texts import Notice
from lanewise.recording.window import Window, rehearsal_bytes, store

__all__ = ["Recorder"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Recorder:
    """Records some steps of a run as its plan says.

    Args:
        plan: how many steps of which kind, and where the trace goes.
        over: what to iterate over; without it, iterating gives exactly the steps that the plan needs.
        source: what marks the steps, for the trace's metadata.
        announce: called with the finished `Recording`, once, after the trace is written or the run has ended.
    """

    def __init__(
        self,
        plan: Plan,
        over: Any | None = None,
        source: str = "step()",
        announce: Callable[[Recording], None] | None = None,
    ) -> None:
        self.plan = plan
        self.source = source
        self.recording = Recording()
        self.on_phase: Callable[[str], None] | None = None
        self._over = over
        self._announce = announce
        self._phase = "idle"
        self._left = 0
        self._thread = 0
        self._inside = False
        self._lock = threading.RLock()
        self._device = Accelerator("cpu", None)
        self._monitor: GpuMonitor | None = None
        self._clock: StepClock | None = None
        self._capture: Capture | None = None
        self._rehearsal: Capture | None = None
        self._window: Window | None = None
        self._pid = 0

    # What the program calls.

    @property
    def phase(self) -> str:
        """``idle``, ``skip``, ``timed``, ``warmup``, ``active``, ``whole`` or ``done``."""
        return self._phase

    @property
    def path(self) -> Path | None:
        """The trace, once it is written."""
        return self.recording.path

    def __enter__(self) -> Recorder:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        ended = kind is None or issubclass(kind, GeneratorExit)
        self.close("the end of the block" if kind is None or ended else kind.__name__)

    def __iter__(self) -> Iterator[Any]:
        items = range(self.plan.needed or 1) if self._over is None else self._over
        with self:
            for item in items:
                yield item
                # The boundary comes before the next item is fetched: waiting for data belongs to the step that needs it.
                self.step()

    def step(self) -> None:
        """One step ends here and the next begins."""
        if self._phase in ("idle", "done", "whole"):
            return
        with self._lock:
            if self._foreign_thread():
                return
            self._end_step()
            self._begin_step()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A step that is one call: what happens between calls belongs to none."""
        if self._phase == "idle":
            self.open(between=False)
        if self._phase in ("done", "whole") or self._foreign_thread() or self._inside:
            yield
            return
        with self._lock:
            self._inside = True
            self._begin_step()
        try:
            yield
        finally:
            with self._lock:
                self._inside = False
                self._end_step()

    def open(self, between: bool = True) -> None:
        """Begin to follow the steps.

        Args:
            between: whether a step begins here; a recorder of calls waits for the first call.
        """
        if self._phase != "idle":
            return
        self._pid = os.getpid()
        atexit.register(self._at_exit)
        if self.plan.whole:
            self._device = accelerator()
            self._enter("whole")
            return
        self._enter("skip")
        if between:
            self._begin_step()

    def close(self, reason: str = "the end of the run") -> Recording:
        """No step comes any more: write what was recorded, or note why there is nothing.

        Args:
            reason: what ended the run, for the trace's metadata.
        """
        with self._lock:
            if self._phase in ("idle", "done") or os.getpid() != self._pid:
                return self.recording
            if self._phase in ("active", "whole"):
                self._finish_window("" if self._phase == "whole" and reason.startswith("the end") else reason)
            else:
                self._abandon()
            return self.recording

    def restart(self) -> None:
        """Count from the beginning: the steps so far were no steps. No effect once the window is open."""
        with self._lock:
            if self._phase not in ("skip", "timed", "warmup"):
                return
            self._drop_captures()
            self.recording.completed = 0
            self.recording.times = None
            self._enter("skip")

    def _at_exit(self) -> None:
        error = getattr(sys, "last_type", None)
        self.close("the end of the program" if error is None else error.__name__)

    def discard(self) -> None:
        """Forget everything, as a forked child of the recorded process has to."""
        atexit.unregister(self._at_exit)
        self._phase = "done"

    def __call__(self, function: _Function) -> _Function:
        """Decorate: each call of the function is a step."""
        from lanewise.recording import recorded

        self.source = f"calls of {getattr(function, '__qualname__', type(function).__name__)}"
        return recorded(function, self)

    # Phases.

    def _foreign_thread(self) -> bool:
        """Whether another thread owns the profiler; torch can stop it only where it was started."""
        return self._phase in ("timed", "warmup", "active") and threading.get_ident() != self._thread

    def _begin_step(self) -> None:
        if self._phase == "timed" and self._clock is not None:
            self._clock.start()
        elif self._phase == "active" and self._capture is not None and self._window is not None:
            self._window.begin()
            self._capture.begin_step(self.recording.completed)

    def _end_step(self) -> None:
        self.recording.completed += 1
        self._left -= 1
        if self._phase == "timed" and self._clock is not None:
            self._clock.stop()
        elif self._phase == "warmup" and self._rehearsal is not None:
            self._finish_rehearsal()
        elif self._phase == "active" and self._capture is not None and self._window is not None:
            self._capture.end_step()
            self._window.end()
        if self._left == 0:
            self._advance()

    def _advance(self) -> None:
        """Leave a phase whose steps have all come."""
        if self._phase == "timed" and self._clock is not None:
            self.recording.times = self._clock.finish()
        if self._phase == "active":
            self._finish_window("")
        elif self._phase != "done":
            self._enter({"skip": "timed", "timed": "warmup", "warmup": "active"}[self._phase])

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._left = 0 if phase == "whole" else getattr(self.plan, phase)
        if self.on_phase is not None:
            self.on_phase(phase)
        if self._phase != phase:
            return
        if phase == "timed" and self._left:
            self._thread = threading.get_ident()
            self._device = accelerator()
            self._clock = StepClock(self._device)
            self._clock.begin()
        elif phase == "warmup":
            self._enter_warmup()
        elif phase in ("active", "whole"):
            self._enter_window()
        if self._left == 0 and self._phase == phase and phase != "whole":
            self._advance()

    def _enter_warmup(self) -> None:
        self._device = accelerator()
        self._monitor = GpuMonitor()
        self._thread = threading.get_ident()
        if not self._left or self._other_profiler():
            return
        with self._profiler_errors():
            if self._left >= 2:
                self._rehearsal = Capture(self.plan, self._device)
                self._rehearsal.start()
            else:
                self._capture = Capture(self.plan, self._device)
                self._capture.prepare()

    def _other_profiler(self) -> bool:
        """Whether the program profiles itself; torch would end that profile silently when ours begins."""
        if not torch_module().autograd._profiler_enabled():
            return False
        self._note("profiler-busy")
        self._finish()
        return True

    def _finish_rehearsal(self) -> None:
        """Weigh the rehearsed step, then warm up for the real window."""
        rehearsal, self._rehearsal = self._rehearsal, None
        if rehearsal is None:
            return
        with self._profiler_errors():
            step_bytes = rehearsal_bytes(rehearsal)
            self._fit(step_bytes)
            if self._phase != "done":
                self._capture = Capture(self.plan, self._device)
                self._capture.prepare()

    def _fit(self, step_bytes: int) -> None:
        """Record no more steps than the limit allows."""
        plan = self.plan
        if not plan.limit_bytes or step_bytes * plan.active <= plan.limit_bytes:
            self._note("estimate", step_bytes=step_bytes, active=plan.active, total_bytes=step_bytes * plan.active)
            return
        active = plan.limit_bytes // step_bytes
        if active == 0:
            self._note("too-large", step_bytes=step_bytes, limit_bytes=plan.limit_bytes)
            self._finish()
            return
        # The steps before the window stay as they were planned, so the recorded ones keep their numbers.
        self.plan = replace(plan, active=active)
        self._note("fewer-steps", step_bytes=step_bytes, active=active, planned=plan.active, limit_bytes=plan.limit_bytes)

    def _enter_window(self) -> None:
        self._thread = threading.get_ident()
        self._window = Window(self.recording.completed, self._device)
        if self._capture is None and self._other_profiler():
            return
        with self._profiler_errors():
            if self._capture is None:
                self._capture = Capture(self.plan, self._device)
            self._capture.start()

    def _finish_window(self, interrupted: str) -> None:
        """Stop, write, read back."""
        capture, window = self._capture, self._window
        self._capture = None
        if capture is None or window is None:
            self._finish()
            return
        if threading.get_ident() != self._thread:
            self._note("wrong-thread")
            self._finish()
            return
        window.close(self._monitor or GpuMonitor())
        with self._profiler_errors():
            capture.stop()
        if self._phase != "done":
            store(capture, window, self.plan, self.recording, self.source, interrupted)
            self._finish()

    def _abandon(self) -> None:
        """The run has ended before the window."""
        with self._profiler_errors():
            self._drop_captures()
        if self._phase == "done":
            return
        came = self.recording.completed
        plan = self.plan
        self._note("not-reached", came=came, needed=plan.needed, **plan.phases)
        fitting = plan.fitting(came)
        if fitting is not None:
            self._note("try-fewer", came=came, **fitting.phases)
        elif came == 0 and self.source == "step()":
            self._note("no-step-calls")
        self._finish()

    def _drop_captures(self) -> None:
        for capture in (self._rehearsal, self._capture):
            if capture is not None and threading.get_ident() == self._thread:
                capture.stop()
        self._rehearsal = self._capture = None

    @contextmanager
    def _profiler_errors(self) -> Iterator[None]:
        """A failure of the profiler ends the recording, never the program."""
        try:
            yield
        except RuntimeError as error:
            self._rehearsal = self._capture = None
            busy = "already enabled" in str(error) or "already running" in str(error)
            if busy:
                self._note("profiler-busy")
            else:
                self._note("profiler-failed", error=str(error).splitlines()[0] if str(error) else type(error).__name__)
            self._finish()

    def _note(self, key: str, **slots: Any) -> None:
        self.recording.notices.append(Notice(key, slots))

    def _finish(self) -> None:
        self._phase = "done"
        atexit.unregister(self._at_exit)
        if self.on_phase is not None:
            self.on_phase("done")
        if self._announce is not None:
            announce, self._announce = self._announce, None
            announce(self.recording)
