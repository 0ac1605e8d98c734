"""Traces of Windows: a path with single backslashes in every other event costs no more than a sound one, nearly."""

from __future__ import annotations

import json

import pytest

from builder import load_bytes
from lanewise.loading import chunks
from lanewise.loading import source as source_module

NAMES = (
    r"C:\Users\me\new\train.py(12): step",
    r"D:\temp\x.py(3): <module>",
    r"torch\nn\modules\module.py(1): _call_impl",
    "aten::mm",
)


def _event(i: int) -> bytes:
    name = NAMES[i % len(NAMES)].encode()
    return b'{"ph": "X", "cat": "python_function", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 3}' % (name, i * 10)


def _text(n: int, tail: bytes = b"") -> bytes:
    return b'{"traceEvents": [\n' + b",\n".join(map(_event, range(n))) + b"\n]" + tail + b"}"


@pytest.mark.parametrize("block", [300, 5000, 4 << 20])
def test_names_counts_and_offsets(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    text = _text(100, rb', "trace_dir": "C:\new\logs", "distributedInfo": {"rank": 3}')
    trace = load_bytes(text, processes=0)
    # torch\nn\modules: \m is no escape, so all backslashes of that name were meant as themselves.
    assert [trace.name_of(i) for i in range(100)] == [NAMES[i % len(NAMES)] for i in range(100)]
    assert trace.repaired_events == 75
    assert trace.skipped_events == 0
    assert not trace.truncated
    assert trace.header == {"trace_dir": r"C:\new\logs", "distributedInfo": {"rank": 3}}
    note = next(n for n in trace.notes if n.id == "repaired")
    assert note.slots["offset"] == text.index(b'{"ph"')
    assert dict(note.slots["kinds"]) == {"backslashes": 75}


def test_other_damage_beside_it_stays_with_its_events() -> None:
    events = [_event(i) for i in range(20)]
    events[9] = events[9].replace(b'"dur": 3', b'"dur": nan')
    events[11] = events[11][:-1]
    trace = load_bytes(b'{"traceEvents": [' + b", ".join(events) + b"]}")
    assert len(trace) == 19
    assert trace.skipped_events == 1
    assert trace.repaired_events == sum(i % 4 != 3 for i in range(20))
    assert trace.dur[9] == 0


def test_sound_paths_are_left_alone() -> None:
    text = json.dumps({"traceEvents": [{"ph": "X", "name": n, "ts": i, "dur": 1} for i, n in enumerate(NAMES)]}).encode()
    trace = load_bytes(text)
    assert [trace.name_of(i) for i in range(len(NAMES))] == list(NAMES)
    assert trace.repaired_events == 0


def test_chunks_are_mended_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("event by event")

    monkeypatch.setattr(chunks, "mend_chunk", fail)
    assert len(load_bytes(_text(1000))) == 1000
