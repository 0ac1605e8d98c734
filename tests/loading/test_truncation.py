"""A file cut at any byte: all whole events are kept, and the Trace says that the end is missing."""

from __future__ import annotations

import json

import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids
from lanewise.loading import source as source_module


def _text() -> bytes:
    t = TraceBuilder(header={"distributedInfo": {"rank": 3}}, tail={"traceName": "a ] } name", "cuda_driver_version": 13000})
    t.op("aten::mm", 0, 50, **{"External id": 1, "Input Dims": [[4, 4], [4, 4]]})
    t.launch(10, 5, gpu=(30, 20))
    t.op("odd ] } , { name", 100, 5)
    t.named("process_name", "python", 100)
    t.op("no arguments", 200, 5)
    return t.text().encode()


TEXT = _text()
FIRST = TEXT.index(b'"traceEvents": [') + len(b'"traceEvents": [')
END = TEXT.rindex(b"}", 0, TEXT.index(b"\n  ]")) + 1
ENDS = [at + 1 for at in range(FIRST, len(TEXT)) if TEXT[at : at + 1] == b"}" and TEXT[at + 1 : at + 5] in (b",\n  ", b"\n  ]")]


def test_the_text_is_what_these_tests_take_it_for() -> None:
    assert len(json.loads(TEXT)["traceEvents"]) == len(ENDS) == 6
    assert ENDS[-1] == END


@pytest.mark.parametrize("block", [50, 4 << 20])
def test_every_byte(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    timed = [json.loads(TEXT[start:end].strip(b", \n"))["ph"] == "X" for start, end in zip([FIRST, *ENDS], ENDS, strict=False)]
    for cut in range(FIRST, len(TEXT)):
        trace = load_bytes(TEXT[:cut], processes=0)
        whole = sum(end <= cut for end in ENDS)
        assert len(trace) == sum(timed[:whole]), cut
        assert trace.skipped_events == trace.repaired_events == 0, cut
        assert trace.distributed.rank == 3
        closed = TEXT[:cut].rstrip().endswith(b"]") or cut > TEXT.index(b"\n  ]") + 3
        whole_document = not TEXT[cut:].strip()
        assert trace.truncated is not whole_document, cut
        expected = [] if whole_document else ["unfinished" if closed and cut > END else "truncated"]
        assert note_ids(trace) == expected, (cut, TEXT[max(0, cut - 30) : cut])
        if expected:
            assert trace.notes[0].slots["offset"] == cut
        if cut % 20 == 0:
            lanewise.explain(trace).to_json()


def test_every_byte_of_the_header() -> None:
    for cut in range(1, FIRST):
        with pytest.raises((lanewise.EmptyTraceError, lanewise.NotATraceError)) as caught:
            load_bytes(TEXT[:cut])
        if cut > 1:
            assert f"after {cut:,} bytes" in str(caught.value)


def test_keys_after_the_events_are_kept_up_to_the_cut() -> None:
    tail = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "distributedInfo": {"rank": 2}, "traceName": "x"}
    t = TraceBuilder(gpus=0, tail=tail)
    t.op("aten::mm", 0, 50)
    text = t.text().encode()
    cut = text.index(b'"traceName"') + 14
    trace = load_bytes(text[:cut])
    assert note_ids(trace) == ["unfinished"]
    assert trace.devices[0].name == "NVIDIA H100"
    assert trace.distributed.rank == 2
    trace = load_bytes(text[: text.index(b'"rank"') + 3])
    assert trace.devices[0].name == "NVIDIA H100"
    assert trace.distributed.rank is None


def test_bare_array_at_every_byte() -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(4)]
    text = json.dumps(events).encode()
    ends = [i + 1 for i, b in enumerate(text) if b == ord("}")]
    for cut in range(1, len(text)):
        trace = load_bytes(text[:cut])
        assert len(trace) == sum(end <= cut for end in ends)
        assert trace.truncated
        assert trace.skipped_events == 0
    assert not load_bytes(text).truncated


@pytest.mark.parametrize("fill", [b"\0" * 1000, b" " * 1000, b"\n"])
def test_blank_space_where_the_end_should_be(fill: bytes) -> None:
    """What a full disk or a crash leaves of the last block."""
    for cut in range(FIRST + 1, END, 7):
        trace = load_bytes(TEXT[:cut] + fill)
        assert trace.truncated
        assert len(trace) <= 5
        assert trace.skipped_events == 0


def test_two_documents() -> None:
    other = TraceBuilder()
    other.op("aten::relu", 0, 50)
    for between in (b"", b"\n", b"\0\0", b", "):
        trace = load_bytes(TEXT + between + other.text().encode())
        assert "aten::relu" not in trace.strings
        assert len(trace) == 5
        assert note_ids(trace) == ["two-documents"]
        assert trace.notes[0].slots["offset"] == len(TEXT.rstrip())
        assert not trace.truncated


@pytest.mark.parametrize("block", [30, 200, 4 << 20])
def test_two_documents_in_small_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    trace = load_bytes(TEXT + TEXT, processes=0)
    assert len(trace) == 5
    assert trace.notes[0].slots["offset"] == len(TEXT.rstrip())


def test_two_bare_arrays() -> None:
    array = b'[{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]'
    trace = load_bytes(array + b"\n" + array)
    assert len(trace) == 1
    assert note_ids(trace) == ["two-documents"]
    assert trace.notes[0].slots["offset"] == len(array)


def test_document_begun_again_within_itself() -> None:
    """Two processes writing to one file: the second begins where the first stood."""
    trace = load_bytes(TEXT[: ENDS[2]] + TEXT)
    assert trace.truncated or "two-documents" in note_ids(trace) or trace.skipped_events
    assert len(trace) >= 3
