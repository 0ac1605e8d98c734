"""Files that are no trace are named as what they are; nothing of them is run."""

from __future__ import annotations

import gzip
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import pytest

import lanewise
from builder import TraceBuilder, load_bytes, note_ids
from places import DATA

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
        (pickle.dumps({"a": []}, protocol=4), "pickle"),
        (pickle.dumps({"segments": []}, protocol=4), "memory snapshot"),
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
        (b"PERFILE2" + bytes(100), "Linux perf"),
        (pickle.dumps({"segments": [], "device_traces": []}), "memory snapshot"),
        (pickle.dumps({"version": "2.9", "nccl_version": "2.27", "pg_config": {}}), "flight recorder"),
        (json.dumps({"version": "2.9", "nccl_comm_state": {}, "pg_config": {}}).encode(), "flight recorder"),
        (json.dumps({"schema": "lanewise.diff/1", "verdict": {}}).encode(), "document of lanewise"),
        (b"<!doctype html><html><head><title>a.json.gz - lanewise</title></head></html>", "HTML page of lanewise"),
        (b"\n\x08\x08\x01\x12\x04abcd\n\x03\x08\x02\x10\n\x81\x01" + bytes(129), "Perfetto"),
        (b"-" * 20 + b"\n   Name    Self CPU %   # of Calls  \n", "table of ops"),
        (b"train.py(3): main;torch/nn/modules/module.py(1): _call_impl;aten::mm 1203\n" * 9, "folded stacks"),
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


def _refused(path: Path) -> lanewise.LoadError:
    with pytest.raises(lanewise.NotATraceError) as caught:
        lanewise.load(path)
    return caught.value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.nsys-rep", "Nsight Systems"),
        ("run.qdrep", "Nsight Systems"),
        ("run.ncu-rep", "Nsight Compute"),
        ("host.xplane.pb", "XSpace"),
        ("a.pftrace", "Perfetto"),
        ("events.out.tfevents.1700000000.host.1.0", "TensorBoard"),
    ],
)
def test_what_only_the_name_tells(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x01\x02\xf0NVR" + bytes(range(256)))
    assert words in str(_refused(tmp_path / name))


def test_a_trace_of_any_name_is_a_trace(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 5)
    assert len(lanewise.load(t.write(tmp_path / "run.nsys-rep"))) == 1
    # As a Perfetto trace it begins with a line feed; what follows is no length.
    text = "\n\n" + t.text()
    (tmp_path / "t.json").write_text(text)
    assert len(lanewise.load(tmp_path / "t.json")) == 1


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
def test_checkpoints(zipped: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.ones(3)}, path, _use_new_zipfile_serialization=zipped)
    assert "torch.save" in str(_refused(path))


def test_a_table_names_the_trace_beside_it(tmp_path: Path) -> None:
    table = tmp_path / "host_1.steps.txt"
    table.write_text("----  ----\n  Name  Self CPU %  # of Calls\n")
    assert "that was recorded with it" in str(_refused(table))
    trace = tmp_path / "host_1.steps.json.gz"
    trace.write_bytes(b"")
    assert str(_refused(table)).endswith(f"The trace lies beside it: {trace}")
    assert "同じフォルダ" in _refused(table).text("ja")


def test_a_table_of_torch_is_told() -> None:
    tables = sorted(DATA.rglob("*.txt"))
    assert tables
    assert all("table of ops" in str(_refused(path)) for path in tables)


def test_a_folder_names_traces_in_folders_within(tmp_path: Path) -> None:
    inner = tmp_path / "plugins" / "profile" / "run1"
    inner.mkdir(parents=True)
    (inner / "host.pt.trace.json").write_text("{}")
    assert "for example plugins/profile/run1/host.pt.trace.json" in str(_refused(tmp_path))


def test_text_in_wide_characters_and_what_else_is_nearly_a_trace(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 5)
    text, path = t.text(), tmp_path / "t.json"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
        path.write_bytes(text.encode(encoding))
        assert "UTF-16 or UTF-32" in str(_refused(path)), encoding
    path.write_bytes(gzip.compress(gzip.compress(text.encode())))
    assert "gzip within gzip" in str(_refused(path))
    path.write_text(repr(json.loads(text)))
    assert "as Python prints it" in str(_refused(path))
    with tarfile.open(path, "w:gz") as archive:
        archive.add(__file__, "t.json")
    assert "tar archive" in str(_refused(path))


def test_keys_of_other_documents_are_shown_short_and_give_no_orders(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"a\x1b[2J' + "x" * 99 + '": 1}')
    assert "its keys: a\N{REPLACEMENT CHARACTER}[2J" + "x" * 35 + "...)" in str(_refused(tmp_path / "t.json"))
