"""Which calls compute nothing but the value that the program reads next.

Before `if x.abs().amax() > 5:` come `abs`, `amax` and `gt`, then the read. The walk goes back from the read over tests
(comparisons, `isnan`, logic), at most one reduction, and the tests under it, as long as each call's output has the shape that
the one after it takes. It stops at anything else: arithmetic, results that autograd or the next call uses, unknown shapes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.trace import Trace

from .called_ops import CalledOps
from .id_sets import among, combined, distinct

__all__ = ["TESTS", "feeder_counts", "one_block"]

Array = npt.NDArray[Any]

_LOOK_BACK = 8  # calls; a test of a value has two to five
TESTS = frozenset({"isnan", "isinf", "isfinite", "isneginf", "isposinf", "eq", "ne", "lt", "le", "gt", "ge", "isclose", "abs"})
# Logic joins tests of one value; of whole tensors it makes masks, which programs keep.
_LOGIC = frozenset({"logical_not", "logical_and", "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or"})
_LOGIC |= {"__and__", "__or__"}
# Reductions that say yes or no: what else would they be for. Others are taken where shapes show what follows.
_TRUTHS = frozenset({"any", "all"})
_REDUCTIONS = _TRUTHS | {
    "count_nonzero",
    "amax",
    "amin",
    "max",
    "min",
    "sum",
    "mean",
    "norm",
    "linalg_vector_norm",
    "std",
    "var",
}
_VIEWS = frozenset({"select", "squeeze", "unsqueeze", "view", "reshape", "detach", "alias", "lift_fresh"})
_CASTS = frozenset({"to", "_to_copy"})
_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "Int", "Bool", "Double", "None"})

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """What the walk looks at in a call.

    Attributes:
        name: op without its namespace; "" where there is no such call (another lane, another step).
        shapes: shapes of its tensors; None where not recorded.
        dtype: type of its first tensor.
        kept: whether autograd keeps its result, or may.
        one_block: whether its kernels have one block each: where shapes were not recorded, a sign of a few numbers.
    """

    name: str
    shapes: tuple[Shape, ...] | None
    dtype: str
    kept: bool
    one_block: bool

    @property
    def taken(self) -> Shape | None:
        """Shape of its first tensor."""
        return self.shapes[0] if self.shapes else None

    @property
    def broadcast(self) -> Shape | None:
        """Shape of an elementwise result."""
        if not self.shapes:
            return None
        rank = max(len(s) for s in self.shapes)
        padded = [(1,) * (rank - len(s)) + s for s in self.shapes]
        return tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))


def feeder_counts(trace: Trace, called: CalledOps, reads: Array) -> Array:
    """int64 (reads,): number of calls directly before each read that only compute what is read.

    The walk depends on names, inputs and autograd's use alone, so that it is made once for all reads that look alike.
    """
    out = np.zeros(len(reads), dtype=np.int64)
    if not len(reads):
        return out
    kept, tables = _kept(trace, called), _Calls(trace)
    around = np.stack([_neighbours(trace, called, reads, by) for by in (*range(-_LOOK_BACK, 1), 1)])
    safe = np.maximum(around, 0)
    name = np.where(around >= 0, trace.name[called.event[safe]], -1)
    inputs = np.where(around >= 0, tables.inputs[called.event[safe]], -1)
    blocks = one_block(trace, called)
    keys = np.concatenate([name, inputs, np.where(around >= 0, kept[safe] + 2 * blocks[safe], 0)])
    first, which = combined(list(keys))
    n = len(around)
    counts = np.empty(len(first), dtype=np.int64)
    for i, p in enumerate(keys[:, first].T.tolist()):
        calls = [tables.call(p[j], p[n + j], p[2 * n + j]) for j in range(n)]
        counts[i] = _feeders(calls[_LOOK_BACK], calls[:_LOOK_BACK][::-1], calls[_LOOK_BACK + 1])
    return counts[which]


class _Calls:
    """Names and inputs of calls, parsed once each."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.inputs = np.full(len(trace), -1, dtype=np.int64)
        self.inputs[trace.column("cpu_ops", "event")] = trace.column("cpu_ops", "inputs")
        self.parsed: dict[int, tuple[tuple[Shape, ...] | None, str]] = {}

    def call(self, name: int, inputs: int, flags: int) -> _Call:
        if inputs not in self.parsed:
            self.parsed[inputs] = self._tensors(inputs)
        shapes, dtype = self.parsed[inputs]
        text = self.trace.strings[name] if name >= 0 else ""
        return _Call(text.removeprefix("aten::"), shapes, dtype, bool(flags & 1), bool(flags & 2))

    def _tensors(self, inputs: int) -> tuple[tuple[Shape, ...] | None, str]:
        if inputs < 0 or self.trace.inputs[inputs][0] is None or self.trace.inputs[inputs][1] is None:
            return None, ""
        try:
            dims, types = (json.loads(text or b"null") for text in self.trace.inputs[inputs][:2])
            tensors = [(tuple(d), t) for d, t in zip(dims, types, strict=True) if t not in _NO_TENSOR and _is_shape(d)]
        except (ValueError, TypeError):
            return None, ""
        return tuple(s for s, _ in tensors), tensors[0][1] if tensors else ""


