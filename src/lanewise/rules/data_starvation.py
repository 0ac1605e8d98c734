"""data-starvation: the step waits for its batch."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.cpu_activity import LOADING
from lanewise.analyses.host_syncs import host_syncs
from lanewise.analyses.quiet_times import quiet_times
from lanewise.analyses.replay import Change
from lanewise.model.intervals import Intervals, length, overlap_with, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events, percent
from .context import Array, Context
from .frames import frame_over

__all__ = ["LEAST_QUIET_NS", "RULE", "unnamed_loading", "unrecorded_wait"]

_SINGLE = re.compile(r"_SingleProcessDataLoaderIter")
_WORKERS = re.compile(r"_MultiProcessingDataLoaderIter")
# Where nothing names the loader, a stretch without a launch before the step's first kernel, or before a copy to the GPU, is taken
# for it from 1 ms on: what else Python does between two launches (guards of a compiled call, an optimizer that sorts its
# parameters) took up to 1.06 ms in 80 traces.
LEAST_QUIET_NS = 1_000_000
_LEAST_SHARE = 0.05  # of the step; steps of one program differ by as much


# Recorded steps within this part of the real step's time are usual ones (`replay` takes the same bound).
_USUAL = 0.25


def _check(ctx: Context) -> Outcome:
    hidden = ctx.answer(unrecorded_wait)
    if hidden:
        return [_queued(ctx, hidden)]
    events = _fetching(ctx)
    gone = ctx.intervals(events)
    step_ns = float(ctx.steps.time_ns[ctx.step_numbers].sum())
    if length(gone) and length(gone) >= _LEAST_SHARE * step_ns:
        return [_draft(ctx, gone, events[np.argsort(-ctx.trace.dur[events], kind="stable")], _variant(ctx, events), step_ns)]
    if len(events):
        return Clear()
    gone, calls, to_copy = ctx.answer(unnamed_loading)
    if not length(gone) or length(gone) < _LEAST_SHARE * step_ns:
        return Clear()
    return [_draft(ctx, gone, calls, "copy" if to_copy else "python", step_ns)]


def unrecorded_wait(ctx: Context) -> float:
    """Time in ns that a step waits for the loader's workers outside the recorded window; 0 where nothing says so.

    Starting the profiler takes longer than a step, and meanwhile the workers fill their queue: the recorded steps find their
    batches ready and are quicker than the steps timed without the profiler, though it only adds to them.
    """
    replay = ctx.replay
    events = _fetching(ctx)
    if replay is None or not replay.real or not len(events) or _variant(ctx, events) != "workers":
        return 0.0
    fetched = np.bincount(ctx.step_of(events), weights=ctx.trace.dur[events], minlength=len(ctx.steps))
    without = float(np.median((ctx.steps.time_ns - fetched)[ctx.step_numbers]))
    if replay.real_ns <= (1 + _USUAL) * without:
        return 0.0
    return max(replay.real_ns - min(replay.usual_ns(Change(cpu=ctx.intervals(events))), without), 0.0)


def _fetching(ctx: Context) -> Array:
    """Annotated fetches of a batch on the launching threads."""
    events = ctx.in_steps(ctx.events_matching(LOADING))
    return events[np.isin(ctx.trace.lane[events], ctx.lanes)]


def _queued(ctx: Context, hidden: float) -> Draft:
    events = _fetching(ctx)
    real, recorded = (0.0, 0.0) if ctx.replay is None else (ctx.replay.real_ns, ctx.replay.profiled_ns)
    return Draft(
        {
            "spent": duration(hidden),
            "share": percent(hidden / real if real else None),
            "times": count(ctx.per_step(len(events))),
            "next": "-",
            "real": duration(real),
            "recorded": duration(recorded),
        },
        None,
        hidden,
        first_events(events[np.argsort(-ctx.trace.dur[events], kind="stable")]),
        variant="queued",
        fix_variant="workers",
        confidence="medium",
        saving_ns=hidden,
        symptoms=("python-overhead",),
        where=ctx.where(int(events[0])),
    )


def _variant(ctx: Context, events: Array) -> str:
    names = {ctx.trace.strings[n] for n in np.unique(ctx.trace.name[events])}
    if any(_SINGLE.search(n) for n in names):
        return "single"
    return "workers" if any(_WORKERS.search(n) for n in names) else ""


def unnamed_loading(ctx: Context) -> tuple[Intervals, Array, bool]:
    """(long stretches where a batch is made, calls that end them, whether they end with a copy to the GPU), in the steps."""
    quiet, syncs = ctx.trace.analysis(quiet_times), ctx.trace.analysis(host_syncs)
    chosen = (quiet.first | quiet.to_copy) & (quiet.ns >= LEAST_QUIET_NS) & np.isin(quiet.step, ctx.step_numbers)
    trips = syncs.is_kind("round_trip")
    spent = union(syncs.begin[trips], syncs.end[trips])
    compiling = ctx.activity.by_name["compile"]
    taken = union(np.r_[spent[0], compiling[0]], np.r_[spent[1], compiling[1]])
    chosen &= 2 * overlap_with(quiet.begin, quiet.end, taken) < quiet.ns
    # A pause that some steps have and others do not is no loader; an outlier is another rule's.
    steps = np.unique(quiet.step[chosen])
    if 2 * len(steps) < len(ctx.step_numbers):
        chosen[:] = False
    order = np.flatnonzero(chosen)[np.argsort(-quiet.ns[chosen], kind="stable")]
    calls = quiet.next_call[order]
    to_copy = bool(len(order)) and float(quiet.ns[order][quiet.to_copy[order]].sum()) * 2 >= float(quiet.ns[order].sum())
    return union(quiet.begin[chosen], quiet.end[chosen]), calls[calls >= 0], to_copy


def _draft(ctx: Context, gone: Intervals, events: Array, variant: str, step_ns: float) -> Draft:
    spent = length(gone)
    longest = int((gone[1] - gone[0]).argmax())
    frame = frame_over(ctx, int(gone[0][longest]), int(gone[1][longest]))
    confidence = {"copy": "medium", "python": "low"}.get(variant, "high")
    return Draft(
        {
            "spent": duration(ctx.per_step(spent)),
            "share": percent(spent / step_ns if step_ns else None),
            "times": count(ctx.per_step(len(gone[0]))),
            "next": ctx.trace.name_of(int(ctx.outermost_op(int(events[0])))) if len(events) else "-",
        },
        Change(cpu=gone),
        ctx.per_step(spent),
        first_events(events),
        variant=variant,
        confidence="high" if frame else confidence,
        symptoms=("python-overhead",),
        where=frame or (ctx.where(int(events[0])) if len(events) else None),
    )


RULE = Rule(
    id="data-starvation",
    precedence=16,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Waiting for data",
        "title": "Each step waits {spent} for its batch",
        "title_single": "The DataLoader has no workers: {spent} per step to make the batch",
        "title_workers": "The DataLoader's workers are too slow: {spent} of waiting per step",
        "title_queued": "The DataLoader's workers are too slow: {spent} of waiting per step, outside the recorded ones",
        "text_queued": "Without the profiler a step takes {real}, under it {recorded}, though the profiler only adds to it: while it starts, "
        "the workers fill their queue, and the recorded steps find their batches ready.",
        "title_copy": "{spent} per step before the batch is copied to the GPU",
        "title_python": "{spent} per step before the first kernel",
        "text": "Fetching takes {share} of the recorded step on the thread that launches, and the GPU has nothing to do meanwhile.",
        "text_single": "With `num_workers=0` the thread that launches the kernels reads and transforms every item itself: {share} of the "
        "recorded step.",
        "text_workers": "The queue is empty when the step asks for a batch: {share} of the recorded step is waiting.",
        "text_copy": "The launching thread starts nothing for {share} of the recorded step, until {next} copies to the GPU: most likely "
        "it makes the batch. No annotation says so.",
        "text_python": "The launching thread starts nothing for {share} of the recorded step, until {next}: most likely it makes the "
        "batch. Nothing in the trace names it; record with_stack=True to see.",
        "fix": "Make the next batch while the GPU works: `DataLoader(..., num_workers=8, persistent_workers=True)`, or a thread that "
        "fills a queue.",
        "fix_single": "`DataLoader(..., num_workers=8, persistent_workers=True, pin_memory=True)`; as many workers as it takes until "
        "this time is gone.",
        "fix_workers": "More workers (up to the cores), a larger `prefetch_factor`, cheaper transforms (on the GPU, or cached on disk), "
        "`persistent_workers=True` where epochs are short.",
        "doc_finds": "Time of the step that the launching thread spends on the next batch: in the `DataLoader`'s annotation, or, where "
        "nothing names it, in a long stretch without a launch before the first kernel or before a copy to the GPU.",
        "doc_why": "Kernels are launched by the thread that waits. Once the queue is empty the GPU idles until the batch is there.",
        "doc_fix": "    loader = DataLoader(data, batch_size=64, num_workers=8, persistent_workers=True,\n"
        "                        pin_memory=True, prefetch_factor=4)\n\n"
        "With workers the step only takes a finished batch from a queue. When they cannot keep up: fewer and cheaper transforms per item, "
        "a faster format, resizing once instead of every epoch.",
        "doc_fine": "Where the GPU is still busy with the step before, the batch costs nothing.",
        "doc_measured": "The steps are replayed without that time. Annotated time is certain. Unnamed stretches count from 1 ms and 5 % "
        "of the step on, in at least half of the steps (the longest other stretch in 80 traces was 1.06 ms), and the confidence says "
        "that they are taken for loading: medium before a copy to the GPU, low before another first kernel. Where a DataLoader with workers is "
        "in use and the recorded steps without their fetch are a quarter quicker than those timed without the profiler, all that the "
        "recorded steps do not explain (less what the profiler usually adds) is taken for waiting.",
    },
)
