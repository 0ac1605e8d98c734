"""The process behind `lanewise doctor`: records a tiny program and writes what it saw, step by step, to a file.

    python -m lanewise.recording.machine_probe OUT.json

What it has found is on disk before each step that may bring the process down.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lanewise.recording.accelerator import accelerator, torch_module
from lanewise.recording.capture import Capture
from lanewise.recording.causes import cause_of, facts_here, subscription_code
from lanewise.recording.health import health_of
from lanewise.recording.plan import Plan

__all__ = ["main"]


def _cupti_library() -> Path | None:
    """libcupti as torch's wheels bring it, found without importing torch."""
    for package, pattern in (("nvidia", "**/libcupti.so*"), ("torch", "lib/libcupti*.so*")):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            found = sorted(Path(folder).glob(pattern))
            if found:
                return found[0]
    return None


def main(out: Path) -> None:
    """Fill the file with facts."""
    facts: dict[str, Any] = {}

    def note(**values: Any) -> None:
        facts.update(values)
        out.write_text(json.dumps(facts), encoding="utf-8")

    if find_spec("torch") is None:
        note(missing=True)
        return
    # Before torch comes and takes the only place itself.
    library = _cupti_library()
    code = None if library is None else subscription_code(str(library))
    note(cupti_code=code)
    torch = torch_module()
    note(torch=str(torch.__version__), cuda=torch.version.cuda, hip=torch.version.hip)
    note(kineto=bool(torch.profiler.kineto_available()))
    here = facts_here(code)
    note(activities=sorted(here.activities), admin_only=here.admin_only, root=here.root, cause=cause_of(here))
    device = accelerator()
    if device.module is not None:
        count = device.module.device_count()
        note(devices=[device.module.get_device_name(number) for number in range(count)])
        uuid = getattr(device.module.get_device_properties(0), "uuid", None)
        note(uuid=None if uuid is None else str(uuid))
    note(capture=_tiny_capture(torch, device), finished=True)


def _tiny_capture(torch: Any, device: Any) -> dict[str, int]:
    """A product and an addition, as often as it takes to be sure."""
    x = torch.ones(64, 64, device="cpu" if device.module is None else device.module.__name__.rpartition(".")[2])
    capture = Capture(Plan(), device)
    capture.start()
    for _ in range(10):
        torch.add(torch.matmul(x, x), x)
    capture.stop()
    with tempfile.TemporaryDirectory(prefix="lanewise-doctor-") as folder:
        path = Path(folder) / "capture.json"
        capture.export(path)
        found = health_of(path)
    return {"cpu_ops": found.events.get("cpu_op", 0), "launches": found.launches, "gpu_ops": found.gpu_ops}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
