"""Worker processes: the same result as without, whatever becomes of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lanewise
from builder import TraceBuilder, load_bytes
from lanewise.loading import source as source_module
from lanewise.loading import workers as workers_module
from lanewise.loading.framing import Chunk
from lanewise.loading.workers import Workers


@pytest.fixture
def text() -> bytes:
    t = TraceBuilder()
    for i in range(400):
        t.op(f"op{i % 7}", i * 10, 5, **{"External id": i, "Input Dims": [[i % 3, 4]]})
        t.launch(i * 10 + 1, 2, gpu=(i * 10 + 3, 1))
    return t.text().encode()


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 5000)


def _report(data: bytes, processes: int) -> Any:
    return lanewise.explain(load_bytes(data, processes=processes)).to_dict()


@pytest.mark.parametrize("processes", [1, 3])
def test_the_same_as_without(text: bytes, processes: int) -> None:
    assert _report(text, processes) == _report(text, 0)


def test_epoch_times(text: bytes) -> None:
    epoch = text.replace(b'"ts": ', b'"ts": 1722470400000')
    with_workers, without = load_bytes(epoch, processes=2), load_bytes(epoch, processes=0)
    assert with_workers.ts.tolist() == without.ts.tolist()
    assert with_workers.ts.max() > 2**53  # more than a double holds


def test_workers_that_die(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _report(text, 0)
    for code in (
        "raise SystemExit(1)",
        "import sys; sys.stdin.buffer.read(10); raise SystemExit",
        "print('noise')",
        "import os; os.abort()",
    ):
        monkeypatch.setattr(workers_module, "_CODE", code)
        assert _report(text, 2) == expected, code


def test_no_interpreter_to_start(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _report(text, 0)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert _report(text, 2) == expected


def test_closing_leaves_no_process() -> None:
    workers = Workers(2)
    processes = workers.processes
    chunk = Chunk(b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]', 0, True)
    job = workers.offer(chunk, False)
    assert job is not None
    assert len(job.result().columns.tables["events"]["ts"]) == 1
    workers.close()
    assert all(p.poll() is not None for p in processes)


def test_an_error_while_reading_stops_them(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    original = Workers.close

    def close(self: Workers) -> None:
        started.extend(self.processes)
        original(self)

    monkeypatch.setattr(Workers, "close", close)

    def fail(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_bytes(text, processes=2, progress=fail)
    assert len(started) == 2
    assert all(p.poll() is not None for p in started)


def test_a_script_without_a_main_guard(text: bytes, tmp_path: Path) -> None:
    """Unlike `multiprocessing`, workers never run the caller's script again."""
    (tmp_path / "trace.json").write_bytes(text)
    script = tmp_path / "script.py"
    script.write_text("import lanewise\nprint('begun')\nprint(len(lanewise.load('trace.json', processes=2)))\n")
    begun = time.monotonic()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True)
    assert done.stdout.split() == ["begun", "1200"]
    assert time.monotonic() - begun < 100


def test_modules_in_the_working_folder_are_not_picked_up(text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('a file of the user was imported')")
    monkeypatch.chdir(tmp_path)
    workers = Workers(1)
    try:
        job = workers.offer(Chunk(b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]', 0, True), False)
        assert job is not None
        job._done.wait(60)
        assert job._result is not None  # decoded by the worker, not by this process in its place
    finally:
        workers.close()
