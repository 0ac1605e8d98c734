"""Helper processes that decode chunks beside the reading process.

They are plain Python processes that speak pickles over pipes: unlike `multiprocessing` they
need no ``if __name__ == "__main__"`` in the caller's script, and unlike a fork they are safe beside threads.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

from .chunks import DecodedChunk, decode_chunk
from .framing import AnyChunk

__all__ = ["Job", "Workers"]

# A worker finds its modules where this process does.
_CODE = "import sys; sys.path[:] = {path!r}; from lanewise.loading.workers import serve_stdin; serve_stdin()"


# A worker has one chunk in work and one waiting.
_JOBS = 2
_PIPE_BYTES = 1 << 20


class Job:
    """A chunk given to a worker; `result` waits for it."""

    def __init__(self, chunk: AnyChunk, text: bool) -> None:
        self.chunk = chunk
        self.text = text
        self._done = threading.Event()
        self._result: DecodedChunk | None = None

    def finish(self, result: DecodedChunk | None) -> None:
        """Hand in the result; None when the worker died."""
        self._result = result
        self._done.set()

    def result(self) -> DecodedChunk:
        """The decoded chunk; decoded here when the worker died."""
        self._done.wait()
        return decode_chunk(self.chunk, self.text) if self._result is None else self._result


class _Worker:
    """One process; what it was given it gives back in the same order."""

    def __init__(self, descriptor: int | None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=() if descriptor is None else (descriptor,),
            # NumPy's library for linear algebra, which nothing here uses, would start threads that spin.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        _widen(self._stdout)
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._open: deque[Job] = deque()
        self._alive = True
        self._lock = threading.Lock()
        for target in (self._send_all, self._receive_all):
            threading.Thread(target=target, daemon=True).start()

    def offer(self, chunk: AnyChunk, text: bool) -> Job | None:
        """A job for a chunk; None when there is enough to do."""
        with self._lock:
            if not self._alive or len(self._open) >= _JOBS:
                return None
            job = Job(chunk, text)
            self._open.append(job)
        self._queue.put(job)
        return job

    def _send_all(self) -> None:
        try:
            while (job := self._queue.get()) is not None:
                _send(self._stdin, (job.chunk, job.text))
        except Exception:  # noqa: BLE001  whatever ails the worker, its chunks are decoded by who waits for them
            self._give_up()

    def _receive_all(self) -> None:
        try:
            while True:
                result = _receive(self._stdout)
                with self._lock:
                    job = self._open.popleft()
                job.finish(result)
        except Exception:  # noqa: BLE001  the same
            self._give_up()

    def _give_up(self) -> None:
        with self._lock:
            self._alive = False
            jobs = list(self._open)
            self._open.clear()
        for job in jobs:
            job.finish(None)

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._queue.put(None)
        self.process.kill()

    def close(self) -> None:
        """Wait for its end."""
        self.process.wait()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):  # a flush into a process that is gone
                pipe.close()


class Workers:
    """A few processes.

    Args:
        n: how many.
        descriptor: of the file that chunks are in, if they are in one.
    """

    def __init__(self, n: int, descriptor: int | None = None) -> None:
        self._workers: list[_Worker] = []
        with suppress(OSError, ValueError):  # no interpreter to start, or no process left: this one decodes alone
            for _ in range(n):
                self._workers.append(_Worker(descriptor))

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The processes."""
        return [w.process for w in self._workers]

    def offer(self, chunk: AnyChunk, text: bool) -> Job | None:
        """Give a chunk to a worker that is free soon; None when all have enough to do."""
        for worker in self._workers:
            job = worker.offer(chunk, text)
            if job is not None:
                return job
        return None

    def close(self) -> None:
        """Stop all processes."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.close()


def _widen(pipe: IO[bytes]) -> None:
    """Let a pipe hold the result of a chunk, so that a worker goes on before anybody has taken it."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):  # another system, or more than the user may have
        return


def _send(stream: IO[bytes], value: Any) -> None:
    pickle.dump(value, stream, protocol=5)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    return pickle.load(stream)


def serve_stdin() -> None:
    """Decode what comes in on standard input until it is closed."""
    gc.disable()  # records refer to nothing that refers to them, and looking for such takes a tenth of the time
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            chunk, text = _receive(stdin)
        except (EOFError, pickle.UnpicklingError, KeyboardInterrupt):
            return
        _send(stdout, decode_chunk(chunk, text))
