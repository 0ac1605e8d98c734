"""Builds Kineto traces in a few lines, for tests that then read them with the real loader.

    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.launch(10, 5, gpu=(30, 20), name="sgemm")
    trace = t.load()

Times are microseconds (numbers or decimal text); they are written with three decimals, as Kineto writes them.
"""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import lanewise
from lanewise.model.trace import Trace

Time = int | float | str | Decimal


class Text(str):
    """Text that goes into the file as it stands, where a JSON value would be."""


def us_text(value: Time) -> Text:
    """Microseconds as Kineto writes them: three decimals, no exponent."""
    return Text(f"{Decimal(str(value)):.3f}")


def json_text(value: Any) -> str:
    """JSON of a value; `Text` within it stays as it stands."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json_text(v) for v in value) + "]"
    return json.dumps(value)


class TraceBuilder:
    """One trace in the making.

    Args:
        pid: process of the CPU lanes.
        base_ns: ``baseTimeNanoseconds`` of the header; None leaves it out.
        header: more top-level keys, written before the events.
        tail: top-level keys written after the events.
        gpus: entries in ``deviceProperties``.
    """

    def __init__(
        self,
        *,
        pid: int = 100,
        base_ns: int | None = 1_700_000_000_000_000_000,
        header: dict[str, Any] | None = None,
        tail: dict[str, Any] | None = None,
        gpus: int = 1,
    ) -> None:
        self.pid = pid
        self.header: dict[str, Any] = {"schemaVersion": 1}
        if gpus:
            self.header["deviceProperties"] = [{"id": i, "name": "NVIDIA H200", "numSms": 132} for i in range(gpus)]
        if base_ns is not None:
            self.header["baseTimeNanoseconds"] = base_ns
        self.header.update(header or {})
        self.tail = tail or {}
        self.texts: list[str] = []
        self._correlation = 0

    def raw(self, text: str) -> None:
        """An event's text as it stands, however damaged."""
        self.texts.append(text)

    def event(self, **fields: Any) -> None:
        """An event with exactly these fields."""
        self.texts.append(json_text(fields))

    def span(self, cat: str | None, name: Any, ts: Time, dur: Time | None, pid: Any, tid: Any, **args: Any) -> None:
        """A duration event; arguments by their names in the file (``**{"External id": 1}``)."""
        fields: dict[str, Any] = {"ph": "X"}
        if cat is not None:
            fields["cat"] = cat
        fields.update(name=name, pid=pid, tid=tid, ts=us_text(ts))
        if dur is not None:
            fields["dur"] = us_text(dur)
        if args:
            fields["args"] = args
        self.event(**fields)

    def op(self, name: str, ts: Time, dur: Time, tid: Any = 1, **args: Any) -> None:
        """A CPU op."""
        self.span("cpu_op", name, ts, dur, self.pid, tid, **args)

    def annotation(self, name: str, ts: Time, dur: Time, tid: Any = 1, **args: Any) -> None:
        """A record_function range."""
        self.span("user_annotation", name, ts, dur, self.pid, tid, **args)

    def step(self, number: int, ts: Time, dur: Time, tid: Any = 1) -> None:
        """A ProfilerStep mark."""
        self.annotation(f"ProfilerStep#{number}", ts, dur, tid)

    def frame(self, name: str, ts: Time, dur: Time, tid: Any = 1, **args: Any) -> None:
        """A Python frame."""
        self.span("python_function", name, ts, dur, self.pid, tid, **args)

    def call(
        self, name: str, ts: Time, dur: Time, correlation: Any = None, tid: Any = 1, cat: str = "cuda_runtime", **args: Any
    ) -> None:
        """A runtime or driver call."""
        more = {} if correlation is None else {"correlation": correlation}
        self.span(cat, name, ts, dur, self.pid, tid, **more, **args)

    def gpu(
        self,
        name: str,
        ts: Time,
        dur: Time,
        correlation: Any = None,
        *,
        stream: int = 7,
        device: int = 0,
        cat: str = "kernel",
        more: dict[str, Any] | None = None,
        **args: Any,
    ) -> None:
        """A kernel, or with `cat` a copy, memset or annotation, on a GPU stream."""
        ids = {} if correlation is None else {"correlation": correlation}
        self.span(cat, name, ts, dur, device, stream, device=device, stream=stream, **ids, **args, **(more or {}))

    def launch(
        self,
        ts: Time,
        dur: Time,
        gpu: tuple[Time, Time],
        *,
        name: str = "sgemm",
        tid: Any = 1,
        call: str = "cudaLaunchKernel",
        **where: Any,
    ) -> int:
        """A runtime call and the GPU op that it starts; returns their correlation id."""
        self._correlation += 1
        self.call(call, ts, dur, self._correlation, tid)
        self.gpu(name, *gpu, self._correlation, **where)
        return self._correlation

    def named(self, kind: str, value: str, pid: Any, tid: Any = 0) -> None:
        """A metadata event: ``process_name`` or ``thread_name``."""
        self.event(name=kind, ph="M", ts=us_text(0), pid=pid, tid=tid, args={"name": value})

    def text(self) -> str:
        """The whole document, laid out as Kineto lays it out."""
        head = "".join(f"  {json.dumps(k)}: {json_text(v)},\n" for k, v in self.header.items())
        tail = "".join(f",\n  {json.dumps(k)}: {json_text(v)}" for k, v in self.tail.items())
        return "{\n" + head + '  "traceEvents": [\n  ' + ",\n  ".join(self.texts) + "\n  ]" + tail + "\n}\n"

    def load(self, **options: Any) -> Trace:
        """The trace as lanewise reads it."""
        return load_bytes(self.text().encode(), **options)

    def write(self, path: Path) -> Path:
        """Write it to a file."""
        path.write_text(self.text(), "utf-8")
        return path


def load_bytes(data: bytes, **options: Any) -> Trace:
    """A trace out of a file's bytes."""
    return lanewise.load(io.BytesIO(data), **options)


def note_ids(trace: Trace) -> list[str]:
    """The ids of a trace's notes."""
    return [n.id for n in trace.notes]
