"""Damaged events: each kind alone and mixed, at every chunk border, with and without workers; its neighbours never suffer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from builder import Text, TraceBuilder, load_bytes
from lanewise.loading import source as source_module
from lanewise.model.trace import Trace

BLOCKS = (1, 7, 64, 100, 333, 4 << 20)


@dataclass(frozen=True)
class Case:
    """One damaged event; `{ts}` in its text is its start in us.

    Attributes:
        id: name of the case.
        text: the event as the file has it.
        kinds: what the note must name; empty for damage that needs no mending.
        name: the event's name after mending, None where it is lost.
        dur_ns: its duration after mending.
    """

    id: str
    text: bytes
    kinds: tuple[str, ...]
    name: str | None = "odd"
    dur_ns: int = 5000


def _event(name: bytes = b"odd", more: bytes = b"", dur: bytes = b"5.000") -> bytes:
    return b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": {ts}, "dur": %s%s}' % (name, dur, more)


def _args(text: bytes) -> bytes:
    return b', "args": {%s}' % text


CASES = (
    Case("quotes in name", _event(b'a "quoted" op'), ("quotes",), 'a "quoted" op'),
    Case("quote first", _event(b'"<lambda>" (3)'), ("quotes",), '"<lambda>" (3)'),
    Case("quotes in stack", _event(more=_args(b'"Call stack": "f("x.py"): 3", "External id": 7')), ("quotes",)),
    Case("backslashes loud", _event(rb"C:\Users\me\model.py(3): run"), ("backslashes",), r"C:\Users\me\model.py(3): run"),
    Case("backslashes silent", _event(rb"C:\new\table.py(3): f"), ("backslashes",), r"C:\new\table.py(3): f"),
    Case("backslashes silent, small drive", _event(rb"d:\bin\run.py(3): f"), ("backslashes",), r"d:\bin\run.py(3): f"),
    Case("backslashes without drive", _event(rb"..\src\app.py(3): g"), ("backslashes",), r"..\src\app.py(3): g"),
    Case("backslash last", _event(b"C:\\work\\"), ("quotes", "backslashes"), "C:\\work\\"),
    Case("raw line feed", _event(b"two\nlines"), ("controls",), "two\nlines"),
    Case("raw tab and escape", _event(b"a\tb\x1b[0m"), ("controls",), "a\tb\x1b[0m"),
    Case("NUL in name", _event(b"a\0b"), ("controls",), "a\0b"),
    Case("NUL between fields", _event(more=b"\0\0\0"), ("controls",)),
    Case("not UTF-8", _event(b"caf\xe9"), ("encoding",), "caf\ufffd"),
    Case("half a surrogate pair", _event(rb"a\ud83dz"), ("encoding",), "a\ufffdz"),
    Case("nan", _event(more=_args(b'"x": nan')), ("numbers",)),
    Case("NaN", _event(more=_args(b'"est. achieved occupancy %": NaN')), ("numbers",)),
    Case("inf", _event(more=_args(b'"x": inf, "y": -inf')), ("numbers",)),
    Case("Infinity", _event(more=_args(b'"x": -Infinity')), ("numbers",)),
    Case("N/A", _event(more=_args(b'"x": N/A')), ("numbers",)),
    Case("two numbers in one", _event(more=_args(b'"x": -1.-660')), ("numbers",)),
    Case("beyond doubles", _event(more=_args(b'"bytes": 1e999')), ("numbers",)),
    Case("dots in a list", _event(more=_args(b'"Input Dims": [1, 2, ...]')), ("numbers",)),
    Case("nan duration", _event(dur=b"nan"), ("numbers",), dur_ns=0),
    Case("doubled comma", _event(more=b", " + _args(b'"x": 1')), ("commas",)),
    Case("trailing comma", _event(more=_args(b'"x": 1,') + b","), ("commas",)),
    Case("trailing comma in a list", _event(more=_args(b'"Input Dims": [1, 2, ]')), ("commas",)),
    Case("leading comma", _event(more=_args(b', "x": 1')), ("commas",)),
    Case("list for args", _event(more=b', "args": [1, 2]'), ("types",)),
    Case("object for a lane", _event(more=b', "id": {"a": 1}'), ("types",)),
    Case("number for a name", _event(more=b', "name": 17'), (), "17"),
    Case("text for a duration", _event(dur=b'"5.0"'), ()),
    Case("odd duration", _event(dur=b'"5 ms"'), ("types",), dur_ns=0),
    Case("quotes and inf", _event(b'a "b"', _args(b'"x": inf')), ("quotes", "numbers"), 'a "b"'),
    Case("quotes and path", _event(rb'"C:\new" op'), ("quotes", "backslashes"), r'"C:\new" op'),
    Case("line feed and quotes", _event(b'a\n"b"'), ("quotes", "controls"), 'a\n"b"'),
    Case(
        "nearly all at once",
        _event(b'caf\xe9\t"b"', _args(b'"x": nan, , "y": [1, ...,]')),
        ("encoding", "quotes", "controls", "numbers", "commas"),
        'caf\ufffd\t"b"',
    ),
    Case("no value", _event(more=_args(b'"x": ')), ("unreadable",), None),
    Case("no closing brace", _event()[:-1], ("unreadable",), None),
    Case("no closing brace, but its arguments' one", _event(more=_args(b'"x": 1'))[:-1], ("unreadable",), None),
    Case("torn off in a name", _event()[:40], ("unreadable",), None),
    Case("torn off after a key", _event()[:28], ("unreadable",), None),
    Case("beginning missing", _event(more=_args(b'"x": 1'))[30:], ("rubbish",), None),
    Case("null in its place", b"null", ("rubbish",), None),
    Case("text in its place", b'"free(): invalid pointer"', ("rubbish",), None),
    Case("log line in its place", b"[W914 10:00:00 profiler.cpp:42] warning {x}", ("rubbish",), None),
    Case("NULs in its place", b"\0" * 50, (), None),
    Case("nothing in its place", b"", (), None),
    Case(
        "start not a number",
        b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": nan, "dur": 5}',
        ("no-time",),
        None,
    ),
)
BY_ID = {c.id: c for c in CASES}


def _sound(i: int) -> bytes:
    return b'{"ph": "X", "cat": "cpu_op", "name": "sound%d", "pid": 1, "tid": 1, "ts": %d, "dur": 3}' % (i, i * 10)


def _document(cases: list[Case], *, separator: bytes = b",\n  ", bare: bool = False) -> bytes:
    """Sound events with a damaged one between each two."""
    events = [_sound(0)]
    for i, case in enumerate(cases):
        events += [case.text.replace(b"{ts}", b"%d" % (i * 10 + 5)), _sound(i + 1)]
    array = b"[\n  " + separator.join(events) + b"\n]"
    return array if bare else b'{"schemaVersion": 1, "traceEvents": ' + array + b', "traceName": "x"}'


def _check(trace: Trace, cases: list[Case]) -> None:
    want: dict[int, tuple[str, int]] = {i * 10_000: (f"sound{i}", 3000) for i in range(len(cases) + 1)}
    for i, case in enumerate(cases):
        if case.name is not None:
            want[i * 10_000 + 5000] = (case.name, case.dur_ns)
    got = {int(t): (trace.strings[n], int(d)) for t, n, d in zip(trace.ts, trace.name, trace.dur, strict=True)}
    assert got == want
    assert trace.repaired_events == sum(bool(c.kinds) and c.name is not None for c in cases)
    assert trace.skipped_events == sum(bool(c.kinds) and c.name is None for c in cases)
    assert not trace.truncated
    named = {n.id: dict(n.slots) for n in trace.notes}
    for note, kept in (("repaired", True), ("skipped", False)):
        kinds = [k for c in cases for k in c.kinds if (c.name is not None) is kept]
        assert dict(named.get(note, {}).get("kinds", {})) == {k: kinds.count(k) for k in kinds}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_one_damaged_event(case: Case, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    _check(load_bytes(_document([case]), processes=0), [case])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_first_and_last_event(case: Case) -> None:
    text = case.text.replace(b"{ts}", b"20")
    for events in ([text, _sound(1)], [_sound(1), text]):
        trace = load_bytes(b'{"traceEvents": [' + b", ".join(events) + b'], "distributedInfo": {"rank": 3}}')
        assert trace.distributed.rank == 3
        assert not trace.truncated
        assert "sound1" in {trace.name_of(i) for i in range(len(trace))}
        assert len(trace) == 1 + (case.name is not None)


@pytest.mark.parametrize("block", BLOCKS)
def test_all_kinds_mixed(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    order = random.Random(block)
    for bare in (False, True):
        cases = order.sample(CASES, len(CASES))
        _check(load_bytes(_document(cases, bare=bare), processes=0), cases)


def test_workers_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 700)
    cases = list(CASES) * 3
    _check(load_bytes(_document(cases), processes=2), cases)


def test_damaged_events_side_by_side() -> None:
    """Two at a time, in every order, with nothing sound between them."""
    for i, first in enumerate(CASES):
        for second in CASES[i % 3 :: 3]:
            # What is torn off at its end and what lacks its beginning make one piece of text; that counts once.
            torn = first.id.startswith(("no closing", "torn", "NULs", "nothing")) or second.id.startswith(
                ("beginning", "NULs", "nothing")
            )
            if torn or "rubbish" in (*first.kinds, *second.kinds):
                continue
            events = [_sound(0), first.text.replace(b"{ts}", b"5"), second.text.replace(b"{ts}", b"15"), _sound(2)]
            trace = load_bytes(b'{"traceEvents": [' + b", ".join(events) + b"]}")
            names = [trace.name_of(i) for i in range(len(trace))]
            assert names == ["sound0", *(c.name for c in (first, second) if c.name is not None), "sound2"], (
                first.id,
                second.id,
            )
            assert trace.skipped_events == (first.name is None) + (second.name is None), (first.id, second.id)


@pytest.mark.parametrize(
    "separator", [b",", b",,", b" , , ", b"\n", b"", b",\0\0", b", ,\n,", b"\0,"], ids=lambda s: repr(s)[2:-1] or "none"
)
@pytest.mark.parametrize("block", [3, 50, 4 << 20])
def test_separators(separator: bytes, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    text = b'{"traceEvents": [' + separator.join(_sound(i) for i in range(5)) + b"]}"
    trace = load_bytes(text, processes=0)
    assert [trace.name_of(i) for i in range(len(trace))] == [f"sound{i}" for i in range(5)]
    assert trace.skipped_events == trace.repaired_events == 0
    assert not trace.truncated


@pytest.mark.parametrize("extra", [b",", b",\n,", b"\0", b""])
def test_comma_after_the_last_event(extra: bytes) -> None:
    trace = load_bytes(b'{"traceEvents": [' + _sound(0) + b", " + _sound(1) + extra + b']\n, "traceName": "x"}')
    assert len(trace) == 2
    assert trace.header["traceName"] == "x"
    assert trace.skipped_events == trace.repaired_events == 0


def test_offsets_of_notes_are_those_of_the_text() -> None:
    damaged = b'{"ph": "X", "cat": "cpu_op", "name": "a"b", "pid": 1, "tid": 1, "ts": 5, "dur": 1}'
    lost = b'{"ph": "X", "name": }'
    text = b'{"traceEvents": [\n ' + b",\n ".join([_sound(0), damaged, _sound(1), lost, _sound(2)]) + b"]}"
    trace = load_bytes(text)
    offsets = {n.id: n.slots["offset"] for n in trace.notes if n.id in ("repaired", "skipped")}
    assert offsets == {"repaired": text.index(damaged), "skipped": text.index(lost)}


@pytest.mark.parametrize("block", [16, 40, 200, 4 << 20])
def test_objects_in_arguments_that_look_like_events(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    listed = b", ".join(b'{"name": "x%d", "id": %d}' % (i, i) for i in range(9))
    event = _event(more=_args(b'"groups": [' + listed + b'], "External id": 42')).replace(b"{ts}", b"15")
    trace = load_bytes(b'{"traceEvents": [' + b",\n".join([_sound(0), event, _sound(2)]) + b"]}", processes=0)
    assert [trace.name_of(i) for i in range(len(trace))] == ["sound0", "odd", "sound2"]
    assert trace.column("cpu_ops", "external_id").tolist() == [-1, 42, -1]
    assert trace.skipped_events == trace.repaired_events == 0


@pytest.mark.parametrize("block", [16, 40, 200, 4 << 20])
def test_a_damaged_event_with_such_objects_takes_no_other_with_it(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    listed = b", ".join(b'{"name": "x%d", "id": %d}' % (i, i) for i in range(3))
    event = _event(more=_args(b'"broken": , "groups": [' + listed + b'], "rank": 3')).replace(b"{ts}", b"15")
    trace = load_bytes(b'{"traceEvents": [' + b",\n".join([_sound(0), event, _sound(2)]) + b"]}", processes=0)
    assert [trace.name_of(i) for i in range(len(trace))] == ["sound0", "sound2"]
    assert trace.skipped_events == 1
    assert not trace.truncated


def test_text_in_sound_events_is_left_alone() -> None:
    names: dict[bytes, str] = {
        rb"C:\\new\\table.py": r"C:\new\table.py",
        rb"if x:\n  pass": "if x:\n  pass",
        rb"key:\tvalue": "key:\tvalue",
        rb"a \"quoted\" op": 'a "quoted" op',
        rb"}, {\"ph\": \"X\"": '}, {"ph": "X"',
        rb"\ud83d\ude00": "\U0001f600",
        rb"nan, inf, [1, 2, ...]": "nan, inf, [1, 2, ...]",
        "行列積".encode(): "行列積",
    }
    events = [
        b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 1}' % (n, i)
        for i, n in enumerate(names)
    ]
    trace = load_bytes(b'{"traceEvents": [' + b", ".join(events) + b"]}")
    assert [trace.name_of(i) for i in range(len(trace))] == list(names.values())
    assert trace.repaired_events == trace.skipped_events == 0


@pytest.mark.parametrize(
    ("fields", "skipped"),
    [
        ({"ts": b"20", "dur": b"-1"}, 1),
        ({"ts": b"20", "dur": b"18446744073709551.615"}, 1),
        ({"ts": b"20", "dur": b"1e300"}, 1),
        ({"ts": b"1e300", "dur": b"1"}, 1),
        ({"ts": b"9" * 300, "dur": b"1"}, 1),
        ({"ts": b"1e999999", "dur": b"1"}, 1),
        ({"ts": b"-9223372036854775808", "dur": b"1"}, 1),
        ({"ts": b"null", "dur": b"1"}, 1),
        ({"dur": b"1"}, 1),
        ({"ts": b"20", "dur": b"null"}, 0),
        ({"ts": b"20"}, 0),
        ({"ts": b"20", "dur": b"31536000000000"}, 0),
    ],
)
def test_times_that_are_none(fields: dict[str, bytes], skipped: int) -> None:
    text = b", ".join(b'"%s": %s' % (k.encode(), v) for k, v in fields.items())
    event = b'{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, ' + text + b"}"
    trace = load_bytes(b'{"traceEvents": [' + b", ".join([_sound(0), event, _sound(3)]) + b"]}")
    assert trace.skipped_events == skipped
    assert len(trace) == 3 - skipped
    assert trace.repaired_events == 0


def _kinds(trace: Trace, note: str) -> Any:
    return next(n.slots["kinds"] for n in trace.notes if n.id == note)


def test_notes_are_worded_in_both_languages() -> None:
    cases = [BY_ID["quotes in name"], BY_ID["no value"], BY_ID["torn off in a name"]]
    trace = load_bytes(_document(cases))
    texts = {n.id: n.text() for n in trace.notes}
    assert "1 event" in texts["repaired"]
    assert "unescaped quotes" in texts["repaired"]
    assert "2 events" in texts["skipped"]
    japanese = {n.id: n.text("ja") for n in trace.notes}
    assert japanese["repaired"] != texts["repaired"]
    assert "引用符" in japanese["repaired"]


@pytest.mark.parametrize("name", ["C:\\new\\table.py(3): run", 'a "quote" \\ and a\ttab', "\\", "\\\\", "\\u0041", "\u00e9\\"])
def test_sound_escapes_stay_where_something_else_is_mended(name: str) -> None:
    t = TraceBuilder(gpus=0)
    t.op(name, 0, 5, size=Text("nan"))
    trace = t.load()
    assert ([trace.name_of(i) for i in range(len(trace))], trace.repaired_events, trace.skipped_events) == ([name], 1, 0)


def _overwritten(garbage: bytes) -> tuple[Trace, int, range]:
    """A trace over whose text something was written, its offset, and the numbers of the events that it hit."""
    t = TraceBuilder(gpus=0)
    for i in range(200):
        t.op(f"op{i}", i * 10, 5, **{"External id": i})
    text = t.text().encode()
    begin = text.index(b'"op20"') + 2
    data = text[:begin] + garbage + text[begin + len(garbage) :]
    whole = [i for i in range(200) if text.index(b'"op%d"' % i) > begin + len(garbage)]
    # An event whose beginning was hit too begins before its name.
    return load_bytes(data), data.rindex(b'{"ph"', 0, begin), range(20, whole[0])


@pytest.mark.parametrize("size", [100, 512, 1500])
def test_a_lost_block_gives_no_event_out_of_two(size: int) -> None:
    noise = random.Random(size)
    for garbage in (bytes(size), bytes(noise.randrange(256) for _ in range(size * 4))):
        trace, offset, hit = _overwritten(garbage)
        names = [trace.name_of(i) for i in range(len(trace))]
        assert set(names).isdisjoint(f"op{i}" for i in hit)
        assert all(int(trace.ts[i]) == int(name[2:]) * 10_000 for i, name in enumerate(names))
        assert {*names} >= {f"op{i}" for i in range(200) if i < hit.start or i > hit.stop}
        assert trace.skipped_events == 1
        note = next(n for n in trace.notes if n.id == "skipped")
        assert note.slots["offset"] == offset
        assert note.slots["bytes"] >= len(garbage)


def test_bytes_that_are_no_utf8_are_seen_where_nobody_reads_them() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 5, note="caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    text = t.text().encode().replace(b"\\u00e9", b"\xe9")
    trace = load_bytes(text)
    assert (len(trace), trace.repaired_events, dict(_kinds(trace, "repaired"))) == (1, 1, {"encoding": 1})


def test_unknown_categories_are_told_short_and_without_control_characters() -> None:
    t = TraceBuilder(gpus=0)
    t.span("my\x1b[31mkind" + "x" * 100, "a", 0, 5, 1, 1)
    names = next(n for n in t.load().notes if n.id == "unknown-category").slots["names"]
    assert names == "my\N{REPLACEMENT CHARACTER}[31mkind" + "x" * 29 + "..."


def test_damage_in_a_second_document_is_not_the_first_s() -> None:
    first = b"[\n" + _sound(0) + b",\n" + _sound(1) + b"\n]"
    trace = load_bytes(first + first.replace(b"sound", b"s\xffund"))
    assert [trace.name_of(i) for i in range(len(trace))] == ["sound0", "sound1"]
    assert (trace.repaired_events, trace.skipped_events, [n.id for n in trace.notes]) == (0, 0, ["two-documents"])
