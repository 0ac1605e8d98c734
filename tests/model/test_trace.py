"""The Trace itself: its columns, what it contains, and that nothing changes it."""

from __future__ import annotations

import numpy as np
import pytest

from builder import TraceBuilder
from lanewise.model.notes import NOTES, Note
from lanewise.model.trace import DeviceProperties


def _built() -> TraceBuilder:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    t.launch(10, 5, gpu=(30, 20))
    return t


@pytest.mark.parametrize(
    ("add", "capability"),
    [
        (lambda t: t.op("a", 0, 5), "cpu_ops"),
        (lambda t: t.gpu("k", 0, 5, 1), "gpu_events"),
        (lambda t: t.gpu("m", 0, 5, 1, cat="gpu_memset"), "gpu_events"),
        (lambda t: t.op("a", 0, 5, **{"Input Dims": [[2]]}), "shapes"),
        (lambda t: t.frame("f.py(1): f", 0, 5), "stacks"),
        (lambda t: t.op("a", 0, 5, **{"Call stack": "f.py(1): f"}), "stacks"),
        (lambda t: t.frame("nn.Module: Linear_0", 0, 5), "modules"),
        (lambda t: t.frame("f.py(1): f", 0, 5, **{"Python module id": 0}), "modules"),
        (lambda t: t.event(ph="i", name="[memory]", pid=1, tid=1, ts=5, args={"Bytes": 8}), "memory"),
        (lambda t: t.op("a", 0, 5, **{"Sequence number": 3}), "sequence"),
        (lambda t: t.op("a", 0, 5, **{"Collective name": "allreduce"}), "collectives"),
        (lambda t: t.gpu("s", 0, 5, cat="cuda_sync"), "syncs"),
    ],
)
def test_capabilities_are_what_the_file_contains(add: object, capability: str) -> None:
    # The flags of the header say the opposite.
    t = TraceBuilder(header={"record_shapes": 0, "with_stack": 0, "with_modules": 0, "profile_memory": 0})
    add(t)  # type: ignore[operator]
    assert capability in t.load().capabilities
    empty = TraceBuilder(header={"record_shapes": 1, "with_stack": 1, "with_modules": 1, "profile_memory": 1})
    empty.call("cudaMalloc", 0, 5)
    assert empty.load().capabilities == ()


def test_columns_cannot_be_changed() -> None:
    trace = _built().load()
    for columns in trace.tables.values():
        for values in columns.values():
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        trace.end[0] = 0


def test_rows_of_categories() -> None:
    trace = _built().load()
    assert trace.rows("cpu_op").tolist() == [0]
    assert trace.rows("kernel", "cpu_op").tolist() == [0, 2]
    assert trace.rows("gpu_memcpy").tolist() == []


def test_columns_of_absent_tables_are_empty() -> None:
    trace = TraceBuilder().load()
    assert trace.column("gpu_ops", "device").dtype == np.int64
    assert trace.column("events", "ts").tolist() == []
    assert len(trace) == 0
    with pytest.raises(KeyError):
        trace.column("gpu_ops", "absent")


def test_span_and_repr() -> None:
    trace = _built().load()
    assert trace.span == (0, 50_000)
    assert repr(trace) == "<Trace <file object>: 3 events, cpu_ops, gpu_events>"


def test_devices() -> None:
    trace = _built().load()
    assert trace.device(0).name == "NVIDIA H200"
    assert trace.device(5) == DeviceProperties(5)


def test_lanes_have_the_names_of_the_metadata() -> None:
    t = _built()
    t.named("process_name", " python ", 100)
    t.named("thread_name", "thread 1 (python)", 100, "1")
    t.named("process_name", "GPU 0", 0)
    t.named("thread_name", "stream 7 ", 0, 7)
    lanes = {(lane.pid, lane.tid): (lane.process, lane.name) for lane in t.load().lanes}
    assert lanes == {(100, 1): ("python", "thread 1 (python)"), (0, 7): ("GPU 0", "stream 7")}


@pytest.mark.parametrize("key", NOTES.english)
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_notes_of_one_and_of_many(key: str, lang: str) -> None:
    from lanewise.translations import slots_of

    slots = slots_of(NOTES.english[key])
    for number in (1, 2310):
        facts = {
            s: number
            if s in {"count", "launches", "missing", "steps", "events", "offset", "fewest", "most", "begins", "ends", "bytes"}
            else "x"
            for s in slots
        }
        facts |= dict.fromkeys(slots & {"rank", "name_rank"}, number)
        text = Note(key, facts).text(lang)
        assert "{" not in text
        if lang == "en":
            assert "1 events" not in text
            assert "1 launches" not in text
            assert "2310" not in text or key.startswith("rank")


def test_counts_in_words() -> None:
    assert Note("no-gpu-records", {"launches": 1}).text().startswith("1 launch and no GPU record")
    assert Note("no-gpu-records", {"launches": 1200}).text().startswith("1,200 launches and no GPU record")
    assert Note("lane-skew", {"count": 1, "skew": "3 µs"}).text().startswith("1 GPU op recorded")
    repaired = Note("repaired", {"count": 3, "kinds": {"quotes": 1, "numbers": 2}, "offset": 1234567})
    assert repaired.text() == (
        "3 events damaged and mended (numbers that are none: 2, unescaped quotes: 1), the first at byte 1,234,567 of the text."
    )


def test_inputs_of_inductor_kernels_alone_are_no_shapes() -> None:
    t = TraceBuilder()
    dims = {"Input Dims": [[8, 32]], "Input type": ["float"]}
    t.op("triton_poi_fused_add_0", 0, 5, **dims)
    assert "shapes" not in t.load().capabilities
    t.op("aten::add", 10, 5, **dims)
    assert "shapes" in t.load().capabilities
