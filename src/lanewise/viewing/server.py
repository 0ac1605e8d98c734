"""The server of the viewer. It listens on 127.0.0.1 alone and answers only to whoever has its random token.

No part of a request ever becomes a file's name: requests name a trace by its place among those given at the start.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from .listing import listing
from .shown import Shown

__all__ = ["ADDRESS", "Answer", "LocalServer", "Server"]

ADDRESS = "127.0.0.1"

_MOST_NS = 2**62


class Answer:
    """What is sent back."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "text/plain; charset=utf-8",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status, self.body, self.kind, self.headers = status, body, kind, headers or {}


class LocalServer(ABC):
    """An HTTP server for this machine: GET and HEAD only, Host checked, everything under a random token.

    Args:
        port: port to listen on; 0 takes a free one.
        origin: the one other site whose pages may read the answers, if any.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int = 0, origin: str | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self.origin = origin
        handler = type("Handler", (_Handler,), {"local": self})
        self._http = ThreadingHTTPServer((ADDRESS, port), handler)
        self._http.daemon_threads = True
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Serve in the background."""
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def answer(self, host: str, target: str) -> Answer:
        """The answer to a request: its Host header and its path with query."""
        if host not in (f"{ADDRESS}:{self.port}", f"localhost:{self.port}"):
            return Answer(403, b"wrong host\n")
        parts = urlsplit(target)
        token, _, rest = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode("utf-8"), self.token.encode("ascii")):
            return Answer(404, b"not found\n")
        return self.within(rest, parts.query)

    @abstractmethod
    def within(self, path: str, query: str) -> Answer:
        """The answer to a request that has the token; `path` is what follows it."""


class Server(LocalServer):
    """The viewer of some traces.

    Args:
        shown: the traces.
        port: port to listen on; 0 takes a free one.
    """

    def __init__(self, shown: Sequence[Shown], port: int = 0) -> None:
        super().__init__(port)
        self.shown = tuple(shown)

    def within(self, path: str, query: str) -> Answer:
        """The list of traces, and the page, the tiles and the version of each."""
        if path == "":
            return self._index()
        place, _, what = path.partition("/")
        if not place.isascii() or not place.isdigit() or len(place) > 4 or int(place) >= len(self.shown):
            return Answer(404, b"not found\n")
        trace = self.shown[int(place)]
        if what == "":
            return Answer(200, trace.page, "text/html; charset=utf-8")
        if what == "version":
            return Answer(200, str(trace.look()).encode("ascii"))
        if what == "tile":
            return _tile(trace, query)
        return Answer(404, b"not found\n")

    def _index(self) -> Answer:
        if len(self.shown) == 1:
            return Answer(302, headers={"Location": f"/{self.token}/0/"})
        text, policy = listing(self.shown, self.shown[0].lang)
        return Answer(200, text.encode("utf-8"), "text/html; charset=utf-8", {"Content-Security-Policy": policy})


def _tile(trace: Shown, query: str) -> Answer:
    asked = parse_qs(query)
    try:
        begin, end = int(asked["begin"][0]), int(asked["end"][0])
    except (KeyError, ValueError):
        return Answer(400, b"begin and end are whole numbers of ns\n")
    if not -_MOST_NS < begin <= end < _MOST_NS:
        return Answer(400, b"begin and end are out of range\n")
    return Answer(200, trace.tile(begin, end), "application/json")


class _Handler(BaseHTTPRequestHandler):
    """Passes requests on, and adds the headers that every answer has."""

    local: LocalServer
    protocol_version = "HTTP/1.1"
    server_version = "lanewise"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        self._send(self.local.answer(self.headers.get("Host", ""), self.path), body=True)

    def do_HEAD(self) -> None:
        self._send(self.local.answer(self.headers.get("Host", ""), self.path), body=False)

    def do_OPTIONS(self) -> None:
        # Browsers ask before a page of another site may read from this machine.
        answer = self.local.answer(self.headers.get("Host", ""), self.path)
        allowed = answer.status == 200 and self.local.origin is not None and self.headers.get("Origin") == self.local.origin
        more = {"Access-Control-Allow-Private-Network": "true", "Access-Control-Allow-Methods": "GET"} if allowed else {}
        self._send(Answer(204 if allowed else 403, headers=more), body=False)

    def _send(self, answer: Answer, *, body: bool) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        if self.local.origin is None:
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        else:
            self.send_header("Access-Control-Allow-Origin", self.local.origin)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: their paths hold the token."""
