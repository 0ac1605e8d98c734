"""Ops that move elements and compute little: copies, casts, cat, fills, indexing, embeddings, triangles."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from .attention import kept_scores
from .inputs import Inputs, Tensor, UnknownInput, item_bytes
from .result import Work

__all__ = ["ESTIMATORS"]


def _written(x: Tensor, item: int | None = None) -> int:
    return x.numel * (x.item_bytes if item is None else item)


def _copy(op: str, inputs: Inputs) -> Work:
    """``copy_(destination, source)``: a source that broadcasts is read once."""
    destination, source = inputs.need(0), inputs.need(1)
    note = "" if destination.dtype == source.dtype else f"{source.dtype}->{destination.dtype}"
    return Work("cast-copy", 0, source.stored_bytes + destination.stored_bytes, destination.dtype, note=note)


# Index of the wanted dtype; -1 where the op keeps the type.
_DUPLICATES = {"clone": -1, "contiguous": -1, "_to_copy": 1, "to": 1, "alias_copy": -1, "view_copy": -1}


def _duplicate(op: str, inputs: Inputs) -> Work:
    x = inputs.need(0)
    index = _DUPLICATES[op]
    wanted = inputs.dtype(index) if index >= 0 else None
    return Work("cast-copy", 0, x.stored_bytes + _written(x, item_bytes(wanted or x.dtype)), wanted or x.dtype)


def _same_size(op: str, inputs: Inputs) -> Work:
    """flip and roll: every element somewhere else."""
    x = inputs.need(0)
    return Work("cast-copy", 0, x.stored_bytes + _written(x), x.dtype)


def _joined(op: str, inputs: Inputs) -> Work:
    """cat and stack: all tensors of the list read and written. The bytes of an element come from the caller
    or ``out``.
    """
    elements = inputs.elements(0)
    out = inputs.tensor(2)
    item = out.item_bytes if out is not None and out.dtype else inputs.list_item_bytes
    dtype = out.dtype if out is not None else None
    written = sum(prod(sizes) for sizes, _ in inputs.members(0))
    if item is None:
        return Work("cast-copy", 0, None, dtype, note=f"{written} elements of a type that is not recorded")
    return Work("cast-copy", 0, (elements + written) * item, dtype)


def _fill(op: str, inputs: Inputs) -> Work:
    """``fill_`` and ``zero_``: only written."""
    x = inputs.need(0)
    return Work("fill", 0, x.stored_bytes, x.dtype)


def _arange(op: str, inputs: Inputs) -> Work:
    """``arange(start, end, step, out)``, or ``arange(end, out)``."""
    out = inputs.tensors()
    recorded = [inputs.number(index) for index in range(len(inputs)) if inputs.types[index] == "Scalar"]
    numbers = [number for number in recorded if number is not None]
    if not out or not numbers or len(numbers) != len(recorded):
        raise UnknownInput
    start, end, step = [*numbers, 1.0][:3] if len(numbers) > 1 else (0.0, numbers[0], 1.0)
    if not step:
        raise UnknownInput
    return Work("fill", 0, max(ceil((end - start) / step), 0) * out[-1].item_bytes, out[-1].dtype)


def _triangle(op: str, inputs: Inputs) -> Work:
    """``tril(x, diagonal)`` and ``triu``: the kept part is read, everything is written."""
    x, diagonal = inputs.need(0), inputs.integer(1)
    if diagonal is None or len(x.shape) < 2:
        raise UnknownInput
    rows, columns = x.shape[-2:]
    lower = op.startswith("tril")
    left, right = (None, 0) if lower else (0, None)
    kept = prod(x.shape[:-2]) * kept_scores(rows, columns, diagonal, left, right)
    return Work("elementwise", 0, min(kept, x.stored) * x.item_bytes + _written(x), x.dtype)


def _pad(op: str, inputs: Inputs) -> Work:
    """``constant_pad_nd(x, pad, value)``: pairs of the last dimension first."""
    x, pad = inputs.need(0), inputs.integers(1)
    if pad is None or len(pad) % 2 or len(pad) // 2 > len(x.shape):
        raise UnknownInput
    sizes = list(x.shape)
    for pair in range(len(pad) // 2):
        sizes[-1 - pair] += pad[2 * pair] + pad[2 * pair + 1]
    return Work("cast-copy", 0, x.stored_bytes + prod(sizes) * x.item_bytes, x.dtype)


_DISTINCT = "indices taken to be distinct"


def _embedding(op: str, inputs: Inputs) -> Work:
    """``embedding(table, indices)``: a row read and written for each index.

    Rows that several indices share need to be read once, which only their values tell; a table smaller than what
    is looked up is read once.
    """
    table, indices = inputs.need(0), inputs.need(1)
    if len(table.shape) != 2:
        raise UnknownInput
    width = table.shape[1]
    read = min(indices.numel, table.shape[0]) * width * table.item_bytes
    written = indices.numel * width * table.item_bytes
    return Work("embedding", 0, indices.stored_bytes + read + written, table.dtype, note=_DISTINCT)


def _embedding_backward(op: str, inputs: Inputs) -> Work:
    """``embedding_dense_backward(grad, indices, rows, ...)``: a row added up for each index.

    The zeros in the other rows come from ``zero_``, an op of its own.
    """
    grad, indices, rows = inputs.need(0), inputs.need(1), inputs.integer(2)
    if rows is None or not grad.shape:
        raise UnknownInput
    written = min(indices.numel, rows) * grad.shape[-1] * grad.item_bytes
    total = grad.stored_bytes + indices.stored_bytes + written
    return Work("embedding", grad.numel, total, grad.dtype, note=_DISTINCT)


def _index_select(op: str, inputs: Inputs) -> Work:
    """``index_select(x, dim, indices)``."""
    x, dim, indices = inputs.need(0), inputs.integer(1), inputs.need(2)
    if dim is None or not x.shape or not -len(x.shape) <= dim < len(x.shape):
        raise UnknownInput
    one = x.numel // x.shape[dim] if x.shape[dim] else 0
    read = min(indices.numel, x.shape[dim]) * one * x.item_bytes
    written = indices.numel * one * x.item_bytes
    return Work("index", 0, indices.stored_bytes + read + written, x.dtype, note=_DISTINCT)


def _gather(op: str, inputs: Inputs) -> Work:
    """``gather(x, dim, indices)`` and ``take(x, indices)``: one element for each index."""
    x, indices = inputs.need(0), inputs.need(1 if op == "take" else 2)
    moved = min(indices.numel, x.stored) + indices.numel
    return Work("index", 0, indices.stored_bytes + moved * x.item_bytes, x.dtype, note=_DISTINCT)


def _scatter(op: str, inputs: Inputs) -> Work:
    """``scatter_(x, dim, indices, source)`` and others: as many elements of x written as there are indices.

    Those that add or reduce read them first. Without the underscore, x is copied by ``copy_``, an op of its own.
    """
    x, indices = inputs.need(0), inputs.need(2)
    source = inputs.tensor(3)
    adds = "add" in op or "reduce" in op
    total = indices.stored_bytes + indices.numel * x.item_bytes * (1 + adds)
    if source is not None and source.shape:
        total += indices.numel * source.item_bytes
    return Work("index", indices.numel * adds, total, x.dtype, note=_DISTINCT)


def _index_write(op: str, inputs: Inputs) -> Work:
    """``index_add_(x, dim, indices, source)`` and ``index_copy_``: a slice of x for each index."""
    x, indices, source = inputs.need(0), inputs.need(2), inputs.need(3)
    adds = "add" in op
    total = indices.stored_bytes + source.stored_bytes + source.numel * x.item_bytes * (1 + adds)
    return Work("index", source.numel * adds, total, x.dtype, note=_DISTINCT)


def _index_put(op: str, inputs: Inputs) -> Work:
    """``index_put_(x, indices, values, accumulate)``: the indices are a list that is not recorded, nor is how
    many.
    """
    x, values = inputs.need(0), inputs.need(2)
    adds = bool(inputs.boolean(3))
    total = values.stored_bytes + values.numel * x.item_bytes * (2 if adds else 1)
    note = "without the indices, whose sizes are not recorded"
    return Work("index", values.numel * adds, total, x.dtype, at_least=True, note=note)


def _index_read(op: str, inputs: Inputs) -> Work:
    """``index(x, indices)``: how much is read is not recorded, unless the indices are a recorded list of
    tensors.
    """
    x = inputs.need(0)
    shapes = [sizes for sizes, _ in inputs.members(1)]
    if len(shapes) != len(x.shape):
        raise UnknownInput
    moved = 2 * max(prod(sizes) for sizes in shapes) * x.item_bytes
    return Work("index", 0, moved, x.dtype, at_least=True, note="without the bytes of the indices")


def _found(op: str, inputs: Inputs) -> Work:
    """nonzero and masked_select: what is written depends on the values."""
    read = sum(tensor.stored_bytes for tensor in inputs.tensors()[: 1 if op == "nonzero" else 2])
    x = inputs.need(0)
    return Work("index", 0, read, x.dtype, at_least=True, note="without the result, whose size depends on the values")


def _scalar(op: str, inputs: Inputs) -> Work:
    """``item``: one element goes to the CPU."""
    x = inputs.need(0)
    return Work("memcpy-dtoh", 0, x.item_bytes, x.dtype)


ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    "copy_": _copy,
    **dict.fromkeys(_DUPLICATES, _duplicate),
    "flip": _same_size,
    "roll": _same_size,
    "cat": _joined,
    "_cat": _joined,
    "concat": _joined,
    "stack": _joined,
    "fill_": _fill,
    "zero_": _fill,
    "arange": _arange,
    "tril": _triangle,
    "triu": _triangle,
    "tril_": _triangle,
    "triu_": _triangle,
    "constant_pad_nd": _pad,
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "embedding_backward": _embedding_backward,
    "index_select": _index_select,
    "gather": _gather,
    "take": _gather,
    **dict.fromkeys(["scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"], _scatter),
    **dict.fromkeys(["index_add", "index_add_", "index_copy", "index_copy_"], _index_write),
    **dict.fromkeys(["index_put_", "_index_put_impl_", "_unsafe_index_put"], _index_put),
    "index": _index_read,
    "_unsafe_index": _index_read,
    "nonzero": _found,
    "masked_select": _found,
    "_local_scalar_dense": _scalar,
    "item": _scalar,
}
