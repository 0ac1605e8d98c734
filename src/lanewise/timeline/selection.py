"""Which slices go into a file that must stay small: the usual step, what surrounds each finding, the longest of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import op_tree
from lanewise.analyses.launches import launches
from lanewise.model.trace import Trace

__all__ = ["BUDGET", "Selection", "select"]

Array = npt.NDArray[Any]

BUDGET = 80_000
"""Slices in a file. Measured on 101 recorded traces: 5 to 8 bytes each compressed, a third more as text, so below 0.9 MB, half
of which may go to the usual step. A screen shows a few thousand at a time."""

_STEP_SHARE, _FINDINGS_SHARE = 0.5, 0.25
# Time shown around the evidence of a finding: what led to it and what came of it happens within some launches' time.
_AROUND_NS = 200_000


class Selection:
    """Slices that are kept.

    Attributes:
        kept: bool (events,).
        full: parts of the trace, (begin, end) in its own times, of which every slice but Python frames is kept.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.kept = np.zeros(len(trace), dtype=np.bool_)
        self.full: list[tuple[int, int]] = []
        # Long slices are looked through one by one, so that the others need a search only.
        self._usual = int(np.partition(trace.dur, -min(len(trace), 2000))[-min(len(trace), 2000)]) if len(trace) else 0
        self._long = np.flatnonzero(trace.dur > self._usual)

    def within(self, begin: int, end: int) -> Array:
        """Events that touch a window."""
        ts, stop = self.trace.ts, self.trace.end
        near = np.arange(*np.searchsorted(ts, [begin - self._usual, end + 1]))
        near = near[stop[near] >= begin]
        over = self._long[(ts[self._long] <= end) & (stop[self._long] >= begin)]
        return np.union1d(near, over)

    def add(self, begin: int, end: int, most: int, layers: Array) -> None:
        """Keep a window as far as `most` allows: everything but frames, then frames; else the longest of it."""
        events = self.within(begin, end)
        plain = events[layers[events]]
        if len(plain) > most:
            self.kept[plain[np.argpartition(-self.trace.dur[plain], most)[:most]]] = True
            return
        self.kept[plain] = True
        self.full.append((begin, end))
        frames = events[~layers[events]]
        if len(frames) <= most - len(plain):
            self.kept[frames] = True

    def around(self, event: int, most: int, layers: Array) -> None:
        """Keep what surrounds an event, narrower where much happens."""
        begin, end = int(self.trace.ts[event]), int(self.trace.end[event])
        pad = max(_AROUND_NS, (end - begin) // 4)
        for _ in range(6):
            events = self.within(begin - pad, end + pad)
            if int(layers[events].sum()) <= most:
                break
            pad //= 3
        self.add(begin - pad, end + pad, most, layers)
        self.kept[event] = True

    def close(self) -> None:
        """Keep the launching calls of the GPU ops that are kept, and the ops around what is kept."""
        trace, links = self.trace, self.trace.analysis(launches)
        gpu = trace.column("gpu_ops", "event")
        launch = links.launch[self.kept[gpu]]
        self.kept[links.call[launch[launch >= 0]]] = True
        tree = trace.analysis(op_tree)
        up = tree.parent[np.flatnonzero(self.kept[tree.events])]
        while len(up):
            up = np.unique(up[up >= 0])
            up = up[~self.kept[tree.events[up]]]
            self.kept[tree.events[up]] = True
            up = tree.parent[up]

    def fill(self, most: int, layers: Array) -> None:
        """Keep the longest of the rest, until there are `most`."""
        rest = np.flatnonzero(~self.kept & layers)
        room = most - int(self.kept.sum())
        if room <= 0 or not len(rest):
            return
        if len(rest) > room:
            rest = rest[np.argpartition(-self.trace.dur[rest], room)[:room]]
        self.kept[rest] = True


def select(
    trace: Trace,
    view: tuple[int, int],
    steps: Array,
    evidence: Sequence[Sequence[int]],
    layers: Array,
    budget: int | None = None,
) -> Selection:
    """Choose the slices of a file.

    Args:
        trace: the trace.
        view: the window that is shown first.
        steps: events of the steps' annotations.
        evidence: for each finding, the events that prove it.
        layers: bool (events,): False for Python frames, which only come where there is room.
        budget: slices to keep, `BUDGET` for None.
    """
    budget = BUDGET if budget is None else budget
    found = Selection(trace)
    if len(trace) <= budget:
        found.kept[:] = True
        found.full = [trace.span] if trace.span is not None else []
        return found
    found.kept[steps] = True
    found.add(*view, int(budget * _STEP_SHARE), layers)
    for events in evidence:
        for event in events:
            found.around(event, max(50, int(budget * _FINDINGS_SHARE) // max(1, len(evidence) * len(events))), layers)
    found.fill(budget, layers)
    found.close()
    return found
