"""From a trace and its report to the picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.launches import launches
from lanewise.analyses.limits import limits
from lanewise.analyses.steps import steps
from lanewise.model.trace import MISSING, Trace
from lanewise.report import Evidence, Report, usual_step

from .colours import colours
from .density import levels
from .document import LanePart, Level, Links, StepSpan, Timeline
from .parts import Part, parts
from .selection import select

__all__ = ["Columns", "all_numbers", "evidence_events", "timeline", "used_names"]

Array = npt.NDArray[Any]

# Times of a report are us as doubles; since 1970 these are exact to a quarter of a microsecond.
_TOLERANCE_NS = 500


def timeline(
    trace: Trace,
    report: Report,
    *,
    numbered: bool = False,
    more: Sequence[Sequence[Evidence]] = (),
    step: int | None = None,
    budget: int | None = None,
) -> Timeline:
    """The picture of a trace, with the surroundings of the report's findings in full.

    Args:
        trace: the trace.
        report: its report.
        numbered: whether slices carry their number among all of the trace, so that `lanewise.timeline.Tiles` can add to it.
        more: further evidence, to come after that of the findings; only the events themselves are sure to be kept.
        step: number of the step that is shown first; None for the usual one.
        budget: slices to keep; None for what suits a file.
    """
    base, last = trace.span or (0, 0)
    found = trace.analysis(parts)
    view = default_view(trace, step)
    proofs = [evidence_events(trace, f.evidence) for f in report.findings]
    verdict = evidence_events(trace, report.verdict.evidence)
    around = [[e for e in p if e >= 0] for p in [*proofs, verdict]]
    chosen = select(trace, view, trace.analysis(steps).event, around, not_frames(trace), budget)
    others = [evidence_events(trace, rows) for rows in more]
    chosen.kept[[e for p in others for e in p if e >= 0]] = True
    number = numbers(found, chosen.kept, len(trace))
    used = used_names(trace, np.flatnonzero(chosen.kept))
    columns = Columns(trace, base, trace.analysis(all_numbers) if numbered else number, used, numbered)
    return Timeline(
        base_ns=str(base + (trace.base_ns or 0)),
        span=last - base,
        slices=len(trace),
        kept=int(chosen.kept.sum()),
        strings=[trace.strings[i] for i in used],
        lanes=[columns.part(p, chosen.kept[p.events], last - base) for p in found],
        steps=step_spans(trace, base),
        view=(view[0] - base, view[1] - base),
        full=_merged([(max(b, base) - base, min(e, last) - base) for b, e in chosen.full]),
        evidence=[[int(number[e]) if e >= 0 else -1 for e in p] for p in [*proofs, *others]],
        verdict=[int(number[e]) if e >= 0 else -1 for e in verdict],
    )


class Columns:
    """What the parts of one picture share."""

    def __init__(self, trace: Trace, base: int, number: Array, used: Array, numbered: bool) -> None:
        self.trace, self.base, self.number, self.numbered = trace, base, number, numbered
        self.colour, self.gpu_row = trace.analysis(colours), trace.analysis(gpu_rows)
        self.name = np.zeros(max(len(trace.strings), 1), dtype=np.int64)
        self.name[used] = np.arange(len(used))

    def part(self, part: Part, kept: Array, span: int) -> LanePart:
        """One part with those of its slices that are kept (bool or places in it), and levels for the rest."""
        if kept.all():
            return self.slices(part, part.events, part.row, [])
        ts = self.trace.ts[part.events] - self.base
        return self.slices(
            part,
            part.events[kept],
            part.row[kept],
            levels(ts, ts + self.trace.dur[part.events], self.colour[part.events], span),
        )

    def slices(self, part: Part, events: Array, row: Array, found: list[Level]) -> LanePart:
        """Some slices of one part, with their rows."""
        trace = self.trace
        start = trace.ts[events] - self.base
        return LanePart(
            label=part.label,
            kind=part.kind,
            thread=part.lane,
            device=part.device,
            stream=part.stream,
            rows=int(part.row.max(initial=0)) + 1,
            total=len(part.events),
            start=np.diff(start, prepend=np.int64(0)).tolist(),
            dur=trace.dur[events].tolist(),
            name=self.name[trace.name[events]].tolist(),
            colour=self.colour[events].tolist(),
            row=row.tolist(),
            links=self._links(events) if part.kind == "gpu" else None,
            levels=found,
            number=self.number[events].tolist() if self.numbered else None,
        )

    def _links(self, events: Array) -> Links:
        trace, links, limit = self.trace, self.trace.analysis(launches), self.trace.analysis(limits)
        row = self.gpu_row[events]
        real = row >= 0
        row = np.maximum(row, 0)
        if not len(trace.column("gpu_ops", "event")):
            none = np.zeros(len(events), dtype=np.int64)
            return Links(none.tolist(), none.tolist(), (none - 1).tolist(), (none - 1).tolist(), (none - 1).tolist())
        launch, owner = links.launch[row], links.gpu_owner[row]
        call = np.zeros(len(events), dtype=np.int64)
        if len(links.call):  # else nothing of the CPU was recorded
            call = np.where(real & (launch >= 0), self.number[links.call[launch]] + 1, 0)
        op = np.where(real & (owner >= 0), self.name[trace.name[owner]] + 1, 0)
        known = real & ~np.isnan(limit.limit_ns[row])
        return Links(
            call=call.tolist(),
            op=op.tolist(),
            limit=np.where(known, np.nan_to_num(limit.limit_ns[row]), -1).astype(np.int64).tolist(),
            bound=np.where(real, limit.bound[row], -1).tolist(),
            bytes=np.where(real, trace.column("gpu_ops", "bytes")[row], MISSING).tolist(),
        )


def gpu_rows(trace: Trace) -> Array:
    """int64 (events,): row of `gpu_ops` of each event, -1 for others."""
    events = trace.column("gpu_ops", "event")
    out = np.full(len(trace), -1, dtype=np.int64)
    out[events] = np.arange(len(events))
    return out


def used_names(trace: Trace, events: Array) -> Array:
    """Codes of the names of some events, and of the ops that launched GPU work among them."""
    row = trace.analysis(gpu_rows)[events]
    owner = trace.analysis(launches).gpu_owner[row[row >= 0]]
    used: Array = np.union1d(trace.name[events], trace.name[owner[owner >= 0]]).astype(np.int64)
    return used


def all_numbers(trace: Trace) -> Array:
    """int64 (events,): number of each slice where all of a trace are drawn."""
    return numbers(trace.analysis(parts), np.ones(len(trace), dtype=np.bool_), len(trace))


def numbers(found: list[Part], kept: Array, n: int) -> Array:
    """int64 (events,): number of each slice in the picture, -1 for those that are not kept."""
    number = np.full(n, -1, dtype=np.int64)
    order = np.concatenate([p.events[kept[p.events]] for p in found]) if found else np.empty(0, dtype=np.int64)
    number[order] = np.arange(len(order))
    return number


def default_view(trace: Trace, step: int | None = None) -> tuple[int, int]:
    """A step with its GPU work and a little on both sides, the usual one for None; everything where there are no steps."""
    found = trace.analysis(steps)
    if not len(found):
        return trace.span or (0, 0)
    at = np.flatnonzero(found.index == step).tolist() if step is not None else []
    place = at[0] if at else usual_step(found.launches.tolist())
    begin, end = int(found.start[place]), int(found.end[place])
    pad = (end - begin) // 50
    return begin - pad, end + pad


def not_frames(trace: Trace) -> Array:
    """bool (events,): False for Python frames; modules are no frames here."""
    out = np.ones(len(trace), dtype=np.bool_)
    frames = trace.rows("python_function")
    module = trace.names_where(lambda s: s.startswith("nn.Module: "))
    if len(frames):
        out[frames] = module[trace.name[frames]]
    return out


def step_spans(trace: Trace, base: int) -> list[StepSpan]:
    """The steps on the time axis."""
    s = trace.analysis(steps)
    rows = zip(s.index.tolist(), (s.start - base).tolist(), s.wall_ns.tolist(), (s.end - base).tolist(), strict=True)
    return [StepSpan(index, start, start + wall, end) for index, start, wall, end in rows]


def evidence_events(trace: Trace, rows: Sequence[Evidence]) -> list[int]:
    """The event of each row of evidence, -1 where there is none."""
    codes = {text: code for code, text in enumerate(trace.strings)}
    out = []
    for row in rows:
        ts = round(row.ts_us * 1000)
        near = np.arange(*np.searchsorted(trace.ts, [ts - _TOLERANCE_NS, ts + _TOLERANCE_NS + 1]))
        near = near[trace.name[near] == codes.get(row.name, -1)]
        off = np.abs(trace.ts[near] - ts) + np.abs(trace.dur[near] - round(row.dur_us * 1000))
        out.append(int(near[off.argmin()]) if len(near) else -1)
    return out


def _merged(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows by start, those that touch joined."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out
