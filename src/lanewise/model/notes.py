"""What a reader must know about a trace before believing its numbers: notes with an id and the facts, worded per language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lanewise.translations import Catalog

__all__ = ["DAMAGE", "NOTES", "Note"]

# Each text says what is so, where, and what was done about it. "{count:event}" is "1 event" or "2,310 events".
NOTES = Catalog(
    "notes",
    {
        # container and text
        "gzip-damaged": "The gzip stream is damaged near byte {offset:,} ({why}); what came before it was read.",
        "gzip-cut": "The gzip stream ends without its end mark after {offset:,} bytes: the file was cut.",
        "gzip-trailing": "Bytes after the end of the gzip stream were ignored.",
        "truncated": "The file is cut: its text ends at byte {offset:,}, within its events. What came before was read: {events:event}.",
        "unfinished": "The file ends without its closing brace, at byte {offset:,}; all its events were read.",
        "two-documents": "There is more after the end of the trace, at byte {offset:,}: two programs may have written to one file. Only the first was read.",
        "header-damaged": "The header is damaged; only some of it could be read: devices, rank and flags may be missing.",
        "header-repaired": "The header was damaged and was mended.",
        "repaired": "{count:event} damaged and mended ({what}), the first at byte {offset:,} of the text.",
        "skipped": "{count:event} given up and left out ({what}), {bytes:,} bytes of text, the first at byte {offset:,}. What was overwritten in one place counts as one event.",
        "no-time": "{count:event} left out: no start, or a duration below 0 or beyond a year.",
        "no-duration": "{count:event} without a duration, taken as 0.",
        "strays": "{count:event} at timestamp 0, far from all others: the times are lost, and no sum counts them.",
        "begin-end": "{begins:begin} without an end and {ends:end} without a begin left out (phases B and E).",
        "async": "{count:,} asynchronous begins and ends left out (phases b and e): they lie on no thread and no stream.",
        "unknown-category": "{count:event} of a category that lanewise does not know ({names}): shown, not interpreted.",
        "no-category": "{count:event} without a category: shown, not interpreted.",
        "merged": "Traces of {count:,} processes seem to be merged in this file: their calls share correlation ids, which then link nothing. Read each trace by itself.",
        "window": "Only a part of the trace was read: {window}.",
        # what the trace cannot tell
        "no-gpu-records": "{launches:launch} and no GPU record: the GPU worked, unrecorded. GPU times are not known.",
        "partial-gpu-records": "{missing:,} of {launches:launch} without a GPU record: idle time is not known.",
        "graph-records-missing": "{missing:,} of {launches:graph launch} without a GPU record: idle time is not known.",
        "steps-without-gpu": "{count:,} of {steps:step} with launches and no GPU record of them: idle time is not known.",
        "graph-records-fewer": "{count:graph replay} with as few as {fewest:,} of {most:GPU op} of the graph: idle time is not known.",
        "launched-before": "{count:GPU op} launched before the recording began: part of no step.",
        "ambiguous-ids": "{count:GPU op} with a correlation id that identifies nothing (0, -1 or none) or several calls: not linked.",
        "impossible-duration": "{count:GPU op} longer than the stream allows (the longest claims {claimed}): counted up to the start of the next op.",
        "lane-skew": "{count:GPU op} recorded as started before the launch, by up to {skew}: the clocks of CPU and GPU are apart.",
        "profiler-overhead": "The profiler itself took {overhead} of CPU time in {count:place}.",
        "rank-from-name": "The file does not say its rank; {rank} was taken from its name.",
        "rank-disagrees": "The file's name says rank {name_rank}, its header says {rank}; the header counts.",
        "no-steps": "No step marks: figures per step are not known. Record with a schedule, or mark steps with record_function.",
        "steps-from-annotations": "There are no ProfilerStep marks; {count:annotation} like {name} taken as steps.",
        "integer-times": "Times are whole microseconds: short kernels and gaps are only known that well.",
        "profiled-time": "The step's time was measured under the profiler, which slows the CPU side: savings on the CPU are upper bounds.",
        "no-events": "There are no events: the profiler was never active, or its schedule never reached the active part.",
    },
    table="note",
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
        "unreadable": "unreadable text",
        "rubbish": "text that is no event",
        "no-time": "no start, or a duration below 0 or beyond a year",
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
        slots: dict[str, Any] = {k: _Count(v) if isinstance(v, int) else v for k, v in self.slots.items() if k != "kinds"}
        if "kinds" in self.slots:
            kinds: Counter[str] = Counter(self.slots["kinds"])
            slots["what"] = ", ".join(f"{DAMAGE(kind, lang)}: {n:,}" for kind, n in kinds.most_common(6))
        return NOTES(self.id, lang, **slots)


class _Count(int):
    """A number that a text may have with what it counts: ``{count:event}`` is ``1 event`` or ``2,310 events``."""

    def __format__(self, spec: str) -> str:
        if not spec[:1].isalpha() or len(spec) < 3:
            return super().__format__(spec)
        plural = "" if self == 1 else "es" if spec.endswith("ch") else "s"
        return f"{int(self):,} {spec}{plural}"
