"""Every layout that exporters since 2020 have written: where the header is, blanks, the order of keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids
from lanewise.loading import source as source_module
from lanewise.model.trace import Trace


def _sample() -> TraceBuilder:
    t = TraceBuilder(header={"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "with_stack": 0})
    t.named("process_name", "python", 100)
    t.named("thread_name", "main", 100, 1)
    t.op("aten::mm", 0, 50, **{"External id": 1})
    t.launch(10, 5, gpu=(30, 20))
    return t


def _facts(trace: Trace) -> Any:
    report = lanewise.explain(trace).to_dict()
    for key in ("path", "file_bytes"):
        report["trace"].pop(key)
    return report


def _documents() -> dict[str, bytes]:
    t = _sample()
    document = json.loads(t.text())
    events, header = document.pop("traceEvents"), document
    return {
        "kineto": t.text().encode(),
        "one line": json.dumps({**header, "traceEvents": events}).encode(),
        "no spaces": json.dumps({**header, "traceEvents": events}, separators=(",", ":")).encode(),
        "pretty": json.dumps({**header, "traceEvents": events}, indent=4).encode(),
        "tabs": json.dumps({**header, "traceEvents": events}, indent="\t").encode(),
        "windows lines": t.text().replace("\n", "\r\n").encode(),
        "header after the events": json.dumps({"traceEvents": events, **header}).encode(),
        "header on both sides": json.dumps({"with_stack": 0, "traceEvents": events, **header}).encode(),
        "keys sorted": json.dumps({**header, "traceEvents": events}, sort_keys=True).encode(),
        "unknown key first": json.dumps({**header, "traceEvents": [{"zz": 1, **e} for e in events]}).encode(),
        "byte order mark": b"\xef\xbb\xbf" + t.text().encode(),
        "blanks around": b"\n\n \t" + t.text().encode() + b"\n\n",
        "escaped": json.dumps({**header, "traceEvents": events}, ensure_ascii=True).replace("aten", "\\u0061ten").encode(),
        "header that speaks of events": json.dumps(
            {"note": 'a "traceEvents": [ in text', "x": {"traceEvents": {"a": []}}, **header, "traceEvents": events}
        ).encode(),
        "events of something else before": json.dumps(
            {
                "otherData": {"traceEvents": [{"ph": "X", "name": "no", "ts": 1, "dur": 5}]},
                **header,
                "traceEvents": events,
            }
        ).encode(),
        "within another key": json.dumps({"a": [1], "trace": {**header, "traceEvents": events}, "b": {"c": 2}}).encode(),
    }


DOCUMENTS = _documents()


@pytest.mark.parametrize("block", [1, 13, 100, 4 << 20])
@pytest.mark.parametrize("form", DOCUMENTS)
def test_layouts_say_the_same(form: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _facts(load_bytes(DOCUMENTS["kineto"], processes=0))
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    trace = load_bytes(DOCUMENTS[form], processes=0)
    assert _facts(trace) == expected
    assert note_ids(trace) == []
    assert [(lane.pid, lane.tid, lane.process, lane.name) for lane in trace.lanes][:1] == [(100, 1, "python", "main")]


@pytest.mark.parametrize("block", [1, 100, 4 << 20])
def test_one_event_a_line(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events = json.loads(_sample().text())["traceEvents"]
    expected = load_bytes(json.dumps(events).encode(), processes=0)
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    lines = "\n".join(map(json.dumps, events)).encode()
    for text in (lines, lines + b"\n", lines.replace(b"\n", b",\n")):
        trace = load_bytes(text, processes=0)
        assert _facts(trace) == _facts(expected)
        assert (note_ids(trace), trace.truncated, trace.repaired_events) == ([], False, 0)
    cut = load_bytes(lines[:-20], processes=0)
    assert (len(cut), cut.truncated, note_ids(cut)) == (len(expected) - 1, True, ["truncated"])


def test_array_with_no_header() -> None:
    events = json.loads(_sample().text())["traceEvents"]
    trace = load_bytes(json.dumps(events).encode())
    assert len(trace) == 3
    assert trace.format == "kineto"
    assert trace.header == {}
    assert trace.base_ns is None


def test_damaged_header_keeps_what_can_be_read() -> None:
    text = _sample().text()
    for damage, whole in (
        (('"with_stack": 0', '"with_stack": nan'), True),
        (('"with_stack": 0', '"trace_dir": "C:\\new"'), True),
        (('"with_stack": 0', '"host": "a"b"'), True),
        (('"with_stack": 0', '"with_stack": 0,, "x": 1'), True),
        (('"with_stack": 0', '"with_stack": {]'), False),
        (('"with_stack": 0', '"with_stack"'), False),
    ):
        trace = load_bytes(text.replace(*damage).encode())
        assert trace.distributed.rank == 3, damage
        assert trace.devices[0].name == "NVIDIA H200"
        assert note_ids(trace) == ["header-repaired" if whole else "header-damaged"], damage
        assert len(trace) == 3
