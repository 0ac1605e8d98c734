"""Runs the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Outcome

from builder import TraceBuilder


@pytest.fixture
def lanewise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run ``lanewise`` with some words, in English unless they say otherwise."""
    monkeypatch.setenv("LANEWISE_LANG", "en")
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> Outcome:
        from lanewise.cli import main

        monkeypatch.setattr(sys, "argv", ["lanewise", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        written = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, written.out, written.err)

    return run


def training() -> TraceBuilder:
    """Three steps with forward, backward and a copy."""
    t = TraceBuilder()
    t.named("thread_name", "main", 100, 1)
    for i in range(3):
        begin = 1000 * i
        t.step(i + 2, begin, 1000)
        t.op(
            "aten::linear", begin + 10, 100, **{"Sequence number": i, "Fwd thread id": 0, "Input Dims": [[8, 16], [16, 4 + i]]}
        )
        t.launch(begin + 20, 5, gpu=(begin + 40, 300), name="ampere_sgemm_128x64_tn")
        t.op("LinearBackward0", begin + 300, 80, tid=2, **{"Sequence number": i, "Fwd thread id": 1})
        t.launch(begin + 310, 5, gpu=(begin + 350, 200), name="ampere_sgemm_128x64_nt", tid=2)
        t.launch(begin + 500, 5, gpu=(begin + 600, 20), name="Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy")
    return t


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small training trace."""
    return training().write(tmp_path / "trace.json")
