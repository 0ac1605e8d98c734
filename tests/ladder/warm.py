"""Runs `lanewise` in forks of one process that has imported torch.

Each run is a process of its own, as if it had just been started, without the two seconds that importing torch takes.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["WarmPython"]


class WarmPython:
    """A process that waits for commands.

    Args:
        env: its environment, which each command inherits.
    """

    def __init__(self, env: dict[str, str]) -> None:
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def lanewise(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `lanewise WORDS` in a folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        out, err = folder / ".stdout", folder / ".stderr"
        order = {"words": ["lanewise", *words], "folder": str(folder), "out": str(out), "err": str(err)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        said = [path.read_text() for path in (out, err)]
        out.unlink()
        err.unlink()
        return subprocess.CompletedProcess(order["words"], status, *said)

    def close(self) -> None:
        """End the process, also where a command hangs."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _serve() -> None:
    """Answer each line of standard input with the exit status of what it asks for."""
    import torch  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order: dict[str, Any]) -> None:
    """Run the command in this process, and end it as the command ends."""
    os.chdir(order["folder"])
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, order["out"], _NEW), (2, order["err"], _NEW)):
        os.dup2(os.open(path, flags, 0o600), number)
    sys.argv = order["words"]
    runpy.run_module("lanewise", run_name="__main__", alter_sys=True)
    sys.exit(0)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

if __name__ == "__main__":
    _serve()
