"""graph-input-copies: inputs copied into a CUDA graph's static buffers before each replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.analyses.replay import Change

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, size
from .context import Context

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_COPY_KINDS = ("cast-copy", "memcpy-dtod", "foreach")
_COPY_OPS = ("aten::copy_", "aten::_foreach_copy_")


def _check(ctx: Context) -> Outcome:
    graph = ctx.launches.kind == LAUNCH_KINDS.index("graph")
    if not graph.any():
        return Clear()
    rows = _copies_before(ctx, np.flatnonzero(graph))
    if not len(rows):
        return Clear()
    owners = np.unique(ctx.owner[rows])
    ns = float(ctx.gpu_ns[rows].sum())
    moved = _bytes(ctx, owners)
    return [
        Draft(
            {
                "copies": count(ctx.per_step(len(rows))),
                "time": duration(ctx.per_step(ns)),
                "moved": size(None if moved is None else ctx.per_step(moved)),
            },
            Change(gpu=dict.fromkeys(rows.tolist(), 0), cpu=ctx.intervals(owners)),
            ctx.per_step(ns),
            first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]]),
            variant="compiled" if _compiled(ctx, int(owners[0])) else "",
            symptoms=("hidden-copy",),
            where=ctx.where(int(owners[0])),
        )
    ]


def _copies_before(ctx: Context, graphs: Array) -> Array:
    """Rows of the copies launched by copying ops right before a graph launch, with nothing else launched in between."""
    calls = ctx.launches.call  # by start
    owner_names = ctx.trace.names_where(lambda s: s in _COPY_OPS)
    owner = ctx.launches.owner
    copying = (owner >= 0) & owner_names[ctx.trace.name[np.maximum(owner, 0)]]
    # Walk back from each graph launch over the run of copies before it: the run's number is that of the last other launch.
    run = np.cumsum(~copying)
    before = graphs[graphs > 0] - 1
    wanted = run[before[copying[before]]]
    in_run = copying & np.isin(run, wanted)
    followed = np.isin(np.arange(len(calls)), np.flatnonzero(in_run))
    launch = ctx.launches.launch[ctx.rows]
    rows = ctx.rows[(launch >= 0) & followed[np.maximum(launch, 0)]]
    return rows[np.isin(ctx.kinds[rows], _COPY_KINDS)]


def _bytes(ctx: Context, owners: Array) -> float | None:
    works = [ctx.work(int(o)) for o in owners]
    known = [w.bytes for w in works if w is not None and w.bytes is not None]
    return float(sum(known)) if len(known) == len(works) else None


def _compiled(ctx: Context, owner: int) -> bool:
    return any(
        ctx.trace.name_of(a).startswith(("## Call CompiledFxGraph", "Torch-Compiled Region")) for a in ctx.ancestors(owner)
    )


RULE = Rule(
    id="graph-input-copies",
    precedence=20,
    needs=("gpu_events", "launches"),
    check=_check,
    english={
        "name": "Copies into a CUDA graph's inputs",
        "title": "{copies} inputs are copied before each graph replay, {time} a step",
        "text": "The graph reads from fixed addresses, so each call first copies its inputs there ({moved} moved a step).",
        "fix": "Write the data into the graph's input buffers in the first place: fill the static tensors where it is produced.",
        "text_compiled": 'mode="reduce-overhead" replays a CUDA graph, which reads from fixed addresses: inputs that are not '
        "static are copied there first ({moved} moved a step).",
        "fix_compiled": "Keep inputs at one address (torch._dynamo.mark_static_address(x), or reuse the tensors), or use the "
        "default mode: no graph, no copies.",
        "doc_finds": "Copying ops (`aten::copy_`, `aten::_foreach_copy_`) whose GPU work is launched right before a graph launch.",
        "doc_why": "A captured graph has fixed input addresses. Inputs that live elsewhere are copied first; for large inputs that "
        "costs more than the graph saves in launches.",
        "doc_fix": "Mark inputs that keep their address with `torch._dynamo.mark_static_address`; produce data in the static "
        "buffers; parameters are static already. Where the step is GPU-bound anyway, leave `reduce-overhead` out.",
        "doc_fine": "Small inputs (token ids, positions) in front of a long graph: the copy takes microseconds.",
        "doc_measured": "GPU time and CPU time of the runs of copying ops that end in a graph launch.",
    },
)
