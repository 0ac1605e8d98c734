"""Copies that change nothing but the order of dimensions in memory, and which of them a matrix product does not need."""

from __future__ import annotations

from math import prod

from lanewise.work.inputs import Tensor

from .sequence import Op, Product

__all__ = ["copied", "feeds", "is_layout_copy", "order_of", "undoes"]


def order_of(t: Tensor) -> tuple[int, ...] | None:
    """Dimensions longer than 1 from the outermost to the innermost in memory; None without strides."""
    if t.strides is None or len(t.strides) != len(t.shape):
        return None
    strides = t.strides
    return tuple(sorted((i for i, size in enumerate(t.shape) if size > 1), key=lambda i: (-strides[i], i)))


def copied(op: Op) -> tuple[Tensor, Tensor] | None:
    """(to, from) of a `copy_` between tensors of one type and shape; None for other ops and casts."""
    if op.name != "copy_" or len(op.tensors) < 2:
        return None
    to, source = op.tensors[:2]
    return (to, source) if to.shape == source.shape and to.dtype == source.dtype and to.numel > 1 else None


def is_layout_copy(op: Op) -> bool:
    """Whether an op is a copy to another order of dimensions in memory."""
    pair = copied(op)
    if pair is None:
        return False
    orders = order_of(pair[0]), order_of(pair[1])
    # An expanded source (stride 0) is not turned but repeated.
    expanded = pair[1].strides is not None and pair[1].stored < pair[1].numel
    return None not in orders and orders[0] != orders[1] and not expanded


def undoes(first: Op, second: Op) -> bool:
    """Whether the second copy brings what the first wrote back to the order in memory that it had before."""
    a, b = copied(first), copied(second)
    if a is None or b is None or a[0].numel != b[0].numel:
        return False
    before, between = order_of(a[1]), a[0].strides
    if before is None or between is None or b[1].strides is None:
        return False
    # An axis is known by its stride and size in what the first copy wrote.
    axis = {(between[i], a[0].shape[i]): i for i in range(len(between)) if a[0].shape[i] > 1}
    after = order_of(b[0])
    if after is None:
        return False
    found = tuple(axis.get((b[1].strides[i], b[1].shape[i]), -1) for i in after)
    return found == before


def feeds(copy: Op, product: Product) -> bool:
    """Whether a product takes what a copy wrote as an operand, and could take what was copied as it was.

    A product takes a matrix with either dimension innermost, in any number of equal steps. Only where its inner dimension joins
    several that do not lie behind each other in the source (heads that are merged) the copy is needed.
    """
    pair = copied(copy)
    if pair is None or pair[1].strides is None:
        return False
    to, source = pair
    for operand, inner in ((product.a, product.k), (product.b, product.k)):
        if operand.numel != to.numel:
            continue
        if operand.shape[-2:] == to.shape[-2:] or _joined_evenly(source, inner):
            return True
    return False


def _joined_evenly(source: Tensor, inner: int) -> bool:
    """Whether the last dimensions of a tensor that make up an inner dimension can be seen as one."""
    assert source.strides is not None
    for count in range(1, len(source.shape) + 1):
        sizes, strides = source.shape[-count:], source.strides[-count:]
        if prod(sizes) == inner:
            return all(strides[i] == strides[i + 1] * sizes[i + 1] for i in range(count - 1))
    return False
