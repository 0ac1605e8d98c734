"""Calls torch under its profiler and hands back what Kineto recorded, as a trace would have it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanewise.work import Work, estimate


def recorded_ops(call: Callable[[], object], folder: Path) -> list[dict[str, Any]]:
    """The cpu_op events of `call`, in order of time, with their arguments.

    Args:
        call: what to run.
        folder: where the trace may be written.
    """
    import torch

    path = folder / "trace.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as session:
            call()
        session.export_chrome_trace(str(path))
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op" and event.get("ph") == "X"]
    return sorted(ops, key=lambda event: (event["ts"], -event["dur"]))


def work_of(event: dict[str, Any], list_item_bytes: int | None = None) -> Work | None:
    """The estimate for one recorded event."""
    arguments = event["args"]
    return estimate(
        event["name"],
        arguments.get("Input Dims"),
        arguments.get("Input type"),
        arguments.get("Input Strides"),
        arguments.get("Concrete Inputs"),
        list_item_bytes=list_item_bytes,
    )


def innermost_work(ops: list[dict[str, Any]], kinds: frozenset[str]) -> list[tuple[str, Work]]:
    """Work of the ops of some kinds that have no op of such a kind inside: what would have launched the
    kernels.
    """
    found = [(event, work) for event in ops if (work := work_of(event)) is not None and work.kind in kinds]
    leaves = []
    for event, work in found:
        start, end = event["ts"], event["ts"] + event["dur"]
        inside = [
            other
            for other, _ in found
            if other is not event
            and other["tid"] == event["tid"]
            and start <= other["ts"]
            and other["ts"] + other["dur"] <= end
            and (other["dur"], other["ts"]) != (event["dur"], event["ts"])
        ]
        if not inside:
            leaves.append((event["name"], work))
    return leaves
