"""What the recording tests share: torch or a skip, small models, scripts and commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def model(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a script."""

    def write(text: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def lanewise_record(torch: Any, tmp_path: Path) -> Command:
    """Runs `lanewise record` in a folder of its own."""

    def run(*words: object, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lanewise.cli.record", *(str(word) for word in words)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LANEWISE_LANG": "en", "OMP_NUM_THREADS": "1", **(env or {})},
        )

    return run


@pytest.fixture
def traces(tmp_path: Path) -> Callable[[], list[Path]]:
    """The traces in the folder that is the default."""
    return lambda: sorted((tmp_path / "traces").glob("*.json.gz"))
