"""Reads the text of a trace: the header's keys, the timed events in whole nanoseconds, what was mended or given up.

Timestamps are read as decimals, so that no digit is lost. Only what a JSON reader can be told to forgive is mended here (bytes
that are not UTF-8, raw control characters, a missing end); heavier damage is the business of other tests.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

# Kineto's categories in today's spelling, by any older or other one. Case tells nothing.
CATEGORIES = {
    "cpu_op": ("operator",),
    "user_annotation": (),
    "python_function": ("python",),
    "cuda_runtime": ("runtime", "hip_runtime", "xpu_runtime", "privateuse1_runtime"),
    "cuda_driver": ("driver", "xpu_driver", "privateuse1_driver"),
    "kernel": (),
    "gpu_memcpy": ("memcpy",),
    "gpu_memset": ("memset",),
}
SPELLINGS = {old: new for new, olds in CATEGORIES.items() for old in (new, *olds)}
OLD_CATEGORIES = ("Operator", "Runtime", "Kernel", "Memcpy", "Memset")
FORMATS = ("kineto", "kineto-legacy", "autograd-legacy")
ARROWS = ("ac2g", "async_cpu_to_gpu", "async")  # of launches, which correlation ids tell too
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
OPS = ("cpu_op", "user_annotation")
# What lies beyond is no time: 1933 to 2116 where times count from 1970, and a year for a duration.
TIMES = range(-(2**60), 2**62 + 1)
LONGEST = 366 * 86_400_000_000_000


@dataclass(eq=False)
class Event:
    """A timed event; times in ns."""

    place: int  # in the file
    cat: str
    name: str
    start: int
    dur: int
    pid: Any
    tid: Any
    args: dict[str, Any]

    @property
    def end(self) -> int:
        return self.start + self.dur

    @property
    def lane(self) -> tuple[str, str]:
        return str(self.pid), str(self.tid)

    def holds(self, other: Event) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass
class File:
    """What a trace file says."""

    header: dict[str, Any]
    format: str = "kineto"
    other_formats: set[str] = field(default_factory=set)  # of events that were given up
    events: list[Event] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)  # events without a duration
    skipped: int = 0
    repaired: int = 0
    truncated: bool = False
    more: bool = False  # another document follows


def nanoseconds(value: Any) -> int | None:
    """Whole nanoseconds of a time in microseconds; None where it is no time."""
    if isinstance(value, str):
        try:
            value = Decimal(value.strip())
        except InvalidOperation:
            return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    if not number.is_finite() or abs(number) > 10**18:
        return None
    return int((number * 1000).to_integral_value(ROUND_HALF_EVEN))


def identity(value: Any) -> int | None:
    """An id; None where there is none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def inflated(data: bytes) -> tuple[bytes, bool]:
    """The text of a file, and whether compressed data was cut."""
    if data[:2] != b"\x1f\x8b":
        return data, False
    try:
        return gzip.decompress(data), False
    except (EOFError, zlib.error):
        return zlib.decompressobj(31).decompress(data), True


class _Scanner:
    """Walks through a document value by value, so that it can be read up to where it was cut."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.decoder = json.JSONDecoder(parse_float=Decimal, strict=False)

    def blank(self, more: str = "") -> str:
        """The next character that is neither white space nor in `more`."""
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n" + more:
            self.at += 1
        return self.text[self.at : self.at + 1]

    def value(self) -> tuple[Any, str]:
        """The next value and its text. Raises ValueError where it is cut."""
        self.blank()
        value, end = self.decoder.raw_decode(self.text, self.at)
        if end == len(self.text) and not isinstance(value, dict | list | str):
            raise ValueError("a number or word may go on behind the cut")
        text = self.text[self.at : end]
        self.at = end
        return value, text


def _sound(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return "\N{REPLACEMENT CHARACTER}" not in text


def _pairs(halves: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Begins with their ends, as events with a duration, in order of the begins in the file."""

    def lane(raw: dict[str, Any]) -> tuple[str, str]:
        return str(raw.get("pid")), str(raw.get("tid"))

    def name(raw: dict[str, Any]) -> str:
        return str(raw.get("name") or "").strip()

    nameless = {lane(raw) for _, raw in halves if not name(raw)}
    stacks: dict[Any, list[int]] = {}
    found = {}
    for i in sorted(range(len(halves)), key=lambda i: halves[i][0]):
        raw = halves[i][1]
        stack = stacks.setdefault((lane(raw), "" if lane(raw) in nameless else name(raw)), [])
        if raw["ph"] == "B":
            stack.append(i)
        elif stack:
            found[stack.pop()] = i
    return [_joined(*halves[begin], *halves[found[begin]]) for begin in sorted(found)]


