"""collective-wait: ranks that wait for a slower one inside a collective."""

from __future__ import annotations

from .base import Clear, NotChecked, Outcome, Rule
from .context import Context

__all__ = ["RULE"]


def _check(ctx: Context) -> Outcome:
    # A collective's kernel runs from this rank's arrival to the last rank's data: one rank cannot tell waiting from transfer.
    return NotChecked("one-rank") if ctx.is_kind("communication")[ctx.rows].any() else Clear()


RULE = Rule(
    id="collective-wait",
    precedence=40,
    needs=("gpu_events",),
    check=_check,
    english={
        "name": "Waiting inside collectives",
        "title": "Ranks wait for a slower one inside collectives",
        "text": "One rank's trace cannot split waiting from transfer.",
        "fix": "Compare the traces of the ranks: lanewise diff rank0.json.gz rank1.json.gz",
        "doc_finds": "Collectives that are long because another rank arrives late.",
        "doc_why": "A collective ends when the last rank has given its data; all others wait for it with their GPU occupied.",
        "doc_fix": "Balance the work (data, pipeline stages, experts), remove what makes one rank late (logging, evaluation, a slow "
        "loader on one node), pin processes to cores near their GPU.",
        "doc_fine": "Small differences between ranks are normal; below a few per cent of the step they are noise.",
        "doc_measured": "Not from one rank alone: the kernel runs from this rank's arrival on. With the ranks' traces side by side "
        "the shortest occurrence of a collective is its transfer, and what the others take longer is waiting.",
    },
)
