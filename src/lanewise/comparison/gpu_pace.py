"""How fast the GPU itself ran in two recordings: its clock, which moves all products alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .figures import TraceSide
from .noise import PRODUCT_RUN
from .pairing import products
from .sequence import Slot

__all__ = ["gpu_pace", "product_share", "scaled"]

Array = npt.NDArray[Any]

# Products of this many names, that move alike: one kernel may be slower for a reason of its own.
_NAMES = 2
# Kernels of one name differ by up to 3.1 % between two recordings when the clock does not: so far apart, each way, is alike.
_ALIKE = 0.065
# Clocks of one card under work were seen to differ by a sixth; what is further apart is another shape, or another card.
_MOST = 1.25


def gpu_pace(base: TraceSide, new: TraceSide) -> float | None:
    """How long the same products take in the new trace against the base, where all of them move alike; None where they do not.

    One pair of recordings of one program had all GEMMs 13 % and attention 15 % faster in the second, and all else the same: the
    clock. A change of the program reaches some kernels and not others.
    """
    a, b = _times(base), _times(new)
    common = a.keys() & b.keys()
    if len(common) < _NAMES:
        return None
    ratios = np.array([b[name] / a[name] for name in common])
    alike = ratios.max() <= (1 + _ALIKE) * ratios.min()
    pace = float(sum(b[name] for name in common) / sum(a[name] for name in common))
    told = not 1 / (1 + PRODUCT_RUN) <= pace <= 1 + PRODUCT_RUN
    return pace if alike and told and 1 / _MOST <= pace <= _MOST else None


def product_share(ns: Array, slots: Sequence[Slot]) -> float:
    """Part of some ops' time in products; 0 without any.

    Args:
        ns: (steps, ops), times of the ops in ns.
        slots: the ops.
    """
    medians = np.median(ns, axis=0) if ns.size else np.zeros(len(slots))
    chosen = np.array([products(s) for s in slots], dtype=np.bool_)
    whole = float(medians.sum())
    return float(medians[chosen].sum()) / whole if whole else 0.0


def scaled(pace: float | None, share: float) -> float:
    """How many times as long something takes of which products are a share."""
    return 1.0 if pace is None else 1 + share * (pace - 1)


def _times(side: TraceSide) -> dict[str, float]:
    """Median time of one launch of each product kernel of a step, by name and grid, in ns."""
    sequence = side.sequence
    found: dict[str, list[float]] = defaultdict(list)
    for i, slot in enumerate(sequence.slots):
        if products(slot):
            found[f"{slot.name} {slot.grid}"].append(float(np.median(sequence.ns[:, i])))
    return {name: float(np.median(times)) for name, times in found.items() if min(times) > 0}
