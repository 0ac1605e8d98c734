"""full-sort: a sort of which only the first few values are taken."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import ITEM_BYTES, Inputs, Tensor

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import STREAM_SHARE
from .parts import PASSING, Uses, pick_of

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_SORTING = ("sort", "argsort", "msort")
# Where more is taken, topk, which sorts what it finds, has as much to do (4096 rows of 512, 500 of each: twice the sort).
_MOST_TAKEN = 0.25
# What depends on the order of all values.
_IN_ORDER = frozenset(["cumsum", "cumprod", "diff", "flip", "searchsorted", "bucketize", "scatter", "scatter_", "logcumsumexp"])
# Time of torch.topk, measured on an H200 (torch 2.11; 1 to 4096 rows of 512 to 10 million, fp32 and bf16, 1 to 500 values): a radix
# search, byte by byte of the value, in three small kernels each; it reads every value some 8 times with 2 bytes beside it. Rows
# beyond one a multiprocessor queue, long rows have their blocks' counts added up, and what is found is sorted.
_START_NS, _BYTE_NS = 16_000.0, 6_000.0
_PASSES, _BESIDE_BYTES = 8, 2
_ROWS_NS = 2_000.0
_LONG_ROW, _LONG_AT_MOST, _LONG_NS = 131_072, 8.0, 1_750.0
_FOUND_NS, _EACH_FOUND_NS = 5_000.0, 0.05
# Time of torch.max along rows: a reduction that starts slowly, and one pass.
_MAX_NS = 25_000.0


@dataclass(frozen=True, slots=True)
class _Sort:
    """A sort of which the ends are taken.

    Attributes:
        call: number of its call.
        source: the sorted tensor.
        size: its length along the sorted dimension.
        ends: how many are taken from the begin and from the end.
    """

    call: int
    source: Tensor
    size: int
    ends: tuple[int, int]


def _check(ctx: Context) -> Outcome:
    found = [(sort, then) for sort in _sorts(ctx) if (then := _found_ns(ctx, sort)) is not None]
    rows, place = ctx.called.rows([sort.call for sort, _ in found])
    ns = ctx.gpu_ns[rows].astype(np.float64)
    present = np.bincount(place, weights=ns, minlength=len(found))
    best = np.array([ns for _, ns in found], dtype=np.float64)
    cheaper = [sort for (sort, _), less in zip(found, best < present, strict=True) if less]
    if not cheaper:
        return Clear()
    kept = (best < present)[place]
    rows, ratio = rows[kept], (best / np.maximum(present, 1.0))[place[kept]]
    after = dict(zip(rows.tolist(), (ns[kept] * ratio).astype(int).tolist(), strict=True))
    now = float(ns[kept].sum())
    largest = max(cheaper, key=lambda s: s.source.numel)
    return [
        Draft(
            {
                "times": count(ctx.per_step(len(cheaper))),
                "size": count(largest.size),
                "taken": count(sum(largest.ends)),
                "shape": " x ".join(map(str, largest.source.shape)),
                "gpu": duration(ctx.per_step(now)),
                "then": duration(ctx.per_step(float(sum(after.values())))),
            },
            Change(gpu=after),
            ctx.per_step(now),
            first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]]),
            variant="one" if sum(largest.ends) == 1 else "",
            confidence="medium",
            where=ctx.where(int(ctx.called.event[largest.call])),
        )
    ]


def _sorts(ctx: Context) -> list[_Sort]:
    """Sorts in the steps of which only the ends are taken."""
    wanted = ctx.trace.names_where(lambda s: s.removeprefix("aten::") in _SORTING and s.startswith("aten::"))
    chosen = wanted[ctx.trace.name[ctx.called.event]] & (ctx.called.kernels > 0)
    counted = np.isin(ctx.step_of(ctx.called.event), ctx.step_numbers) if len(ctx.steps) else np.True_
    calls = np.flatnonzero(chosen & counted)
    if not len(calls):
        return []
    uses = ctx.answer(Uses)
    return [sort for call in calls.tolist() if (sort := _taken_of(uses, call)) is not None]


def _sorted_dim(name: str, recorded: Inputs) -> int | None:
    """Dimension that is sorted; None where it is not recorded."""
    if name == "msort":
        return 0
    # sort(self, dim, descending), sort(self, stable, dim, descending)
    return recorded.integer(2 if len(recorded) > 3 else 1)


def _taken_of(uses: Uses, call: int) -> _Sort | None:
    """What the calls after a sort take of it; None where something may use all of it, or nothing any.

    The sorted values have the size and type of what was sorted. What takes a part comes first; what then has such an operand is
    taken to use what was sorted, as long as it does not depend on the order.
    """
    name, recorded = uses.name(call), uses.inputs(call)
    source = recorded.tensor(0) if recorded is not None else None
    dim = _sorted_dim(name, recorded) if recorded is not None else None
    if source is None or dim is None or not source.shape:
        return None
    dim %= len(source.shape)
    ends = [0, 0]
    for later in uses.after(call, source.numel):
        used = uses.inputs(later)
        if used is None:
            return None
        types = {t.dtype for t in used.tensors() if t.numel == source.numel}
        pick = pick_of(uses.name(later), used)
        if pick is not None and pick.shape == source.shape and types <= {source.dtype, "int64"}:
            if pick.dim != dim or uses.name(later) == "index_select":
                return None
            if not pick.whole:
                from_end = pick.begin >= pick.size / 2
                ends[from_end] = max(ends[from_end], pick.size - pick.begin if from_end else pick.end)
        elif not _spares_order(uses.name(later), used, source, any(ends) or name == "argsort"):
            return None
    size = source.shape[dim]
    return _Sort(call, source, size, (ends[0], ends[1])) if 0 < sum(ends) <= _MOST_TAKEN * size else None


def _spares_order(name: str, used: Inputs, source: Tensor, taken: bool) -> bool:
    """Whether an op with an operand of the sorted size needs no more of the sorted values than was taken.

    Args:
        name: of the op.
        used: its inputs.
        source: what was sorted.
        taken: whether a part of the values was taken before, or none were kept.
    """
    if name in PASSING:
        return True
    indices = [
        i for i in range(len(used)) if (t := used.tensor(i)) is not None and t.numel == source.numel and t.dtype == "int64"
    ]
    if indices and source.dtype != "int64":
        # Positions that were found among the first few are looked up among the indices of all.
        return name == "gather" and indices == [0]
    return taken and name not in _IN_ORDER


def _found_ns(ctx: Context, sort: _Sort) -> float | None:
    """Time of `torch.topk` (of `torch.max` for one value) in place of a sort; None for an unknown card or type."""
    item = ITEM_BYTES.get(sort.source.dtype or "")
    if item is None or ctx.device is None or ctx.device.sms is None:
        return None
    elements, rows = sort.source.numel, prod(sort.source.shape) // sort.size
    total = 0.0
    for taken in filter(None, sort.ends):
        passes = _PASSES * (item + _BESIDE_BYTES) if taken > 1 else item
        memory = (ctx.memory_ns(float(elements * passes)) or 0.0) / STREAM_SHARE
        if taken == 1:
            total += _MAX_NS + memory
            continue
        long = min(sort.size / _LONG_ROW, _LONG_AT_MOST) * item * _LONG_NS
        search = _START_NS + item * _BYTE_NS + memory + rows / ctx.device.sms * _ROWS_NS + long
        total += search + _FOUND_NS + rows * taken * _EACH_FOUND_NS
    return total


RULE = Rule(
    id="full-sort",
    precedence=20,
    needs=("gpu_events", "launches", "cpu_ops", "shapes"),
    check=_check,
    english={
        "name": "Full sort for a few values",
        "title": "Sorting {size} values to take {taken}: {gpu}",
        "text": "{shape} is sorted, {times:time} a step, and {taken} of {size} are taken; nothing else uses the order. torch.topk would take about {then}.",
        "text_one": "{shape} is sorted, {times:time} a step, and one of {size} is taken; nothing else uses the order. torch.max would take about {then}.",
        "fix": "values, indices = torch.topk(x, k) in place of torch.sort(x, descending=True) and [:k] (largest=False for the smallest); as a threshold "
        "the last of them.",
        "fix_one": "values, indices = x.max(dim=-1) in place of the sort and [0] (min for the smallest; kthvalue for one in between).",
        "doc_finds": "`sort`, `argsort` and `msort` of whose result only a quarter or less is taken from the begin or the end (`slice`, `select`, `narrow`), and nothing "
        "uses the order of all: no cumulative sum as top-p sampling has, no indices that put all values back.",
        "doc_why": "A sort moves all values and indices once for each byte of the key. `topk` only counts to find the bound, and sorts what lies beyond it.",
        "doc_fix": "best, index = logits.topk(50, dim=-1)                     # not logits.sort(descending=True)\n"
        "limit = logits.topk(k, dim=-1).values[..., -1:]\n"
        "logits = logits.masked_fill(logits < limit, float('-inf'))",
        "doc_fine": "Top-p sampling, which needs the sum in order (take the best few hundred by topk first); many short rows and single rows up to a million, "
        "where both take about the same.",
        "doc_measured": "The sort's GPU time less what topk takes: on an H200 (torch 2.11, 1 to 4096 rows of 512 to 10 million values) 16 µs and 6 µs a byte of the type, "
        "8 passes over the data, 2 µs for each row of a multiprocessor, up to 14 µs a byte for long rows, and 5 µs to sort what is found; 25 µs and a pass for max. "
        "Where that is no less than the sort, nothing is said.",
    },
)