def _is_shape(dims: Any) -> bool:
    return isinstance(dims, list) and all(isinstance(n, int) for n in dims)


def _neighbours(trace: Trace, called: CalledOps, calls: Array, by: int) -> Array:
    """The call so many places on, in the same lane; -1 for none."""
    place = calls + by
    inside = (place >= 0) & (place < len(called))
    safe = np.clip(place, 0, len(called) - 1)
    same = trace.lane[called.event[safe]] == trace.lane[called.event[calls]]
    return np.where(inside & same, place, -1)


def one_block(trace: Trace, called: CalledOps) -> Array:
    """bool (calls,): whether a call launched kernels and each of them has a single block."""
    grid = trace.column("gpu_ops", "grid_x").astype(np.int64)
    for axis in ("grid_y", "grid_z"):
        grid = grid * np.maximum(trace.column("gpu_ops", axis), 1)
    known = called.of_row >= 0
    out = np.zeros(len(called), dtype=np.bool_)
    out[called.of_row[known & (grid == 1)]] = True
    out[called.of_row[known & (grid != 1)]] = False
    return out


def _kept(trace: Trace, called: CalledOps) -> Array:
    """bool (calls,): whether a backward node used what the call computed, as far as sequence numbers tell."""
    event, sequence = trace.column("cpu_ops", "event"), trace.column("cpu_ops", "sequence")
    is_node = trace.names_where(lambda s: "Backward" in s)[trace.name[event]]
    call = called.of_event[event]
    out = np.zeros(len(called), dtype=np.bool_)
    mine = np.flatnonzero((call >= 0) & (sequence >= 0))
    mine = mine[among(sequence[mine], distinct(sequence[is_node & (sequence >= 0)]))]
    # Every op is recorded with the number that the next node will get; the last one with a number is the op that got it.
    mine = mine[np.lexsort((call[mine], trace.lane[event[mine]], sequence[mine]))]
    new = np.r_[(np.diff(sequence[mine]) != 0) | (np.diff(trace.lane[event[mine]]) != 0), True] if len(mine) else mine
    out[call[mine[new.astype(np.bool_)]]] = True
    if is_node.any() and not (sequence[is_node] >= 0).any():
        out[:] = True  # there is a backward pass, and nothing tells what it used
    return out


def _feeders(read: _Call, before: list[_Call], after: _Call) -> int:
    """Calls before a read (nearest first) that only compute it."""
    is_test = read.name == "is_nonzero" or read.dtype == "bool"
    want, reduced, n = read.taken, False, 0
    for i, call in enumerate(before):
        if not call.name or (call.kept and call.name not in _VIEWS):
            break
        if call.name in _REDUCTIONS and not reduced and (call.shapes is None or len(call.shapes) == 1):
            # A scalar that the next call takes is used for more than the read.
            if call.shapes is not None and (() in (after.shapes or ()) or want is None or len(want) > len(call.shapes[0])):
                break
            if call.shapes is None and call.name not in _TRUTHS and not (i == n and i and before[i - 1].one_block):
                break
            reduced, want, n = True, call.taken, i + 1
        elif (call.name in TESTS and (is_test or reduced)) or (call.name in _LOGIC and is_test and not reduced):
            if want is not None and call.broadcast != want:
                break
            is_test, want, n = True, call.taken, i + 1
        elif call.name in _CASTS and reduced and call.taken == want:
            want = call.taken  # counted only when what it is taken from is a feeder too
        elif call.name in _VIEWS:
            want, n = call.taken, i + 1 if n == i else n
        else:
            break
    return n
