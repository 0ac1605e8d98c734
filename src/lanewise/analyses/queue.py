"""How far the CPU runs ahead of the GPU: queue depth at each launch, launch rate against drain rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.orders import stable_order
from lanewise.model.trace import Trace

from .gpu_time import gpu_op_times
from .launches import launches

__all__ = ["Queue", "queue"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of launched work; by linked GPU op, in order of launch.

    Attributes:
        moment: int64 (n,): launch of each op in ns.
        depth: int64 (n,): ops launched before it that the GPU had not finished.
        lead_ns: int64 (n,): from the launch to the start of the op.
    """

    moment: Array
    depth: Array
    lead_ns: Array

    def median_depth(self) -> float | None:
        """The usual depth; None without launches. Near 0 the GPU waits for the CPU, in the hundreds the CPU is far ahead."""
        return float(np.median(self.depth)) if len(self.depth) else None


def queue(trace: Trace) -> Queue:
    """Depth of the queue at each launch, over all streams."""
    links, ops = trace.analysis(launches), trace.analysis(gpu_op_times)
    known = np.flatnonzero(links.launch >= 0)
    moment = trace.ts[links.call[links.launch[known]]]
    order = stable_order(moment)
    moment = moment[order]
    done = np.sort(ops.end[known])
    depth = np.searchsorted(moment, moment, side="left") - np.searchsorted(done, moment, side="right")
    return Queue(moment, np.maximum(depth, 0), (ops.ts[known] - trace.ts[links.call[links.launch[known]]])[order])
