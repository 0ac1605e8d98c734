"""Clones that the program asks for and that keep nothing safe: no op of the step writes into a tensor of that kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.work.inputs import Tensor

from .context import Context
from .sequence import Op, Sequence

__all__ = ["spare_clones"]

Array = npt.NDArray[Any]

# One clone a step may be the step's result, which the caller keeps.
_LEAST_CALLS = 2


def spare_clones(ctx: Context) -> Array:
    """Places of such clones in the sequence. Without shapes none are known.

    A clone is needed where it or its original is written to afterwards. Tensors cannot be told apart in a trace, so that any
    write in place to a tensor of the same type that could be it, or a part of it, keeps all clones of that shape; so do CUDA
    graphs, which write into the same memory each time.
    """
    seq = ctx.sequence
    cloned = np.array([_is_clone(op) for op in seq.ops], dtype=np.bool_)
    if not len(seq) or not cloned.any() or (ctx.launches.kind == LAUNCH_KINDS.index("graph")).any():
        return np.empty(0, dtype=np.int64)
    named = seq.called_name.astype(str)
    places = np.flatnonzero(cloned[seq.op_of] & (named == "clone") & ~seq.compiled & ~seq.backward)
    written = [seq.ops[k].tensors[0] for k in np.unique(seq.op_of[_writes(seq, named)]) if seq.ops[k].tensors]
    safe = {int(k) for k in np.unique(seq.op_of[places]) if not any(_may_be(w, seq.ops[k].tensors[0]) for w in written)}
    places = places[np.isin(seq.op_of[places], list(safe))] if safe else places[:0]
    return places if ctx.per_step(len(places)) >= _LEAST_CALLS else places[:0]


def _is_clone(op: Op) -> bool:
    """Whether an op copies a tensor to the same type and layout."""
    if op.name != "copy_" or len(op.tensors) < 2:
        return False
    to, source = op.tensors[:2]
    return (to.dtype, to.shape, to.strides) == (source.dtype, source.shape, source.strides) and to.strides is not None


def _writes(seq: Sequence, named: Array) -> Array:
    """bool (n,): ops by which the program changes a tensor in place: those of autograd and of optimizers change gradients,
    parameters and their state."""
    in_place = np.array([name.endswith("_") and not name.startswith("_") for name in named], dtype=np.bool_)
    result: Array = in_place & ~seq.backward
    return result


def _may_be(written: Tensor, clone: Tensor) -> bool:
    """Whether what is written could be the cloned tensor or a part of it: no larger, of its type, with strides of its own."""
    if written.dtype is not None and written.dtype != clone.dtype:
        return False
    if written.strides is None or clone.strides is None:
        return True
    steps = {stride for size, stride in zip(written.shape, written.strides, strict=True) if size > 1}
    return written.numel <= clone.numel and steps <= set(clone.strides)
