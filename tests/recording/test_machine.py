"""`lanewise doctor`: rows from facts, and the facts of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from lanewise.recording import machine
from lanewise.recording.machine import Check, checks
from lanewise.recording.texts import TEXTS, Notice, notice_text

HEALTHY = {
    "torch": "2.11.0+cu130",
    "cuda": "13.0",
    "hip": None,
    "kineto": True,
    "activities": ["CPU", "CUDA"],
    "devices": ["NVIDIA H200"],
    "uuid": "abc",
    "capture": {"cpu_ops": 40, "launches": 20, "gpu_ops": 20},
    "cause": "cause-unknown",
    "cupti_code": 0,
    "admin_only": False,
    "root": True,
    "finished": True,
}


def rows(folder: Path, **changed: Any) -> dict[str, Check]:
    facts = {**HEALTHY, **changed}
    return {row.id: row for row in checks(folder, lambda: {k: v for k, v in facts.items() if v != "gone"})}


def test_a_healthy_machine(tmp_path: Path) -> None:
    found = rows(tmp_path)
    for name in ("python", "torch", "kineto", "gpu", "capture", "cupti", "permission"):
        assert found[name].state == "ok", name
        assert found[name].advice == ""
    assert found["capture"].facts == "40 CPU ops, 20 launches, 20 GPU ops"


@pytest.mark.parametrize(
    ("changed", "row", "state", "advice"),
    [
        ({"torch": "gone", "missing": True}, "torch", "failed", "advice-torch-missing"),
        ({"torch": "gone", "error": "ImportError: x"}, "torch", "failed", "advice-torch-broken"),
        ({"torch": "2.3.1"}, "torch", "failed", "advice-torch-old"),
        ({"kineto": False}, "kineto", "failed", "advice-kineto"),
        ({"capture": "gone", "error": "Segmentation fault"}, "capture", "failed", "advice-capture"),
        ({"capture": {"cpu_ops": 0, "launches": 0, "gpu_ops": 0}}, "capture", "failed", "advice-capture"),
        (
            {"capture": {"cpu_ops": 40, "launches": 20, "gpu_ops": 0}, "cause": "cause-permission"},
            *("capture", "failed", "cause-permission"),
        ),
        ({"cupti_code": 39, "cause": "cause-other-profiler"}, "cupti", "failed", "cause-other-profiler"),
        ({"admin_only": True, "root": False}, "permission", "warning", "cause-permission"),
    ],
)
def test_what_is_wrong_has_advice(tmp_path: Path, changed: dict[str, Any], row: str, state: str, advice: str) -> None:
    found = rows(tmp_path, **changed)[row]
    assert (found.state, found.advice) == (state, advice)
    assert len(notice_text(Notice(found.advice, found.slots))) > 20


def test_a_cpu_machine_lacks_nothing(tmp_path: Path) -> None:
    found = rows(tmp_path, cuda=None, devices="gone", capture={"cpu_ops": 40, "launches": 0, "gpu_ops": 0})
    assert not [row.id for row in found.values() if row.state == "failed"]
    assert found["cupti"].state == found["triton"].state == "absent"


def test_a_driver_that_torch_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Monitor:
        def driver(self) -> str:
            return "580.1"

        def state(self, _uuid: str | None) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(machine, "GpuMonitor", Monitor)
    assert rows(tmp_path, devices="gone")["gpu"].advice == "advice-gpu-unseen"
    assert rows(tmp_path, devices="gone", cuda=None)["gpu"].advice == "advice-gpu-cpu-build"
    assert rows(tmp_path)["clocks"].advice == "advice-clocks"


def test_throttling_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Monitor:
        def driver(self) -> str:
            return "580.1"

        def state(self, _uuid: str | None) -> dict[str, Any]:
            return {"sm_clock_mhz": 1200, "power_w": 690.0, "throttled": ["power cap"]}

    monkeypatch.setattr(machine, "GpuMonitor", Monitor)
    found = rows(tmp_path)["clocks"]
    assert (found.state, found.facts) == ("warning", "1200 MHz, 690 W, power cap")


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 100 * 2**20

    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _path: Usage)
    found = rows(tmp_path)["disk"]
    assert (found.state, found.advice) == ("warning", "advice-disk-full")


def test_a_folder_that_does_not_exist_yet_is_fine(tmp_path: Path) -> None:
    assert rows(tmp_path / "a" / "b")["disk"].state == "ok"


def test_every_row_and_state_has_a_name(tmp_path: Path) -> None:
    for row in rows(tmp_path).values():
        assert TEXTS(f"check-{row.id}")
        assert TEXTS(f"state-{row.state}")


@pytest.mark.torch
def test_this_machine(torch: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lanewise.cli.doctor", "--lang", "en"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert torch.__version__ in done.stdout
    assert done.returncode == (1 if "failed" in done.stdout else 0)
    if not torch.cuda.is_available():
        assert re.search(r"[1-9]\d+ CPU ops, 0 launches, 0 GPU ops", done.stdout)
        assert done.returncode == 0


def test_without_torch(tmp_path: Path) -> None:
    # A process in which torch cannot be found, as on a laptop that only reads traces.
    hide = "import sys, runpy, importlib.util as u\nfind = u.find_spec\n"
    hide += "u.find_spec = lambda name, *a: None if name.partition('.')[0] == 'torch' else find(name, *a)\n"
    hide += f"sys.argv = ['x', {str(tmp_path / 'facts.json')!r}]\n"
    hide += "runpy.run_module('lanewise.recording.machine_probe', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "facts.json").read_text() == '{"missing": true}'


def test_the_table_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from lanewise.cli.doctor import command

    told = {**HEALTHY, "devices": [], "activities": ["CPU"], "capture": {"cpu_ops": 40, "launches": 0, "gpu_ops": 0}}
    found = checks(tmp_path, lambda: told)
    monkeypatch.setattr(machine, "checks", lambda _folder: found)
    monkeypatch.setenv("COLUMNS", "60")
    for lang, end in (("en", "This machine can record CPU ops"), ("ja", "このマシンで CPU の op を記録できます。")):
        with pytest.raises(SystemExit) as ended:
            command(["--lang", lang, "--out", str(tmp_path)])
        assert ended.value.code == (1 if any(row.state == "failed" for row in found) else 0)
        lines = capsys.readouterr().out.splitlines()
        assert all(cell_len(line) <= 60 and line == line.rstrip() for line in lines)
        assert end in "".join(lines) or ended.value.code == 1
