"""The examples of frameworks on a CPU: with their callback, and unmodified under `lanewise record`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from captures import step_names, trace_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
pytestmark = pytest.mark.torch


def needs(package: str) -> Any:
    # Not importorskip: the packages are slow to import, and only the child process needs them.
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


CASES = [
    pytest.param("trainer.py", "--callback", "steps of Trainer", "steps of AdamW", marks=needs("transformers")),
    pytest.param("accelerate_loop.py", "--recorder", "steps of AdamW", "steps of AdamW", marks=needs("accelerate")),
    pytest.param("lightning_module.py", "--callback", "batches of Lightning", "steps of AdamW", marks=needs("lightning")),
]


def run(tmp_path: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LANEWISE_LANG": "en"},
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "traces").glob("*.json.gz")
    return trace_of(path)


def forwards(document: dict[str, Any]) -> int:
    """Losses that were computed inside the steps."""
    return sum(event.get("name") == "aten::cross_entropy_loss" for event in document["traceEvents"])


@pytest.mark.parametrize(("script", "flag", "with_callback", "unmodified"), CASES)
def test_with_its_callback(tmp_path: Path, torch: Any, script: str, flag: str, with_callback: str, unmodified: str) -> None:
    document = run(tmp_path, str(EXAMPLES / script), flag)
    assert step_names(document) == ["ProfilerStep#17", "ProfilerStep#18", "ProfilerStep#19"]
    assert document["lanewise"]["window"]["marked_by"] == with_callback
    assert document["lanewise"]["unprofiled_step_us"]["steps"] == 10
    assert document["lanewise"]["label"] == script.partition(".")[0].partition("_")[0]


@pytest.mark.parametrize(("script", "flag", "with_callback", "unmodified"), CASES)
def test_unmodified(tmp_path: Path, torch: Any, script: str, flag: str, with_callback: str, unmodified: str) -> None:
    document = run(tmp_path, "-m", "lanewise.cli.record", "--", str(EXAMPLES / script))
    assert step_names(document) == ["ProfilerStep#17", "ProfilerStep#18", "ProfilerStep#19"]
    assert document["lanewise"]["window"]["marked_by"] == unmodified
    per_step = {"accelerate_loop.py": 2}.get(script, 1)  # two micro-batches make a step
    assert forwards(document) == 3 * per_step


def test_an_exception_in_lightning_keeps_what_was_recorded(tmp_path: Path, torch: Any) -> None:
    callbacks = pytest.importorskip("lanewise.recording.lightning")
    base = type("Callback", (), {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callbacks, "_callback_class", lambda: base)
        callback = callbacks.lightning_callback(out=str(tmp_path), skip=1, timed=0, warmup=1, active=3, quiet=True)
    callback.on_train_start(None, None)
    for _ in range(3):
        torch.ones(3).sum()
        callback.on_train_batch_end(None, None, None, None, 0)
    callback.on_exception(None, None, KeyboardInterrupt())
    assert trace_of(callback.recorder.path)["lanewise"]["window"]["interrupted"] == "KeyboardInterrupt"
