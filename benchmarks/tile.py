#!/usr/bin/env python3
"""Make a long trace out of a real one: the same events again and again, one after the other in time.

    python benchmarks/tile.py IN.json[.gz] OUT.json[.gz] --times 40

Each copy is moved later by the span of the original and has its own correlation, External and flow ids, so the result is one
valid trace with N times the events. Only the original is held in memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TextIO, cast

IDS = ("correlation", "External id")
# Stand in an event's text for the values that differ from copy to copy; no exporter writes such strings.
_TIME, _ID = "\x00time\x00", "\x00id\x00"

Event = dict[str, Any]


def tile(source: Path, out: Path, times: int | Callable[[int], int]) -> int:
    """Write the tiled trace and return its number of timed events.

    Args:
        source: a trace, plain or gzip.
        out: the file to write, gzip when its name ends in ``.gz``.
        times: how often, or a function that tells it from the size of one copy in bytes.
    """
    with _opened(source, "rt") as stream:
        document = json.load(stream)
    events = document.pop("traceEvents")
    timed = [e for e in events if isinstance(e.get("ts"), int | float)]
    span = max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed) + 1000
    ids = max((v for e in events for v in _ids(e)), default=0) + 1
    texts = [_Text(e) for e in events]
    n = times if isinstance(times, int) else times(sum(len(t.first()) + 2 for t in texts))
    with _opened(out, "wt") as stream:
        stream.write("{\n" + json.dumps(document, indent=2)[2:-2] + ',\n  "traceEvents": [\n')
        stream.write(",\n".join(t.first() for t in texts))
        again = [t for t in texts if not t.metadata]
        for i in range(1, n):
            stream.write(",\n" + ",\n".join(t.moved(i * span, i * ids) for t in again))
        stream.write("\n  ]\n}\n")
    return n * sum(e.get("ph") == "X" for e in timed)


class _Text:
    """An event's JSON text with holes for its time and its ids."""

    def __init__(self, event: Event) -> None:
        self.metadata = event.get("ph") == "M"
        self.time = event.get("ts")
        marked = dict(event)
        if isinstance(self.time, int | float):
            marked["ts"] = _TIME
        if isinstance(event.get("id"), int):
            marked["id"] = _ID
        args = event.get("args")
        if isinstance(args, dict):
            marked["args"] = {k: _ID if k in IDS and isinstance(v, int) else v for k, v in args.items()}
        text = json.dumps(marked, indent=2).replace("%", "%%")
        self.form = text.replace(json.dumps(_TIME), "%(time)s")
        self.ids: dict[str, int] = {}
        for i, value in enumerate(_ids(event)):
            self.form = self.form.replace(json.dumps(_ID), f"%(id{i})d", 1)
            self.ids[f"id{i}"] = value

    def first(self) -> str:
        """The event as it was."""
        return self.moved(0, 0)

    def moved(self, later: float, ids: int) -> str:
        """The event moved in time, with other ids."""
        values: dict[str, Any] = {k: v + ids for k, v in self.ids.items()}
        if isinstance(self.time, int | float):
            values["time"] = json.dumps(round(self.time + later, 3))
        return self.form % values


def _ids(event: Event) -> Iterator[int]:
    """Ids in the order in which they stand in the event's text."""
    for key, value in event.items():
        if key == "id" and isinstance(value, int):
            yield value
        elif key == "args" and isinstance(value, dict):
            yield from (v for k, v in value.items() if k in IDS and isinstance(v, int))


def _opened(path: Path, mode: Literal["rt", "wt"]) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, mode, compresslevel=1, encoding="utf-8"))
    return cast(TextIO, path.open(mode, encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, default=40)
    arguments = parser.parse_args()
    tile(arguments.source, arguments.out, arguments.times)
