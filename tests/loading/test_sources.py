"""Where bytes come from: paths, pipes, file objects, URLs; gzip by content, whole, in members, cut and damaged."""

from __future__ import annotations

import gzip
import io
import os
import random
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids
from lanewise.loading import source as source_module

N = 40


@pytest.fixture(scope="module")
def text() -> bytes:
    t = TraceBuilder()
    for i in range(N):
        t.op(f"op{i}", i * 10, 5, **{"External id": random.Random(i).randrange(10**9)})
    return t.text().encode()


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def _inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of this with both libraries that may do the inflating."""
    if request.param == "zlib":
        monkeypatch.setattr(source_module, "_inflater", zlib)


def test_path_as_text_and_as_path(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    for source in (path, str(path)):
        trace = lanewise.load(source)
        assert len(trace) == N
        assert trace.path == str(path)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.gz", "trace"])
def test_gzip_is_told_by_its_content(text: bytes, tmp_path: Path, name: str) -> None:
    for data in (text, gzip.compress(text)):
        (tmp_path / name).write_bytes(data)
        assert len(lanewise.load(tmp_path / name)) == N


def test_standard_input(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (text, gzip.compress(text)):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        trace = lanewise.load("-")
        assert len(trace) == N
        assert trace.path == "<stdin>"


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(lanewise.LoadError, match="closed"):
        lanewise.load("-")


class Dribble(io.RawIOBase):
    """Gives a few bytes at a time, as sockets and pipes do."""

    def __init__(self, data: bytes, at_once: int) -> None:
        self._data, self._at_once = data, at_once

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        n = self._at_once if size < 0 else min(size, self._at_once)
        out, self._data = self._data[:n], self._data[n:]
        return out


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_a_few_bytes_at_a_time(text: bytes, at_once: int) -> None:
    for data in (text, gzip.compress(text)):
        assert len(lanewise.load(Dribble(data, at_once))) == N  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipe(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(text,))
    writer.start()
    try:
        assert len(lanewise.load(path)) == N
    finally:
        writer.join()


def test_file_objects(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    with path.open("rb") as stream:
        trace = lanewise.load(stream)
        assert not stream.closed
    assert len(trace) == N
    assert trace.path == str(path)
    with path.open("rb") as raw, gzip.open(io.BytesIO(gzip.compress(raw.read()))) as inflated:
        assert len(lanewise.load(inflated)) == N  # type: ignore[arg-type]


def test_text_mode_is_a_usage_error(text: bytes) -> None:
    with pytest.raises(lanewise.UsageError, match="binary mode"):
        lanewise.load(io.StringIO(text.decode()))  # type: ignore[arg-type]


def test_reading_that_fails() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise ConnectionResetError(104, "Connection reset by peer")

    with pytest.raises(lanewise.LoadError, match="Connection reset by peer"):
        lanewise.load(Broken())  # type: ignore[arg-type]


def test_url(text: bytes) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://folder/trace.json.gz", "wb") as stream:
        stream.write(gzip.compress(text))
    trace = lanewise.load("memory://folder/trace.json.gz")
    assert len(trace) == N
    assert trace.path == "memory://folder/trace.json.gz"
    with pytest.raises(lanewise.LoadError, match=r"memory://folder/absent\.json: cannot be opened"):
        lanewise.load("memory://folder/absent.json")
    with pytest.raises(lanewise.LoadError, match="cannot be opened"):
        lanewise.load("nosuchprotocol://x")


def test_url_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(lanewise.UsageError, match="pip install"):
        lanewise.load("s3://bucket/trace.json")


@pytest.mark.parametrize("sizes", [(1, 100), (10, 10, 10), (1, 1, 1, 1), (500,)])
def test_gzip_members(text: bytes, sizes: tuple[int, ...]) -> None:
    parts, at = [], 0
    for size in sizes:
        parts.append(gzip.compress(text[at : at + size]))
        at += size
    trace = load_bytes(b"".join([*parts, gzip.compress(text[at:])]))
    assert len(trace) == N
    assert not trace.truncated
    assert note_ids(trace) == []


def test_many_gzip_members_at_every_read_border(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(gzip.compress(text[i : i + 64]) for i in range(0, len(text), 64))
    for size in (2, 3, 17, 64, 1000):
        monkeypatch.setattr(source_module, "_COMPRESSED_BYTES", size)
        monkeypatch.setattr(source_module, "_PIECE_BYTES", max(1, size // 2))
        assert len(load_bytes(data, processes=0)) == N


@pytest.mark.parametrize("padding", [1, 7, 511, 100_000])
def test_padding_after_gzip(text: bytes, padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_COMPRESSED_BYTES", 64)
    data = gzip.compress(text)
    trace = load_bytes(data + b"\0" * padding)
    assert note_ids(trace) == []
    assert not trace.truncated
    # Two members with padding between them, as archives on tapes have it.
    half = len(text) // 2
    trace = load_bytes(gzip.compress(text[:half]) + b"\0" * padding + gzip.compress(text[half:]))
    assert len(trace) == N


def test_bytes_after_gzip(text: bytes) -> None:
    trace = load_bytes(gzip.compress(text) + b"appended by mistake")
    assert len(trace) == N
    assert note_ids(trace) == ["gzip-trailing"]
    assert not trace.truncated


def test_gzip_cut_at_every_byte(text: bytes) -> None:
    data = gzip.compress(text)
    for cut in range(1, len(data)):
        inflated = zlib.decompressobj(31).decompress(data[:cut])
        if b'"traceEvents": [' not in inflated:
            with pytest.raises(lanewise.LoadError):
                load_bytes(data[:cut])
            continue
        trace = load_bytes(data[:cut])
        assert trace.truncated
        assert "gzip-cut" in note_ids(trace)
        assert len(trace) == inflated.count(b"}}"), cut
        assert trace.skipped_events == trace.repaired_events == 0


def test_damaged_gzip_keeps_what_came_before(text: bytes) -> None:
    big = text.replace(
        b"\n  ]", b",\n  " + b",\n  ".join([text[text.index(b'{"ph"') : text.index(b"}},") + 2]] * 20000) + b"\n  ]"
    )
    data = gzip.compress(big)
    damaged = bytearray(data)
    at = len(data) // 2
    damaged[at : at + 20] = b"\xff" * 20
    trace = load_bytes(bytes(damaged))
    assert trace.truncated
    note = next(n for n in trace.notes if n.id == "gzip-damaged")
    assert at - 4096 <= note.slots["offset"] <= len(data)
    assert len(trace) >= N


def test_checksum_that_is_wrong(text: bytes) -> None:
    data = bytearray(gzip.compress(text))
    data[-8] ^= 1
    trace = load_bytes(bytes(data))
    assert len(trace) == N
    assert "gzip-damaged" in note_ids(trace)
    assert trace.truncated


def test_nothing_can_be_inflated() -> None:
    with pytest.raises(lanewise.LoadError, match="inflated"):
        load_bytes(b"\x1f\x8b" + b"\xff" * 100)


def test_memory_is_bounded_for_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip of nothing but spaces inflates a thousandfold; it is handed on in blocks."""
    data = gzip.compress(b" " * (64 << 20))
    sizes: list[int] = []
    stream = source_module.Source("x", io.BytesIO(data), None, close=False)
    sizes += [len(block) for block in stream.blocks()]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 2 * source_module.BLOCK_BYTES


def test_progress_reaches_the_size(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    seen: list[tuple[int, int | None]] = []
    lanewise.load(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(text), len(text))


def test_names_that_are_not_utf8(text: bytes, tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json")
    try:
        with open(name, "wb") as stream:
            stream.write(text)
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    trace = lanewise.load(name)
    assert trace.path.endswith("caf\ufffd.json")
    lanewise.explain(trace).to_json()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda d: d / "absent.json", "no such file"),
        (lambda d: d / "trace.jsn", "Did you mean"),
        (lambda d: d / "no" / "x.json", "does not exist either"),
        (lambda d: d, "is a directory"),
        (lambda d: str(d) + "/a\0b.json", "cannot be opened"),
    ],
)
def test_paths_that_cannot_be_opened(source: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(lanewise.LoadError, match=words):
        lanewise.load(source(tmp_path))
