"""Mutants of real traces, for the fuzz test: each is made from its number alone, so that any can be made again."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from places import CASES, DATA

# Larger ones only cost time: what can go wrong goes wrong in a thousand events.
_LARGEST_SEED = 300_000

_DEEP = "a list within a list, three thousand times"

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64 - 1,
    2**200,
    -(2**70),
    0.5,
    -0.0,
    1e-300,
    1e15,
    1e300,
    -1e300,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "0",
    "-1",
    "12.5",
    "²",
    "0x10",
    "--5",
    "NaN",
    "stream 7",
    "C:\\new\\x.py",
    'a "quoted" name',
    "\ud83d",
    "\0",
    "名前",
    "ProfilerStep#3",
    "ProfilerStep#99999999999999999999999",
    "ProfilerStep#",
    "step[1]",
    "nccl:all_reduce",
    "cudaGraphLaunch",
    "hipLaunchKernel",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int",
    "a" * 20_000,
    "<(" * 3000,
    [],
    [[]],
    [1, 2, 3],
    [None, "x", 1e300],
    [1] * 5000,
    {},
    {"a": {"b": [1]}},
    _DEEP,
)
_ODD_TEXT: tuple[bytes, ...] = (
    b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"N/A", b"-1.-660", b"1e999", b"-1e999", b"1e-999", b"00", b"0x1f", b".5", b"5.",
    b"-", b"[1, 2, ...]", b"null", b"true", b"9" * 400, b"-" + b"9" * 30, b"1e400000000", b"\xff\xfe", b"\x00", b'"', b"\\", b"{", b"}",
    b"[", b"]", b",", b",,", b":", b"\n", b'\\"', b"\\u12", b"\\ud800", b"}, {", b'}, {"ph": "X"', b']}, {"traceEvents": [', b"/*", b"'",
    b'"args": {"x": [{"name": 1}, {"name": 2}]}', b"\xef\xbb\xbf", b"C:\\new", b"\x1f\x8b",
)  # fmt: skip
_CATEGORIES = (
    "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset",
    "gpu_user_annotation", "cuda_sync", "overhead", "Trace", "ac2g", "fwdbwd", "cpu_to_cuda", "mtia_runtime", "Operator", "Kernel", "new",
)  # fmt: skip


def seeds() -> dict[str, bytes]:
    """The texts that mutants are made of, by name."""
    paths = [*sorted(CASES.iterdir()), *sorted(DATA.rglob("*.json.gz"))]
    texts = {p.name: _text(p) for p in paths if not p.name.startswith(("cases.json", "refuse"))}
    return {name: text for name, text in texts.items() if len(text) <= _LARGEST_SEED}


def _text(path: Path) -> bytes:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            return gzip.decompress(data)
        except EOFError:
            return b""
    return data


# ---------------------------------------------------------------- of bytes


def _span(r: random.Random, text: bytes) -> tuple[int, int]:
    begin = r.randrange(len(text))
    return begin, min(len(text), begin + r.choice((1, 2, 5, 30, 200, 2000, len(text))))


def _flipped(r: random.Random, text: bytes) -> bytes:
    out = bytearray(text)
    for _ in range(r.choice((1, 3, 20, 200))):
        out[r.randrange(len(out))] = r.randrange(256)
    return bytes(out)


def _cut(r: random.Random, text: bytes) -> bytes:
    return text[: r.randrange(1, len(text))]


def _beheaded(r: random.Random, text: bytes) -> bytes:
    return text[r.randrange(len(text)) :]


def _deleted(r: random.Random, text: bytes) -> bytes:
    begin, end = _span(r, text)
    return text[:begin] + text[end:]


def _doubled(r: random.Random, text: bytes) -> bytes:
    begin, end = _span(r, text)
    return text[:end] + text[begin:end] * r.choice((1, 1, 1, 5)) + text[end:]


def _swapped(r: random.Random, text: bytes) -> bytes:
    a, b, c = sorted(r.randrange(len(text)) for _ in range(3))
    return text[:a] + text[b:c] + text[a:b] + text[c:]


def _blanked(r: random.Random, text: bytes) -> bytes:
    begin, end = _span(r, text)
    return text[:begin] + r.choice((b"\0", b" ", b"\xff")) * (end - begin) + text[end:]


def _inserted(r: random.Random, text: bytes) -> bytes:
    for _ in range(r.choice((1, 2, 10))):
        at = r.randrange(len(text) + 1)
        text = text[:at] + r.choice(_ODD_TEXT) + text[at:]
    return text


def _numbers_replaced(r: random.Random, text: bytes) -> bytes:
    """Some numbers become odd ones, or other numbers of the file."""
    import re

    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", text))
    chosen = {m.start() for m in r.sample(numbers, min(len(numbers), r.choice((1, 5, 50))))}
    out, at = [], 0
    for m in numbers:
        if m.start() in chosen:
            out += [text[at : m.start()], r.choice((*_ODD_TEXT, r.choice(numbers).group()))]
            at = m.end()
    return b"".join([*out, text[at:]])


def _quotes_removed(r: random.Random, text: bytes) -> bytes:
    places = [i for i, byte in enumerate(text) if byte in b'"\\{}[]:,']
    out = bytearray(text)
    for at in sorted(r.sample(places, min(len(places), r.choice((1, 3, 30)))), reverse=True):
        del out[at]
    return bytes(out)


def _gzip_damaged(r: random.Random, text: bytes) -> bytes:
    half = r.randrange(len(text))
    data = gzip.compress(text[:half], 1, mtime=0) + gzip.compress(text[half:], 1, mtime=0)
    return r.choice((_flipped, _cut, _deleted, _doubled, _swapped, _blanked))(r, data)


# ---------------------------------------------------------------- of events

Events = list[Any]


def _some(r: random.Random, events: Events) -> Events:
    dicts = [e for e in events if isinstance(e, dict)]
    return r.sample(dicts, min(len(dicts), r.choice((1, 3, 20, len(dicts)))))


def _odd_fields(r: random.Random, events: Events) -> Events:
    key = r.choice(("ts", "dur", "ts", "dur", "name", "cat", "ph", "pid", "tid", "id", "args", "s"))
    for event in _some(r, events):
        event[key] = r.choice(ODD_VALUES)
    return events


def _odd_arguments(r: random.Random, events: Events) -> Events:
    some = [e["args"] for e in _some(r, events) if isinstance(e.get("args"), dict) and e["args"]]
    names = sorted({name for a in some for name in a})
    if names:
        name = r.choice(names)
        value = r.choice(ODD_VALUES)
        for args in some:
            args[name] = value if r.random() < 0.5 else r.choice(ODD_VALUES)
    return events


def _fields_missing(r: random.Random, events: Events) -> Events:
    key = r.choice(("ts", "dur", "name", "cat", "ph", "pid", "tid", "args"))
    for event in _some(r, events):
        event.pop(key, None)
    return events


def _other_categories(r: random.Random, events: Events) -> Events:
    category = r.choice(_CATEGORIES)
    for event in _some(r, events):
        event["cat"] = category if r.random() < 0.5 else r.choice(_CATEGORIES)
    return events


def _timed(events: Events) -> Events:
    return [e for e in events if isinstance(e, dict) and e.get("ph") == "X" and isinstance(e.get("ts"), int | float)]


def _times_moved(r: random.Random, events: Events) -> Events:
    how = r.randrange(6)
    shift = r.choice((-1e9, -1.0, 1e9, 1e12, 1.7e15, -1e15))
    for event in _timed(events):
        if how == 0:
            event["ts"] += shift
        elif how == 1:
            event["ts"] = 5
        elif how == 2:
            event["dur"] = 0
        elif how == 3:
            event["ts"] = r.choice((0, event["ts"], event["ts"] * 1000))
        elif how == 4:
            event["dur"] = r.choice((1e6, 1e12, 3e13, 0.001))
        else:
            event["ts"] = r.uniform(0, 1e6)
    return events


def _ids_confused(r: random.Random, events: Events) -> Events:
    how = r.randrange(4)
    for i, event in enumerate(events):
        args = event.get("args") if isinstance(event, dict) else None
        if isinstance(args, dict):
            for name in ("correlation", "External id", "stream", "device", "Sequence number"):
                if name in args and r.random() < 0.8:
                    args[name] = (7, i, r.randrange(20), r.choice(ODD_VALUES))[how]
    return events


def _many(r: random.Random, events: Events) -> Events:
    event = r.choice(events)
    return [*events, *[event] * r.choice((10, 500))]


def _shuffled(r: random.Random, events: Events) -> Events:
    return r.sample(events, len(events))


def _nested(r: random.Random, events: Events) -> Events:
    """Events of one lane inside one another, a thousand deep."""
    name = r.choice(("aten::linear", "ProfilerStep#1", "f.py(1): f"))
    category = r.choice(_CATEGORIES[:5])
    extra = [{"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": i, "dur": 5000 - 2 * i} for i in range(1000)]
    return [*events, *extra]


def _foreign(r: random.Random, events: Events) -> Events:
    at = r.randrange(len(events) + 1)
    return [*events[:at], r.choice(ODD_VALUES), *events[at:]]


OF_BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flipped,
    _cut,
    _beheaded,
    _deleted,
    _doubled,
    _swapped,
    _blanked,
    _inserted,
    _numbers_replaced,
    _quotes_removed,
    _gzip_damaged,
)
OF_EVENTS: tuple[Callable[[random.Random, Events], Events], ...] = (
    _odd_fields,
    _odd_arguments,
    _fields_missing,
    _other_categories,
    _times_moved,
    _ids_confused,
    _many,
    _shuffled,
    _nested,
    _foreign,
)


def _odd_header(r: random.Random, document: dict[str, Any]) -> None:
    key = r.choice(
        [*[k for k in document if k != "traceEvents"], "deviceProperties", "distributedInfo", "lanewise", "baseTimeNanoseconds"]
    )
    inner = document.get(key)
    if isinstance(inner, list) and inner and isinstance(inner[0], dict):
        inner = inner[0]
    if isinstance(inner, dict) and inner and r.random() < 0.7:
        inner[r.choice(sorted(inner))] = r.choice(ODD_VALUES)
    else:
        document[key] = r.choice(
            (*ODD_VALUES, {"unprofiled_step_us": {"median": r.choice(ODD_VALUES), "steps": r.choice(ODD_VALUES)}})
        )


def mutant(number: int, texts: dict[str, bytes]) -> tuple[str, bytes]:
    """(what was done to which seed, the file's bytes) for a number."""
    r = random.Random(number)
    name = r.choice(sorted(texts))
    text, done = texts[name], []
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if document is not None and r.random() < 0.6:
        for _ in range(r.choice((1, 1, 2, 4))):
            if isinstance(document, dict) and r.random() < 0.15:
                _odd_header(r, document)
                done.append("_odd_header")
                continue
            change = r.choice(OF_EVENTS)
            events = document["traceEvents"] if isinstance(document, dict) else document
            if isinstance(events, list) and events:
                events = change(r, events)
                done.append(change.__name__)
            if isinstance(document, dict):
                document["traceEvents"] = events
            else:
                document = events
        text = json.dumps(document, ensure_ascii=r.random() < 0.5).encode("utf-8", "surrogatepass")
        text = text.replace(json.dumps(_DEEP).encode(), b"[" * 3000 + b"]" * 3000)
    if not done or r.random() < 0.25:
        for _ in range(r.choice((1, 1, 2))):
            damage = r.choice(OF_BYTES)
            text = damage(r, text) if text else text
            done.append(damage.__name__)
    if r.random() < 0.1:
        text = gzip.compress(text, 1, mtime=0)
        done.append("gzip")
    return f"mutant {number}: {name}, {', '.join(d.strip('_') for d in done)}", text
