"""Times in every form that exporters since 2020 have written: exact to the nanosecond, and strays at zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from builder import Text, TraceBuilder, json_text, load_bytes, note_ids
from lanewise.loading import source as source_module
from lanewise.model.trace import Trace

EPOCH_NS = 1_722_470_400_123_456_789


def _op(name: str, ts: Text) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 1}


@pytest.mark.parametrize("base_ns", [None, 0, 1_700_000_000_000_000_000])
def test_offsets_are_exact_to_the_nanosecond(base_ns: int | None) -> None:
    times = [0, 1, 999, 1000, 123_456_789, 4_172_930_551_000_123, 8_700_000_000_000_001]
    t = TraceBuilder(base_ns=base_ns)
    for ns in times:
        t.op("a", Decimal(ns) / 1000, Decimal(ns % 1000 + 1) / 1000)
    trace = t.load()
    assert trace.ts.tolist() == times
    assert trace.dur.tolist() == [ns % 1000 + 1 for ns in times]
    assert trace.base_ns == base_ns


@pytest.mark.parametrize("places", [0, 1, 2, 3, 6, 9])
def test_epoch_times_are_exact_to_the_nanosecond(places: int) -> None:
    step = 10 ** (9 - places) if places < 3 else 1
    times = [EPOCH_NS // step * step + i * step for i in range(-3, 4)]
    texts = [Text(f"{Decimal(n) / 1000:.{places}f}") for n in times]
    events = [_op("a", text) for text in texts]
    expected = [round(Decimal(text) * 1000) for text in texts]
    trace = load_bytes(json_text({"traceEvents": events}).encode())
    assert trace.ts.tolist() == sorted(expected)
    assert trace.base_ns == 0


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1722470400123456.789", EPOCH_NS),
        ("1722470400123456.7894", EPOCH_NS),
        ("1722470400123456.7895", EPOCH_NS + 1),
        ("1.722470400123456789e15", EPOCH_NS),
        ("1.722470400123456789E+15", EPOCH_NS),
        ("1722470400123456", EPOCH_NS // 1000 * 1000),
        ("4611686018427387.904", 2**62),
        ("-5.5", -5500),
        ("1e3", 1_000_000),
        ("0.0004", 0),
        ("0", 0),
    ],
)
def test_texts_of_times(text: str, ns: int) -> None:
    events = [_op("a", Text(text)), _op("b", Text(EPOCH_NS // 1000))]
    trace = load_bytes(json_text({"traceEvents": events}).encode())
    if ns == 0:
        assert trace.stray_events == 1
    else:
        assert {trace.name_of(i): int(trace.ts[i]) for i in range(len(trace))}["a"] == ns


def test_offsets_first_and_epoch_times_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file turns out to need the text of its times in its middle; what came before is as exact."""
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 200)
    t = TraceBuilder(base_ns=None)
    for i in range(20):
        t.op("a", Decimal(8_000_000_000_000) + Decimal(i) / 1000, 1)
    t.op("late", Decimal(EPOCH_NS) / 1000, 1)
    for processes in (0, 2):
        trace = t.load(processes=processes)
        assert trace.ts.tolist() == [8_000_000_000_000_000 + i for i in range(20)] + [EPOCH_NS]


def test_display_unit_never_scales() -> None:
    for unit in ("ms", "ns"):
        t = TraceBuilder(header={"displayTimeUnit": unit})
        t.op("a", 1.5, 2.25)
        trace = t.load()
        assert (trace.ts[0], trace.dur[0]) == (1500, 2250)


def test_whole_microseconds_are_noted() -> None:
    def built(kernel_ts: float) -> Trace:
        t = TraceBuilder()
        t.op("aten::mm", 0.5, 50)
        t.launch(10, 5, gpu=(30, 20))
        t.launch(20, 5, gpu=(kernel_ts, 20))
        return t.load()

    assert note_ids(built(60)) == ["integer-times"]
    assert note_ids(built(60.001)) == []


def test_strays_at_zero() -> None:
    t = TraceBuilder()
    t.op("stray", 0, 0)
    t.op("stray with a length", 0, 12)
    for i in range(5):
        t.op("op", 5_000_000_000 + i * 10, 5)
    trace = t.load()
    assert trace.stray_events == 2
    assert note_ids(trace) == ["strays"]
    assert trace.span == (5_000_000_000_000, 5_000_000_045_000)
    # Events at 0 near all others are events.
    t = TraceBuilder()
    t.op("first", 0, 10)
    t.op("second", 900_000, 10)
    assert t.load().stray_events == 0


def test_times_in_quotes() -> None:
    t = TraceBuilder(gpus=0)
    t.event(ph="X", cat="cpu_op", name="aten::mm", pid=100, tid=1, ts="12.5", dur="1.25")
    trace = t.load()
    assert (trace.ts.tolist(), trace.dur.tolist(), trace.skipped_events) == ([12_500], [1250], 0)
