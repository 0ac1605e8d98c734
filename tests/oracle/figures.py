"""The report's figures of one trace, as `lanewise explain --format json` should have them; times in ns (`_ns` for `_us`)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .links import STEP, Graph, Step, correlation, device, graph, strays, stream
from .reading import Event, File, identity, read

COMMUNICATION = re.compile(
    r"\b(nccl(Dev)?Kernel|rccl|oneccl_|mscclKernel)|\bcross_device_reduce|\bdeep_ep::\w+::(dispatch|combine)\b", re.I
)
Figures = dict[str, Any]


def spans(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Disjoint spans in which any of the events ran."""
    out: list[tuple[int, int]] = []
    for start, end in sorted((e.start, e.end) for e in events if e.dur):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def length(parts: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in parts)


def common(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> int:
    """Time in both."""
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def busy(events: Iterable[Event]) -> int:
    return length(spans(events))


def median(values: Iterable[int]) -> Fraction | None:
    row = sorted(values)
    middle = row[(len(row) - 1) // 2 : len(row) // 2 + 1]
    return Fraction(sum(middle), len(middle)) if row else None


def _by_kind(gpu_ops: list[Event]) -> dict[str, list[Event]]:
    out: dict[str, list[Event]] = {"compute": [], "communication": [], "copy": [], "memset": []}
    for op in gpu_ops:
        if op.cat == "kernel":
            out["communication" if COMMUNICATION.search(op.name) else "compute"].append(op)
        else:
            out["copy" if op.cat == "gpu_memcpy" else "memset"].append(op)
    return out


def _devices(links: Graph, timing: str) -> dict[int | None, Figures]:
    out = {}
    for number in {device(g) for g in links.gpu_ops}:
        mine = [g for g in links.gpu_ops if device(g) == number]
        kinds = {kind: spans(ops) for kind, ops in _by_kind(mine).items()}
        row: Figures = {f"{kind}_ns": length(parts) for kind, parts in kinds.items()}
        row["exposed_communication_ns"] = length(kinds["communication"]) - common(kinds["communication"], kinds["compute"])
        row |= {"ops": len(mine), "busy_ns": busy(mine), "sum_ns": sum(g.dur for g in mine)}
        assert links.window is not None
        row["window_ns"] = links.window[1] - links.window[0]
        row["idle_ns"] = row["window_ns"] - common(spans(mine), [links.window]) if timing == "ok" else None
        streams = defaultdict(list)
        for g in mine:
            streams[stream(g)].append(g)
        row["streams"] = {key: {"ops": len(ops), "busy_ns": busy(ops)} for key, ops in streams.items()}
        out[number] = row
    return out


def _coverage(links: Graph) -> Figures:
    linked = [x for x in links.launches if x.gpu_ops]
    missing = len(links.launches) - len(linked)
    out = {
        "launches": len(links.launches),
        "launches_linked": len(linked),
        "gpu_ops": len(links.gpu_ops),
        "gpu_ops_linked": len(links.launch_of),
    }
    partial = (
        missing * 100 > len(links.launches)
        or any(x.graph and not x.gpu_ops for x in links.launches)
        or any(s.launches and not s.gpu_ops for s in links.steps)
        or links.short_replays
    )
    out["gpu_timing"] = "none" if not links.gpu_ops else "partial" if partial else "ok"
    return out


def _before(links: Graph, start: int) -> int:
    """The end of GPU work that was launched before the first step.

    Work whose call is not in the trace was launched before the window, as long as it began while steps were launched. A stream
    runs in order: what follows work of a step there was launched later, by a call that is lost. Work with an id that
    identifies nothing, or several calls, tells nothing of its launch but that it was not after it ran.
    """
    ids = {correlation(c) for c in links.calls}
    last = max(s.mark.end for s in links.steps)
    ends = [start]
    for g in links.gpu_ops:
        if g in links.launch_of:
            before = links.launch_of[g].call.start < start
        else:
            stream_ops = [o for o in links.launch_of if (device(o), stream(o)) == (device(g), stream(g))]
            later = [o.start for o in stream_ops if links.launch_of[o].call.start >= start]
            lost = correlation(g) is not None and correlation(g) not in ids
            before = g.start < min([last if lost else start, *later])
        if before:
            ends.append(g.end)
    return max(ends)


def _step(step: Step, place: int, since: int) -> Figures:
    ops = step.gpu_ops
    return {
        "name": step.mark.name,
        "index": int(step.mark.name.rpartition("#")[2]) if STEP.fullmatch(step.mark.name) else place,
        "wall_ns": step.mark.dur,
        "time_ns": max(step.end - since, 0),
        "gpu_busy_ns": None if step.launches and not ops else busy(ops),
        "sum_ns": sum(g.dur for g in ops),
        "gpu_ops": len(ops),
        "kernels": sum(g.cat == "kernel" for g in ops),
        "copies": sum(g.cat == "gpu_memcpy" for g in ops),
        "memsets": sum(g.cat == "gpu_memset" for g in ops),
        "launches": len(step.launches),
        "start_ns": step.mark.start,
    }


def _steps(links: Graph) -> list[Figures]:
    out = []
    since = _before(links, links.steps[0].mark.start) if links.steps else 0
    for place, step in enumerate(links.steps):
        out.append(_step(step, place, since))
        since = max(since, step.end) if place else step.end
    return out


def _step_section(rows: list[Figures], header: Figures) -> Figures:
    out: Figures = {"count": len(rows)}
    for key in ("wall_ns", "time_ns", "gpu_busy_ns"):
        out[key] = median(r[key] for r in rows if r[key] is not None)
    out["source"] = "profiled" if rows else None
    measured = (header.get("lanewise") or {}).get("unprofiled_step_us") or {}
    if measured.get("median") is not None:
        out |= {"source": "unprofiled", "time_ns": Fraction(measured["median"]) * 1000}
    return out


def _ops(links: Graph) -> dict[tuple[str, str], Figures]:
    inside, own, below = defaultdict(list), defaultdict(list), defaultdict(list)
    for event in links.ops + links.calls:
        if event in links.owner:
            inside[links.owner[event]].append(event)
    for g, launch in links.launch_of.items():
        for depth, op in enumerate(links.ancestors(launch.call)):
            below[op].append(g)
            if depth == 0:
                own[op].append(g)
    keys = ("count", "cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns", "gpu_ops")
    out: dict[tuple[str, str], Figures] = defaultdict(lambda: dict.fromkeys(keys, 0))
    for op in links.ops:
        row = out[op.name, op.cat]
        row["count"] += 1
        row["cpu_self_ns"] += op.dur - busy(inside[op])
        row["gpu_self_ns"] += sum(g.dur for g in own[op])
        if not any((a.name, a.cat) == (op.name, op.cat) for a in links.ancestors(op) if a is not op):
            row["cpu_total_ns"] += op.dur
            row["gpu_total_ns"] += sum(g.dur for g in below[op])
            row["gpu_ops"] += len(below[op])
    return dict(out)


def _kernels(links: Graph) -> dict[str, Figures]:
    by_name = defaultdict(list)
    for g in links.gpu_ops:
        by_name[g.name].append(g)
    out = {}
    for name, same in by_name.items():
        launching = Counter()
        for g in same:
            if g in links.launch_of and links.launch_of[g].call in links.caller:
                launching[links.caller[links.launch_of[g].call].name] += 1
        total = sum(g.dur for g in same)
        out[name] = {
            "count": len(same),
            "total_ns": total,
            "mean_ns": Fraction(total, len(same)),
            "median_ns": median(g.dur for g in same),
            "ops": launching,
            "collective": all(g.cat == "kernel" and bool(COMMUNICATION.search(name)) for g in same),
        }
    return out


def _capabilities(file: File, links: Graph) -> set[str]:
    lost = strays(file.events)
    python = [e for e in file.events if e.cat == "python_function" and e not in lost]
    has = {
        "cpu_ops": bool(links.ops),
        "gpu_events": bool(links.gpu_ops),
        "steps": bool(links.steps),
        # Inductor notes the inputs of its own kernels in any recording.
        "shapes": any("Input Dims" in e.args for e in links.ops if not e.name.startswith("triton_")),
        "stacks": bool(python) or any(e.args.get("Call stack") for e in links.ops),
        "modules": any("Python module id" in e.args or e.name.startswith("nn.Module: ") for e in python),
        "memory": any(e.get("name") == "[memory]" for e in file.others),
    }
    return {name for name, there in has.items() if there}


def _hip(number: Any) -> str | None:
    whole = identity(number)
    return f"{whole // 10_000_000}.{whole // 100_000 % 100}.{whole % 100_000}" if whole else None


def _version(number: Any) -> str | None:
    whole = identity(number)
    return f"{whole // 1000}.{whole % 1000 // 10}" if whole else None


def _trace(file: File, links: Graph) -> Figures:
    head = file.header
    timed = [e for e in file.events if e not in strays(file.events)]
    group = head.get("distributedInfo") or {}
    listed = {d["id"]: (d.get("name") or None, d.get("numSms")) for d in head.get("deviceProperties") or []}
    for g in links.gpu_ops:
        listed.setdefault(device(g), (None, None))
    versions = {
        "torch": ((head.get("lanewise") or {}).get("versions") or {}).get("torch"),
        "CUDA": _version(head.get("cuda_runtime_version")),
        "HIP": _hip(head.get("hip_runtime_version")),
        "roctracer": str(head.get("roctracer_version") or ""),
        "CUDA driver": _version(head.get("cuda_driver_version")),
        "NCCL": group.get("nccl_version"),
    }
    out = {
        "format": file.format,
        "events": len(file.events),
        "skipped_events": file.skipped,
        "repaired_events": file.repaired,
        "stray_events": len(file.events) - len(timed),
        "truncated": file.truncated,
        "span_ns": max(e.end for e in timed) - min(e.start for e in timed) if timed else None,
        "ranks": [group["rank"]] if "rank" in group else [],
        "world_size": group.get("world_size"),
        "devices": listed,
        "capabilities": _capabilities(file, links),
        "versions": {key: value for key, value in versions.items() if value},
    }
    if file.other_formats - {file.format}:
        del out["format"]  # whether events that were given up say who wrote the file is a matter of taste
    return out


def figures(data: bytes) -> Figures:
    """All figures of a trace's bytes."""
    file = read(data)
    links = graph(file)
    coverage = _coverage(links)
    steps = _steps(links)
    return {
        "trace": _trace(file, links),
        "coverage": coverage,
        "gpu": _devices(links, coverage["gpu_timing"]),
        "step": _step_section(steps, file.header),
        "steps": steps,
        "ops": _ops(links),
        "kernels": _kernels(links),
    }
