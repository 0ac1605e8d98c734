"""Chunks of plain files, which are read where they are decoded: the same as those of a stream."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.loading import source as source_module
from lanewise.loading.framing import AnyChunk, FileFramer, Framer, HeaderScan
from lanewise.loading.source import Source, open_source


@pytest.fixture
def text() -> bytes:
    t = TraceBuilder()
    for i in range(60):
        t.op(f"op{i % 7}", i * 10, 5, **{"External id": i, "Input Dims": [[i % 3, 4]]})
        t.launch(i * 10 + 1, 2, gpu=(i * 10 + 3, 1))
    return t.text().encode()


def _chunks(source: Source, *, stored: bool) -> list[AnyChunk]:
    blocks, scan, buffer = source.blocks(), HeaderScan(), b""
    for block in blocks:
        buffer += block
        if scan.feed(buffer):
            break
    if not stored:
        return list(Framer(buffer[scan.begin :], blocks, scan.begin).chunks())
    assert source.descriptor is not None
    return list(FileFramer(source.descriptor, scan.begin, source.stored_blocks(source.descriptor)).chunks())


@pytest.mark.parametrize("block", [300, 500, 1000, 4096, 1 << 20])
def test_the_same_chunks(text: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    with open_source(io.BytesIO(text)) as stream, open_source(path) as file:
        of_stream = [(c.data, c.offset, c.last) for c in _chunks(stream, stored=False)]
        of_file = [(c.data, c.offset, c.last) for c in _chunks(file, stored=True)]
    assert of_file == of_stream
    assert len(of_file) > 1 or block > len(text)


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("damage", ["sound", "cut", "behind", "within"])
def test_the_same_trace(text: bytes, damage: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 2000)
    data = {
        "sound": text,
        "cut": text[: len(text) // 2],
        "behind": text + text,
        "within": text.replace(b'"op3"', b'"op"3"', 5),
    }[damage]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    of_file, of_stream = lanewise.load(path, processes=processes), lanewise.load(io.BytesIO(data), processes=0)
    assert of_file.ts.tolist() == of_stream.ts.tolist()
    assert of_file.notes == of_stream.notes
    assert (of_file.repaired_events, of_file.skipped_events) == (of_stream.repaired_events, of_stream.skipped_events)


def test_a_file_that_cannot_be_read_any_more(text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(text)

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(lanewise.LoadError, match="Input/output error"):
        lanewise.load(path, processes=0)


def test_a_file_of_no_size_is_read_as_a_stream() -> None:
    proc = Path("/proc/self/status")
    if not proc.exists():
        pytest.skip("no /proc")
    with open_source(proc) as source:
        assert source.descriptor is None
    assert os.path.getsize(proc) == 0
