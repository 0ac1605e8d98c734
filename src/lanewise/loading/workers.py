"""Helper processes that decode chunks beside the reading process.

They are plain Python processes that speak pickles over pipes: unlike `multiprocessing` they
need no ``if __name__ == "__main__"`` in the caller's script, and unlike a fork they are safe beside threads.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any

from .chunks import DecodedChunk, decode_chunk
from .framing import Chunk

__all__ = ["Job", "Workers"]

# A worker finds its modules where this process does.
_CODE = "import sys; sys.path[:] = {path!r}; from lanewise.loading.workers import serve_stdin; serve_stdin()"


class Job:
    """A chunk given to a worker; `result` waits for it."""

    def __init__(self, chunk: Chunk, text: bool) -> None:
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


class Workers:
    """A few processes, each with one chunk in work and one waiting."""

    def __init__(self, n: int) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        for _ in range(n):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _CODE.format(path=sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except (OSError, ValueError):  # no interpreter to start, or no process left: this one decodes alone
                break
            self._processes.append(process)
            threading.Thread(target=self._serve, args=(process,), daemon=True).start()

    def offer(self, chunk: Chunk, text: bool) -> Job | None:
        """Give a chunk to a worker that is free soon; None when all have enough to do."""
        with self._lock:
            if self._waiting >= 2 * len(self._processes):
                return None
            self._waiting += 1
        job = Job(chunk, text)
        self._queue.put(job)
        return job

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Pass jobs to one process until there are no more."""
        assert process.stdin is not None
        assert process.stdout is not None
        while (job := self._queue.get()) is not None:
            try:
                _send(process.stdin, (job.chunk, job.text))
                job.finish(_receive(process.stdout))
            except Exception:  # noqa: BLE001  whatever ails the worker, the chunk is decoded by who waits for it
                job.finish(None)
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Stop all processes."""
        for process in self._processes:
            self._queue.put(None)
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:  # a flush into a process that is gone
                        continue


def _send(stream: IO[bytes], value: Any) -> None:
    pickle.dump(value, stream, protocol=5)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    return pickle.load(stream)


def serve_stdin() -> None:
    """Decode what comes in on standard input until it is closed."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            chunk, text = _receive(stdin)
        except (EOFError, pickle.UnpicklingError, KeyboardInterrupt):
            return
        _send(stdout, decode_chunk(chunk, text))
