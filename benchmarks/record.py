"""The recorder on a GPU: every rung recorded, its GPU ops counted, and what recording costs.

    python benchmarks/record.py --out traces --json record.json

Three parts, each of which reports its failures and goes on:

1. Every rung of the ladder in the variants that docs/ladder.md shows, as a reader would run it.
2. GPU ops a forward (kernels + copies + memsets) of each, counted from the recorded trace by the correlation of launches,
   beside what is expected on a Hopper GPU.
3. The step time of one workload under the recorder and under bare torch.profiler with the same phases, alternating in one
   process, medians; and the recorder's own work outside the window, a step.

Without a GPU everything runs at the rungs' reduced sizes and nothing is expected of the counts.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import queue
import re
import runpy
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ladder_page import fill
from recording_cost import ROOT, environment, overhead, script_overhead

sys.path.insert(0, str(ROOT / "src"))

# (rung, flags, expected GPU ops a forward on Hopper or None)
RUNS: list[tuple[str, list[str], str | None]] = [
    ("01_matmul_add", [], "2+0+0"),
    ("01_matmul_add", ["--warmup"], "2+0+0"),
    ("01_matmul_add", ["--warmup", "--compile"], "1+1+0"),
    ("01_matmul_add", ["--warmup", "--size", "4096"], None),
    ("01_matmul_add", ["--warmup", "--size", "4096", "--compile"], None),
    ("01_matmul_add", ["--warmup", "--batched", "--size", "512"], None),
    ("02_linear", [], "1+0+0"),
    ("02_linear", ["--compile"], "1+0+0"),
    ("03_simple_mlp", [], "5+0+2"),
    ("03_simple_mlp", ["--compile"], "4+0+2"),
    ("03_kernels_mlp", [], "4+0+2"),
    ("04_a_naive_attention", [], "5+1+1"),
    ("04_a_naive_attention", ["--compile"], None),
    ("04_b_inplace_ops_attention", [], "5+0+1"),
    ("04_c_sdpa_attention", ["--backend", "math"], "20"),
    ("04_c_sdpa_attention", ["--backend", "efficient"], "1+0+0"),
    ("04_c_sdpa_attention", ["--backend", "flash"], "1+0+0"),
    ("04_c_sdpa_attention", ["--backend", "cudnn"], "1+0+1"),
    ("04_d_kernels_attention", [], None),
    ("05_transformer", [], None),
    ("05_transformer", ["--train", "--optimizer", "for-loop"], None),
    ("05_transformer", ["--train", "--optimizer", "foreach"], None),
    ("05_transformer", ["--train", "--optimizer", "fused"], None),
    ("05_transformer", ["--train", "--compile"], None),
    ("06_decode", [], None),
    ("06_decode", ["--graph"], None),
    ("07_data_pipeline", ["--work", "0.5"], None),
    ("07_data_pipeline", ["--work", "0.5", "--workers", "8", "--pin_memory"], None),
    ("08_distributed", [], None),
]
_CALLS = {"cuda_runtime", "cuda_driver", "xpu_runtime"}
_KINDS = {"kernel": 0, "gpu_memcpy": 1, "gpu_memset": 2}


def run_here(rung: str, flags: list[str], out: str) -> dict[str, Any]:
    """Run one rung in this process, as `lanewise run` would, and say what it wrote."""
    from lanewise.ladder.registry import script_path

    path = str(script_path(rung))
    said, complaints = io.StringIO(), io.StringIO()
    result: dict[str, Any] = {"rung": rung, "flags": flags}
    began = time.perf_counter()
    argv, sys.argv = sys.argv, [path, *flags, "--force", "--out", out]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (0, None):
            result["error"] = (complaints.getvalue() or said.getvalue()).strip().splitlines()[-1:] or [f"exit {end.code}"]
    except Exception as error:  # noqa: BLE001 - the next rung must run
        result["error"] = [f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"]
    finally:
        sys.argv = argv
    result["seconds"] = time.perf_counter() - began
    result["said"] = said.getvalue().strip().splitlines()
    result["traces"] = re.findall(r"^(\S+\.json\.gz): .* steps", said.getvalue(), re.MULTILINE)
    return result


def child(runs: list[tuple[str, list[str]]], out: str) -> None:
    """Run rungs one after the other in this process; one line of JSON before and after each."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0"
    os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = "1"
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    for rung, flags in runs:
        channel.write(json.dumps({"begins": rung}) + "\n")
        channel.flush()
        channel.write(json.dumps(run_here(rung, flags, out)) + "\n")
        channel.flush()
    channel.close()


