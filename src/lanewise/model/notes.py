"""What a reader must know about a trace before believing its numbers: notes with an id and the facts, worded per language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lanewise.translations import Catalog

__all__ = ["NOTES", "Note"]

# Each text says what is so, where, and what was done about it.
NOTES = Catalog(
    "notes",
    {
        # container and text
        "gzip-damaged": "The gzip stream is damaged near byte {offset:,} ({why}); what came before it was read.",
        "gzip-cut": "The gzip stream ends without its end mark after {offset:,} bytes: the file was cut.",
        "gzip-trailing": "Bytes after the end of the gzip stream were ignored.",
        "truncated": "The file is cut: it ends within its events, at byte {offset:,} of the text. The {events:,} whole events before that were read.",
        "unfinished": "The file ends without its closing brace, at byte {offset:,}; all its events were read.",
        "two-documents": "There is more after the end of the trace, at byte {offset:,}: two programs may have written to one file. Only the first was read.",
        "header-damaged": "The header is damaged and could not be read: devices, rank and flags are not known.",
        "header-repaired": "The header was damaged and was mended.",
        "repaired": "{count:,} events were damaged and mended ({what}), the first at byte {offset:,} of the text.",
        "skipped": "{count:,} events could not be read and were left out ({what}), the first at byte {offset:,} of the text.",
        "no-time": "{count:,} events without a start, or with a duration below 0, were left out.",
        "no-duration": "{count:,} events have no duration; it was taken as 0.",
        "strays": "{count:,} events at timestamp 0, far from all others, have lost their times and were left out of every sum.",
        "unknown-category": "{count:,} events are of a category that lanewise does not know ({names}): shown, not interpreted.",
        "window": "Only a part of the trace was read: {window}.",
        # what the trace cannot tell
        "no-gpu-records": "{launches:,} launches and no GPU record: the GPU worked, unrecorded. GPU times are not known.",
        "partial-gpu-records": "{missing:,} of {launches:,} launches have no GPU record: idle time is not known.",
        "graph-records-missing": "{missing:,} of {launches:,} graph launches have no GPU record: idle time is not known.",
        "steps-without-gpu": "{count:,} of {steps:,} steps launched GPU work and show none of it: idle time is not known.",
        "graph-records-fewer": "Replays of one graph show from {fewest:,} to {most:,} GPU ops: some were not recorded.",
        "launched-before": "{count:,} GPU ops were launched before the recording began; they belong to no step.",
        "ambiguous-ids": "{count:,} GPU ops have a correlation id that identifies nothing (0, -1 or none) or several calls; they stay unlinked.",
        "impossible-duration": "{count:,} GPU ops last longer than their stream allows (the longest claims {claimed}); each counts up to the start of the next op.",
        "lane-skew": "{count:,} GPU ops start before their launch, by up to {skew}: the clocks of CPU and GPU are apart.",
        "profiler-overhead": "The profiler itself took {overhead} of CPU time in {count:,} places.",
        "rank-from-name": "The file does not say its rank; {rank} was taken from its name.",
        "rank-disagrees": "The file's name says rank {name_rank}, its header says {rank}; the header counts.",
        "no-steps": "No step marks: figures per step are not known. Record with a schedule, or mark steps with record_function.",
        "steps-from-annotations": "There are no ProfilerStep marks; {count:,} annotations like {name} were taken as steps.",
        "integer-times": "Times are whole microseconds: short kernels and gaps are only known that well.",
        "profiled-time": "The step's time was measured under the profiler, which slows the CPU side: savings on the CPU are upper bounds.",
        "no-events": "There are no events: the profiler was never active, or its schedule never reached the active part.",
    },
)


# What was wrong with a damaged event.
DAMAGE = Catalog(
    "notes",
    {
        "encoding": "bytes that are not UTF-8",
        "controls": "raw control characters",
        "backslashes": "backslashes that are no escapes",
        "numbers": "numbers that are none",
        "commas": "stray commas",
        "quotes": "unescaped quotes",
        "types": "fields of an unusual type",
        "unreadable": "unreadable",
        "rubbish": "no event at all",
        "no-time": "no start, or a duration below 0",
    },
    table="damage",
)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know.

    Attributes:
        id: key of its text in `NOTES`.
        slots: the facts that the text names.
    """

    id: str
    slots: Mapping[str, Any] = field(default_factory=dict)

    def text(self, lang: str = "en") -> str:
        """The note in words."""
        slots = dict(self.slots)
        kinds = slots.pop("kinds", None)
        if kinds is not None:
            slots["what"] = ", ".join(f"{DAMAGE(kind, lang)}: {n:,}" for kind, n in Counter(kinds).most_common(6))
        return NOTES(self.id, lang, **slots)
