"""The work of a part, one item a GPU op in the order of the launches; without a GPU, its innermost CPU ops."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.call_tree import op_tree
from lanewise.analyses.gpu_time import gpu_op_times
from lanewise.analyses.launches import launches
from lanewise.expectations.parts import Part
from lanewise.kernels import Kernel, decode
from lanewise.model.nesting import Nesting
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

__all__ = ["VIEWS", "Item", "cpu_items", "gpu_items", "gpu_rows", "has_gpu_work", "part_items"]

Array = npt.NDArray[Any]

# CPU ops that only make another view of the same memory, or only get memory: they start nothing on a GPU.
VIEWS = re.compile(
    r"aten::(_?\w*view\w*|as_strided|expand(_as)?|t|transpose|empty\w*|new_empty\w*|resolve_\w+|\w*alias|reshape|detach_?|select"
    r"|slice|narrow|split\w*|chunk|unbind|unsqueeze|squeeze|permute|movedim|flatten|unflatten|contiguous|to|_to_copy|type_as|lift_fresh"
    r"|result_type|set_|is_\w+|item|_local_scalar_dense|swap\w*|numpy_T|T|mT)|detach_?"
)
# CPU ops that stand for one piece of work, whatever they call inside.
_WHOLE = re.compile(
    r"aten::(mm|bmm|addmm|baddbmm|_scaled_mm|_scaled_dot_product_\w+_for_cpu|_scaled_dot_product_(flash|efficient|cudnn)\w*"
    r"|_softmax|_log_softmax|native_\w+_norm|_?convolution|mkldnn_convolution|_foreach_\w+|_fused_\w+"
    r"|native_dropout|sum|mean|embedding)"
)
_NO_OP = re.compile(
    r"^(Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction|autograd::|torch::autograd::|TorchDynamo|AOTDispatcher"
    r"|Pregraph|_compile\b|\w+Backward\d*$)|dynamo_timed"
)


@dataclass(frozen=True, slots=True)
class Item:
    """One GPU op, or one CPU op where there is no GPU.

    Attributes:
        event: its event.
        name: as recorded.
        kernel: what the name says; of a CPU op, nothing.
        gpu: whether it ran on a GPU.
        chain: events of the ops and annotations around its launch (around itself for a CPU op), the innermost first.
        call: event of the launching call, -1 where not known; a graph's ops share one.
        row: row of `gpu_ops`, -1 for a CPU op.
        ns: its duration.
        owner: name of the innermost of `chain`, empty where there is none; a CPU op's own name.
        alone: names of the ops around that which have no other item: `aten::relu` calls `aten::clamp_min` and nothing else.
    """

    event: int
    name: str
    kernel: Kernel
    gpu: bool
    chain: tuple[int, ...]
    call: int
    row: int
    ns: int
    owner: str
    alone: tuple[str, ...] = ()


def has_gpu_work(trace: Trace) -> bool:
    """Whether GPU ops were recorded."""
    return len(trace.column("gpu_ops", "event")) > 0


def gpu_rows(trace: Trace, part: Part) -> Array:
    """Rows of `gpu_ops` that calls within a part launched, in the order of the calls; of the whole trace, all."""
    links, times = trace.analysis(launches), trace.analysis(gpu_op_times)
    known = links.launch >= 0
    called = np.where(known, trace.ts[links.call[np.maximum(links.launch, 0)]] if len(links.call) else times.ts, times.ts)
    rows = np.flatnonzero((called >= part.begin) & (called < part.end) & (known | (part.event < 0)))
    result: Array = rows[np.lexsort((times.ts[rows], called[rows]))]
    return result


def part_items(trace: Trace, part: Part) -> list[Item]:
    """The work of a part: GPU ops where the trace has any, else CPU ops."""
    return gpu_items(trace, part) if has_gpu_work(trace) else cpu_items(trace, part)


def gpu_items(trace: Trace, part: Part) -> list[Item]:
    """The GPU ops of a part in the order of their launches."""
    links, times, events = trace.analysis(launches), trace.analysis(gpu_op_times), trace.column("gpu_ops", "event")
    owner = links.gpu_owner
    place = _places(trace)
    out = []
    for row in gpu_rows(trace, part).tolist():
        event = int(events[row])
        name = trace.name_of(event)
        launch = int(links.launch[row])
        chain = _chain(trace, place, int(owner[row]))
        call = int(links.call[launch]) if launch >= 0 else -1
        by = trace.name_of(chain[0]) if chain else ""
        out.append(Item(event, name, decode(name), True, chain, call, row, int(times.end[row] - times.ts[row]), by))
    return _standing_for_others(trace, out)


def _standing_for_others(trace: Trace, items: list[Item]) -> list[Item]:
    """The same with the ops around each of which it is all the work; memsets do not count."""
    shared = Counter(event for item in items if item.kernel.kind != "memset" for event in item.chain[1:])
    out = []
    for item in items:
        names = [trace.name_of(event) for event in item.chain[1:] if shared[event] == 1]
        alone = tuple(name for name in names if name.startswith("aten::")) if item.kernel.kind != "memset" else ()
        out.append(replace(item, alone=alone))
    return out


def cpu_items(trace: Trace, part: Part) -> list[Item]:
    """CPU ops of a part that do work themselves: no views, no allocations, nothing within an op that stands for all of it.

    What an op does only to convert its arguments (`aten::add` of a tensor and a number copies the number) is part of it.
    """
    tree = trace.analysis(op_tree)
    names, events = trace.name[tree.events], tree.events
    is_op = (trace.category[events] == CATEGORY_CODES["cpu_op"]) & (trace.ts[events] >= part.begin)
    is_op &= trace.end[events] <= part.end
    working = is_op & ~trace.names_where(lambda s: VIEWS.fullmatch(s) is not None or _NO_OP.search(s) is not None)[names]
    whole = trace.names_where(lambda s: _WHOLE.fullmatch(s) is not None)[names] & is_op
    working &= ~_below(tree, whole)
    converting = _below(tree, trace.names_where(lambda s: s == "aten::to")[names] & is_op)
    below = tree.totals(working.astype(np.int64)) - working
    alone = working & ~converting & (below == tree.totals((working & converting).astype(np.int64)))
    rest = working & converting & (below == 0) & ~_below(tree, alone)
    chosen = np.flatnonzero(alone | rest)
    place = _places(trace)
    out = []
    for at in chosen[np.argsort(trace.ts[events[chosen]], kind="stable")].tolist():
        event = int(events[at])
        name = trace.name_of(event)
        out.append(Item(event, name, Kernel(name), False, _chain(trace, place, event), -1, -1, int(trace.dur[event]), name))
    return _standing_for_others(trace, out)


def _below(tree: Nesting, chosen: Array) -> Array:
    """bool (n,): whether each event of a tree is inside a chosen one."""
    inside = np.zeros(len(tree.events), dtype=np.bool_)
    for level in tree.levels()[1:]:
        up = tree.parent[level]
        inside[level] = inside[up] | chosen[up]
    return inside


def _places(trace: Trace) -> Array:
    return trace.analysis(_tree_places)


def _tree_places(trace: Trace) -> Array:
    tree = trace.analysis(op_tree)
    out = np.full(len(trace), -1, dtype=np.int64)
    out[tree.events] = np.arange(len(tree.events))
    return out


def _chain(trace: Trace, place: Array, event: int) -> tuple[int, ...]:
    """An op or annotation and those around it, step marks left out."""
    tree = trace.analysis(op_tree)
    out: list[int] = []
    at = int(place[event]) if event >= 0 else -1
    while at >= 0:
        found = int(tree.events[at])
        if not trace.name_of(found).startswith("ProfilerStep#"):
            out.append(found)
        at = int(tree.parent[at])
    return tuple(out)
