"""Chains of pointwise ops and reductions that one kernel could do: which GPU ops belong together, and what the kernel would move.

A chain is a run of neighbouring GPU ops of one thread, each of which reads something that the chain has read or written: the
trace has no tensors, so that tensors are told by their number of elements and type. An operand that looks like one of the chain
is taken to be it. The fused kernel reads each outside tensor once and writes the result once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lanewise.work.inputs import ITEM_BYTES, Tensor, UnknownInput, broadcast, promoted

from .sequence import Op

__all__ = ["INSTRUCTIONS", "Chain", "chains_of", "result_of"]

# fp32 instructions an element, beside loads and stores: slopes of kernels that repeat a function, measured on an H200 (CUDA 13,
# libdevice, which Inductor calls too). All others are one to three, which never bound a kernel.
INSTRUCTIONS = {
    "exp": 10,
    "exp2": 10,
    "expm1": 41,
    "log": 36,
    "log2": 36,
    "log1p": 41,
    "sqrt": 20,
    "rsqrt": 8,
    "div": 21,
    "tanh": 23,
    "sigmoid": 31,
    "erf": 32,
    "gelu": 37,
    "silu": 37,
    "mish": 60,
    "softplus": 50,
    "elu": 41,
    "sin": 47,
    "cos": 44,
    "gelu_backward": 60,
    "silu_backward": 40,
}
# pow with a whole exponent is a few multiplications; any other goes through logarithm and exponential.
_POW = 126
_PLAIN = 2
# The part of the operands that only look like tensors of the chain and are not: gates and residuals are, inputs read again and
# branches that meet again are not (1 of 4 over ten chains: GLUs, norms, losses, rotary embeddings, activations).
DOUBT = 0.25

_SAME_AS_FIRST = frozenset(
    [
        "_softmax",
        "softmax",
        "_log_softmax",
        "native_layer_norm",
        "layer_norm",
        "rms_norm",
        "_fused_rms_norm",
        "native_dropout",
        "dropout",
        "masked_fill",
        "masked_fill_",
        "copy_",
        "fill_",
        "zero_",
        "clone",
        "tril",
        "triu",
        "clamp",
        "clamp_min",
        "clamp_max",
        "cumsum",
    ]
)
_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "amax",
        "amin",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "linalg_vector_norm",
        "prod",
        "any",
        "all",
        "max",
        "min",
        "argmax",
    ]
)
_MOMENTS = frozenset(["mean", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm"])
_APPLYING = frozenset(["mul", "div", "sub"])
_BOOLEAN = frozenset(
    ["eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "isnan", "isinf", "isneginf", "isfinite"]
)


@dataclass(frozen=True, slots=True)
class Chain:
    """Neighbouring ops that one kernel could do.

    Attributes:
        begin, end: places of its ops within the run that was given, end not included.
        moved: bytes that the ops move now.
        bytes: what the fused kernel moves.
        least_bytes, most_bytes: if every operand that could be one of the chain is, or none.
        instructions: fp32 instructions of each op.
        norm: whether it applies a mean, variance or norm of a tensor to that tensor: a norm written out.
    """

    begin: int
    end: int
    moved: float
    bytes: float
    least_bytes: float
    most_bytes: float
    instructions: tuple[float, ...]
    norm: bool


def result_of(op: Op) -> Tensor | None:
    """Shape and type of what an op writes; None where its inputs do not tell."""
    tensors = op.tensors
    if not tensors or op.inputs is None:
        return None
    base = op.name.rstrip("_")
    try:
        if base == "cat":
            return _joined(op)
        if base in _REDUCTIONS:
            return _reduced(op, tensors[0])
        if op.name in _SAME_AS_FIRST or op.name.endswith("_"):
            return tensors[0]
        shape = broadcast([t.shape for t in tensors])
        if base in _BOOLEAN:
            return Tensor(shape, "bool")
        operands = [t for t in tensors if t.dtype != "bool"] or tensors if base == "where" else tensors
        return Tensor(shape, promoted(operands))
    except UnknownInput:
        return None


def _joined(op: Op) -> Tensor | None:
    members = [t for t in op.tensors if t.dtype is None]
    return Tensor((sum(t.numel for t in members),), None) if members else None


def _reduced(op: Op, x: Tensor) -> Tensor:
    dims = op.inputs.integers(1) if op.inputs is not None else None
    if not dims or not x.shape:
        return Tensor((1,), x.dtype)
    gone = {d % len(x.shape) for d in dims}
    return Tensor((prod(s for i, s in enumerate(x.shape) if i not in gone),), x.dtype)


def _instructions(op: Op, elements: int) -> float:
    base = op.name.rstrip("_")
    if base == "pow":
        exponent = op.inputs.number(1) if op.inputs is not None else None
        return elements * (_PLAIN if exponent is not None and exponent in (2.0, 3.0, 0.5, -1.0, -2.0) else _POW)
    if base == "div" and len(op.tensors) < 2:
        return elements * _PLAIN  # by a number: a multiplication
    return elements * INSTRUCTIONS.get(base, _PLAIN)


class _Growing:
    """A chain in the making: the tensors that it has read and written, by elements and type."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.known: dict[tuple[int, str | None], int] = {}
        self.written: list[Tensor] = []
        self.moved = 0.0
        self.outside = 0.0
        self.doubtful = 0.0
        self.instructions: list[float] = []
        self.reduced: set[int] = set()
        self.norm = False
        self.largest = 0

    def takes(self, op: Op) -> bool:
        """Whether an op reads something of the chain."""
        sizes = {elements for elements, _ in self.known}
        return any(elements > 1 and elements in sizes for t in op.tensors for elements in (t.numel, _span(t)))

    def add(self, op: Op, result: Tensor) -> None:
        """Add an op: its operands that are not of the chain are read from outside."""
        operands: dict[tuple[int, str | None], list[Tensor]] = {}
        for tensor in map(self._typed, op.tensors[1:] if op.name == "copy_" else op.tensors):
            # A slice is a part of the tensor that it was cut from.
            whole = (_span(tensor), tensor.dtype)
            operands.setdefault(whole if whole in self.known else (tensor.numel, tensor.dtype), []).append(tensor)
        for key, tensors in operands.items():
            self.moved += sum(map(_bytes, tensors))
            self._read(key, tensors)
        result = self._typed(result)
        self.moved += _bytes(result)
        key = (result.numel, result.dtype)
        if not op.name.endswith("_") or op.name == "copy_":
            self.known[key] = self.known.get(key, 0) + 1
        self.written.append(result)
        elements = max([result.numel, *(t.numel for t in op.tensors)])
        self.largest = max(self.largest, elements)
        if op.name in _MOMENTS and result.numel < elements:
            self.reduced.add(result.numel)
        elif op.name.rstrip("_") in _APPLYING and elements == self.largest:
            # The whole tensor less, over or times what it was reduced to.
            self.norm |= any(t.numel in self.reduced for t in op.tensors)
        self.instructions.append(_instructions(op, elements))

    def _typed(self, t: Tensor) -> Tensor:
        """A tensor of a list, whose type is not recorded, with the type of one of the chain: of its size where there is one."""
        if t.dtype is not None or not self.known:
            return t
        sizes = (t.numel, _span(t))
        same = [dtype for elements, dtype in self.known if elements in sizes and dtype is not None]
        other = self.written[-1].dtype if self.written else None
        return Tensor(t.shape, same[-1] if same else other, t.strides)

    def _read(self, key: tuple[int, str | None], tensors: list[Tensor]) -> None:
        """Operands of one size and type: what was written last is of the chain, others that look like it are taken to be."""
        there = self.known.get(key, 0)
        of_chain = min(len(tensors), there)
        certain = bool(self.written) and (self.written[-1].numel, self.written[-1].dtype) == key
        self.doubtful += max(of_chain - certain, 0) * _bytes(tensors[0])
        self.outside += sum(_bytes(t) for t in tensors[of_chain:])
        self.known[key] = max(there, len(tensors))

    def chain(self, end: int) -> list[Chain]:
        """The chain as it stands; empty where it is a single op."""
        if end - self.begin < 2:
            return []
        least = self.outside + _bytes(self.written[-1])
        most = least + self.doubtful
        likely = least + DOUBT * self.doubtful
        return [Chain(self.begin, end, self.moved, likely, least, most, tuple(self.instructions), self.norm)]


def _span(t: Tensor) -> int:
    """Elements from the first to the last row of a slice: those of the tensor that it was cut from, where that has no gaps."""
    if not t.shape or t.strides is None or len(t.strides) != len(t.shape):
        return t.numel
    return max(size * stride for size, stride in zip(t.shape, t.strides, strict=True))


def _bytes(t: Tensor) -> float:
    return float(t.stored * ITEM_BYTES.get(t.dtype or "", 4))


def chains_of(ops: list[Op]) -> list[Chain]:
    """Cut a run of neighbouring ops into chains of at least two."""
    found: list[Chain] = []
    growing: _Growing | None = None
    for place, op in enumerate(ops):
        result = result_of(op)
        known = result is not None and result.numel > 0
        if growing is not None and not (known and growing.takes(op)):
            found += growing.chain(place)
            growing = None
        if result is not None and known:
            growing = growing or _Growing(place)
            growing.add(op, result)
    return found + (growing.chain(len(ops)) if growing is not None else [])
