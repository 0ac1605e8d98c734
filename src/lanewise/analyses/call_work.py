"""How much arithmetic and memory traffic each op call stands for, from its recorded inputs and the kernels that it launched.

One estimate for each distinct combination of name and inputs; `lanewise.work` has the conventions. Two things that inputs do
not say come from elsewhere: the element size of a list of tensors from the kernel's name, and the elements of a list that was
too long to record from the gradients, where the kernels' blocks agree with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.model.trace import MISSING, Trace
from lanewise.work import Work, estimate, list_item_bytes
from lanewise.work.inputs import DTYPES

from .launches import launches
from .steps import steps

__all__ = ["CallWork", "call_work", "parsed_inputs"]

Array = npt.NDArray[Any]

# ATen's kernels over lists give each block one chunk of one tensor (aten/src/ATen/native/cuda/MultiTensorApply.cuh,
# kChunkSize), so their blocks are the tensors' sizes in chunks, each rounded up: they tell whether a list is a known one.
_CHUNK = 65536
_LIST_KERNEL = "multi_tensor_apply_kernel"
_GRADIENT = "torch::autograd::AccumulateGrad"
# No memory holds more; sums of as many gradients as a trace can have still fit.
_MOST_ELEMENTS = 2**40


@dataclass(eq=False)
class CallWork:
    """Work of op calls.

    Attributes:
        works: the distinct amounts.
        of_event: int32 (events,): place in `works` of each event that launched GPU work itself; -1 where not known.
    """

    works: list[Work]
    of_event: Array
    _trace: Trace
    _input_row: Array
    _others: dict[tuple[int, int], Work | None] = field(default_factory=dict)

    def of(self, event: int) -> Work | None:
        """The work of any op call, whether it launched something or not; None where its inputs do not tell."""
        known = int(self.of_event[event])
        if known >= 0:
            return self.works[known]
        key = (int(self._trace.name[event]), int(self._input_row[event]))
        if key not in self._others:
            self._others[key] = _estimated(self._trace, *key, None, None)
        return self._others[key]


def parsed_inputs(texts: tuple[bytes | None, ...]) -> tuple[Any, ...]:
    """Dims, types, strides and concrete inputs as lists; None where not recorded, not readable or not what Kineto writes."""
    dims, types, strides, concrete = map(_parsed, texts)
    types = types if _texts(types) else None
    return (
        dims if _sizes(dims) and _of_types(dims, types or []) else None,
        types,
        strides if _sizes(strides) else None,
        concrete if _texts(concrete) else None,
    )


def _parsed(text: bytes | None) -> Any:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _estimated(trace: Trace, name: int, inputs: int, item_bytes: int | None, elements: int | None) -> Work | None:
    if inputs < 0:
        return None
    dims, types, strides, concrete = parsed_inputs(trace.inputs[inputs])
    if dims is None or types is None:
        return None
    return estimate(trace.strings[name], dims, types, strides, concrete, list_item_bytes=item_bytes, list_elements=elements)


def _sizes(value: Any) -> bool:
    """Whether a value is what Kineto writes for sizes or strides: of each argument a list of numbers, or of such lists."""
    return isinstance(value, list) and all(isinstance(item, list) and (_numbers(item) or _lists(item)) for item in value)


def _lists(value: list[Any]) -> bool:
    return all(isinstance(part, list) and _numbers(part) for part in value)


def _of_types(dims: list[list[Any]], types: list[str]) -> bool:
    """Whether no argument that is one tensor has the sizes of several, or sizes below 0."""
    alone = [size for size, kind in zip(dims, types, strict=False) if kind in DTYPES]
    return all(_numbers(size) and min(size, default=0) >= 0 for size in alone)


def _numbers(value: list[Any]) -> bool:
    return all(type(part) is int for part in value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def call_work(trace: Trace) -> CallWork:
    """The work of every op call that launched GPU work."""
    input_row = np.full(len(trace), -1, dtype=np.int32)
    input_row[trace.column("cpu_ops", "event")] = trace.column("cpu_ops", "inputs")
    of_event = np.full(len(trace), -1, dtype=np.int32)
    owner = trace.analysis(launches).gpu_owner
    # One row for each op with recorded inputs that launched something; `call` of each GPU op, -1 for none.
    known = np.flatnonzero((owner >= 0) & (input_row[owner] >= 0))
    events, inverse = np.unique(owner[known], return_inverse=True)
    item_bytes = _item_bytes(trace, known, inverse, len(events))
    elements = _list_elements(trace, input_row, events, known, inverse)
    name, inputs = trace.name[events].astype(np.int64), input_row[events].astype(np.int64)
    key = name * len(trace.inputs) + inputs
    for more in (item_bytes, elements):
        distinct, code = np.unique(more, return_inverse=True)
        key = key * len(distinct) + code
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    works: list[Work] = []
    number = np.full(len(first), -1, dtype=np.int32)
    for i, at in enumerate(first):
        size = int(elements[at]) if elements[at] > 0 else None
        found = _estimated(trace, int(name[at]), int(inputs[at]), int(item_bytes[at]) or None, size)
        if found is not None:
            number[i] = len(works)
            works.append(found)
    of_event[events] = number[place] if len(number) else -1
    return CallWork(works, of_event, trace, input_row)


def _item_bytes(trace: Trace, rows: Array, call: Array, n: int) -> Array:
    """int64 (n,): element size of the lists that each call's kernels work on, by their names; 0 where they do not tell."""
    names, code = np.unique(trace.name[trace.column("gpu_ops", "event")[rows]], return_inverse=True)
    sizes = np.array([list_item_bytes(trace.strings[name]) or 0 for name in names], dtype=np.int64)
    out = np.zeros(n, dtype=np.int64)
    if len(rows):
        np.maximum.at(out, call, sizes[code])
    return out


