"""The text of a trace file, with numbers written in any of the ways in which JSON may have them."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

Raw = dict[str, Any]


class Number(str):
    """A number's text, which goes into the file as it is."""


def encoded(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {encoded(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(encoded, value)) + "]"
    return json.dumps(value)


def document(header: Raw, events: list[Raw], rng: random.Random, *, cut: bool = False, array: bool = False) -> bytes:
    """A trace file of these events."""
    head = [f"{json.dumps(k)}: {encoded(v)}" for k, v in header.items()]
    body = "[\n" + ",\n".join(map(encoded, events)) + "\n]"
    parts = [f'"traceEvents": {body}']
    parts = parts + head if rng.random() < 0.2 else head + parts
    text = body if array else "{" + ",\n".join(parts) + "}\n"
    if cut:
        begin = text.index("[\n")
        text = text[: rng.randrange(begin + 1, len(text))]
    data = text.encode()
    if rng.random() < 0.1:
        data = spoiled(data, rng)
    if not cut and rng.random() < 0.03:
        data += data
    return gzip.compress(data, mtime=0) if rng.random() < 0.05 else data


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """The text with what JSON forbids, and what some exporters wrote all the same, in some names and numbers."""
    damage = (
        (b"aten::", b"aten\xff:"),
        (b"sgemm", b"sg\nemm"),
        (b"Memset", b"Mem\x00set"),
        (b', "bytes": 4}', b', "bytes": nan}'),
        (b'"cbid": 211', b'"cbid": -inf'),
    )
    for sound, bad in damage:
        if rng.random() < 0.5:
            data = data.replace(sound, bad, rng.choice((1, 1, 1000)))
    return data
