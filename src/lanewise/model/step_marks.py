"""Which annotations mark the steps of a run: ``ProfilerStep#``, or what serving engines and trainers repeat instead."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["is_mark_name", "step_marks", "step_number"]

Array = npt.NDArray[Any]

_LONGEST_NUMBER = 18  # digits of what fits into int64
_PROFILER_STEP = re.compile(r"^ProfilerStep#(\d+)$")
# What serving engines and trainers put around each iteration when they do not call profiler.step(): vLLM's
# execute_context_..._generation_..., SGLang's and others' step[...], "iteration 12", "train_step 3".
_REPEATED = re.compile(
    r"^(?:(?:step|iteration|iter|train_step|training_step|forward_step|decode_step)\b[\s#:_\[(]*\S*.*|step\[.*|execute_(?:\d+_)?(?:context|new)_.*)$",
    re.IGNORECASE,
)


def is_mark_name(name: str) -> bool:
    """Whether an annotation of this name may mark a step."""
    return _PROFILER_STEP.match(name) is not None or _REPEATED.match(name) is not None


def step_number(name: str, place: int) -> int:
    """The number in ``ProfilerStep#12``; of other marks their place among the steps."""
    match = _PROFILER_STEP.match(name)
    return int(match.group(1)) if match and len(match.group(1)) <= _LONGEST_NUMBER else place


def step_marks(
    strings: list[str], name: Array, ts: Array, end: Array, lane: Array, annotation: Array
) -> tuple[str | None, Array]:
    """What marks steps, and which rows are the marks.

    Args:
        strings: the names.
        name: int (n,): number of each event's name; the events are CPU ops and annotations in order of their start.
        ts: int64 (n,): starts.
        end: int64 (n,): ends.
        lane: int (n,): lanes.
        annotation: bool (n,): whether it is a `user_annotation`.

    Returns:
        ``ProfilerStep``, ``annotation`` or None; and the rows of the marks, ascending.
    """
    rows = np.arange(len(name))
    found = rows[_matches(_PROFILER_STEP, strings)[name]] if len(name) else rows
    if len(found):
        return "ProfilerStep", _one_lane(lane, end - ts, found)
    found = rows[_matches(_REPEATED, strings)[name] & annotation] if len(name) else rows
    found = _one_lane(lane, end - ts, found)
    # A single mark, or marks inside one another, are no sequence of steps.
    if len(found) < 2 or (ts[found][1:] < end[found][:-1]).any():
        return None, found[:0]
    return "annotation", found


def _matches(pattern: re.Pattern[str], strings: list[str]) -> Array:
    return np.fromiter((pattern.match(s) is not None for s in strings), dtype=np.bool_, count=len(strings))


def _one_lane(lane: Array, dur: Array, found: Array) -> Array:
    """Marks of the lane that has most of them; of equally many the longest, then the first.

    Each thread of a process may carry its own copy of a mark.
    """
    if not len(found):
        return found
    _, first, place = np.unique(lane[found], return_index=True, return_inverse=True)  # marks are in order of their start
    counts, lengths = np.bincount(place), np.bincount(place, weights=dur[found])
    return found[place == np.lexsort((-first, lengths, counts))[-1]]