def recorded_rungs(runs: list[tuple[str, list[str]]], out: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Results of all rungs, in order. Importing torch costs more than most rungs, so they share a process; where one takes
    it down or hangs, the others go on in the next."""
    waiting = list(runs)
    while waiting:
        command = [sys.executable, __file__, "--child", json.dumps(waiting), "--out", out]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment())
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        failure = None
        while failure is None and waiting:
            try:
                line = lines.get(timeout=seconds)
            except queue.Empty:
                process.kill()
                failure = f"more than {seconds:.0f} s"
                break
            if line is None:
                failure = f"the process ended with {process.wait()}"
                break
            answer = json.loads(line)
            if "begins" not in answer:
                waiting.pop(0)
                yield answer
        process.stdout and process.wait()
        if failure is not None and waiting:
            rung, flags = waiting.pop(0)
            yield {"rung": rung, "flags": flags, "error": [failure]}


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        if line.startswith("{"):
            lines.put(line)
    lines.put(None)


def gpu_ops_per_step(path: Path) -> list[dict[str, Any]]:
    """For each step of a small trace: kernels, copies and memsets that it launched, and their names."""
    events = [event for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if event.get("ph") == "X"]
    steps = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")]
    calls = [e for e in events if e.get("cat") in _CALLS and "correlation" in e.get("args", {})]
    ops = [e for e in events if e.get("cat") in _KINDS]
    rows = []
    for step in sorted(steps, key=lambda event: event["ts"]):
        end = step["ts"] + step["dur"]
        launched = {call["args"]["correlation"] for call in calls if step["ts"] <= call["ts"] < end}
        mine = [op for op in ops if op.get("args", {}).get("correlation") in launched]
        counts = [0, 0, 0]
        for op in mine:
            counts[_KINDS[op["cat"]]] += 1
        rows.append({"counts": counts, "names": [op["name"] for op in sorted(mine, key=lambda op: op["ts"])]})
    return rows


def described(result: dict[str, Any], expected: str | None, on_gpu: bool) -> dict[str, Any]:
    """The result with what its trace shows, or with what went wrong."""
    if "error" not in result:
        try:
            result |= describe(result, expected, on_gpu)
        except (OSError, KeyError, IndexError, ValueError) as error:
            result["error"] = [f"{type(error).__name__}: {error}"]
    return result


def print_rung(result: dict[str, Any], expected: str | None) -> None:
    """One line a rung."""
    front = f"{result['rung']:28} {' '.join(result['flags']):44}"
    if "error" in result:
        print(f"{front} FAILED  {result['error'][-1][:160]}", flush=True)
        return
    verdict = {True: "right", False: f"WRONG, expected {expected}", None: ""}[result.get("right")]
    step_us = (result["unprofiled_step_us"] or {}).get("median")
    times = "" if step_us is None else f"{step_us:10.1f} us a step"
    print(f"{front} {result['gpu_ops']:>10} {times} {verdict}", flush=True)
    if "--compile" in result["flags"] and result["gpu_ops"] != "0+0+0":
        print("   ", ", ".join(f"{count} {kernel[:60]}" for kernel, count in result["names"].items())[:300])


def describe(result: dict[str, Any], expected: str | None, on_gpu: bool) -> dict[str, Any]:
    """Counts of a recorded rung beside what was expected."""
    row: dict[str, Any] = {"expected": expected if on_gpu else None}
    path = Path(result["traces"][0])
    header = json.loads(gzip.decompress(path.read_bytes()))["lanewise"]
    row["unprofiled_step_us"] = header.get("unprofiled_step_us")
    row["file_bytes"] = path.stat().st_size
    steps = gpu_ops_per_step(path)
    if not steps:
        return {**row, "error": ["no steps in the trace"]}
    seen = {tuple(step["counts"]) for step in steps}
    kernels, copies, memsets = steps[-1]["counts"]
    row["gpu_ops"] = f"{kernels}+{copies}+{memsets}"
    row["same_in_all_steps"] = len(seen) == 1
    row["names"] = dict(Counter(name[:100] for name in steps[-1]["names"]).most_common(30))
    if on_gpu and expected is not None:
        total = str(kernels + copies + memsets)
        row["right"] = expected in (row["gpu_ops"], total)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="traces", help="folder for the traces")
    parser.add_argument("--json", default=None, help="also write all figures here")
    parser.add_argument("--only", default="", help="only rungs whose name contains this")
    parser.add_argument("--seconds", type=float, default=75.0, help="most time for one rung")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of the overhead measurement")
    parser.add_argument("--active", type=int, default=20, help="recorded steps in each round")
    parser.add_argument("--docs", action="append", help="a page to fill with the table of --json; nothing is run then")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.docs is not None:
        for page in args.docs:
            fill(Path(page), json.loads(Path(args.json).read_text(encoding="utf-8")))
        return 0
    if args.child is not None:
        child([(rung, flags) for rung, flags in json.loads(args.child)], args.out)
        return 0
    figures, wrong = measured(args)
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if wrong else 0


def measured(args: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """(all figures, rungs that failed or whose count is wrong); printed as they come."""
    import torch

    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    name = torch.cuda.get_device_name(0) if on_gpu else "CPU"
    print(f"torch {torch.__version__} on {name}\n", flush=True)
    figures: dict[str, Any] = {"torch": str(torch.__version__), "device": name, "rungs": []}
    chosen = [run for run in RUNS if args.only in run[0]]
    results = recorded_rungs([(rung, flags) for rung, flags, _ in chosen], args.out, args.seconds)
    wrong = 0
    for (_, _, expected), result in zip(chosen, results, strict=True):
        figures["rungs"].append(described(result, expected, on_gpu))
        wrong += "error" in result or result.get("right") is False
        print_rung(result, expected)
    print()
    for title, measure in (
        ("Step time, recorder and bare profiler", lambda: overhead(torch, device, args.rounds, args.active)),
        ("An unmodified script, alone and under lanewise record", lambda: script_overhead(device, 300 if on_gpu else 60)),
    ):
        try:
            figures[title] = measure()
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            figures[title] = {"error": f"{type(error).__name__}: {error}"}
        print(title)
        for key, value in figures[title].items():
            print(f"  {key:28} {value:.4g}" if isinstance(value, float) else f"  {key:28} {value}")
    return figures, wrong


if __name__ == "__main__":
    sys.exit(main())
