"""Run a command with the recorder in every Python process that it starts, and say afterwards what came of it.

Nothing of the command is changed: not its arguments, its streams, its working directory or its exit. The
recorder travels in two environment variables, PYTHONPATH (the folder `bootstrap` in front) and
LANEWISE_RECORD, so that it reaches a script behind `torchrun`, `accelerate launch`, a shell script or `uv
run` alike. It does not reach interpreters that ignore the environment (`python -I`, `-E`) or containers that
do not inherit it; then a message says that no process reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from lanewise.errors import UsageError
from lanewise.recording.attach import ORDERS, Orders
from lanewise.recording.plan import Plan
from lanewise.recording.texts import TEXTS, Notice
from lanewise.recording.writing import refuse_existing

__all__ = ["Outcome", "command_of", "run_recorded"]

_BOOTSTRAP = Path(__file__).with_name("bootstrap")
_PATHS = frozenset({"path", "wanted"})
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGINT")


@dataclass(frozen=True)
class Outcome:
    """How a recorded command ended.

    Attributes:
        status: exit status, or the number of the signal that ended it, negative.
        traces: the traces that were written, by rank.
        notices: what there is to say, in order.
    """

    status: int
    traces: tuple[Path, ...] = ()
    notices: tuple[Notice, ...] = field(default=())


def command_of(words: Sequence[str]) -> list[str]:
    """The command to run: a script or `-m module` gets this Python in front, anything else stays as it is.

    Raises:
        UsageError: there is no command.
    """
    if not words:
        raise UsageError("record", TEXTS.message("no-command"), TEXTS.message("no-command-next"))
    if words[0] == "-m" or (words[0].endswith(".py") and not os.access(words[0], os.X_OK)):
        return [sys.executable, *words]
    return list(words)


def run_recorded(command: Sequence[str], plan: Plan, step_on: str = "auto") -> Outcome:
    """Run a command, record it, wait for its end.

    Raises:
        UsageError: the command cannot be started, or the output exists.
    """
    refuse_existing(plan)
    with tempfile.TemporaryDirectory(prefix="lanewise-record-", ignore_cleanup_errors=True) as reports:
        orders = Orders(plan, step_on, reports)
        try:
            child = subprocess.Popen(list(command), env=_environment(os.environ, orders))
        except OSError as error:
            raise UsageError(
                command[0], TEXTS.message("not-started", why=error.strerror), TEXTS.message("not-started-next")
            ) from None
        with _forwarding_signals(child):
            status = child.wait()
        found = [_report(path) for path in sorted(Path(reports).glob("*.json"))]
    processes = sorted((report for report in found if report), key=lambda report: (report["rank"], report["pid"]))
    traces = tuple(Path(report["trace"]) for report in processes if report["trace"])
    return Outcome(status, traces, tuple(_notices(processes, step_on)))


def _environment(inherited: Mapping[str, str], orders: Orders) -> dict[str, str]:
    path = inherited.get("PYTHONPATH")
    return {
        **inherited,
        "PYTHONPATH": str(_BOOTSTRAP) if not path else f"{_BOOTSTRAP}{os.pathsep}{path}",
        ORDERS: orders.to_json(),
    }


def _report(path: Path) -> dict[str, Any] | None:
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report


@contextlib.contextmanager
def _forwarding_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to the command while it runs.

    A Ctrl-C in a terminal reaches the whole foreground group, the command too; passing it on as well would
    interrupt the writing of the trace. So SIGINT is passed on only where this process is not in the
    terminal's foreground.
    """

    def forward(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _in_foreground():
            return
        with contextlib.suppress(ProcessLookupError, OSError):
            child.send_signal(number)

    before: dict[int, Any] = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError, OSError):  # not on the main thread
                before[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _in_foreground() -> bool:
    """Whether the terminal's Ctrl-C goes to this process and its children."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _notices(processes: Sequence[dict[str, Any]], step_on: str) -> Iterator[Notice]:
    """What the reports of all processes come to. Processes that made no step are helpers, unless all are."""
    recorded = [report for report in processes if report["trace"]]
    told = recorded or [report for report in processes if report["completed"] or _died_in_window(report)]
    for report in told:
        if _died_in_window(report):
            yield Notice("killed", {"pid": str(report["pid"]), "rank": str(report["rank"])})
        yield from _told_by(report)
    if recorded:
        yield Notice("next", {"path": _shown(recorded[0]["trace"])})
        return
    if any(notice.key == "not-reached" for report in told for notice in _told_by(report)):
        yield Notice("try-whole")
    if told:
        return
    if not processes:
        yield Notice("no-torch")
    elif step_on in ("auto", "optimizer", "forward"):
        yield Notice("no-steps")
    else:
        yield Notice("no-step-function", {"function": step_on})


def _told_by(report: dict[str, Any]) -> Iterator[Notice]:
    """The notices of a process, paths as they are seen from here."""
    for notice in report["notices"]:
        slots = {name: _shown(value) if name in _PATHS else value for name, value in notice["slots"].items()}
        yield Notice(notice["key"], slots)


def _shown(path: str) -> str:
    """A path below the working directory without it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def _died_in_window(report: dict[str, Any]) -> bool:
    return report["state"] in ("warmup", "active", "whole") and not report["trace"]
