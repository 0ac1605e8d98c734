"""growing-cat: a large tensor is copied as a whole to add a little to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.work.inputs import UnknownInput

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Context
from .limits import LAUNCH_NS
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# From this part of the result on, one of the joined tensors is what grows and the others are what is added: joining equals or
# halves (the skip connections of a U-Net, gate and value) is what a network computes.
_LEAST_PART = 0.9
# As often a step the same happens by design of the program, not by the way (one class token before a sequence of patches).
_LEAST_CALLS = 2


def _check(ctx: Context) -> Outcome:
    seq = ctx.sequence
    added = np.array([_added_part(op) for op in seq.ops])
    places = np.flatnonzero((added[seq.op_of] > 0) & ~seq.backward & ~seq.compiled) if len(seq) else np.empty(0, dtype=np.int64)
    # A call may launch several kernels.
    times = len(np.unique(seq.owner[places]))
    if ctx.per_step(times) < _LEAST_CALLS:
        return Clear()
    part = added[seq.op_of[places]]
    ns = seq.ns[places]
    again = _joined_again(seq, places)
    after = np.where(again, 0, np.minimum(np.maximum(ns * part, LAUNCH_NS), ns)).astype(np.int64)
    largest = places[np.argsort(-ns, kind="stable")]
    joined = _members(seq.op(int(largest[0])))
    now = float(ns.sum())
    return [
        Draft(
            {
                "times": count(ctx.per_step(times)),
                "gpu": duration(ctx.per_step(now)),
                "kept": _text(max(joined, key=_numel)),
                "added": _text(min(joined, key=_numel)),
                "part": percent(1 - float((part * ns).sum()) / max(now, 1.0)),
            },
            Change(
                gpu=dict(zip(seq.rows[places].tolist(), after.tolist(), strict=True)),
                cpu=ctx.call_intervals(seq.call[places[again]]),
            ),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[largest]]),
            confidence="medium",
            where=ctx.where(int(seq.owner[largest[0]])),
            symptoms=("unfused-pointwise",),
        )
    ]


def _members(op: Op) -> list[tuple[int, ...]]:
    """Shapes of the tensors that a `cat` joins; empty for other ops."""
    if op.name != "cat" or op.inputs is None or not op.inputs.is_list(0):
        return []
    try:
        return [tuple(shape) for shape, _ in op.inputs.members(0) if _numel(tuple(shape))]
    except UnknownInput:  # Kineto leaves out the sizes of long lists
        return []


def _added_part(op: Op) -> float:
    """The part of a `cat`'s result that is new, where one of the tensors is nearly all of it; else 0."""
    sizes = [_numel(shape) for shape in _members(op)]
    whole = sum(sizes)
    return 1 - max(sizes) / whole if len(sizes) > 1 and max(sizes) >= _LEAST_PART * whole else 0.0


def _joined_again(seq: Sequence, places: Array) -> Array:
    """bool (places,): whether the next such call takes the result as its large tensor: results that a loop collects.

    A list collects them without a call; a cache that is read in between is written in place by as many calls.
    """
    ends: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for k in np.unique(seq.op_of[places]).tolist():
        members = sorted(_members(seq.ops[k]), key=_numel)
        ends[k] = (members[0], members[-1])
    call = np.cumsum(np.r_[True, np.diff(seq.owner[places]) != 0]) - 1  # the kernels of a call follow one another
    once = places[np.r_[True, np.diff(call) != 0]]
    pairs = np.c_[seq.op_of[once[:-1]], seq.op_of[once[1:]]]
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    fits = np.array([_grows_into(*ends[int(a)], ends[int(b)][1]) for a, b in distinct], dtype=np.bool_)
    again = np.zeros(len(once), dtype=np.bool_)
    again[:-1] = fits[inverse.reshape(-1)] if len(fits) else False
    again[:-1] &= seq.step[once[:-1]] == seq.step[once[1:]]
    result: Array = again[call]
    return result


def _grows_into(small: tuple[int, ...], large: tuple[int, ...], following: tuple[int, ...]) -> bool:
    """Whether two tensors joined have a shape: that of the large one, longer by the small one along one dimension."""
    grown = [i for i, (a, b) in enumerate(zip(large, following, strict=False)) if a != b]
    if len(grown) != 1 or not len(large) == len(following) == len(small):
        return False
    return following[grown[0]] == large[grown[0]] + small[grown[0]]


def _numel(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape)


RULE = Rule(
    id="growing-cat",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Growing by torch.cat",
        "title": "torch.cat copies a large tensor to add a little: {times} times a step, {gpu}",
        "text": "{kept} joined with {added}, in the largest case: the whole is read and written to add that. {part} of what these copies "
        "move was there before.",
        "fix": "Allocate it once at its full length and write the new part in place: cache[:, :, n : n + 1] = new; results of a loop go "
        "into a list and are joined once behind it.",
        "doc_finds": "`torch.cat` (also `append` of a cache, `hstack`, `vstack`) in which one tensor is 90 % or more of the result, twice a "
        "step or more.",
        "doc_why": "`cat` allocates the result and copies all of its inputs. A cache that grows by one token a step is copied as a whole "
        "for each token, and n results joined one by one move n/2 times what joining them once does.",
        "doc_fix": "cache = torch.empty(batch, heads, longest, dim, device='cuda', dtype=dtype)   # once\n"
        "cache[:, :, n : n + 1] = new                                               # each step\n"
        "k = cache[:, :, : n + 1]\n\n"
        "outputs.append(h)                        # in the loop, instead of out = torch.cat([out, h], 1)\n"
        "out = torch.stack(outputs, 1)            # behind it\n\n"
        "Hugging Face: `cache_implementation='static'` instead of the default cache.",
        "doc_fine": "A class token in front of a sequence, once a step; small tensors, whose copy takes no longer than a launch.",
        "doc_measured": "GPU time of each such copy, less the part of it that the new elements are, at least 2.5 µs. The calls stay: "
        "what is written in place is launched too. Where the next `cat` takes the result up again, the call goes as well: a list "
        "collects without one.",
    },
)
