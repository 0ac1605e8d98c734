#!/usr/bin/env python3
"""Time `lanewise explain --format json`, as a whole process, beside other readers of the same file.

    make bench                                    # all, and write the table into benchmarks/README.md
    python benchmarks/load.py --sizes 340 --no-peers

The traces are made from recorded ones of examples/, by tiling. Files and the peers' environment go to .bench/.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from measured import Measured, machine, measured
from tile import tile

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".bench"
PEERS = WORK / "peers"
README = Path(__file__).parent / "README.md"
SOURCES = {"plain": ROOT / "examples" / "gpt_train_sins.json.gz", "shapes": ROOT / "examples" / "gpt_train_clean.json.gz"}

_JSON_LOAD = "import json, sys\nwith open(sys.argv[1]) as stream: json.load(stream)"
# Only the load is timed, without imports: what HTA's users wait for at least. It prints its own lines on standard error.
_HTA_LOAD = """
import sys, time
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True)
class Trace:
    """A tiled trace: how it was made, and its size."""

    source: str
    path: Path
    megabytes: float
    events: int


@dataclass(frozen=True)
class Row:
    """One program on one trace: the median of some runs."""

    trace: Trace
    program: str
    seconds: float
    peak_bytes: int
    runs: int


def made(source: str, megabytes: int) -> Trace:
    """The tiled trace of about so many MB, made once."""
    WORK.mkdir(exist_ok=True)
    path, note = WORK / f"{source}_{megabytes}.json", WORK / f"{source}_{megabytes}.events"
    if not note.exists():
        print(f"Making {path.name} ...", file=sys.stderr)
        events = tile(SOURCES[source], path, lambda size: max(round(megabytes * 1e6 / size), 1))
        note.write_text(str(events))
    return Trace(source, path, path.stat().st_size / 1e6, int(note.read_text()))


