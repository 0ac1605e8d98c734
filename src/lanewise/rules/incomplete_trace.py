"""incomplete-trace: GPU work or events that the file does not show."""

from __future__ import annotations

import numpy as np

from .base import Clear, Draft, Outcome, Quantity, Rule, count, first_events
from .context import Context

__all__ = ["RULE"]


def _check(ctx: Context) -> Outcome:
    c, trace = ctx.coverage, ctx.trace
    drafts = []
    missing = np.flatnonzero(~ctx.launches.linked)
    slots: dict[str, Quantity | str] = {"missing": count(c.launches - c.linked), "launches": count(c.launches)}
    slots["skipped"] = count(trace.skipped_events)
    evidence = first_events(ctx.launches.call[missing])
    if c.launches and c.gpu_timing == "none":
        drafts.append(Draft(slots, None, None, evidence, variant="none"))
    elif c.gpu_timing == "partial":
        drafts.append(Draft(slots, None, None, evidence))
    if trace.truncated:
        drafts.append(Draft(slots, None, None, [], variant="cut"))
    elif trace.skipped_events:
        drafts.append(Draft(slots, None, None, [], variant="skipped"))
    return drafts or Clear()


RULE = Rule(
    id="incomplete-trace",
    precedence=90,
    check=_check,
    english={
        "name": "Incomplete trace",
        "title": "{missing} of {launches} launches have no GPU record",
        "text": "The GPU did work that this trace does not show, so idle time and every saving that rests on it are withheld.",
        "fix": "Record again after a warm-up step, with no other profiler attached; `lanewise doctor` checks the machine.",
        "title_none": "{launches} launches and not one GPU record",
        "text_none": "The GPU worked, unrecorded: CUPTI (or roctracer) gave the profiler nothing. Only the CPU side can be read.",
        "fix_none": "Run `lanewise doctor`: another profiler, missing permission or a driver without CUPTI are the usual causes.",
        "title_cut": "The file is cut",
        "text_cut": "Its end is missing, so the last steps may lack events; what was whole has been read.",
        "fix_cut": "Copy or record it again; a trace is complete once the profiler's exit has returned.",
        "title_skipped": "{skipped} events could not be read",
        "text_skipped": "They were left out; numbers of the ops around them may be too low.",
        "fix_skipped": "Record again with a current PyTorch, which escapes names correctly.",
        "doc_finds": "Launches without a GPU record, steps or graph replays that show no GPU work, files that were cut, and "
        "events that could not be read.",
        "doc_why": "It costs no time. But a gap in the records looks like an idle GPU, and conclusions from it are wrong.",
        "doc_fix": "Record after warm-up steps, so that CUPTI is ready; attach no second profiler (Nsight, DCGM profiling); "
        "give the container the right to read performance counters; let the profiler's `__exit__` finish.",
        "doc_fine": "GPU ops that were launched before the window are no gap; up to 1 % of launches may have no record (copies "
        "of 0 bytes).",
        "doc_measured": "Launching calls (by shared correlation id, else by name) without a GPU op: more than 1 % of them, or "
        "any graph launch, or a step with launches and no GPU op.",
    },
)
