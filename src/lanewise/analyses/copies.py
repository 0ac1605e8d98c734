"""Copies between host and GPU: which way, from which kind of host memory, how large, and what waited for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .gpu_time import gpu_op_times
from .launches import launches

__all__ = ["STAGED_BYTES", "HostCopies", "host_copies"]

Array = npt.NDArray[Any]

_TO_GPU = re.compile(r"Memcpy (?:HtoD|H2D|HtoA|M2D)|CopyHostToDevice", re.IGNORECASE)
_TO_HOST = re.compile(r"Memcpy (?:DtoH|D2H|AtoH|D2M)|CopyDeviceToHost", re.IGNORECASE)
# The driver takes so much from pageable memory along with the command and returns at once; more it copies while the caller
# waits (CUDA's API reference, "API synchronization behavior").
STAGED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HostCopies:
    """Copies between host and GPU.

    Attributes:
        row: int64 (copies,): row of `gpu_ops`.
        call: int64 (copies,): event of the launching call, -1 where not known.
        to_gpu: bool (copies,): host to GPU; else GPU to host.
        pageable, pinned: bool (copies,): as the name says; neither where it does not (AMD).
        bytes: int64 (copies,): size, -1 where not recorded.
        ns: int64 (copies,): time on the GPU.
        held: bool (copies,): whether the copying call itself returned only when (nearly all of) the copy was done.
    """

    row: Array
    call: Array
    to_gpu: Array
    pageable: Array
    pinned: Array
    bytes: Array
    ns: Array
    held: Array

    def rate(self, to_gpu: bool) -> float | None:
        """Bytes per second of the copies one way from or to pinned memory, as far as they are large enough to tell.

        A copy takes about 1 us to start, so one of a MiB (20 us at 50 GB/s) is within 5 % of the link's rate.
        """
        large = self.pinned & (self.to_gpu == to_gpu) & (self.bytes >= 2**20) & (self.ns > 0)
        return float(np.median(self.bytes[large] / self.ns[large])) * 1e9 if large.any() else None


def host_copies(trace: Trace) -> HostCopies:
    """All copies between host and GPU."""
    events = trace.column("gpu_ops", "event")
    ops, links = trace.analysis(gpu_op_times), trace.analysis(launches)

    def named(pattern: re.Pattern[str]) -> Array:
        return trace.names_where(lambda s: pattern.search(s) is not None)[trace.name[events]]

    is_copy = trace.category[events] == CATEGORY_CODES["gpu_memcpy"]
    to_gpu = named(_TO_GPU) & is_copy
    row = np.flatnonzero(to_gpu | (named(_TO_HOST) & is_copy))
    launch = links.launch[row]
    call = np.where(launch >= 0, links.call[np.maximum(launch, 0)] if len(links.call) else -1, -1).astype(np.int64)
    # A call that waits stages the last piece while the one before is under way, and clocks differ by microseconds: it ends
    # near the end of the copy. One that does not wait returns before the copy starts, or soon after.
    middle = (ops.ts[row] + ops.end[row]) // 2
    return HostCopies(
        row=row,
        call=call,
        to_gpu=to_gpu[row],
        pageable=named(re.compile("Pageable"))[row],
        pinned=named(re.compile("Pinned"))[row],
        bytes=trace.column("gpu_ops", "bytes")[row],
        ns=(ops.end - ops.ts)[row],
        held=(call >= 0) & (trace.end[np.maximum(call, 0)] >= middle) & ~named(re.compile("Pinned"))[row],
    )
