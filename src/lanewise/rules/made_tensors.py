"""What a chain of ops has made, told by sizes and types: the trace has no tensors."""

from __future__ import annotations

from lanewise.work.inputs import Inputs, Tensor, UnknownInput

__all__ = ["COUNTED", "UNIFORM", "WHOLE", "Made"]

Key = tuple[int, str | None]

WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
NUMBERS = ("fp64", "int64")
# What is known of values: one number everywhere, or indices as they were made.
UNIFORM, COUNTED = "uniform", "counted"
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
_RANDOM = ("rand", "normal", "bernoulli", "dropout", "multinomial", "uniform", "exponential", "random", "poisson", "geometric")


class Made:
    """What a chain has made so far, by elements and type; single elements, which every program has, are not told apart."""

    def __init__(self, givens: bool) -> None:
        self._givens, self.given = givens, False
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
        return any(COUNTED in self._natures[key] for t in tensors if (key := self._key(t)) is not None)

    def holds(self, tensors: list[Tensor]) -> bool:
        """Whether all of some tensors may be of the chain, each of them another."""
        keys = [self._key(t) for t in tensors]
        return all(key is not None and key not in self._others and keys.count(key) <= self._count[key] for key in keys)

    def has(self, name: str, recorded: Inputs) -> bool:
        """Whether an op uses the chain's tensors, and nothing else but numbers."""
        if name.startswith("_") or any(word in name for word in _RANDOM):
            return False
        operands = [t for t in recorded.tensors() if t.numel]
        tensors = [t for t in operands if t.shape or t.dtype not in NUMBERS]
        if len(tensors) < len(operands) and name.rstrip("_") in _COMPARING:
            return False
        members = self._members(recorded)
        if members is None:
            return False
        outside = self._outside(name, tensors)
        own = [*(t for t in tensors if t not in outside), *members]
        if not own or not self.holds(own) or (self.nature(own) == UNIFORM and not self._shapes(name, own)):
            return False
        self.given |= bool(outside)
        return True

    def _outside(self, name: str, tensors: list[Tensor]) -> list[Tensor]:
        """Masks and indices among some operands that the chain has not made and may take."""
        if not self._givens or name.endswith("_"):
            return []
        return [t for t in tensors if t.dtype in WHOLE and t.numel > 1 and not self.holds([t])]

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
