"""What Kineto records of one CPU op call, as typed values.

Kineto writes four parallel lists with ``record_shapes``: "Input Dims", "Input type", "Input Strides" and
"Concrete Inputs". A tensor has its sizes, the C++ name of its element type and its strides; a TensorList has
lists of sizes and strides but only the word ``TensorList`` for a type, so the size of its elements is not
recorded; a scalar or a list of scalars has its text in "Concrete Inputs". A TensorList of more than 30
tensors is recorded as ``[]``, as an empty one is (torch/csrc/profiler/util.cpp,
TENSOR_LIST_DISPLAY_LENGTH_LIMIT): both read as unknown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

__all__ = [
    "DTYPES",
    "ITEM_BYTES",
    "SCALAR_TYPES",
    "Inputs",
    "Tensor",
    "UnknownInput",
    "broadcast",
    "is_floating",
    "promoted",
]

# The C++ type names that Kineto prints, by the names that kernels and devices use too. `long int` is Linux,
# `__int64` Windows, `long long` macOS.
DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8_e4m3",
    "c10::Float8_e4m3fnuz": "fp8_e4m3",
    "c10::Float8_e5m2": "fp8_e5m2",
    "c10::Float8_e5m2fnuz": "fp8_e5m2",
    "c10::Float8_e8m0fnu": "fp8_e8m0",
    "c10::Float4_e2m1fn_x2": "fp4",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "__int64": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::complex<c10::Half>": "complex32",
    "c10::qint8": "int8",
    "c10::quint8": "uint8",
    "c10::qint32": "int32",
}

# Bytes of one recorded element. fp4 comes in pairs: torch's only 4-bit type holds two values a byte, and its
# sizes count the pairs.
ITEM_BYTES = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_e8m0": 1,
    "fp4": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}

# c10::ScalarType, the number that a dtype argument is recorded as (c10/core/ScalarType.h; the order is
# fixed).
SCALAR_TYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "fp16",
    6: "fp32",
    7: "fp64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bf16",
    23: "fp8_e5m2",
    24: "fp8_e4m3",
    25: "fp8_e5m2",
    26: "fp8_e4m3",
}

_FLOATS = ("fp8_e8m0", "fp8_e4m3", "fp8_e5m2", "fp16", "bf16", "fp32", "fp64")
_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
_COMPLEX = ("complex32", "complex64", "complex128")
_NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "TensorList"})


class UnknownInput(Exception):  # noqa: N818 - a signal inside this package, not an error of the user
    """What the estimate needs was not recorded."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor argument.

    Attributes:
        shape: sizes, outermost first.
        dtype: element type by lanewise's names (``bf16``), None where Kineto's name is not known.
        strides: in elements; None where the trace has none (torch before 2.1).
    """

    shape: tuple[int, ...]
    dtype: str | None
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Elements, expanded ones counted as often as they appear."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Elements in memory: expanded dimensions (stride 0) and overlapping windows counted once."""
        if self.strides is None or len(self.strides) != len(self.shape) or self.numel == 0:
            return self.numel
        distinct = prod(size for size, stride in zip(self.shape, self.strides, strict=True) if stride != 0)
        span = 1 + sum((size - 1) * abs(stride) for size, stride in zip(self.shape, self.strides, strict=True))
        return min(distinct, span)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element.

        Raises:
            UnknownInput: the type is not known.
        """
        return item_bytes(self.dtype)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the memory behind it, each counted once."""
        return self.stored * self.item_bytes


def item_bytes(dtype: str | None) -> int:
    """Bytes of one element of a type.

    Raises:
        UnknownInput: the type is not known.
    """
    size = ITEM_BYTES.get(dtype or "")
    if size is None:
        raise UnknownInput
    return size


def _numbers(values: Sequence[Any]) -> bool:
    return all(type(value) is int for value in values)


