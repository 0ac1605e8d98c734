"""The GPU ops of the steps in the order in which each thread launched them, with what their ops' inputs say.

One row is one GPU op. Ops with the same name and inputs share one `Op`, so that shapes are parsed and judged once however
often a layer is called.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.id_sets import first_places, numbered
from lanewise.model.orders import stable_order
from lanewise.work.inputs import Inputs, Tensor, UnknownInput

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Op", "Product", "Sequence"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product ``batch x (m, k) (k, n)``.

    Attributes:
        batch, m, n, k: its sizes.
        a, b: the operands as recorded.
        addend: what is added to it; None for none.
    """

    batch: int
    m: int
    n: int
    k: int
    a: Tensor
    b: Tensor
    addend: Tensor | None = None

    @property
    def flops(self) -> int:
        """Operations, a multiply-add counted as two."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return self.batch * self.m * self.n


_NODE = re.compile(r"^autograd::engine::evaluate_function")
# Where a product's operands are, by the name of the op that launches it.
_OPERANDS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "_addmm_activation": 1, "baddbmm_": 1, "addmm_": 1}


@dataclass(frozen=True)
class Op:
    """An op that launched GPU work, by its name and recorded inputs.

    Attributes:
        name: its name; ATen's without the namespace.
        inputs: recorded inputs; None where not recorded.
    """

    name: str
    inputs: Inputs | None

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Its tensor arguments, those of a list after the others; numbers, and results that are still empty, are left out."""
        if self.inputs is None:
            return []
        found = [t for t in self.inputs.tensors() if t.numel and (t.shape or t.dtype not in ("fp64", "int64"))]
        for index in range(len(self.inputs)):
            with contextlib.suppress(UnknownInput):
                found += [Tensor(sizes, None, strides) for sizes, strides in self.inputs.members(index)]
        return found

    @cached_property
    def product(self) -> Product | None:
        """The matrix product that it is; None for other ops and unknown shapes."""
        first = _OPERANDS.get(self.name)
        if first is None or self.inputs is None:
            return None
        a, b = self.inputs.tensor(first), self.inputs.tensor(first + 1)
        if a is None or b is None or len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3):
            return None
        if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            return None
        addend = self.inputs.tensor(0) if first else None
        return Product(prod(a.shape[:-2]), a.shape[-2], b.shape[-1], a.shape[-1], a, b, addend)


