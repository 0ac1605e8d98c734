"""A trace as the viewer shows it: its page, its tiles, and whether its file has changed."""

from __future__ import annotations

import base64
import os
import threading
import zlib
from dataclasses import dataclass
from pathlib import PurePath

import msgspec

from lanewise.errors import LanewiseError
from lanewise.explaining import explain
from lanewise.loading import load
from lanewise.rendering import html
from lanewise.timeline import Tiles, timeline
from lanewise.translations import LANGUAGES

__all__ = ["Shown"]


@dataclass(frozen=True, slots=True)
class _Read:
    """One reading of the file."""

    page: bytes
    tiles: Tiles
    verdict: str


class Shown:
    """One trace in the viewer.

    Args:
        path: the file.
        lang: language that the page opens in.

    Raises:
        LoadError: the file is no trace, or cannot be read.
    """

    def __init__(self, path: str, lang: str) -> None:
        self.path, self.name, self.lang = path, PurePath(path).name, lang
        self.version = 1
        self._lock = threading.Lock()
        self._seen = self._pending = self._stamp()
        self._read = self._load()

    def _stamp(self) -> tuple[int, int]:
        """What changes when the file does."""
        try:
            found = os.stat(self.path)
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def _load(self) -> _Read:
        trace = load(self.path)
        reports = {code: explain(trace, code) for code in (self.lang, *(c for c in LANGUAGES if c != self.lang))}
        first = reports[self.lang]
        data = html.page_data(reports, timeline(trace, first, numbered=True), self.lang)
        packed = base64.b64encode(zlib.compress(msgspec.json.encode(data), 1)).decode("ascii")
        text = html.page(html.title(first), packed, self.lang, connect="'self'", mode=f"view-{self.version}")
        return _Read(text.encode("utf-8"), Tiles(trace), first.verdict.text)

    @property
    def page(self) -> bytes:
        """The page as it is now."""
        return self._read.page

    @property
    def verdict(self) -> str:
        """What bounds the step, in a sentence."""
        return self._read.verdict

    def tile(self, begin: int, end: int) -> bytes:
        """A stretch of the trace as JSON."""
        return msgspec.json.encode(self._read.tiles.tile(begin, end))

    def look(self) -> int:
        """Read the file again where it has changed and is written to no more; the number of the reading.

        A file that is gone, or cannot be read, leaves what was shown.
        """
        with self._lock:
            now = self._stamp()
            settled = now == self._pending
            self._pending = now
            if now != self._seen and now != (0, 0) and settled:
                self._seen = now
                self.version += 1
                try:
                    self._read = self._load()
                except LanewiseError:
                    self.version -= 1
            return self.version
