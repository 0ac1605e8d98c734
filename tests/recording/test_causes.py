"""Why no GPU event came: each cause from the facts that a machine with it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanewise.recording import causes
from lanewise.recording.causes import Facts, cause_of, subscription_code
from lanewise.recording.texts import TEXTS

BOTH = frozenset({"CPU", "CUDA"})


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (Facts(frozenset({"CPU"})), "cause-torch-without-cupti"),
        (Facts(BOTH, code=39), "cause-other-profiler"),
        (Facts(BOTH, environment={"CUDA_INJECTION64_PATH": "/opt/tool.so"}), "cause-other-profiler"),
        (Facts(BOTH, libraries=("/opt/nsight/libToolsInjection64.so",)), "cause-other-profiler"),
        (Facts(BOTH, code=35), "cause-permission"),
        (Facts(BOTH, admin_only=True), "cause-permission"),
        (Facts(BOTH, admin_only=True, root=True), "cause-unknown"),
        (Facts(BOTH, admin_only=False, code=0), "cause-unknown"),
        (Facts(BOTH, code=38), "cause-device"),
        (Facts(frozenset({"CPU", "XPU"})), "cause-unknown"),
    ],
)
def test_cause(facts: Facts, cause: str) -> None:
    assert cause_of(facts) == cause


def test_every_cause_says_what_to_do() -> None:
    for key in TEXTS:
        if key.startswith("cause-"):
            assert len(TEXTS(key)) > 40


def test_the_drivers_switch_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = tmp_path / "params"
    monkeypatch.setattr(causes, "_DRIVER_PARAMETERS", params)
    assert causes._admin_only() is None
    params.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    assert causes._admin_only() is True
    params.write_text("RmProfilingAdminOnly: 0\n")
    assert causes._admin_only() is False


def test_a_missing_library_gives_no_code() -> None:
    assert subscription_code("/nowhere/libcupti.so") is None