class Sequence:
    """GPU ops of the steps by launching thread and launch.

    Attributes:
        rows: int64 (n,): rows of `gpu_ops`.
        call: int64 (n,): the called op (`Context.called`) that launched each, -1 for none.
        owner: int64 (n,): event of the innermost op, -1 for none.
        lane: int64 (n,): thread.
        step: int64 (n,): step during which it was launched, -1 for none.
        ns: int64 (n,): duration.
        kind: object (n,): kind in the vocabulary of `lanewise.kernels`, or None.
        op_of: int64 (n,): place in `ops`.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        links = ctx.launches
        rows = ctx.rows[links.launch[ctx.rows] >= 0]
        call_event = links.call[links.launch[rows]]
        order = _ordered(ctx.gpu.ts[rows], ctx.trace.ts[call_event], ctx.trace.lane[call_event])
        self.rows: Array = rows[order].astype(np.int64)
        self.lane: Array = ctx.trace.lane[call_event[order]].astype(np.int64)
        self.call: Array = ctx.called.of_row[self.rows].astype(np.int64)
        self.owner: Array = ctx.owner[self.rows].astype(np.int64)
        self.step: Array = ctx.steps.gpu_step[self.rows].astype(np.int64)
        self.ns: Array = ctx.gpu_ns[self.rows]
        self.kind: Array = ctx.kinds[self.rows]
        names = np.where(self.owner >= 0, ctx.trace.name[np.maximum(self.owner, 0)], -1).astype(np.int64)
        recorded = np.maximum(np.where(self.owner >= 0, ctx.input_row[np.maximum(self.owner, 0)], -1).astype(np.int64), -1)
        keys = names * (int(recorded.max(initial=0)) + 2) + recorded + 1
        _, first, inverse = first_places(keys)
        self.op_of: Array = inverse.astype(np.int64)
        self.ops = [self._op(int(self.owner[i])) for i in first]

    def __len__(self) -> int:
        return len(self.rows)

    def _op(self, event: int) -> Op:
        if event < 0:
            return Op("", None)
        return Op(self._ctx.trace.name_of(event).removeprefix("aten::"), self._ctx.arguments(event))

    def op(self, i: int) -> Op:
        """The op that launched the i-th."""
        return self.ops[self.op_of[i]]

    @cached_property
    def named(self) -> Array:
        """Object array (n,): names of the ops, as in `Op`."""
        return np.array([o.name for o in self.ops], dtype=object)[self.op_of] if len(self) else np.empty(0, dtype=object)

    @cached_property
    def called_name(self) -> Array:
        """Object array (n,): names of the called ops, ATen's without the namespace; "" for none."""
        ctx = self._ctx
        called = np.r_[ctx.called.event, 0]  # the last is for those without a call
        codes = np.where(self.call >= 0, ctx.trace.name[called[self.call]], -1)
        distinct, inverse = numbered(codes)
        names = [ctx.trace.strings[c].removeprefix("aten::") if c >= 0 else "" for c in distinct]
        return np.array(names, dtype=object)[inverse] if len(self) else np.empty(0, dtype=object)

    @cached_property
    def backward(self) -> Array:
        """bool (n,): whether each was launched inside autograd's engine."""
        flags = np.zeros(len(self._ctx.trace) + 1, dtype=np.bool_)
        flags[self._ctx.tree.events] = self._engine
        return flags[np.where(self.owner >= 0, self.owner, -1)]

    @cached_property
    def compiled(self) -> Array:
        """bool (n,): whether each was launched by compiled code, whose ops the program did not write.

        A region also holds what runs at a graph break; where compiled graphs are marked as such, they decide.
        """
        trace, tree = self._ctx.trace, self._ctx.tree
        named = trace.names_where(lambda s: s.startswith(("## Call CompiledFxGraph", "CompiledFunction")))
        if not named[trace.name[tree.events]].any():
            named = trace.names_where(lambda s: s.startswith("Torch-Compiled Region"))
        inside = self._within(named[trace.name[tree.events]])
        flags = np.zeros(len(trace) + 1, dtype=np.bool_)
        flags[tree.events] = inside
        return flags[np.where(self.owner >= 0, self.owner, -1)]

    def _within(self, chosen: Array) -> Array:
        """bool (tree,): chosen events and all inside them."""
        tree = self._ctx.tree
        inside: Array = chosen.copy()
        for level in tree.levels()[1:]:
            inside[level] |= inside[tree.parent[level]]
        return inside

    @cached_property
    def node(self) -> Array:
        """int64 (n,): event of autograd's node that launched each, -1 for none."""
        return np.where(self.owner >= 0, self.nodes_around(np.maximum(self.owner, 0)), -1)

    def nodes_around(self, events: Array) -> Array:
        """int64 (events,): event of autograd's node around each, -1 for none."""
        ctx = self._ctx
        tree = ctx.tree
        is_node = ctx.trace.names_where(lambda s: _NODE.search(s) is not None)[ctx.trace.name[tree.events]]
        up = tree.nearest(is_node)
        place = ctx.place[events]
        found = np.where(place >= 0, up[np.maximum(place, 0)], -1)
        return np.where(found >= 0, tree.events[np.maximum(found, 0)], -1).astype(np.int64)

    def made_in_backward(self, begin: Array, end: Array) -> Array:
        """int64 (n,): which of some forward stretches each backward GPU op belongs to, by autograd's sequence numbers; -1 for none.

        Args:
            begin, end: events of the first and the last op of each stretch, in order and on one thread.
        """
        out = np.full(len(self), -1, dtype=np.int64)
        inner = np.flatnonzero(self.node >= 0)
        if len(begin) and len(inner):
            out[inner] = self._stretch_of(self.node[inner], begin, end)
        return out

    def backward_nodes(self, begin: Array, end: Array) -> tuple[Array, Array]:
        """(events of autograd's nodes, which of some forward stretches made each), also of nodes that launch nothing."""
        nodes = self.nodes
        stretch = self._stretch_of(nodes, begin, end) if len(begin) and len(nodes) else np.empty(0, dtype=np.int64)
        return nodes[stretch >= 0], stretch[stretch >= 0]

    @cached_property
    def nodes(self) -> Array:
        """Events of all of autograd's nodes during the steps (the engine's call around each)."""
        return self._ctx.in_steps(self._ctx.events_matching(_NODE)).astype(np.int64)

    def _stretch_of(self, nodes: Array, begin: Array, end: Array) -> Array:
        """int64 (nodes,): the forward stretch that made each node; -1 for none."""
        ctx = self._ctx
        number = self._sequence_number
        out = np.full(len(nodes), -1, dtype=np.int64)
        ops = np.flatnonzero((number >= 0) & (ctx.trace.lane == int(ctx.trace.lane[begin[0]])) & self._is_forward)
        if not len(ops):
            return out
        first = np.searchsorted(ctx.trace.ts[ops], ctx.trace.ts[begin])
        after = np.searchsorted(ctx.trace.ts[ops], ctx.trace.end[end])
        low = number[ops[np.minimum(first, len(ops) - 1)]]
        # Ops that make no node carry the number of the next node: what is made inside lies below the next op's number.
        high = np.where(after < len(ops), number[ops[np.minimum(after, len(ops) - 1)]], number[ops].max() + 1)
        wanted = number[nodes]
        place = np.searchsorted(low, wanted, side="right") - 1
        hit = (place >= 0) & (wanted >= 0) & (wanted < high[np.maximum(place, 0)])
        out[hit] = place[hit]
        return out

    @cached_property
    def _sequence_number(self) -> Array:
        ctx = self._ctx
        out = np.full(len(ctx.trace), -1, dtype=np.int64)
        out[ctx.trace.column("cpu_ops", "event")] = np.maximum(ctx.trace.column("cpu_ops", "sequence"), -1)
        return out

    def is_forward(self, events: Array) -> Array:
        """bool (events,): whether each is outside autograd's engine."""
        found: Array = self._is_forward[events]
        return found

    @cached_property
    def _is_forward(self) -> Array:
        """bool (events,): ops outside autograd's engine."""
        ctx = self._ctx
        out = np.ones(len(ctx.trace), dtype=np.bool_)
        out[ctx.tree.events[self._engine]] = False
        return out

    @cached_property
    def _engine(self) -> Array:
        """bool (tree,): events inside autograd's engine."""
        tree = self._ctx.tree
        named = self._ctx.trace.names_where(
            lambda s: s.startswith(("autograd::engine", "torch::autograd::")) or "Backward" in s
        )
        return self._within(named[self._ctx.trace.name[tree.events]])


def _ordered(*keys: Array) -> Array:
    """Order by several keys, the last one first; as `numpy.lexsort`, which does not sort integers the fast way."""
    order = stable_order(keys[0])
    for key in keys[1:]:
        order = order[stable_order(key[order])]
    return order
