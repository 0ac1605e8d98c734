"""How long a command takes and how much memory it and the processes that it starts hold at once (Linux)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Measured", "machine", "measured"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Often enough to see a peak that lasts, seldom enough to take under 1 % of a core from what is measured.
_INTERVAL_S = 0.02


@dataclass(frozen=True)
class Measured:
    """A finished command.

    Attributes:
        seconds: from its start to its end.
        cpu_seconds: time on any core, of it and of the children that it waited for.
        peak_bytes: the most memory that it and its children held at one moment. Resident pages of all processes are added
            up, so that what they share counts more than once.
        output: what it printed.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def measured(command: Sequence[str | Path]) -> Measured:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; the message is the end of what it said.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, env=_environment())
        peak = _Peak(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            said = err.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{command[0]}: exit status {process.returncode}. {said}")
        # ru_maxrss is exact, but for one process; in KiB on Linux.
        memory = max(peak.stop(), usage.ru_maxrss * 1024)
        return Measured(seconds, usage.ru_utime + usage.ru_stime, memory, out.read().decode())


def _environment() -> dict[str, str]:
    """This process's, in which Python keeps compiled modules as it usually does."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class _Peak:
    """Watches a process and its descendants from a thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL_S):
            self._peak = max(self._peak, sum(_resident(pid) for pid in _family(self._pid)))


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from _family(int(child))
    except OSError:  # it has ended meanwhile
        return


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def machine() -> str:
    """Processor, cores, memory, system: what a reader needs to compare figures."""
    info = Path("/proc/cpuinfo").read_text()
    model = next(
        (line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown processor"
    )
    gib = os.sysconf("SC_PHYS_PAGES") * _PAGE / 2**30
    system = os.uname()
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB of memory, {system.sysname} {system.machine}"
