"""Chains of ops that start from nothing but numbers: what they make is the same each time that they run.

A chain begins with an op that fills a tensor (`arange`, `ones`, `full`, ...) and goes on while ops use what the chain has made, and
numbers. The trace has no tensors: what is made is told by its number of elements and its type, and the chain ends at the first op
on the GPU with an operand of which it has made none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.work.inputs import Inputs, Tensor

from .context import Context
from .made_tensors import COUNTED, UNIFORM, WHOLE, Made
from .pointwise_chains import result_of
from .sequence import Op

__all__ = ["Chain", "chain_from", "factories", "recorded_inputs"]

Array = npt.NDArray[Any]

# What fills a tensor with one number.
_FILLING = frozenset(
    ["ones", "zeros", "full", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full", "scalar_tensor"]
)
_COUNTING = frozenset(["arange", "range", "linspace", "logspace", "eye", "tril_indices", "triu_indices"])
# What computes a table from numbers by several ops of its own.
_TABULATING = frozenset(
    [f"{name}_window" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")] + ["fft_fftfreq", "fft_rfftfreq"]
)
# Here, next to indices that nothing was done with yet, a whole number that the trace does not record is as likely a position as a
# constant: arange(n) + past.
_SHIFTING = frozenset(["add", "sub", "add_", "sub_"])
# Of whole numbers these make fractions.
_TO_FLOAT = frozenset(
    [
        "div",
        "true_divide",
        "log",
        "log2",
        "log10",
        "log1p",
        "exp",
        "exp2",
        "sin",
        "cos",
        "tan",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "tanh",
        "mean",
    ]
)
# A table of a model takes some ten to forty calls; this bounds the search where every op of a program would fit.
_MOST_CALLS = 400
_COPIES_OUT = ("memcpy-dtoh", "memcpy-htod")


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain.

    Attributes:
        begin, end: numbers of its first and last call; calls of others that launch nothing may lie between.
        calls: numbers of its calls, those that take views included.
        computes: whether it does more than fill tensors.
        shifted: whether a number that the trace does not record moves it: it may be another in the next step.
        looked_up: whether a table of weights is looked up with it.
        given: whether masks or indices from outside go into it: it is the same as long as these are.
    """

    begin: int
    end: int
    calls: tuple[int, ...]
    computes: bool
    shifted: bool
    looked_up: bool
    given: bool = False


def factories(ctx: Context) -> Array:
    """bool (calls,): calls that launch GPU work and depend on nothing but numbers."""
    named = ctx.trace.names_where(lambda s: _starts(s.removeprefix("aten::")) and s.startswith("aten::"))
    result: Array = named[ctx.trace.name[ctx.called.event]] & (ctx.called.kernels > 0)
    return result


def _starts(name: str) -> bool:
    return name in _FILLING or name in _COUNTING or name in _TABULATING


def chain_from(ctx: Context, first: int, last: int, rows: Array, lookups: bool, givens: bool = False) -> Chain:
    """The chain that begins with a call.

    Args:
        ctx: the trace's context; shapes are needed.
        first: number of a call of `factories`.
        last: number of the last call that may belong to it.
        rows: a GPU op of each call, by which its innermost op is known; -1 for none.
        lookups: whether an embedding of what the chain has made belongs to it: without training its weights never change.
        givens: whether masks and indices from outside may go into it: whole numbers and truth values, which no layer has of its own.
    """
    growing = _Growing(ctx, first, lookups, givens)
    for call in range(first, min(last, first + _MOST_CALLS) + 1):
        if not growing.take(call, int(rows[call])):
            break
    return growing.chain()


class _Growing:
    """A chain in the making."""

    def __init__(self, ctx: Context, first: int, lookups: bool, givens: bool) -> None:
        self._ctx, self._first, self._lookups = ctx, first, lookups
        self._made = Made(givens)
        self._calls: list[int] = []
        self._end = first
        self._lifted = self._computes = self._shifted = self._looked_up = False

    def chain(self) -> Chain:
        """What it has become."""
        calls = tuple(c for c in self._calls if c <= self._end)
        return Chain(self._first, self._end, calls, self._computes, self._shifted, self._looked_up, self._made.given)

    def take(self, call: int, row: int) -> bool:
        """Take the next call in, or pass it over; False where the chain ends before it.

        Args:
            call: its number.
            row: a GPU op of it, -1 for none.
        """
        event = int(self._ctx.called.event[call])
        name = self._ctx.trace.name_of(event).removeprefix("aten::")
        if row >= 0 and self._ctx.kinds[row] in _COPIES_OUT:
            return False
        if _starts(name):
            if row < 0:
                return True  # on the CPU
            self._made.add(_filled(self._ctx, event, row), UNIFORM if name in _FILLING else COUNTED)
            self._computes |= name in _TABULATING
        else:
            recorded = self._operands(name, recorded_inputs(self._ctx, event))
            if recorded is None or not self._made.has(name, recorded):
                if recorded is None or not self._looks_up(name, recorded):
                    self._made.others(None if recorded is None else _viewed(self._ctx, event, recorded))
                    return row < 0
            elif row < 0:
                self._made.add(_viewed(self._ctx, event, recorded), self._made.nature(recorded.tensors()))
            else:
                self._compute(row, name, recorded)
        self._calls.append(call)
        self._end = call if row >= 0 else self._end
        return True

    def _operands(self, name: str, recorded: Inputs | None) -> Inputs | None:
        """A call's inputs; of ``mask[a:b] = 1``, which makes a tensor of the number first, without that."""
        if recorded is None:
            return None
        if name == "lift_fresh":
            self._lifted = recorded.dims[0] == []
        elif name == "fill_" and self._lifted:
            self._lifted = False
            return Inputs(recorded.dims[:1], recorded.types[:1], recorded.strides, recorded.concrete)
        return recorded

    def _looks_up(self, name: str, recorded: Inputs) -> bool:
        """Whether a call looks up a table of weights by the chain, which then goes on."""
        table = looked_up_by(name, recorded) if self._lookups and self._computes else None
        if table is None or not self._made.holds([table[1]]):
            return False
        self._made.add(Tensor((table[1].numel * table[0].shape[-1],), table[0].dtype))
        self._looked_up = True
        return True

    def _compute(self, row: int, name: str, recorded: Inputs) -> None:
        self._shifted |= _shifts(name, recorded, self._made)
        self._made.add(_computed(self._ctx, row, name, recorded))
        self._computes = True
        if name.endswith("_"):
            self._made.mix()


