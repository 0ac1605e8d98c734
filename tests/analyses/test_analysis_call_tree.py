"""The call tree: who encloses whom, and whose time is whose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builder import TraceBuilder
from lanewise.analyses.call_tree import full_tree, op_tree, self_times
from lanewise.analyses.tables import op_table, op_times
from lanewise.model.nesting import Nesting
from lanewise.model.trace import Trace


@dataclass(frozen=True)
class Span:
    ts: int
    dur: int
    tid: int
    cat: str
    name: str


_CATEGORIES = ("cpu_op", "user_annotation", "cuda_runtime")
SPANS = st.lists(
    st.builds(
        Span,
        st.integers(0, 25),
        st.sampled_from([0, 1, 3, 8, 20]),
        st.integers(1, 2),
        st.sampled_from(_CATEGORIES),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=18,
)


def _load(spans: list[Span], unit_us: int = 1) -> Trace:
    t = TraceBuilder()
    for s in spans:
        t.span(s.cat, s.name, s.ts * unit_us, s.dur * unit_us, 100, s.tid)
    return t.load()


def _children(tree: Nesting) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {k: [] for k in range(len(tree.events))}
    for k, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            out[parent].append(k)
    return out


@given(SPANS, st.sampled_from([1, 10**12]))
def test_self_times(spans: list[Span], unit_us: int) -> None:
    """Self time is what no direct child covers."""
    trace = _load(spans, unit_us)
    tree = trace.analysis(op_tree)
    own = self_times(trace, tree)
    moments = [set(range(int(trace.ts[e]), int(trace.end[e]), unit_us * 1000)) for e in tree.events]
    for k, children in _children(tree).items():
        covered = set().union(*(moments[c] for c in children)) if children else set()
        assert own[k] == len(moments[k] - covered) * unit_us * 1000


def test_self_times_of_long_runs() -> None:
    """A thousand parents with overlapping children, each 300 days long: laid end to end they exceed 64 bits."""
    day = 86_400 * 1_000_000
    t = TraceBuilder()
    for tid in range(1000):
        t.op("outer", 0, 300 * day, tid=tid)
        t.call("cudaLaunchKernel", 3 * day, 180 * day, tid=tid)
        t.call("cudaLaunchKernel", 150 * day, 120 * day, tid=tid)
    trace = t.load()
    own = {r.name: r.cpu_self_ns / r.count for r in op_table(trace)}
    assert own == {"outer": 33 * day * 1000}


@given(SPANS)
def test_self_times_sum_to_what_the_roots_last(spans: list[Span]) -> None:
    trace = _load(spans)
    tree = trace.analysis(op_tree)
    # Where no child outlives another's start, nothing is counted twice.
    nested = all(
        not (trace.ts[a] < trace.ts[b] < trace.end[a] < trace.end[b])
        for a in tree.events
        for b in tree.events
        if trace.lane[a] == trace.lane[b]
    )
    if nested:
        roots = tree.events[tree.parent < 0]
        assert self_times(trace, tree).sum() == trace.dur[roots].sum()


@given(SPANS)
def test_outermost(spans: list[Span]) -> None:
    """An op counts in the totals of its row unless one of the same row is around it."""
    trace = _load(spans)
    tree, times = trace.analysis(op_tree), trace.analysis(op_times)
    place = {int(e): k for k, e in enumerate(tree.events)}
    expected = []
    for event in times.event.tolist():
        k, around = place[event], []
        while tree.parent[k] >= 0:
            k = int(tree.parent[k])
            around.append(int(tree.events[k]))
        row = (trace.name[event], trace.category[event])
        expected.append(all((trace.name[a], trace.category[a]) != row for a in around))
    assert times.outermost.tolist() == expected


def _parents(trace: Trace, tree: Nesting) -> dict[str, str | None]:
    names = [trace.name_of(int(e)) for e in tree.events]
    return {name: None if p < 0 else names[p] for name, p in zip(names, tree.parent.tolist(), strict=True)}


def test_events_of_the_same_time_nest_by_what_they_are() -> None:
    t = TraceBuilder()
    for category in ("cuda_driver", "cuda_runtime", "cpu_op", "python_function", "user_annotation"):
        t.span(category, category, 0, 50, 100, 1)
    trace = t.load()
    assert _parents(trace, trace.analysis(full_tree)) == {
        "user_annotation": None,
        "python_function": "user_annotation",
        "cpu_op": "python_function",
        "cuda_runtime": "cpu_op",
        "cuda_driver": "cuda_runtime",
    }
    assert _parents(trace, trace.analysis(op_tree))["cpu_op"] == "user_annotation"


def test_ops_of_the_same_time_nest_as_they_were_opened_whatever_their_order_in_the_file() -> None:
    t = TraceBuilder()
    for name, number in (("aten::copy_", 7), ("aten::to", 5), ("aten::_to_copy", 6)):
        t.op(name, 0, 2, **{"External id": number})
    trace = t.load()
    assert _parents(trace, trace.analysis(op_tree)) == {
        "aten::to": None,
        "aten::_to_copy": "aten::to",
        "aten::copy_": "aten::_to_copy",
    }


def test_zero_and_missing_durations() -> None:
    t = TraceBuilder()
    t.op("outer", 0, 50)
    t.op("instant at the start", 0, 0)
    t.op("instant within", 20, 0)
    t.op("instant at the end", 50, 0)
    t.span("cpu_op", "without a duration", 30, None, 100, 1)
    trace = t.load()
    parents = _parents(trace, trace.analysis(op_tree))
    assert parents["instant at the start"] == parents["instant within"] == parents["without a duration"] == "outer"
    assert parents["instant at the end"] is None
    row = next(r for r in op_table(trace) if r.name == "outer")
    assert row.cpu_self_ns == 50_000


def test_a_call_that_outlives_its_op() -> None:
    t = TraceBuilder()
    t.op("outer", 0, 100)
    t.op("small", 10, 5)
    t.call("cudaLaunchKernel", 12, 5, 1)
    trace = t.load()
    assert _parents(trace, trace.analysis(op_tree)) == {"outer": None, "small": "outer", "cudaLaunchKernel": "outer"}
    assert {r.name: r.cpu_self_ns for r in op_table(trace)} == {"outer": 93_000, "small": 5000}


def test_threads_are_apart() -> None:
    t = TraceBuilder()
    t.op("one", 0, 100, tid=1)
    t.op("two", 10, 5, tid=2)
    trace = t.load()
    assert _parents(trace, trace.analysis(op_tree)) == {"one": None, "two": None}


def test_profiler_overhead_is_nobodys_self_time() -> None:
    t = TraceBuilder()
    t.span("overhead", "Activity Buffer Request", 0, 10, -1, 0)
    t.op("outer", 0, 100)
    t.span("overhead", "Activity Buffer Request", 10, 20, -1, 0)
    t.op("elsewhere", 200, 10)
    t.op("elsewhere on another thread", 195, 50, tid=2)
    t.span("overhead", "Activity Buffer Request", 202, 5, -1, 0)  # which thread it was on cannot be told
    trace = t.load()
    own = {r.name: r.cpu_self_ns for r in op_table(trace)}
    assert own == {"outer": 70_000, "elsewhere": 10_000, "elsewhere on another thread": 50_000}


def test_an_op_inside_an_annotation_of_its_name() -> None:
    t = TraceBuilder()
    t.annotation("linear", 0, 100)
    t.op("linear", 10, 50)
    t.op("linear", 20, 10)
    t.launch(22, 2, gpu=(200, 7))
    rows = {r.cat: r for r in op_table(t.load())}
    assert (rows["user_annotation"].count, rows["user_annotation"].cpu_total_ns, rows["user_annotation"].gpu_total_ns) == (
        1,
        100_000,
        7000,
    )
    assert (rows["cpu_op"].count, rows["cpu_op"].cpu_total_ns, rows["cpu_op"].gpu_total_ns) == (2, 50_000, 7000)


def test_deep_stacks_take_little_time() -> None:
    t = TraceBuilder()
    for i in range(3000):
        t.op("aten::nested", i, 10_000 - 2 * i)
    trace = t.load()
    tree = trace.analysis(op_tree)
    assert tree.depth.max() == 2999
    assert op_table(trace)[0].cpu_total_ns == 10_000_000
    assert np.all(self_times(trace, tree) >= 0)
