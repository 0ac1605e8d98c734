"""Names of recorded traces: nearly all GPU time is of a known kind."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from lanewise.kernels import decode, gpu_kind
from places import SHARED

pytestmark = pytest.mark.shared

FOLDERS = ("public", "h200/programs", "h200/05_gpt_train", "h200/03_kernels_mlp")
TRACES = [path for folder in FOLDERS for path in sorted((SHARED / "traces" / folder).glob("*.json.gz"))]
GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"))
# What may remain unknown: a fiftieth of the time does not change where a step's time goes.
UNKNOWN_RATIO = 0.02


def gpu_time(path: Path) -> Counter[tuple[str, str]]:
    """Microseconds by category and name, read with nothing of lanewise."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").lstrip()
    document = json.JSONDecoder(strict=False).raw_decode(text)[0]
    times: Counter[tuple[str, str]] = Counter()
    for event in document["traceEvents"] if isinstance(document, dict) else document:
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() in GPU:
            times[event["cat"], event["name"]] += float(event["dur"])
    return times


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_gpu_time_is_of_known_kinds(path: Path) -> None:
    times = gpu_time(path)
    unknown = {name: time for (_, name), time in times.items() if decode(name).kind in (None, "other")}
    assert sum(unknown.values()) <= UNKNOWN_RATIO * sum(times.values()), unknown
    for category, name in times:
        copied = category.lower().removeprefix("gpu_")
        assert gpu_kind(name, category) == {"memcpy": "copy", "memset": "memset"}.get(
            copied, "communication" if decode(name).kind == "collective" else "compute"
        )
