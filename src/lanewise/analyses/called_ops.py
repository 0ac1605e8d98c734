"""The ops that the program called itself, and the GPU work of each.

`x.to("cuda")` is recorded as `aten::to` around `aten::_to_copy` around `aten::copy_`. What the code says, and what goes away
when it is changed, is the outermost of them; autograd's nodes and compiled regions around it are no calls of an op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

from .call_tree import op_tree
from .launches import launches

__all__ = ["CalledOps", "called_ops"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CalledOps:
    """Calls of ops by lane and start; a call's number is its place here, so neighbours of a lane are neighbours.

    Attributes:
        event: int64 (calls,): the outermost op.
        of_event: int32 (events,): call around each op, annotation or runtime call (an op is around itself), -1 for none.
        of_row: int32 (gpu ops,): call that launched each GPU op, -1 for none.
        kernels: int64 (calls,): GPU ops that each launched.
    """

    event: Array
    of_event: Array
    of_row: Array
    kernels: Array

    def __len__(self) -> int:
        return len(self.event)

    def rows(self, calls: Any) -> tuple[Array, Array]:
        """(GPU ops that some distinct calls launched, grouped by call; place in `calls` of each)."""
        wanted = np.asarray(calls, dtype=np.int64)
        order = np.argsort(wanted, kind="stable")
        rows = np.flatnonzero(np.isin(self.of_row, wanted))
        place = order[np.searchsorted(wanted[order], self.of_row[rows])] if len(rows) else np.empty(0, dtype=np.int64)
        by_call = np.argsort(place, kind="stable")
        return rows[by_call], place[by_call]


def called_ops(trace: Trace) -> CalledOps:
    """Find the outermost op around every event: ops of a library (``aten::mm``), not autograd's engine and nodes."""
    tree = trace.analysis(op_tree)
    is_op = trace.names_where(lambda s: "::" in s and not s.startswith(("autograd::", "torch::autograd::")) and " " not in s)
    chosen = is_op[trace.name[tree.events]] & (trace.category[tree.events] == CATEGORY_CODES["cpu_op"])
    outer = np.where(chosen, np.arange(len(tree.events)), -1)
    for level in tree.levels()[1:]:
        above = outer[tree.parent[level]]
        outer[level] = np.where(above >= 0, above, outer[level])
    places = np.flatnonzero(outer == np.arange(len(outer)))
    number = np.full(len(outer) + 1, -1, dtype=np.int32)
    number[places] = np.arange(len(places))
    of_event = np.full(len(trace), -1, dtype=np.int32)
    of_event[tree.events] = number[outer]
    links = trace.analysis(launches)
    of_row = np.full(len(links.launch), -1, dtype=np.int32)
    known = np.flatnonzero(links.launch >= 0)
    of_row[known] = of_event[links.call[links.launch[known]]]
    kernels = np.bincount(of_row[of_row >= 0], minlength=len(places))
    return CalledOps(tree.events[places].astype(np.int64), of_event, of_row, kernels)
