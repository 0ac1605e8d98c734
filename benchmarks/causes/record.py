"""Record planted causes of slowness on this GPU, each with and without the cause, and measure what fixing it saves.

    python benchmarks/causes/record.py --out benchmarks/causes/traces [--only TEXT]

Each case is a pair of step functions. Their step times are measured in turn without the profiler, then three steps of each are
recorded with shapes; the measured step time goes into each trace, as the recorder would leave it. `truth.json` holds the cause
and the measured saving. `score.py` reads them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from cases import CASES

Step = Callable[[], Any]


def timed(step: Step, seconds: float = 0.25) -> float:
    """Microseconds of one step: as many as fit into the time, the GPU synchronised at both ends only."""
    torch.cuda.synchronize()
    begin, n = time.perf_counter(), 0
    while n < 3 or (time.perf_counter() - begin < seconds and n < 200):
        step()
        n += 1
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / n * 1e6


def recorded(step: Step, path: Path, median_us: float, spread: list[float], n: int) -> None:
    """Three steps after a warm-up, with shapes."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        options: dict[str, Any] = {
            "activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
            "schedule": schedule(wait=1, warmup=1, active=3),
            "on_trace_ready": lambda p: p.export_chrome_trace(str(raw)),
            "record_shapes": True,
        }
        with profile(**options) as prof:
            for _ in range(5):
                with record_function("step"):
                    step()
                prof.step()
        text = raw.read_text()
    own = {"median": round(median_us, 1), "min": round(min(spread), 1), "max": round(max(spread), 1), "steps": n}
    head = {"schema": "lanewise.recording/1", "unprofiled_step_us": own}
    at = text.index("{") + 1
    text = text[:at] + '\n  "lanewise": ' + json.dumps(head) + "," + text[at:]
    name = text.rfind('"traceName"')
    if name >= 0:
        text = text[:name] + f'"traceName": "{path.parent.name}/{path.name}"\n}}'
    with path.open("wb") as out, gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(text.encode())


def record_case(name: str, cause: str, make: Callable[[], tuple[Step, Step]], out: Path) -> dict[str, Any]:
    bad, fixed = make()
    for step in (bad, fixed):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    times: dict[str, list[float]] = {"bad": [], "fixed": []}
    for _ in range(5):
        times["bad"].append(timed(bad))
        times["fixed"].append(timed(fixed))
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    medians = {k: statistics.median(v) for k, v in times.items()}
    for which, step in (("bad", bad), ("fixed", fixed)):
        recorded(step, folder / f"{which}.json.gz", medians[which], times[which], 5)
    saving = medians["bad"] - medians["fixed"]
    return {
        "cause": cause,
        "bad_us": round(medians["bad"], 1),
        "fixed_us": round(medians["fixed"], 1),
        "saving_us": round(saving, 1),
        "saving_pct": round(100 * saving / medians["bad"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "traces")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    truth: dict[str, Any] = {"_env": {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}}
    for name, (cause, make) in CASES.items():
        if options.only not in name:
            continue
        begin = time.perf_counter()
        torch.manual_seed(0)
        try:
            truth[name] = record_case(name, cause, make, options.out)
        except Exception as error:  # noqa: BLE001  the next case must run
            truth[name] = {"error": f"{type(error).__name__}: {error}"}
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(f"{name:28} {truth[name]} {time.perf_counter() - begin:.0f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