def _list_elements(trace: Trace, input_row: Array, events: Array, rows: Array, call: Array) -> Array:
    """int64 (calls,): elements of the list that was too long to record; 0 where not known.

    Such a list is taken for the parameters (or gradients, or states of the same sizes) when the blocks of the call's kernels
    are exactly those that the gradients accumulated in its step would need.
    """
    out = np.zeros(len(events), dtype=np.int64)
    unrecorded = np.array([_has_unrecorded_list(texts) for texts in trace.inputs] or [False])
    asked = unrecorded[input_row[events]] if len(events) else np.empty(0, dtype=np.bool_)
    if not asked.any():
        return out
    elements, blocks = _gradients(trace, input_row)
    is_list = trace.names_where(lambda s: _LIST_KERNEL in s)[trace.name[trace.column("gpu_ops", "event")[rows]]]
    grid = trace.column("gpu_ops", "grid_x")[rows].astype(np.int64)
    launched = np.zeros(len(events), dtype=np.int64)
    np.add.at(launched, call[is_list], grid[is_list])
    step = _step_of(trace, events)
    same = asked & (launched > 0) & (launched == blocks[step])
    out[same] = elements[step[same]]
    return out


def _has_unrecorded_list(texts: tuple[bytes | None, ...]) -> bool:
    if texts[1] is None or b"TensorList" not in texts[1]:
        return False
    dims, types, _, _ = parsed_inputs(texts)
    return _sizes(dims) and _texts(types) and any(t == "TensorList" and not d for d, t in zip(dims, types, strict=False))


def _gradients(trace: Trace, input_row: Array) -> tuple[Array, Array]:
    """Elements of the gradients accumulated in each step, and their chunks; the last of both is for what is in no step."""
    n = len(trace.analysis(steps)) + 1
    elements, blocks = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rows = trace.rows("cpu_op")
    events = rows[trace.names_where(lambda s: s == _GRADIENT)[trace.name[rows]]]
    inputs = input_row[events]
    events, inputs = events[inputs >= 0], inputs[inputs >= 0]
    distinct, code = np.unique(inputs, return_inverse=True)
    sizes = np.array([_elements(trace.inputs[i]) for i in distinct], dtype=np.int64)
    if len(events):
        step = _step_of(trace, events)
        np.add.at(elements, step, sizes[code])
        np.add.at(blocks, step, -(-sizes[code] // _CHUNK))
    return elements, blocks


def _elements(texts: tuple[bytes | None, ...]) -> int:
    """Elements of the first tensor."""
    dims = parsed_inputs(texts)[0]
    if not dims or not _sizes(dims) or not _numbers(dims[0]) or any(size < 0 for size in dims[0]):
        return 0
    total = prod(dims[0])
    return total if total < _MOST_ELEMENTS else 0


def _step_of(trace: Trace, events: Array) -> Array:
    """Step during which each event begins, MISSING for none."""
    found = trace.analysis(steps)
    if not len(found):
        return np.full(len(events), MISSING)
    place = np.searchsorted(found.start, trace.ts[events], side="right") - 1
    at = np.maximum(place, 0)
    inside = (place >= 0) & (trace.ts[events] < found.start[at] + found.wall_ns[at])
    return np.where(inside, place, MISSING)