class Inputs:
    """The recorded arguments of one call. Accessors of positions that are absent or of another kind answer
    None.

    Args:
        dims: "Input Dims": for each argument a list of sizes, or for a TensorList a list of such lists.
        types: "Input type": for each argument a C++ type name, ``Scalar``, ``ScalarList``, ``TensorList`` or
            "".
        strides: "Input Strides", of the form of `dims`; None where not recorded.
        concrete: "Concrete Inputs": texts of scalars; None where not recorded.
        list_item_bytes: bytes of an element of the TensorLists, which Kineto does not record, where the
            caller knows.
    """

    def __init__(
        self,
        dims: Sequence[Any],
        types: Sequence[str],
        strides: Sequence[Any] | None = None,
        concrete: Sequence[str] | None = None,
        list_item_bytes: int | None = None,
        list_elements: int | None = None,
    ) -> None:
        self.dims = dims
        self.types = types
        self.strides = strides or ()
        self.concrete = concrete or ()
        self.list_item_bytes = list_item_bytes
        self.list_elements = list_elements

    def __len__(self) -> int:
        return min(len(self.dims), len(self.types))

    def is_list(self, index: int) -> bool:
        """Whether the argument is a TensorList."""
        return 0 <= index < len(self) and self.types[index] == "TensorList"

    def tensor(self, index: int) -> Tensor | None:
        """The tensor at `index`."""
        if not 0 <= index < len(self) or not _is_tensor_type(self.types[index]):
            return None
        sizes = self.dims[index]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            return None
        return Tensor(tuple(sizes), DTYPES.get(self.types[index]), self._strides(index, len(sizes)))

    def need(self, index: int) -> Tensor:
        """The tensor at `index`.

        Raises:
            UnknownInput: there is none.
        """
        found = self.tensor(index)
        if found is None:
            raise UnknownInput
        return found

    def _strides(self, index: int, rank: int) -> tuple[int, ...] | None:
        if index >= len(self.strides):
            return None
        strides = self.strides[index]
        return tuple(strides) if len(strides) == rank and _numbers(strides) else None

    def tensors(self, first: int = 0) -> list[Tensor]:
        """All tensor arguments from `first` on, TensorLists left out."""
        found = (self.tensor(index) for index in range(first, len(self)))
        return [tensor for tensor in found if tensor is not None]

    def elements(self, index: int) -> int:
        """Stored elements of the TensorList at `index`, over all its tensors.

        Raises:
            UnknownInput: no TensorList, or an empty or unrecorded one.
        """
        if self.list_elements is not None and self.is_list(index) and not self.dims[index]:
            return self.list_elements
        return sum(Tensor(sizes, None, strides).stored for sizes, strides in self.members(index))

    def members(self, index: int) -> list[tuple[tuple[int, ...], tuple[int, ...] | None]]:
        """Sizes and strides of the tensors of the TensorList at `index`.

        Raises:
            UnknownInput: no TensorList, or an empty, unrecorded or damaged one.
        """
        if not self.is_list(index) or not self.dims[index]:
            raise UnknownInput
        sizes = self.dims[index]
        if not all(isinstance(s, list) and _numbers(s) and min(s, default=0) >= 0 for s in sizes):
            raise UnknownInput
        recorded = self.strides[index] if index < len(self.strides) else ()
        strides = recorded if len(recorded) == len(sizes) else [None] * len(sizes)
        known = [t if isinstance(t, list) and _numbers(t) else None for t in strides]
        return [(tuple(s), None if t is None else tuple(t)) for s, t in zip(sizes, known, strict=True)]

    def text(self, index: int) -> str | None:
        """The recorded text of a scalar or a list of scalars; None where there is none."""
        if not 0 <= index < len(self.concrete):
            return None
        return self.concrete[index] or None

    def number(self, index: int) -> float | None:
        """A scalar as a number."""
        try:
            return float(self.text(index) or "")
        except ValueError:
            return None

    def integer(self, index: int) -> int | None:
        """A scalar as a whole number."""
        try:
            return int(self.text(index) or "")
        except ValueError:
            return None

    def boolean(self, index: int) -> bool | None:
        """A scalar that is ``True`` or ``False``."""
        return {"True": True, "False": False}.get(self.text(index) or "")

    def _items(self, index: int) -> list[str] | None:
        text = self.text(index)
        if text is None or not (text.startswith("[") and text.endswith("]")):
            return None
        inside = text[1:-1].strip()
        return [item.strip() for item in inside.split(",")] if inside else []

    def integers(self, index: int) -> list[int] | None:
        """A list of whole numbers: ``[1, 1]``."""
        items = self._items(index)
        try:
            return None if items is None else [int(item) for item in items]
        except ValueError:
            return None

    def booleans(self, index: int) -> list[bool] | None:
        """A list of truth values: ``[True, True, False]``."""
        items = self._items(index)
        if items is None or any(item not in ("True", "False") for item in items):
            return None
        return [item == "True" for item in items]

    def dtype(self, index: int) -> str | None:
        """A dtype argument, recorded as the number of its c10::ScalarType."""
        number = self.integer(index)
        return None if number is None else SCALAR_TYPES.get(number)


def _is_tensor_type(name: str) -> bool:
    return name not in _NOT_TENSORS and not name.startswith(("GenericList", "Tuple"))


def is_floating(dtype: str | None) -> bool:
    """Whether a type is a floating or complex one."""
    return dtype in _FLOATS or dtype in _COMPLEX


def _rank(dtype: str) -> tuple[int, int]:
    for category, members in enumerate((("bool",), _INTEGERS, _FLOATS, _COMPLEX)):
        if dtype in members:
            return category, members.index(dtype)
    raise UnknownInput


def promoted(tensors: Sequence[Tensor]) -> str:
    """The type of the result of an elementwise operation, by torch's promotion rules.

    A tensor without dimensions (a Python number that became a tensor, too) decides only where its category is
    higher than that of the tensors with dimensions. fp16 with bf16 gives fp32.

    Raises:
        UnknownInput: a type is not known, or there is no tensor.
    """
    if not tensors or any(tensor.dtype is None for tensor in tensors):
        raise UnknownInput
    dimensioned = [str(tensor.dtype) for tensor in tensors if tensor.shape]
    scalars = [str(tensor.dtype) for tensor in tensors if not tensor.shape]
    if not dimensioned:
        return _highest(scalars)
    result = _highest(dimensioned)
    if scalars and _rank(_highest(scalars))[0] > _rank(result)[0]:
        # An integer tensor and a Python number (recorded as double) give torch's default type.
        highest = _highest(scalars)
        return "fp32" if highest == "fp64" else highest
    return result


def _highest(dtypes: Sequence[str]) -> str:
    if {"fp16", "bf16"} <= set(dtypes) and not set(dtypes) & {"fp32", "fp64", *_COMPLEX}:
        return "fp32"
    return max(dtypes, key=_rank)


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of operands, by the usual broadcasting rules.

    Raises:
        UnknownInput: they do not fit together.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, start=rank - len(shape)):
            if size == 1 or size == result[position]:
                continue
            if result[position] != 1:
                raise UnknownInput
            result[position] = size
    return tuple(result)
