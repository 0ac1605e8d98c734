from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lanewise.recording.metadata import code_version, command_line, environment
from lanewise.recording.ranks import Ranks, ranks


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_commit_and_dirtiness(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a.py").write_text("1\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = code_version(tmp_path)
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert (clean["branch"], clean["dirty"]) == ("trunk", False)
    (tmp_path / "new.py").write_text("2\n")
    assert code_version(tmp_path) == clean  # files that git does not know are not looked at
    (tmp_path / "a.py").write_text("3\n")
    dirty = code_version(tmp_path)
    assert dirty is not None
    assert dirty["dirty"] is True


def test_no_git_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_version(tmp_path) is None


def test_secrets_stay_out_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["python", "t.py", "--lr", "1", "--hf-token", "abc", "--api_key=def", "--password", "--verbose", "x"]
    monkeypatch.setattr(sys, "orig_argv", words)
    assert command_line() == [
        *("python", "t.py", "--lr", "1", "--hf-token", "***", "--api_key=***", "--password", "--verbose", "x")
    ]


def test_only_variables_that_matter_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HF_TOKEN", "abc")
    monkeypatch.setenv("TORCH_SECRET", "abc")
    kept = environment()
    assert kept["CUDA_LAUNCH_BLOCKING"] == "1"
    assert kept["NCCL_DEBUG"] == "INFO"
    assert "abc" not in kept.values()
    assert "PATH" not in kept


def test_ranks_from_the_launchers_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert ranks() == Ranks(0, 1, 0)
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert ranks() == Ranks(5, 8, 0)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert ranks() == Ranks(2, 4, 1)
