"""Counts of things in parts of a trace: each is a list of moments on the CPU and the events that stand behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import op_tree
from lanewise.analyses.compiler_names import REGION
from lanewise.analyses.coverage import coverage
from lanewise.analyses.cpu_activity import RELEASE, allocation_calls
from lanewise.analyses.gpu_time import gpu_op_times
from lanewise.analyses.host_syncs import host_syncs
from lanewise.analyses.launches import launches
from lanewise.expectations.parts import Part
from lanewise.kernels import decode
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

__all__ = ["Counting", "Tally"]

Array = npt.NDArray[Any]

_COMPILATION = re.compile(r"^_compile\.compile_inner|^entire_frame_compile$|^_compile\b")
_DIRECTIONS = {"htod": "memcpy-htod", "dtoh": "memcpy-dtoh", "dtod": "memcpy-dtod", "ptop": "memcpy-ptop"}


@dataclass(frozen=True, slots=True)
class Tally:
    """Things to count.

    Attributes:
        moments: int64 (things,): CPU time that decides which part each belongs to, ascending.
        events: int64 (things,): event of each, -1 for none.
        rows: int64 (things,): row of `gpu_ops` of each, -1 where it is none.
    """

    moments: Array
    events: Array
    rows: Array

    def counts(self, parts: Sequence[Part]) -> list[int]:
        """How many lie in each part."""
        begins, ends = self._bounds(parts)
        return (ends - begins).tolist()

    def within(self, part: Part) -> tuple[Array, Array]:
        """Events and rows of those in a part."""
        begins, ends = self._bounds([part])
        return self.events[begins[0] : ends[0]], self.rows[begins[0] : ends[0]]

    def _bounds(self, parts: Sequence[Part]) -> tuple[Array, Array]:
        begins = np.searchsorted(self.moments, np.array([p.begin for p in parts], dtype=np.int64))
        return begins, np.searchsorted(self.moments, np.array([p.end for p in parts], dtype=np.int64))


class Counting:
    """Everything of a trace that can be counted, each tallied once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._tallies: dict[tuple[str, str], Tally] = {}

    def tally(self, key: str, sub: str = "") -> Tally:
        """The things that a key counts; `sub` is the entry of its table (``gemm`` of ``kernels``)."""
        if (key, sub) not in self._tallies:
            self._tallies[key, sub] = self._tallied(key, sub)
        return self._tallies[key, sub]

    def missing(self, needs: str, parts: Sequence[Part]) -> str | None:
        """Why a key that needs something of a trace cannot be counted: the key of a text, or None."""
        trace = self.trace
        has = set(trace.capabilities)
        if needs == "ops":
            return None if "cpu_ops" in has else "no-ops"
        if needs == "memory":
            return None if "memory" in has else "no-memory"
        if needs == "steps":
            return None if any(p.step is not None for p in parts) else "no-steps-here"
        links = trace.analysis(launches)
        if not len(links.call) and "gpu_events" not in has:
            return "no-gpu"
        if needs == "calls":
            return None if len(links.call) else "no-calls"
        if trace.analysis(coverage).gpu_timing == "none":
            return "no-gpu-records"
        return "partial" if sum(self.tally("unlinked").counts(parts)) else None

    # ---- what is counted
    def _tallied(self, key: str, sub: str) -> Tally:
        trace, links = self.trace, self.trace.analysis(launches)
        simple: dict[str, Callable[[], Array]] = {
            "launches": lambda: links.call,
            "unlinked": lambda: links.call[~links.linked],
            "host_syncs": lambda: trace.analysis(host_syncs).event,
            "allocations": self._allocations,
            # What follows a graph break is a region inside the one before it.
            "compiled_regions": lambda: self._named(REGION),
            "recompiles": lambda: self._outermost(_COMPILATION),
            "ops": lambda: self._ops(sub),
        }
        if key in simple:
            return self._of_events(simple[key]())
        if key == "tensor_allocations":
            moments = np.sort(trace.column("memory", "ts")[trace.column("memory", "bytes") > 0])
            return Tally(moments, np.full(len(moments), -1), np.full(len(moments), -1))
        if key == "collectives" and not len(trace.column("gpu_ops", "event")):
            return self._of_events(self._outermost(re.compile(r"^c10d::|^(?:nccl|gloo|mpi|ucc):")))
        return self._of_rows(self._rows(key, sub))

    def _of_events(self, events: Array) -> Tally:
        events = np.sort(np.asarray(events, dtype=np.int64))  # events are numbered in order of their start
        return Tally(self.trace.ts[events], events, np.full(len(events), -1, dtype=np.int64))

    def _of_rows(self, rows: Array) -> Tally:
        """GPU ops, each at the moment of its launch; those without a known launch belong to no part."""
        links, times = self.trace.analysis(launches), self.trace.analysis(gpu_op_times)
        rows = rows[links.launch[rows] >= 0]
        called = self.trace.ts[links.call[links.launch[rows]]]
        order = np.lexsort((times.ts[rows], called))
        rows = rows[order]
        return Tally(called[order], self.trace.column("gpu_ops", "event")[rows].astype(np.int64), rows.astype(np.int64))

    def _rows(self, key: str, sub: str) -> Array:
        events = self.trace.column("gpu_ops", "event")
        category = self.trace.category[events]
        of = {"kernels": "kernel", "copies": "gpu_memcpy", "memsets": "gpu_memset"}
        if key in of:
            mine = category == CATEGORY_CODES[of[key]]
            if key == "kernels" and sub not in ("", "total"):
                mine &= self.kinds == sub
            if key == "copies" and sub not in ("", "total"):
                mine &= self.kinds == _DIRECTIONS[sub]
            return np.flatnonzero(mine)
        if key == "collectives":
            return np.flatnonzero(self.kinds == "collective")
        return np.arange(len(events))

    @cached_property
    def kinds(self) -> Array:
        """Kind of each row of `gpu_ops` as its name tells, an object array."""
        codes, inverse = np.unique(self.trace.name[self.trace.column("gpu_ops", "event")], return_inverse=True)
        kinds = np.array([decode(self.trace.strings[c]).kind for c in codes], dtype=object)
        return kinds[inverse] if len(inverse) else np.empty(0, dtype=object)

    def _allocations(self) -> Array:
        calls = allocation_calls(self.trace)
        return calls[~self.trace.names_where(lambda s: RELEASE.search(s) is not None)[self.trace.name[calls]]]

    def _named(self, pattern: re.Pattern[str]) -> Array:
        rows = self.trace.rows("cpu_op", "user_annotation")
        return rows[self.trace.names_where(lambda s: pattern.search(s) is not None)[self.trace.name[rows]]]

    def _outermost(self, pattern: re.Pattern[str]) -> Array:
        """CPU ops and annotations with a name, not those inside another of them."""
        trace, tree = self.trace, self.trace.analysis(op_tree)
        named = trace.names_where(lambda s: pattern.search(s) is not None)[trace.name[tree.events]]
        named &= trace.names_where(lambda s: not s.startswith("TorchDynamo Cache Lookup"))[trace.name[tree.events]]
        return tree.events[named & (tree.nearest(named) < 0)]

    def _ops(self, pattern: str) -> Array:
        rows = self.trace.rows("cpu_op")
        return rows[self.trace.names_where(lambda s: s == pattern or fnmatchcase(s, pattern))[self.trace.name[rows]]]

    def frames(self, parts: Sequence[Part]) -> list[int]:
        """Compiled frames beyond the first in each part: graph breaks, as far as a trace shows them."""
        tally = self.tally("compiled_regions")
        out = []
        for part in parts:
            events, _ = tally.within(part)
            found = {REGION.match(self.trace.name_of(int(e))) for e in events}
            numbers = {m.group(1) for m in found if m is not None}
            out.append(max(len(numbers) - 1, 0))
        return out
