"""Hands a trace to ui.perfetto.dev in the user's browser, by that page's own rules.

It opens a trace from an address given to it, if that is ``http://127.0.0.1:9001`` (its policy allows no other local port) and
the answer lets its origin read it (CORS). The trace goes from this machine into the browser and nowhere else.
"""

from __future__ import annotations

import threading
from urllib.parse import quote

from .server import Answer, LocalServer

__all__ = ["ORIGIN", "PORT", "PerfettoServer"]

ORIGIN = "https://ui.perfetto.dev"
PORT = 9001  # the only one from which that page may load, by its own policy


class PerfettoServer(LocalServer):
    """Serves one trace to ui.perfetto.dev.

    Args:
        data: the trace as it is handed on.
        name: its name, as the page shows it.
        port: the port; another than `PORT` only for tests, since the page accepts no other.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, data: bytes, name: str, port: int = PORT) -> None:
        super().__init__(port, origin=ORIGIN)
        self._data, self._path = data, quote(name, safe="")
        self.fetched = threading.Event()

    @property
    def link(self) -> str:
        """The address to open in a browser."""
        return f"{ORIGIN}/#!/?url={quote(self.url + self._path, safe=':/')}"

    def within(self, path: str, query: str) -> Answer:
        """The trace, and nothing else."""
        if path != self._path:
            return Answer(404, b"not found\n")
        self.fetched.set()
        return Answer(200, self._data, "application/octet-stream")