def peers() -> Path:
    """The other tools' environment, made once."""
    wanted = Path(__file__).parent / "peers.txt"
    stamp = PEERS / "peers.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print("Installing the other tools ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        subprocess.run([PEERS / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
    return PEERS / "bin"


def commands(with_peers: bool) -> dict[str, list[str | Path]]:
    """Program to command line, but for the trace's path at its end."""
    found: dict[str, list[str | Path]] = {
        "lanewise explain": [Path(sys.executable).parent / "lanewise", "explain", "--format", "json"],
        "json.load": [sys.executable, "-c", _JSON_LOAD],
    }
    if with_peers:
        folder = peers()
        found["HTA, load alone"] = [folder / "python", "-c", _HTA_LOAD]
        found["gpu-idle"] = [folder / "gpu-idle", "--json"]
    return found


def timed(program: str, command: list[str | Path], trace: Trace, runs: int) -> Row:
    """The median run of a program on a trace, after one that does not count."""
    # The first run is not counted: it brings the file and the program into memory.
    results = [measured([*command, trace.path]) for _ in range(runs + 1)][1:]
    if program == "lanewise explain":
        _check(results[0], trace)
    seconds = [float(r.output.split()[-1]) if program.startswith("HTA") else r.seconds for r in results]
    row = Row(trace, program, statistics.median(seconds), max(r.peak_bytes for r in results), runs)
    print(
        f"{trace.source} {trace.megabytes:.0f} MB: {program}: {row.seconds:.2f} s, {row.peak_bytes / 1e6:.0f} MB",
        file=sys.stderr,
    )
    return row


def _check(result: Measured, trace: Trace) -> None:
    """A fast wrong answer counts for nothing: all events must have been read."""
    read = json.loads(result.output)["trace"]
    if read["truncated"] or read["skipped_events"] or abs(read["events"] - trace.events) > 0.01 * trace.events:
        raise RuntimeError(f"{trace.path.name} has {trace.events} timed events; the report says {read}")


def table(rows: list[Row]) -> str:
    """All rows as a Markdown table, each with its time as a multiple of lanewise's on the same trace."""
    lines = ["| trace | program | time | MB/s | times lanewise's | peak memory |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        own = next(r.seconds for r in rows if r.trace == row.trace and r.program == "lanewise explain")
        name = f"{row.trace.megabytes:,.0f} MB, {row.trace.events / 1e6:.2f} M events"
        name += ", with shapes" if row.trace.source == "shapes" else ""
        speed, ratio = row.trace.megabytes / row.seconds, row.seconds / own
        figures = f"{row.seconds:.2f} s | {speed:.0f} | {ratio:.1f} | {row.peak_bytes / 1e6:,.0f} MB"
        lines.append(f"| {name} | {row.program} | {figures} |")
    return "\n".join(lines)


def targets(rows: list[Row]) -> str:
    """What is asked of a load, and what it was in this run."""
    at = {(r.trace.source, r.program, round(r.trace.megabytes, -2)): r for r in rows}
    sizes = sorted({s for source, _, s in at if source == "plain"})
    small = at["plain", "lanewise explain", sizes[0]]
    lines = ["| asked | measured | |", "|---|---:|---|"]

    def line(text: str, value: float, good: bool, form: str) -> None:
        lines.append(f"| {text} | {value:{form}} | {'yes' if good else 'no'} |")

    for program, least in (("HTA, load alone", 12), ("json.load", 3)):
        other = at.get(("plain", program, sizes[0]))
        if other is not None:
            ratio = other.seconds / small.seconds
            line(f"at least {least} times as fast as {program}", ratio, ratio >= least, ".1f")
    speed = min(r.trace.megabytes / r.seconds for r in rows if r.program == "lanewise explain")
    line("at least 100 MB of JSON a second", speed, speed >= 100, ".0f")
    line("at most 700 MB of memory for 340 MB", small.peak_bytes / 1e6, small.peak_bytes <= 700e6, ",.0f")
    large = at["plain", "lanewise explain", sizes[-1]]
    if large is not small:
        line("at most 1,800 MB of memory for 1.3 GB", large.peak_bytes / 1e6, large.peak_bytes <= 1800e6, ",.0f")
        growth = (large.seconds / small.seconds) / (large.trace.events / small.trace.events) * 4
        line("4 times the events in at most 4.4 times the time", growth, growth <= 4.4, ".2f")
    return "\n".join(lines)


def versions() -> str:
    """The programs' versions."""
    listed = ["lanewise " + importlib.metadata.version("lanewise"), "Python " + platform.python_version()]
    if PEERS.exists():
        listed += re.findall(r"^([\w-]+==[\w.]+)", (PEERS / "peers.txt").read_text(), re.MULTILINE)
    return ", ".join(listed).replace("==", " ")


def _runs(n: int) -> str:
    return f"Median of {n} runs" if n > 1 else "One run"


def main() -> None:
    """Run all and print the tables; with all sizes and peers, also into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[340, 1300], help="MB of the tiled traces")
    parser.add_argument("--runs", type=int, default=3, help="runs of each program on each trace; the median counts")
    parser.add_argument("--no-peers", action="store_true", help="only lanewise and json.load")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options = parser.parse_args()
    small, *more = [made("plain", size) for size in sorted(options.sizes)]
    programs = commands(not options.no_peers)
    rows = [timed(name, command, small, options.runs) for name, command in programs.items()]
    own, json_load, *_ = programs
    shapes = made("shapes", sorted(options.sizes)[0])
    rows += [timed(name, programs[name], shapes, options.runs) for name in (own, json_load)]
    # The others hold several times the file in memory: they do not get the large one.
    rows += [timed(own, programs[own], trace, options.runs) for trace in more]
    conditions = f"{machine()}; {versions()}. {_runs(options.runs)}, file in the page cache."
    text = f"{table(rows)}\n\n{targets(rows)}\n\n{conditions}"
    print(text)
    if options.write:
        page = README.read_text(encoding="utf-8")
        begin, end = "<!-- load.py: begin -->\n", "\n<!-- load.py: end -->"
        head, _, rest = page.partition(begin)
        README.write_text(head + begin + text + end + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