def looked_up_by(name: str, recorded: Inputs) -> tuple[Tensor, Tensor] | None:
    """(weights, indices) of an embedding; None for other ops."""
    weight, index = recorded.tensor(0), recorded.tensor(1)
    return (weight, index) if name == "embedding" and weight is not None and index is not None and weight.shape else None


def _shifts(name: str, recorded: Inputs, made: Made) -> bool:
    """Whether an op adds a whole number that the trace does not record to indices."""
    numbers = any(not t.shape and t.dtype == "int64" for t in recorded.tensors())
    return name in _SHIFTING and numbers and made.counted(recorded.tensors())


def recorded_inputs(ctx: Context, event: int) -> Inputs | None:
    """Recorded inputs of an event with their numbers; None where they were not recorded."""
    found = ctx.inputs(event)
    return None if found is None or found.concrete is None else ctx.arguments(event)


def _filled(ctx: Context, event: int, row: int) -> Tensor | None:
    """What a factory makes: its elements as allocated inside it, its type as filled."""
    sizes: list[int] = []
    dtype = None
    inside = ctx.inside(np.array([event])).tolist()
    for inner in inside:
        recorded = recorded_inputs(ctx, int(inner))
        if recorded is None:
            continue
        name = ctx.trace.name_of(int(inner)).removeprefix("aten::")
        listed = recorded.integers(1 if name == "resize_" else 0) if name in ("resize_", "empty", "empty_strided") else None
        if listed is not None:
            sizes.append(prod(listed))
        tensors = [t for t in recorded.tensors() if t.shape]
        if tensors and int(inner) in (int(ctx.owner[row]), *inside[1:]):
            dtype = tensors[-1].dtype
            sizes.append(tensors[-1].numel)
    name = ctx.trace.name_of(event).removeprefix("aten::")
    if name in ("tril_indices", "triu_indices"):
        sizes, dtype = [_triangle(recorded_inputs(ctx, event), name)], "int64"
    elements = max(sizes, default=0)
    if not elements:
        return Tensor((), dtype or "fp32") if sizes == [] and name == "scalar_tensor" else None
    return Tensor((elements,), dtype)


def _triangle(recorded: Inputs | None, name: str) -> int:
    """Elements of the indices of a triangle."""
    rows, columns, offset = ((recorded.integer(i) or 0) if recorded is not None else 0 for i in range(3))
    lower = np.clip(np.arange(rows) + offset + (1 if name == "tril_indices" else 0), 0, columns)
    below = int(lower.sum())
    return 2 * (below if name == "tril_indices" else rows * columns - below)


def _viewed(ctx: Context, event: int, recorded: Inputs) -> Tensor | None:
    """What a view makes: as many elements as it says, or all."""
    source = next(iter(recorded.tensors()), None)
    if source is None:
        return None
    for inner in ctx.inside(np.array([event])):
        if ctx.trace.name_of(int(inner)) == "aten::as_strided":
            found = recorded_inputs(ctx, int(inner))
            sizes = found.integers(1) if found is not None else None
            if sizes is not None:
                return Tensor(tuple(sizes), source.dtype)
    return source


def _computed(ctx: Context, row: int, name: str, recorded: Inputs) -> Tensor | None:
    """What an op on the GPU makes, by its innermost op."""
    event = int(ctx.owner[row])
    inner = recorded_inputs(ctx, event) if event >= 0 else None
    op = Op(ctx.trace.name_of(event).removeprefix("aten::") if event >= 0 else name, inner or recorded)
    if op.product is not None:
        return Tensor((op.product.elements,), op.product.a.dtype)
    result = result_of(op)
    if result is None or result.dtype not in WHOLE:
        return result
    fraction = any(not t.shape and t.dtype == "fp64" for t in recorded.tensors())
    return Tensor(result.shape, "fp32") if op.name.rstrip("_") in _TO_FLOAT or fraction else result
