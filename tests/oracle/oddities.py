"""What may be odd in a trace: each takes a trace in the making and spoils something in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from .writing import Number, Raw


class Making(Protocol):
    """A trace in the making (`traces.Maker`)."""

    rng: random.Random
    events: list[Raw]
    external: int

    def time(self, low: int, high: int) -> int: ...
    def gpu_op(self, cat: str, called: int, device: int, stream: int, args: Raw) -> None: ...


def _any(maker: Making, *cats: str) -> Raw:
    """Any one event, of some categories where given; an empty one where there is none."""
    found = [e for e in maker.events if e.get("ph") == "X" and (e["cat"] in cats if cats else e["cat"] != "Trace")]
    return maker.rng.choice(found) if found else {}


GPU = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")


def _shared_id(maker: Making) -> None:
    a, b = _any(maker, *RUNTIME), _any(maker, *RUNTIME, *GPU)
    if a and b and isinstance(a.get("args"), dict) and isinstance(b.get("args"), dict):
        b["args"]["correlation"] = a["args"].get("correlation")


def _odd_id(maker: Making) -> None:
    event = _any(maker, *RUNTIME, *GPU)
    if event and isinstance(event.get("args"), dict):
        value = maker.rng.choice((0, 0, -1, None, str(event["args"].get("correlation")), 4294967295, 2**40))
        event["args"]["correlation"] = value
        if value is None:
            del event["args"]["correlation"]


def _odd_external(maker: Making) -> None:
    event = _any(maker, *RUNTIME, "cpu_op")
    if event and isinstance(event.get("args"), dict):
        event["args"]["External id"] = maker.rng.choice((0, -1, maker.external, maker.rng.randint(1, maker.external)))


def _odd_time(maker: Making) -> None:
    event = _any(maker)
    if not event:
        return
    key = maker.rng.choice(("ts", "dur"))
    choice = maker.rng.randrange(9)
    if choice == 0:
        event.pop(key, None)
    elif choice == 1:
        event["dur"] = -maker.time(1, 5000)
    else:
        event[key] = (None, "", "12.5", Number("1e300"), True, [], Number("17592186044416000000000"))[choice - 2]


def _lost_time(maker: Making) -> None:
    event = _any(maker)
    if event:
        event["ts"], event["dur"] = Number("0"), maker.rng.choice((Number("0"), Number("0"), Number("2.5")))


def _other_phase(maker: Making) -> None:
    event = _any(maker)
    if event:
        event["ph"] = maker.rng.choice(("B", "E", "b", "e", "n", "P", "O", "i", "C", ""))


def _halves(maker: Making) -> None:
    """Some events as a begin and an end, which may tell its name, or another argument, or be lost."""
    some = [e for e in maker.events if e["ph"] == "X" and isinstance(e["ts"], int) and isinstance(e.get("dur"), int)]
    for event in maker.rng.sample(some, min(len(some), 5)):
        end = {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event.pop("dur")}
        event["ph"] = "B"
        if maker.rng.random() < 0.7:
            end["name"] = event["name"]
        if maker.rng.random() < 0.2:
            end["args"] = {"correlation": maker.time(1, 60), "External id": maker.rng.choice((None, maker.external))}
        if maker.rng.random() < 0.9:
            maker.events.append(end)


def _odd_category(maker: Making) -> None:
    event = _any(maker)
    if event:
        spelled = {"cpu_op": "operator", "kernel": "Kernel", "gpu_memcpy": "MEMCPY", "cuda_runtime": "hip_runtime"}
        event["cat"] = maker.rng.choice((spelled.get(event["cat"], "?"), "", "ac2g", event["cat"].upper()))


def _odd_arguments(maker: Making) -> None:
    event = _any(maker)
    if event:
        event["args"] = maker.rng.choice(
            (None, [], "", {}, {"correlation": 5}, {"correlation": Number("7.0"), "External id": 3})
        )


def _lost_call(maker: Making) -> None:
    event = _any(maker, *RUNTIME)
    if event:
        maker.events.remove(event)


def _orphan(maker: Making) -> None:
    for _ in range(maker.rng.randint(1, 4)):
        maker.gpu_op(
            "kernel", maker.time(-20_000, 20_000), 0, maker.rng.choice((7, 20)), {"correlation": 900_000 + maker.time(0, 99)}
        )


def _twice(maker: Making) -> None:
    event = _any(maker)
    if event:
        maker.events.append(dict(event))


def _odd_name(maker: Making) -> None:
    event = _any(maker)
    if event:
        event["name"] = maker.rng.choice(
            ("", "  padded ", "カーネル", 'with "quotes" \\ and\ttabs', "ProfilerStep#x", "C:\\new\\tab.py(3): f", "x" * 300)
        )


def _odd_lane(maker: Making) -> None:
    event = _any(maker, "cpu_op", *RUNTIME)
    if event:
        event["tid"] = maker.rng.choice((str(event["tid"]), -1431655766, "thread 5", 2**40))


def _nothing(maker: Making) -> None:
    """Read elsewhere, while the trace is made."""


ODDITIES: dict[str, Callable[[Making], None]] = {
    "overlap": _nothing,
    "long calls": _nothing,
    "lost work": _nothing,
    "skew": _nothing,
    "impossible": _nothing,
    "bare lanes": _nothing,
    "step copies": _nothing,
    "step overlap": _nothing,
    "odd numbers": _nothing,
    "lost nodes": _nothing,
    "no nodes": _nothing,
    "shared ids": _shared_id,
    "odd ids": _odd_id,
    "odd external ids": _odd_external,
    "odd times": _odd_time,
    "lost times": _lost_time,
    "other phases": _other_phase,
    "halves": _halves,
    "odd categories": _odd_category,
    "odd arguments": _odd_arguments,
    "lost calls": _lost_call,
    "orphans": _orphan,
    "twice": _twice,
    "odd names": _odd_name,
    "odd lanes": _odd_lane,
}
