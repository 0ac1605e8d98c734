"""Record planted causes of slowness on this GPU, each with and without the cause, and measure what fixing it saves.

    python benchmarks/causes/record.py --out FOLDER [--only TEXT]

Each case is a pair of step functions. Their step times are measured in turn without the profiler, then `lanewise.record`
records each, as a user would: 10 steps timed, three recorded with shapes. `truth.json` holds the cause and the measured
saving, and `score.py` reads them. What a trace says of the machine is taken out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lanewise
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


def recorded(step: Step, path: Path) -> None:
    """Record three steps; of the recorder's own entry the step's time outside the profiler stays."""
    with tempfile.TemporaryDirectory() as folder:
        with lanewise.record(skip=2, shapes=True, out=str(Path(folder) / "trace.json"), quiet=True) as recorder:
            for _ in range(recorder.plan.needed):
                step()
                recorder.step()
        text = (recorder.path or Path()).read_text()
    begin = text.index('"lanewise":') + len('"lanewise":')
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    own, end = json.JSONDecoder().raw_decode(text, begin)
    head = {key: own[key] for key in ("schema", "unprofiled_step_us")}
    text = text[:begin] + json.dumps(head) + text[end:]
    text = text[: text.rfind('"traceName"')] + f'"traceName": "{path.parent.name}/{path.name}"\n}}'
    text = re.sub(r'"/[^"]*/([^/"]+\.py)"', r'"\1"', text)  # files of generated kernels
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
        recorded(step, folder / f"{which}.json.gz")
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
    known = json.loads((Path(__file__).parent / "traces" / "truth.json").read_text())
    for name, (cause, make) in CASES.items():
        if options.only not in name:
            continue
        begin = time.perf_counter()
        torch.manual_seed(0)
        try:
            truth[name] = record_case(name, cause, make, options.out) | {"round": known.get(name, {}).get("round")}
        except Exception as error:  # noqa: BLE001  the next case must run
            truth[name] = {"error": f"{type(error).__name__}: {error}"}
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(f"{name:28} {truth[name]} {time.perf_counter() - begin:.0f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
