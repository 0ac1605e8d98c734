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

from lanewise.work.inputs import Inputs, Tensor, UnknownInput

from .context import Context
from .pointwise_chains import result_of
from .sequence import Op

__all__ = ["Chain", "chain_from", "factories"]

Array = npt.NDArray[Any]
Key = tuple[int, str | None]

# What fills a tensor with one number.
_FILLING = frozenset(
    ["ones", "zeros", "full", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full", "scalar_tensor"]
)
_COUNTING = frozenset(["arange", "range", "linspace", "logspace", "eye", "tril_indices", "triu_indices"])
# What computes a table from numbers by several ops of its own.
_TABULATING = frozenset(
    [f"{name}_window" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")] + ["fft_fftfreq", "fft_rfftfreq"]
)
# What a program does with a tensor that is one number everywhere. A nonlinearity of it is no program's wish: there an input
# merely looks like it.
_SHAPING = frozenset(
    [
        "tril",
        "triu",
        "tril_",
        "triu_",
        "cumsum",
        "cumprod",
        "diag",
        "diagonal",
        "diag_embed",
        "block_diag",
        "to",
        "type_as",
        "clone",
        "contiguous",
        "float",
        "half",
        "bfloat16",
        "long",
        "bool",
        "mul",
        "add",
        "sub",
        "rsub",
        "neg",
        "div",
        "mul_",
        "add_",
        "sub_",
        "neg_",
        "div_",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_not",
        "bitwise_not",
        "cat",
        "stack",
        "concat",
        "repeat",
        "masked_fill",
        "masked_fill_",
        "where",
        "copy_",
        "fill_",
        "zero_",
        "constant_pad_nd",
        "pad",
        "outer",
        "nonzero",
        "fill_diagonal_",
    ]
)
# Comparisons take numbers as such: a tensor of one element beside is one.
_COMPARING = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
# Here, next to indices that nothing was done with yet, a whole number that the trace does not record is as likely a position as a
# constant: arange(n) + past.
_SHIFTING = frozenset(["add", "sub", "add_", "sub_"])
_RANDOM = ("rand", "normal", "bernoulli", "dropout", "multinomial", "uniform", "exponential", "random", "poisson", "geometric")
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
_WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
_NUMBERS = ("fp64", "int64")
# What is known of values: one number everywhere, or indices as they were made.
_UNIFORM, _COUNTED = "uniform", "counted"
_VIEWS = frozenset(
    [
        "view",
        "reshape",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "permute",
        "transpose",
        "t",
        "slice",
        "select",
        "narrow",
        "flatten",
        "unflatten",
        "as_strided",
        "movedim",
        "view_as",
        "detach",
        "alias",
        "lift_fresh",
        "chunk",
        "split",
        "unbind",
        "meshgrid",
        "repeat_interleave",
        "broadcast_to",
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
    """

    begin: int
    end: int
    calls: tuple[int, ...]
    computes: bool
    shifted: bool
    looked_up: bool


def factories(ctx: Context) -> Array:
    """bool (calls,): calls that launch GPU work and depend on nothing but numbers."""
    named = ctx.trace.names_where(lambda s: _starts(s.removeprefix("aten::")) and s.startswith("aten::"))
    result: Array = named[ctx.trace.name[ctx.called.event]] & (ctx.called.kernels > 0)
    return result


def _starts(name: str) -> bool:
    return name in _FILLING or name in _COUNTING or name in _TABULATING


def chain_from(ctx: Context, first: int, last: int, rows: Array, lookups: bool) -> Chain:
    """The chain that begins with a call.

    Args:
        ctx: the trace's context; shapes are needed.
        first: number of a call of `factories`.
        last: number of the last call that may belong to it.
        rows: a GPU op of each call, by which its innermost op is known; -1 for none.
        lookups: whether an embedding of what the chain has made belongs to it: without training its weights never change.
    """
    growing = _Growing(ctx, first, lookups)
    for call in range(first, min(last, first + _MOST_CALLS) + 1):
        if not growing.take(call, int(rows[call])):
            break
    return growing.chain()


class _Growing:
    """A chain in the making."""

    def __init__(self, ctx: Context, first: int, lookups: bool) -> None:
        self._ctx, self._first, self._lookups = ctx, first, lookups
        self._made = _Made()
        self._calls: list[int] = []
        self._end = first
        self._lifted = self._computes = self._shifted = self._looked_up = False

    def chain(self) -> Chain:
        """What it has become."""
        calls = tuple(c for c in self._calls if c <= self._end)
        return Chain(self._first, self._end, calls, self._computes, self._shifted, self._looked_up)

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
            self._made.add(_filled(self._ctx, event, row), _UNIFORM if name in _FILLING else _COUNTED)
            self._computes |= name in _TABULATING
        else:
            recorded = self._operands(name, _recorded(self._ctx, event))
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


class _Made:
    """What a chain has made so far, by elements and type; single elements, which every program has, are not told apart."""

    def __init__(self) -> None:
        self._count: dict[Key, int] = {}
        self._natures: dict[Key, set[str]] = {}
        self._others: set[Key] = set()
        self._latest: Key | None = None

    def add(self, tensor: Tensor | None, nature: str = "") -> None:
        """Add a result, and what is known of its values."""
        if tensor is not None:
            key = (tensor.numel, tensor.dtype)
            self._count[key] = self._count.get(key, 0) + 1
            self._natures.setdefault(key, set()).add(nature)
            self._latest = key

    def mix(self) -> None:
        """Note that something was written into what is made: of none it is known any more that it is one number everywhere."""
        for natures in self._natures.values():
            natures.add("")

    def others(self, tensor: Tensor | None) -> None:
        """Note a view of another tensor: what looks like it is no more known to be of the chain."""
        if tensor is not None:
            self._others.add((tensor.numel, tensor.dtype))

    def _key(self, tensor: Tensor) -> Key | None:
        for elements in (tensor.numel, tensor.stored):
            for dtype in (tensor.dtype, None):
                if elements > 1 and (elements, dtype) in self._count:
                    return elements, dtype
        return None

    def nature(self, tensors: list[Tensor]) -> str:
        """What the values of some tensors can only be; "" where they may be any."""
        found = set().union(*(self._natures[key] for t in tensors if (key := self._key(t)) is not None))
        return found.pop() if len(found) == 1 else ""

    def counted(self, tensors: list[Tensor]) -> bool:
        """Whether one of some tensors may be indices as they were made."""
        return any(_COUNTED in self._natures[key] for t in tensors if (key := self._key(t)) is not None)

    def holds(self, tensors: list[Tensor]) -> bool:
        """Whether all of some tensors may be of the chain, each of them another."""
        keys = [self._key(t) for t in tensors]
        return all(key is not None and key not in self._others and keys.count(key) <= self._count[key] for key in keys)

    def has(self, name: str, recorded: Inputs) -> bool:
        """Whether an op uses the chain's tensors, and nothing else but numbers."""
        if name.startswith("_") or any(word in name for word in _RANDOM):
            return False
        operands = [t for t in recorded.tensors() if t.numel]
        tensors = [t for t in operands if t.shape or t.dtype not in _NUMBERS]
        if len(tensors) < len(operands) and name.rstrip("_") in _COMPARING:
            return False
        members = self._members(recorded)
        if members is None or not (tensors or members) or not self.holds([*tensors, *members]):
            return False
        return self.nature([*tensors, *members]) != _UNIFORM or self._shapes(name, [*tensors, *members])

    def _members(self, recorded: Inputs) -> list[Tensor] | None:
        """The tensors of an op's lists, of whose types the trace says nothing; None where they are not recorded."""
        found: list[Tensor] = []
        for index in range(len(recorded)):
            if recorded.is_list(index):
                try:
                    sizes = [Tensor(shape, None, strides).numel for shape, strides in recorded.members(index)]
                except UnknownInput:
                    return None
                types = dict(iter(self._count))
                found += [Tensor((n,), types.get(n)) for n in sizes]
        return found

    def _shapes(self, name: str, tensors: list[Tensor]) -> bool:
        """Whether an op may be what a program does with tensors that are one number everywhere: it follows the last of them."""
        return (name in _SHAPING or name in _VIEWS) and self._latest in [self._key(t) for t in tensors]


def _shifts(name: str, recorded: Inputs, made: _Made) -> bool:
    """Whether an op adds a whole number that the trace does not record to indices."""
    numbers = any(not t.shape and t.dtype == "int64" for t in recorded.tensors())
    return name in _SHIFTING and numbers and made.counted(recorded.tensors())


def _recorded(ctx: Context, event: int) -> Inputs | None:
    found = ctx.inputs(event)
    if found is None or found.dims is None or found.types is None or found.concrete is None:
        return None
    return Inputs(found.dims, found.types, found.strides, found.concrete)


def _filled(ctx: Context, event: int, row: int) -> Tensor | None:
    """What a factory makes: its elements as allocated inside it, its type as filled."""
    sizes: list[int] = []
    dtype = None
    inside = ctx.inside(np.array([event])).tolist()
    for inner in inside:
        recorded = _recorded(ctx, int(inner))
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
        sizes, dtype = [_triangle(_recorded(ctx, event), name)], "int64"
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
            found = _recorded(ctx, int(inner))
            sizes = found.integers(1) if found is not None else None
            if sizes is not None:
                return Tensor(tuple(sizes), source.dtype)
    return source


def _computed(ctx: Context, row: int, name: str, recorded: Inputs) -> Tensor | None:
    """What an op on the GPU makes, by its innermost op."""
    event = int(ctx.owner[row])
    inner = _recorded(ctx, event) if event >= 0 else None
    op = Op(ctx.trace.name_of(event).removeprefix("aten::") if event >= 0 else name, inner or recorded)
    if op.product is not None:
        return Tensor((op.product.elements,), op.product.a.dtype)
    result = result_of(op)
    if result is None or result.dtype not in _WHOLE:
        return result
    fraction = any(not t.shape and t.dtype == "fp64" for t in recorded.tensors())
    return Tensor(result.shape, "fp32") if op.name.rstrip("_") in _TO_FLOAT or fraction else result
