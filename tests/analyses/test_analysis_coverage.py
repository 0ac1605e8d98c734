"""Coverage before claims: idle time is reported only where the trace shows the GPU's work."""

from __future__ import annotations

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.analyses.coverage import coverage, coverage_notes, idle_window
from lanewise.analyses.graph_replays import short_replays


def _run(recorded: int, missing: int, *, call: str = "cudaLaunchKernel", cat: str = "kernel") -> TraceBuilder:
    t = TraceBuilder()
    for i in range(recorded):
        t.launch(i * 10, 2, gpu=(i * 10 + 3, 5), call=call, cat=cat)
    for i in range(missing):
        t.call(call, (recorded + i) * 10, 2, 100_000 + i)
    return t


@pytest.mark.parametrize(
    ("recorded", "missing", "timing"),
    [(100, 0, "ok"), (100, 1, "ok"), (99, 1, "ok"), (98, 2, "partial"), (0, 5, "none"), (0, 0, "none"), (1, 0, "ok")],
)
def test_gpu_timing(recorded: int, missing: int, timing: str) -> None:
    trace = _run(recorded, missing).load()
    c = trace.analysis(coverage)
    assert (c.launches, c.linked, c.gpu_timing) == (recorded + missing, recorded, timing)
    report = lanewise.explain(trace)
    assert all((row.idle_us is not None) is (timing == "ok") for row in report.gpu)
    ids = {w.id for w in report.trace.warnings}
    assert ("no-gpu-records" in ids) is (recorded == 0 and missing > 0)
    assert ("partial-gpu-records" in ids) is (timing == "partial")


def test_one_graph_launch_without_records_is_enough() -> None:
    t = _run(500, 0)
    t.call("cudaGraphLaunch", 6000, 5, 99_999)
    trace = t.load()
    assert trace.analysis(coverage).gpu_timing == "partial"
    note = next(n for n in coverage_notes(trace) if n.id == "graph-records-missing")
    assert note.text() == "1 of 1 graph launch without a GPU record: idle time is not known."


def test_copies_recorded_and_kernels_not() -> None:
    t = _run(3, 0, call="cudaMemcpyAsync", cat="gpu_memcpy")
    for i in range(20):
        t.call("cudaLaunchKernel", 500 + i * 10, 2, 200_000 + i)
    assert t.load().analysis(coverage).gpu_timing == "partial"


def test_idle_is_the_window_less_busy() -> None:
    t = TraceBuilder()
    t.launch(0, 2, gpu=(10, 20))
    t.launch(40, 2, gpu=(50, 25))
    trace = t.load()
    assert trace.analysis(idle_window) == (0, 75_000)
    assert lanewise.explain(trace).gpu[0].idle_us == 30.0


def test_the_window_is_the_steps_where_there_are_steps() -> None:
    t = TraceBuilder()
    t.launch(0, 2, gpu=(10, 20))
    t.step(1, 100, 50)
    t.launch(110, 2, gpu=(160, 30))
    t.launch(500, 2, gpu=(510, 30))
    report = lanewise.explain(t.load())
    assert (report.gpu[0].window_us, report.gpu[0].idle_us) == (90.0, 60.0)
    assert report.gpu[0].busy_us == 80.0


def test_what_the_profiler_took() -> None:
    t = _run(1, 0)
    t.span("overhead", "Activity Buffer Request", 100, 1500, -1, 0)
    t.span("overhead", "Instrumentation", 2000, 500, -1, 0)
    c = t.load().analysis(coverage)
    assert (c.overhead_ns, c.overhead_events) == (2_000_000, 2)


def test_cpu_only() -> None:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 50)
    report = lanewise.explain(t.load())
    assert report.coverage.gpu_timing == "none"
    assert report.gpu == []
    assert report.trace.devices == []
    assert "no-gpu-records" not in {w.id for w in report.trace.warnings}


def _replays(steps: list[list[str]], nodes: list[list[int]] | None = None, *, marked: bool = True) -> TraceBuilder:
    """Graph launches in steps; their kernels have one-letter names."""
    t, number = TraceBuilder(), 0
    for i, sequences in enumerate(steps):
        if marked:
            t.step(i, i * 1000, 990)
        for k, names in enumerate(sequences):
            number += 1
            t.call("cudaGraphLaunch", i * 1000 + k * 100, 5, number)
            for j, name in enumerate(names):
                more = {"graph node id": nodes[number - 1][j]} if nodes else {}
                t.gpu(name, i * 1000 + k * 100 + 10 + j * 5, 4, number, more=more)
    return t


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([["abcd"], ["abcd"], ["abcd"]], None),
        ([["abcd"], ["ab"], ["abcd"]], (1, 2, 4)),
        ([["abcd"], ["abcd"], ["a"], ["abc"], ["abcd"]], (2, 1, 4)),
        ([["abcd"], ["bcd"], ["abcd"]], None),  # another graph
        ([["abcd"], ["ab"]], None),  # which of them is whole cannot be told
        ([["abcd", "ab"], ["abcd", "ab"], ["abcd", "ab"]], None),  # two graphs, one of which begins as the other does
        ([["abcd", "ab"], ["abc", "ab"], ["abcd", "ab"]], (1, 3, 4)),
        ([["abcd"], ["ab", "abcd"], ["abcd"]], None),  # a step that does something else
    ],
)
def test_graph_replays_of_which_a_part_was_recorded(steps: list[list[str]], expected: tuple[int, int, int] | None) -> None:
    trace = _replays(steps).load()
    short = trace.analysis(short_replays)
    assert (None if short is None else (short.count, short.fewest, short.most)) == expected
    report = lanewise.explain(trace)
    assert report.coverage.gpu_timing == ("ok" if expected is None else "partial")
    assert ("graph-records-fewer" in {w.id for w in report.trace.warnings}) is (expected is not None)
    assert _replays(steps, marked=False).load().analysis(short_replays) is None


def test_graphs_are_told_by_their_nodes_where_those_are_recorded() -> None:
    # Replays of two graphs of the same kernels; one replay lacks its second node, another its first.
    nodes = [[1, 2, 3], [11, 12], [1, 3], [11, 12], [2, 3]]
    short = _replays([["abc", "ab", "ac", "ab", "bc"]], nodes, marked=False).load().analysis(short_replays)
    assert short is not None
    assert (short.count, short.fewest, short.most) == (2, 2, 3)
    assert _replays([["abc", "ab", "abc"]], [[1, 2, 3], [11, 12], [1, 2, 3]]).load().analysis(short_replays) is None
