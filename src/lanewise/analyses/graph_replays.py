"""Replays of CUDA or HIP graphs of which only some kernels were recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.trace import Trace

from .launches import LAUNCH_KINDS, launches
from .steps import steps

__all__ = ["ShortReplays", "short_replays"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ShortReplays:
    """Graph launches with fewer GPU ops than other replays of the same graph.

    Attributes:
        count: launches.
        fewest, most: GPU ops of the shortest of them, and of the whole graph.
    """

    count: int
    fewest: int
    most: int


def short_replays(trace: Trace) -> ShortReplays | None:
    """Replays that lack some of their GPU ops; None when there are none.

    Where node ids were recorded, replays of one graph are those that share a node. Else the replays at the same place of the
    steps are compared: one is short when its kernels, by name and in order, are only the first of those that most steps have
    there. Of replays outside steps nothing can be told: one graph may well begin with all the kernels of another.
    """
    links = trace.analysis(launches)
    replays = np.flatnonzero((links.kind == LAUNCH_KINDS.index("graph")) & links.linked)
    if len(replays) < 2:
        return None
    rows = np.flatnonzero(np.isin(links.launch, replays))
    rows = rows[np.argsort(links.launch[rows], kind="stable")]  # GPU ops of one launch in order of their start
    count = links.gpu_count[replays].astype(np.int64)
    bounds = np.cumsum(count)[:-1]
    node = trace.column("gpu_ops", "graph_node")[rows]
    if (node > 0).all():
        whole = _most_of_graph(node, np.repeat(np.arange(len(replays)), count), len(replays))
    else:
        names = trace.name[trace.column("gpu_ops", "event")[rows]]
        sequences = [part.tobytes() for part in np.split(names, bounds)]
        whole = np.maximum(count, _most_of_place(sequences, trace.analysis(steps).launch_step[replays], names.itemsize))
    short = count < whole
    if not short.any():
        return None
    return ShortReplays(int(short.sum()), int(count[short].min()), int(whole[short].max()))


def _most_of_graph(node: Array, replay: Array, n: int) -> Array:
    """int64 (n,): distinct nodes of each replay's graph, nodes of replays that share one being one graph."""
    _, node = np.unique(node, return_inverse=True)
    graph = np.arange(n)
    while True:  # each round gives all replays of a node the lowest number among them
        of_node = np.full(int(node.max()) + 1, n)
        np.minimum.at(of_node, node, graph[replay])
        lowest = graph.copy()
        np.minimum.at(lowest, replay, of_node[node])
        if (lowest == graph).all():
            break
        graph = lowest
    nodes = np.bincount(of_node, minlength=n)
    most: Array = nodes[graph]
    return most


def _most_of_place(sequences: list[bytes], step: Array, width: int) -> Array:
    """int64 (n,): number of names that most steps have in a replay's place, where this one has the first of them; else 0."""
    of_step: dict[int, list[int]] = {}
    for replay, number in enumerate(step.tolist()):
        of_step.setdefault(number, []).append(replay)
    of_step.pop(-1, None)
    out = np.zeros(len(sequences), dtype=np.int64)
    # Steps with as many replays as most have do the same work.
    usual = Counter(map(len, of_step.values())).most_common(1)
    alike = [replays for replays in of_step.values() if len(replays) == usual[0][0]] if usual else []
    for place in zip(*alike, strict=True):
        text, times = Counter(sequences[i] for i in place).most_common(1)[0]
        if 2 * times > len(place) and times > 1:
            for i in place:
                if len(sequences[i]) < len(text) and text.startswith(sequences[i]):
                    out[i] = len(text) // width
    return out
