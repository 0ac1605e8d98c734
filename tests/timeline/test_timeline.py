"""The picture of a trace: its lanes, its links, its evidence, and what is kept of a large one."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from builder import TraceBuilder
from lanewise.explaining import explain
from lanewise.loading import load
from lanewise.model.trace import Trace
from lanewise.timeline import LanePart, Timeline, selection, timeline
from lanewise.timeline.drawing import not_frames
from places import ROOT

SINS = ROOT / "examples" / "gpt_train_sins.json.gz"


def small() -> Trace:
    t = TraceBuilder()
    t.step(1, 0, 100)
    t.step(2, 100, 100)
    for begin in (0, 100):
        t.frame("nn.Module: Linear_0", begin + 1, 90)
        t.frame("train.py(3): step", begin + 2, 80)
        t.op("aten::linear", begin + 5, 50)
        t.op("aten::addmm", begin + 6, 40)
        t.launch(begin + 10, 5, gpu=(begin + 30, 50), name="sgemm")
    return t.load()


def picture(trace: Trace) -> Timeline:
    return timeline(trace, explain(trace))


def names(drawn: Timeline, lane: LanePart) -> list[str]:
    return [drawn.strings[i] for i in lane.name]


def all_slices(drawn: Timeline) -> list[tuple[str, int, int]]:
    return [
        (name, start, dur)
        for lane in drawn.lanes
        for name, start, dur in zip(names(drawn, lane), accumulate(lane.start), lane.dur, strict=True)
    ]


def test_lanes_and_layers() -> None:
    drawn = picture(small())
    assert [lane.kind for lane in drawn.lanes] == ["gpu", "modules", "ops", "frames"]
    gpu, modules, ops, frames = drawn.lanes
    assert (gpu.device, gpu.stream, gpu.thread) == (0, 7, gpu.thread)
    assert names(drawn, modules) == ["nn.Module: Linear_0"] * 2
    assert names(drawn, frames) == ["train.py(3): step"] * 2
    assert ops.row == [0, 1, 2, 3] * 2
    assert list(accumulate(gpu.start)) == [30_000, 130_000]
    assert gpu.dur == [50_000, 50_000]


def test_gpu_slices_know_their_launch() -> None:
    drawn = picture(small())
    links = drawn.lanes[0].links
    assert links is not None
    slices = all_slices(drawn)
    assert [slices[c - 1] for c in links.call] == [("cudaLaunchKernel", 10_000, 5_000), ("cudaLaunchKernel", 110_000, 5_000)]
    assert [drawn.strings[o - 1] for o in links.op] == ["aten::addmm"] * 2


def test_the_usual_step_is_shown_first() -> None:
    drawn = picture(small())
    assert [(s.index, s.start, s.end, s.gpu_end) for s in drawn.steps] == [
        (1, 0, 100_000, 100_000),
        (2, 100_000, 200_000, 200_000),
    ]
    assert drawn.view == (98_000, 202_000)
    assert drawn.full == [(0, 200_000)]


def test_without_steps_everything_is_shown() -> None:
    t = TraceBuilder()
    t.op("aten::mm", 0, 50)
    drawn = picture(t.load())
    assert drawn.view == (0, 50_000)


def test_an_empty_trace() -> None:
    drawn = picture(TraceBuilder().load())
    assert drawn.lanes == []
    assert drawn.span == 0


def test_evidence_is_found_at_absolute_times() -> None:
    trace = load(str(SINS))
    report = explain(trace)
    drawn = timeline(trace, report)
    slices = all_slices(drawn)
    base = int(drawn.base_ns) - (trace.base_ns or 0)
    assert len(report.findings) == len(drawn.evidence) > 0
    for finding, found in zip(report.findings, drawn.evidence, strict=True):
        for row, slice_ in zip(finding.evidence, found, strict=True):
            name, start, dur = slices[slice_]
            assert name == row.name
            assert start + base == pytest.approx(row.ts_us * 1000, abs=1)
            assert dur == pytest.approx(row.dur_us * 1000, abs=1)


def test_a_small_budget_keeps_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "BUDGET", 6000)
    trace = load(str(SINS))
    report = explain(trace)
    drawn = timeline(trace, report)
    assert drawn.kept < drawn.slices == len(trace)
    # Above the budget come only the launches of what is kept, and the ops around it.
    assert drawn.kept < 1.5 * 6000
    assert all(slice_ >= 0 for found in drawn.evidence for slice_ in found)
    assert all(lane.levels for lane in drawn.lanes if len(lane.start) < lane.total)
    links = next(lane.links for lane in drawn.lanes if lane.kind == "gpu")
    assert links is not None
    assert 0 not in links.call
    # Where it says that everything is here, it is.
    kept = all_slices(drawn)
    base = int(drawn.base_ns) - (trace.base_ns or 0)
    shown = not_frames(trace)
    for begin, end in drawn.full:
        inside = (trace.ts - base < end) & (trace.end - base > begin) & shown
        assert int(inside.sum()) == sum(start < end and start + dur > begin for _, start, dur in kept)


def test_every_slice_of_a_small_trace_is_there() -> None:
    trace = load(str(SINS))
    drawn = picture(trace)
    kept = sorted((name, start, dur) for name, start, dur in all_slices(drawn))
    base = int(trace.ts[0])
    wanted = sorted(zip([trace.strings[i] for i in trace.name], (trace.ts - base).tolist(), trace.dur.tolist(), strict=True))
    assert kept == wanted
    assert np.isin([lane.kind for lane in drawn.lanes], ["gpu", "marks", "ops"]).all()