def _joined(start: int, begin: dict[str, Any], stop: int, end: dict[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for half in (begin, end):
        own = half.get("args")
        args |= {k: v for k, v in own.items() if v is not None} if isinstance(own, dict) else {}
    fields = {key: begin.get(key) or end[key] for key in ("name", "cat") if begin.get(key) or key in end}
    return {**begin, **fields, "ts": Decimal(start) / 1000, "dur": Decimal(stop - start) / 1000, "args": args}


def _typed(raw: dict[str, Any]) -> bool:
    """Whether arguments and duration are what they should be; a field of another type is left out, which is a repair."""
    dur = raw.get("dur")
    number = isinstance(dur, int | Decimal | None) and not isinstance(dur, bool)
    return isinstance(raw.get("args"), dict | None) and (number or nanoseconds(dur) is not None)


class _Reader:
    def __init__(self, text: str) -> None:
        self.scan = _Scanner(text)
        self.file = File({})
        self.raw: list[dict[str, Any]] = []

    def read(self) -> File:
        try:
            if self.scan.blank() == "[":
                self._events()
            else:
                self._header()
            self.file.more = bool(self.scan.blank())
        except (ValueError, IndexError):
            self.file.truncated = True
        self._sort_out()
        return self.file

    def _header(self) -> None:
        self.scan.at += 1
        while self.scan.blank(",") != "}":
            key, _ = self.scan.value()
            if self.scan.blank() != ":":
                raise ValueError("cut behind a key")
            self.scan.at += 1
            if key == "traceEvents" and self.scan.blank() == "[":
                self._events()
            else:
                self.file.header[key], _ = self.scan.value()
        self.scan.at += 1

    def _events(self) -> None:
        self.scan.at += 1
        while self.scan.blank(",") != "]":
            value, text = self.scan.value()
            if not isinstance(value, dict):
                self.file.skipped += 1
                continue
            value["sound"] = _sound(text)
            self.raw.append(value)
        self.scan.at += 1

    def _sort_out(self) -> None:
        halves: list[tuple[int, dict[str, Any]]] = []
        for place, raw in enumerate(self.raw):
            sound = raw.pop("sound")
            cat = str(raw.get("cat", ""))
            if raw.get("ph") in ("B", "E") and cat not in ARROWS:
                start = nanoseconds(raw.get("ts"))
                if start is None or start not in TIMES:
                    self.file.skipped += 1
                    continue
                halves.append((start, raw))
                self.file.repaired += not (sound and _typed(raw))
            elif raw.get("ph") != "X":
                self.file.others.append(raw)
                self.file.repaired += not (sound and _typed(raw))
            elif cat.lower() != "trace":
                self._timed(place, raw, sound)
        for place, raw in enumerate(_pairs(halves), len(self.raw)):
            if str(raw.get("cat", "")).lower() != "trace":
                self._timed(place, raw, True)

    def _timed(self, place: int, raw: dict[str, Any], sound: bool) -> None:
        cat = str(raw.get("cat", ""))
        if "cat" not in raw and raw.get("pid") in ("CPU functions", "CUDA functions"):
            cat, form = ("kernel" if raw["pid"] == "CUDA functions" else "cpu_op"), "autograd-legacy"
        else:
            form = "kineto-legacy" if cat in OLD_CATEGORIES else "kineto"
        start, dur, args = nanoseconds(raw.get("ts")), nanoseconds(raw.get("dur")), raw.get("args")
        far = isinstance(raw.get("dur"), Decimal | int) and not isinstance(raw.get("dur"), bool) and dur is None
        if start is None or start not in TIMES or far or not 0 <= (dur or 0) <= LONGEST:
            self.file.skipped += 1
            self.file.other_formats.add(form)
            return
        self.file.repaired += not (sound and _typed(raw))
        self.file.format = max(self.file.format, form, key=FORMATS.index)
        event = Event(
            place,
            SPELLINGS.get(cat.lower(), cat),
            str(raw.get("name", "")).strip(),
            start,
            dur or 0,
            raw.get("pid"),
            raw.get("tid"),
            args if isinstance(args, dict) else {},
        )
        self.file.events.append(event)


def read(data: bytes) -> File:
    """Read a trace."""
    data, cut = inflated(data)
    # A bare nan is no JSON; a string with a raw NUL is none either, but can be read, and tells that something was mended.
    text = re.sub(r'(?<=": )-?(nan|inf)(?=[,}])', '"\0"', data.decode("utf-8", "replace"))
    file = _Reader(text).read()
    file.truncated |= cut
    return file
