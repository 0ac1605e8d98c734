"""Files that are no trace are named as what they are; nothing of them is run."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from pathlib import Path

import pytest

import lanewise
from builder import load_bytes, note_ids

EXECUTION_TRACE = json.dumps({"schema": "1.0.2-chakra", "pid": 1, "nodes": [{"id": 1, "name": "aten::mm"}]}).encode()
HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>"


class Exploding:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"   \n\n", "blank"),
        (b"\0" * 5000, "blank"),
        (HTML, "HTML"),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "XML"),
        (EXECUTION_TRACE, "execution trace"),
        (EXECUTION_TRACE.replace(b" ", b"\n" * 40), "execution trace"),
        (json.dumps({"segments": [], "device_traces": []}).encode(), "memory snapshot"),
        (pickle.dumps(Exploding()), "pickle"),
        (pickle.dumps({"segments": []}, protocol=4), "pickle"),
        (json.dumps({"$schema": "x", "shared": {"frames": []}, "profiles": []}).encode(), "speedscope"),
        (json.dumps({"schema": "lanewise.report/1", "findings": []}).encode(), "lanewise report"),
        (json.dumps({"a": 1, "b": 2}).encode(), "without traceEvents"),
        (json.dumps({"traceEvents": None}).encode(), "without traceEvents"),
        (json.dumps({"traceEvents": {"a": 1}}).encode(), "without traceEvents"),
        (b"{}", "without traceEvents"),
        (b"Name, Self CPU, CPU total\naten::mm, 1, 2\n", "text"),
        (b"SQLite format 3\x00" + bytes(100), "SQLite"),
        (b"\x28\xb5\x2f\xfd" + bytes(50), "zstd"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x7fELF" + bytes(60), "program"),
        (b"%PDF-1.7", "PDF"),
        (bytes(range(256)) * 10, "binary|blank"),
        ('{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
        (b"[1, 2, 3]", "no event"),
        (b'[{"a": 1}, {"b": 2}]', "no event"),
        (b'["a", "b"]', "no event"),
    ],
)
def test_kind_is_named(data: bytes, words: str, tmp_path: Path) -> None:
    for name, content in (("x.json", data), ("x.json.gz", gzip.compress(data))):
        if not data and name.endswith("gz"):
            continue  # an empty gzip is covered below
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(lanewise.LoadError, match=words) as caught:
            lanewise.load(path)
        assert str(caught.value).startswith(str(path))
        assert caught.value.next_step


def test_zip(tmp_path: Path) -> None:
    path = tmp_path / "trace.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", "{}")
    with pytest.raises(lanewise.NotATraceError, match="zip archive"):
        lanewise.load(path)


def test_empty_gzip() -> None:
    with pytest.raises(lanewise.EmptyTraceError):
        load_bytes(gzip.compress(b""))


def test_directory_names_a_file(tmp_path: Path) -> None:
    (tmp_path / "rank0.json.gz").write_bytes(b"")
    with pytest.raises(lanewise.NotATraceError, match=r"for example rank0\.json\.gz"):
        lanewise.load(tmp_path)
    (tmp_path / "rank0.json.gz").unlink()
    with pytest.raises(lanewise.NotATraceError, match="Name the file that"):
        lanewise.load(tmp_path)


@pytest.mark.parametrize("data", [b'{"traceEvents": []}', b"[]", b'{"schemaVersion": 1, "traceEvents": [], "traceName": "x"}'])
def test_a_trace_without_events_is_one(data: bytes) -> None:
    trace = load_bytes(data)
    assert len(trace) == 0
    assert note_ids(trace) == ["no-events"]
    assert trace.span is None
    report = lanewise.explain(trace)
    assert report.trace.span_us is None
    assert report.coverage.gpu_timing == "none"
    assert not any((report.gpu, report.steps, report.ops, report.kernels))


def test_text_without_any_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    from lanewise.loading import framing, reader
    from lanewise.loading import source as source_module

    monkeypatch.setattr(source_module, "BLOCK_BYTES", 1000)
    for module in (framing, reader):
        monkeypatch.setattr(module, "LARGEST_EVENT", 20_000)
    with pytest.raises(lanewise.LoadError, match="no event ends"):
        load_bytes(b'{"traceEvents": [{"ph": "X", "name": "' + b"x" * 100_000 + b'"}]}', processes=0)
