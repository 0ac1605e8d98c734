"""Parts of a trace that something is expected of: steps, calls of an annotation, or the whole."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.steps import steps
from lanewise.errors import UsageError
from lanewise.expectations.texts import EXPECT
from lanewise.model.trace import Trace
from lanewise.report import usual_step

__all__ = ["Part", "annotation_names", "annotation_parts", "chosen_part", "step_parts", "usual_parts", "whole_part"]

Array = npt.NDArray[Any]

_MODULE = "nn.Module: "
# Usual steps leave out the first where there are more than this many, as the findings do: it pays for what came before it.
_FEW_STEPS = 2
_MOST_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A span of CPU time and the work that all threads launched in it; times in ns.

    Attributes:
        name: of the step or annotation; empty for the whole trace.
        begin, end: of its time.
        step: number of the step it lies in, None for none.
        usual: whether it stands for the others: not of the first of three or more steps.
        event: its event, -1 for the whole trace.
    """

    name: str
    begin: int
    end: int
    step: int | None
    usual: bool
    event: int = -1


def step_parts(trace: Trace) -> list[Part]:
    """The steps in order; marks during which nothing at all was called are left out where others have work."""
    found = trace.analysis(steps)
    ops = np.sort(trace.ts[trace.rows("cpu_op")])
    ends = found.start + found.wall_ns
    worked = (found.launches > 0) | (np.searchsorted(ops, ends) > np.searchsorted(ops, found.start))
    kept = np.flatnonzero(worked) if worked.any() else np.arange(len(found))
    first_counts = len(kept) <= _FEW_STEPS
    return [
        Part(
            trace.name_of(int(found.event[i])),
            int(found.start[i]),
            int(ends[i]),
            int(found.index[i]),
            first_counts or place > 0,
            int(found.event[i]),
        )
        for place, i in enumerate(kept)
    ]


def usual_parts(parts: list[Part]) -> list[Part]:
    """Those that stand for the others; all where none does."""
    return [p for p in parts if p.usual] or parts


def whole_part(trace: Trace) -> Part:
    """The whole trace as one part."""
    begin, end = trace.span or (0, 0)
    return Part("", begin, end + 1, None, True)


def annotation_names(trace: Trace) -> list[str]:
    """Names of annotations, without step marks, the most frequent first."""
    rows = trace.rows("user_annotation")
    codes, counts = np.unique(trace.name[rows], return_counts=True)
    named = [(trace.strings[c], int(n)) for c, n in zip(codes, counts, strict=True)]
    return [name for name, n in sorted(named, key=lambda x: (-x[1], x[0])) if not name.startswith("ProfilerStep#")]


def annotation_parts(trace: Trace, wanted: str) -> list[Part]:
    """Calls of an annotation, else of an op or a module, whose name equals or fits a pattern (``layer_*``).

    Raises:
        UsageError: nothing has such a name.
    """
    for rows, prefix in (
        (trace.rows("user_annotation"), ""),
        (trace.rows("cpu_op"), ""),
        (trace.rows("python_function"), _MODULE),
    ):
        fits = trace.names_where(lambda s, p=prefix: s.startswith(p) and _fits(s.removeprefix(p), wanted))  # type: ignore[misc]
        mine = rows[fits[trace.name[rows]]] if len(rows) else rows
        mine = mine[[not trace.name_of(int(e)).startswith("ProfilerStep#") for e in mine]] if len(mine) else mine
        if len(mine):
            return _parts_of(trace, mine)
    raise UsageError(wanted, EXPECT.message("no-annotation"), _near(trace, wanted))


def _fits(name: str, wanted: str) -> bool:
    return name == wanted or fnmatchcase(name, wanted) or fnmatchcase(name.rpartition("_")[0], wanted)


def _near(trace: Trace, wanted: str) -> Any:
    names = annotation_names(trace)
    if not names:
        return EXPECT.message("no-annotations")
    near = difflib.get_close_matches(wanted, names, n=1)
    if near:
        return EXPECT.message("near-annotation", near=near[0])
    return EXPECT.message("annotations", names=", ".join(names[:_MOST_NAMES_SHOWN]))


def _parts_of(trace: Trace, events: Array) -> list[Part]:
    around = step_parts(trace)
    starts = np.array([p.begin for p in around], dtype=np.int64)
    out = []
    for event in events:
        begin, end = int(trace.ts[event]), int(trace.end[event])
        place = int(np.searchsorted(starts, begin, side="right")) - 1
        inside = place >= 0 and begin < around[place].end
        step = around[place].step if inside else None
        usual = around[place].usual if inside else not around
        out.append(Part(trace.name_of(int(event)), begin, end, step, usual, int(event)))
    return out


def chosen_part(trace: Trace, within: str | None, step: int | None) -> tuple[Part, int, int]:
    """The part to look at, its place among its like, and their number.

    Args:
        trace: a trace.
        within: annotation to look into; None for the step.
        step: number of the step; None for the usual one.

    Raises:
        UsageError: there is no such annotation or step.
    """
    marked = step_parts(trace)
    if step is not None and step not in [p.step for p in marked]:
        numbers = ", ".join(str(p.step) for p in marked[:12])
        next_step = EXPECT.message("steps", steps=numbers) if marked else EXPECT.message("no-steps")
        raise UsageError("--step", EXPECT.message("no-step", step=step), next_step)
    at = _usual_number(trace, marked) if step is None else step
    if within is None:
        part = next((p for p in marked if p.step == at), None) or whole_part(trace)
        return part, 0, 1
    parts = annotation_parts(trace, within)
    mine = [p for p in parts if p.step == at]
    if step is not None and not mine:
        raise UsageError("--in", EXPECT.message("not-in-step", name=within, step=step))
    mine = mine or parts
    return mine[0], 0, len(mine)


def _usual_number(trace: Trace, marked: list[Part]) -> int | None:
    if not marked:
        return None
    found = trace.analysis(steps)
    by_number = {int(i): int(n) for i, n in zip(found.index, found.launches, strict=True)}
    return marked[usual_step([by_number.get(p.step or 0, 0) for p in marked])].step
