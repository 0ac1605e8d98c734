"""Which part of a tensor the calls after its making use, by the sizes of their operands: the trace has no tensors."""

from __future__ import annotations

import contextlib
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanewise.work.inputs import Inputs, UnknownInput

from .context import Context

__all__ = ["PASSING", "Pick", "Uses", "pick_of"]

Array = npt.NDArray[Any]

# What hands on all elements in their order, most of it without a launch.
PASSING = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "unflatten",
        "flatten",
        "unsqueeze",
        "squeeze",
        "contiguous",
        "detach",
        "alias",
        "lift_fresh",
        "to",
        "float",
        "type_as",
    ]
)


class Pick(NamedTuple):
    """A part of a tensor that a call takes.

    Attributes:
        dim: dimension along which it takes, counted from the first.
        begin, end: what it takes of it.
        size: what there is.
        shape: of the tensor.
    """

    dim: int
    begin: int
    end: int
    size: int
    shape: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether it takes all."""
        return self.end - self.begin >= self.size


def pick_of(name: str, recorded: Inputs) -> Pick | None:
    """What `select`, `slice`, `narrow` and `index_select` take; None for other ops."""
    source = recorded.tensor(0)
    dim = recorded.integer(1)
    if name not in ("select", "slice", "narrow", "index_select") or source is None or dim is None or not source.shape:
        return None
    dim %= len(source.shape)
    size = source.shape[dim]
    if name == "index_select":
        index = recorded.tensor(2)
        return None if index is None else Pick(dim, 0, min(index.numel, size), size, source.shape)
    begin = _place(recorded.integer(2) or 0, size)
    if name == "select":
        end = begin + 1
    elif name == "narrow":
        end = begin + (recorded.integer(3) or 0)
    else:
        last = recorded.integer(3)
        end = size if last is None else _place(last, size)
    return Pick(dim, begin, max(min(end, size), begin), size, source.shape)


def _place(index: int, size: int) -> int:
    return min(max(index + size if index < 0 else index, 0), size)


class Uses:
    """Calls by the number of elements of their operands.

    Attributes:
        code: int64 (calls,): the same for calls of one op with the same recorded inputs.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        event = ctx.called.event
        keys = ctx.trace.name[event].astype(np.int64) * (int(ctx.input_row.max(initial=0)) + 2) + ctx.input_row[event] + 1
        _, first, self.code = np.unique(keys, return_index=True, return_inverse=True)
        self.code = self.code.reshape(-1)
        self._names = [ctx.trace.name_of(int(event[i])).removeprefix("aten::") for i in first]
        self._inputs = [ctx.arguments(int(event[i])) for i in first]
        self._elements = [_elements(recorded) for recorded in self._inputs]
        self._step = ctx.step_of(event)
        broken = np.flatnonzero((np.diff(ctx.trace.lane[event]) != 0) | (np.diff(self._step) != 0))
        self._stretch_end = np.r_[broken, len(event) - 1] + 1
        self._using: dict[int, Array] = {}

    def name(self, call: int) -> str:
        """Name of a call; ATen's without the namespace."""
        return self._names[self.code[call]]

    def inputs(self, call: int) -> Inputs | None:
        """Recorded inputs of a call."""
        return self._inputs[self.code[call]]

    def picked_sizes(self) -> dict[int, list[Pick]]:
        """All that calls take a part of, by elements."""
        out: dict[int, list[Pick]] = {}
        for name, recorded in zip(self._names, self._inputs, strict=True):
            pick = None if recorded is None else pick_of(name, recorded)
            if pick is not None and not pick.whole:
                out.setdefault(prod(pick.shape), []).append(pick)
        return out

    def picking(self) -> list[int]:
        """Calls that take a part of something, in the steps where there are any."""
        some = [
            r is not None and (p := pick_of(n, r)) is not None and not p.whole
            for n, r in zip(self._names, self._inputs, strict=True)
        ]
        counted = np.isin(self._step, self._ctx.step_numbers) if len(self._ctx.steps) else np.True_
        found: list[int] = np.flatnonzero(np.array(some, dtype=np.bool_)[self.code] & counted).tolist()
        return found

    def pick(self, call: int) -> Pick | None:
        """What a call takes a part of; None for calls that do not."""
        recorded = self.inputs(call)
        return None if recorded is None else pick_of(self.name(call), recorded)

    def begin(self, call: int) -> int:
        """First call of the same thread and step."""
        place = int(np.searchsorted(self._stretch_end, call, side="right"))
        return int(self._stretch_end[place - 1]) if place else 0

    def between(self, call: int, elements: int) -> list[int]:
        """Calls after one, of the same thread and step, that use a tensor of some elements."""
        return self._users(call, int(self._stretch_end[np.searchsorted(self._stretch_end, call, side="right")]), elements)

    def after(self, call: int, elements: int) -> list[int]:
        """Calls of the same thread and step that use a tensor of some elements, until what made it is called again."""
        end = int(self._stretch_end[np.searchsorted(self._stretch_end, call, side="right")])
        again = np.flatnonzero(self.code[call + 1 : end] == self.code[call])
        end = call + 1 + int(again[0]) if len(again) else end
        return self._users(call, end, elements)

    def _users(self, call: int, end: int, elements: int) -> list[int]:
        if elements not in self._using:
            fits = np.array([elements in found for found in self._elements], dtype=np.bool_)
            self._using[elements] = np.flatnonzero(fits[self.code])
        using = self._using[elements]
        found: list[int] = using[np.searchsorted(using, call + 1) : np.searchsorted(using, end)].tolist()
        return found


def _elements(recorded: Inputs | None) -> frozenset[int]:
    if recorded is None:
        return frozenset()
    sizes = {t.numel for t in recorded.tensors()}
    for index in range(len(recorded)):
        with contextlib.suppress(UnknownInput):
            sizes |= {prod(shape) for shape, _ in recorded.members(index)}
    return frozenset(sizes)
