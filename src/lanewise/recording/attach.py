"""The recorder inside a process of a recorded command: found steps, signals, exit, and what it reports back.

The launcher passes its orders in the variable `LANEWISE_RECORD` (JSON: the plan, `step_on`, the folder for
reports). Each process that imports torch leaves a small report file there, rewritten whenever its phase
changes, so that the launcher can tell what happened even to a process that was killed. Nothing is written to
the program's own streams.

A child that is forked (a data-loader worker) inherits this state and drops it. One that is spawned starts
here anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lanewise.recording.outcome import Recording
from lanewise.recording.plan import Plan
from lanewise.recording.ranks import ranks
from lanewise.recording.recorder import Recorder
from lanewise.recording.stepping import follow_functions, follow_modules, follow_optimizers, follow_steps

__all__ = ["ORDERS", "Orders", "attach"]

ORDERS = "LANEWISE_RECORD"


@dataclass(frozen=True)
class Orders:
    """What the launcher asks of each process.

    Attributes:
        plan: what to record.
        step_on: ``auto``, ``optimizer``, ``forward``, or the name of a function.
        reports: folder for the report files.
    """

    plan: Plan
    step_on: str
    reports: str

    def to_json(self) -> str:
        """One line for the environment."""
        return json.dumps({"plan": self.plan.to_json(), "step_on": self.step_on, "reports": self.reports})

    @classmethod
    def from_json(cls, text: str) -> Orders:
        """What `to_json` wrote."""
        values = json.loads(text)
        return cls(Plan.from_json(values["plan"]), values["step_on"], values["reports"])


def attach() -> None:
    """Start recording in this process, if it is one that shall be recorded. torch has just been imported."""
    text = os.environ.get(ORDERS)
    if not text:
        return
    _Attachment(Orders.from_json(text)).begin()


class _Attachment:
    """The recorder of this process and what surrounds it."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.recorder = Recorder(orders.plan, source="found", announce=self._finished)
        self._detach: Callable[[], None] = lambda: None
        self._handler: Any = None

    def begin(self) -> None:
        """Follow the steps, or the whole run."""
        if self.orders.plan.ranks is not None and ranks().rank not in self.orders.plan.ranks:
            self._report("rank-off")
            return
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self.recorder.on_phase = self._phase_changed
        self._detach = self._follow()
        self.recorder.open()
        self._report("attached")

    def _follow(self) -> Callable[[], None]:
        step_on = self.orders.step_on
        if self.orders.plan.whole:
            self.recorder.source = "nothing: the whole run"
            return lambda: None
        if step_on == "auto":
            return follow_steps(self.recorder)
        if step_on == "optimizer":
            return follow_optimizers(self.recorder)
        if step_on == "forward":
            return follow_modules(self.recorder)
        return follow_functions(self.recorder, step_on)

    def _phase_changed(self, phase: str) -> None:
        if phase in ("warmup", "whole"):
            self._take_terminate()
        if phase == "done":
            self._detach()
            self._give_back_terminate()
        else:
            self._report(phase)

    def _finished(self, recording: Recording) -> None:
        self._report("done", recording)

    def _report(self, state: str, recording: Recording | None = None) -> None:
        """Tell the launcher; a file that cannot be written only loses the message."""
        here = ranks()
        recording = recording or self.recorder.recording
        text = json.dumps(
            {
                "pid": os.getpid(),
                "rank": here.rank,
                "world_size": here.world_size,
                "state": state,
                "marked_by": self.recorder.source,
                "completed": recording.completed,
                "trace": None if recording.path is None else str(recording.path.resolve()),
                "table": None if recording.table is None else str(recording.table.resolve()),
                "program": sys.argv[:1],
                "notices": [asdict(notice) for notice in recording.notices],
            }
        )
        path = Path(self.orders.reports) / f"{os.getpid()}.json"
        with contextlib.suppress(OSError):
            part = path.with_suffix(".part")
            part.write_text(text, encoding="utf-8")
            os.replace(part, path)

    def _forked(self) -> None:
        self.recorder.discard()
        self._detach()
        self._give_back_terminate()

    # SIGTERM ends a process without running what atexit has; while the window is open it is taken, to write
    # the trace first. Python's own SIGINT raises KeyboardInterrupt, and the trace is written at exit.

    def _take_terminate(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self._handler is None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handler = self._terminated
            signal.signal(signal.SIGTERM, self._handler)

    def _give_back_terminate(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and self._handler is not None and signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._handler = None

    def _terminated(self, number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.recorder.close("SIGTERM")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), number)
