"""Stretches of convolutions and what lies between them that treat each sample by itself, before some of the samples are taken."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.work.inputs import Inputs

from .context import Context
from .parts import PASSING, Pick, Uses, pick_of

__all__ = ["RowChain", "row_chains"]

Array = npt.NDArray[Any]

_CONVOLUTIONS = frozenset(["conv1d", "conv2d", "conv3d"])
_OVER_SAMPLES = frozenset(["group_norm", "instance_norm", "pixel_shuffle", "pixel_unshuffle"])
# What gives as many elements as it takes, each from its own sample.
_POINTWISE = frozenset(
    [
        "relu",
        "relu_",
        "leaky_relu",
        "leaky_relu_",
        "elu",
        "elu_",
        "gelu",
        "silu",
        "silu_",
        "sigmoid",
        "tanh",
        "hardswish",
        "hardtanh",
        "clamp",
        "clamp_",
        "clamp_min",
        "mul",
        "mul_",
        "add",
        "add_",
        "sub",
        "sub_",
        "div",
        "div_",
        "neg",
        "exp",
        "to",
        "contiguous",
        "clone",
        "float",
        "half",
        "bfloat16",
    ]
)


@dataclass(frozen=True, slots=True)
class RowChain:
    """Such a stretch.

    Attributes:
        calls: numbers of its launching calls.
        pick: the taking.
        used: part of the samples that is taken.
    """

    calls: tuple[int, ...]
    pick: Pick
    used: float


def row_chains(ctx: Context, uses: Uses, most_used: float, but: Array) -> list[RowChain]:
    """Stretches in the steps of whose samples a part of at most `most_used` is taken, and nothing else uses their results.

    Args:
        ctx: the trace's context.
        uses: its calls by the sizes of their operands.
        most_used: largest part.
        but: bool (calls,): calls that belong to none.
    """
    found = []
    done: set[int] = set()
    for call in uses.picking():
        pick = uses.pick(call)
        if pick is None or pick.whole or (pick.end - pick.begin) > most_used * pick.size or call in done:
            continue
        chain = _before(ctx, uses, call, pick, but)
        if not any(uses.name(c) in _CONVOLUTIONS for c in chain):
            continue
        done |= set(uses.between(chain[-1], prod(pick.shape)))
        taken = _taken(ctx, uses, chain, call, pick)
        if taken is not None and 0 < len(taken) <= most_used * pick.size:
            found.append(RowChain(tuple(chain), pick, len(taken) / pick.size))
    return found


def _samples(pick: Pick) -> int:
    return prod(pick.shape[: pick.dim + 1])


def _before(ctx: Context, uses: Uses, call: int, pick: Pick, but: Array) -> list[int]:
    """Launching calls right before a taking of which each makes, by its size, what a later one or the taking uses."""
    wanted = {prod(pick.shape)}
    samples = _samples(pick)
    chain: list[int] = []
    for before in range(call - 1, uses.begin(call) - 1, -1):
        if not ctx.called.kernels[before]:
            continue
        recorded = uses.inputs(before)
        made = None if recorded is None or but[before] else _made(uses.name(before), recorded, samples)
        if made not in wanted or recorded is None:
            break
        wanted |= _by_sample(recorded, samples)
        chain.append(before)
    return chain[::-1]


def _by_sample(recorded: Inputs, samples: int) -> set[int]:
    """Elements of the operands that have the samples in front."""
    return {t.numel for t in recorded.tensors() if t.shape and samples in _prefixes(t.shape) and t.numel > samples}


def _prefixes(shape: tuple[int, ...]) -> list[int]:
    return np.cumprod(shape).tolist()


def _made(name: str, recorded: Inputs, samples: int) -> int | None:
    """Elements of what an op makes of each sample by itself; None for other ops."""
    source = recorded.tensor(0)
    if source is None or not source.shape:
        return None
    if name in _CONVOLUTIONS:
        return _convolved(recorded, samples)
    if name in _OVER_SAMPLES:
        return source.numel if source.shape[0] == samples else None
    if name not in _POINTWISE or samples not in _prefixes(source.shape):
        return None
    return max(t.numel for t in recorded.tensors())


def _convolved(recorded: Inputs, samples: int) -> int | None:
    source, weight = recorded.tensor(0), recorded.tensor(1)
    stride, padding, dilation = (recorded.integers(i) for i in (3, 4, 5))
    if source is None or weight is None or source.shape[0] != samples or len(source.shape) != len(weight.shape):
        return None
    if stride is None or padding is None or dilation is None:
        return None
    rank = len(source.shape) - 2
    steps = [(v * rank)[:rank] for v in (stride, padding, dilation)]
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(source.shape[2:], weight.shape[2:], *steps, strict=True)
    ]
    return samples * weight.shape[0] * prod(sizes)


def _taken(ctx: Context, uses: Uses, chain: list[int], call: int, pick: Pick) -> set[int] | None:
    """Indices that are taken of what a stretch makes; None where something else uses that, or what lies within."""
    inner = set().union(*(_by_sample(r, _samples(pick)) for c in chain[1:] if (r := uses.inputs(c)) is not None))
    result = prod(pick.shape)
    taken: set[int] = set()
    for elements in inner | {result}:
        for later in uses.between(chain[0], elements):
            if later in chain:
                continue
            recorded = uses.inputs(later)
            part = pick_of(uses.name(later), recorded) if recorded is not None else None
            if part is not None and later >= call and part.shape == pick.shape and part.dim == pick.dim:
                taken |= set(range(part.begin, part.end)) if not part.whole else set()
            elif (part is None or not part.whole) and (ctx.called.kernels[later] or uses.name(later) not in PASSING):
                return None
    return taken
