"""The words about limits and ceilings. English here, Japanese in ``translations/ja/limits.toml``."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["TEXTS", "bound_text"]

TEXTS = Catalog(
    "limits",
    {
        # the section of the report
        "title": "DISTANCE FROM THE CARD'S LIMITS",
        "detail": "{share} of the limit",
        "step": (
            "A step's GPU work takes {gpu}; for {known} of it the limit is known. At the card's ceilings that part would take"
            " {limit}; the headroom, op by op, is {headroom}."
        ),
        "whole": (
            "The GPU work takes {gpu}; for {known} of it the limit is known. At the card's ceilings that part would take"
            " {limit}; the headroom, op by op, is {headroom}."
        ),
        "by-bound": "By what bounds it: {parts}.",
        "part": "{bound} {time}",
        "ceilings": "Ceilings of {name}: {rates}.",
        "memory-rate": "memory {rate}",
        "type-rate": "{dtype} {rate}",
        "from-sheet": "{rates} (data sheet)",
        "from-calibration": "{rates} (measured by lanewise calibrate)",
        "remark": "{kernel}: {text}",
        # why there is little or nothing
        "no-card": (
            "lanewise does not know the card {name}, so there are no ceilings to compare with. lanewise calibrate measures them"
            " on the card itself."
        ),
        "no-card-name": "The trace does not name the card, so there are no ceilings to compare with.",
        "no-shapes": "Without recorded shapes most kernels have no known amount of work: record with record_shapes=True.",
        "nothing-known": "No kernel has a known amount of work.",
        # what bounds a kernel
        "memory": "memory",
        "compute": "compute",
        "latency": "latency",
        "helper": "helper",
        "unknown": "not known",
        # remarks on a kernel
        "gap": (
            "The trace's occupancy of 0 % is a gap of the profiler, which counts no more than 48 KiB of shared memory a block;"
            " by its footprint it is {occupancy}."
        ),
        "by-design": (
            "Few warps are its design: it keeps large tiles in {registers} registers a thread and {shared} of shared memory a"
            " block, and lives on independent instructions rather than on many warps."
        ),
        "low-occupancy": "Occupancy {occupancy}, held down by {limiter}.",
        "registers": "registers ({registers} a thread)",
        "shared memory": "shared memory ({shared} a block)",
        "warps": "the size of its blocks ({threads} threads)",
        "blocks": "its small blocks ({threads} threads)",
        "few-blocks": "{blocks} blocks for {sms} SMs: most of the card is idle.",
        "fewer-blocks": "{blocks} blocks for {sms} SMs: the rest of the card is idle.",
        "tail": "{waves} waves of blocks: the last is far from full, which costs up to {tail} of the time.",
        "is-helper": "It helps another kernel, with which their op's work is counted; an ideal kernel would need no helper.",
        "floor": "So little work that starting and ending take most of the time.",
    },
)


def bound_text(bound: str | None, lang: str) -> str:
    """The word for what bounds a kernel; empty where that is not known."""
    return TEXTS(bound, lang) if bound else ""
