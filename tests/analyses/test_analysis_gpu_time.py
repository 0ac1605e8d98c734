"""GPU time against sets of whole nanoseconds, and the cases in which a plain sum or a naive union goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanewise
from builder import TraceBuilder, note_ids
from lanewise.analyses.coverage import idle_ns, idle_window
from lanewise.analyses.gpu_time import KINDS, device_times, gpu_op_times

_KINDS = {
    "compute": ("kernel", "sgemm"),
    "communication": ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "copy": ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
    "memset": ("gpu_memset", "Memset (Device)"),
}


@dataclass(frozen=True)
class Op:
    ts: int
    dur: int
    kind: str
    stream: int
    device: int

    @property
    def moments(self) -> set[int]:
        return set(range(self.ts, self.ts + self.dur))


OPS = st.lists(
    st.builds(Op, st.integers(0, 60), st.integers(0, 15), st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 1)),
    min_size=1,
    max_size=20,
)


def _moments(ops: list[Op]) -> set[int]:
    return set().union(*(o.moments for o in ops)) if ops else set()


@given(OPS)
def test_devices(ops: list[Op]) -> None:
    t = TraceBuilder()
    for i, op in enumerate(ops):
        category, name = _KINDS[op.kind]
        t.call("cudaLaunchKernel", op.ts / 1000, 0, i + 1)
        t.gpu(name, op.ts / 1000, op.dur / 1000, i + 1, cat=category, stream=op.stream, device=op.device)
    trace = t.load()
    found = {d.device: d for d in trace.analysis(device_times)}
    assert set(found) == {o.device for o in ops}
    window = trace.analysis(idle_window)
    assert window is not None
    for device, d in found.items():
        mine = [o for o in ops if o.device == device]
        assert d.ops == len(mine)
        assert d.busy_ns == len(_moments(mine))
        assert d.sum_ns == sum(o.dur for o in mine)
        by_kind = {kind: _moments([o for o in mine if o.kind == kind]) for kind in KINDS}
        assert d.by_kind == {kind: len(m) for kind, m in by_kind.items()}
        assert d.exposed_communication_ns == len(by_kind["communication"] - by_kind["compute"])
        streams = {s: [o for o in mine if o.stream == s] for s in {o.stream for o in mine}}
        assert {s.stream: (s.ops, s.busy_ns) for s in d.streams} == {s: (len(m), len(_moments(m))) for s, m in streams.items()}
        assert [s.busy_ns for s in d.streams] == sorted((s.busy_ns for s in d.streams), reverse=True)
        idle = idle_ns(trace, device)
        assert idle is not None
        assert idle + len(_moments(mine) & set(range(*window))) == window[1] - window[0]


def test_an_op_that_contains_later_ops_of_its_stream() -> None:
    t = TraceBuilder()
    t.launch(0, 1, gpu=(10, 200_000))  # 200 ms, and two more ops of the stream begin within
    t.launch(2, 1, gpu=(110, 50))
    t.launch(4, 1, gpu=(300, 50))
    t.launch(6, 1, gpu=(50_000, 150_000), stream=9)  # as long, but alone on its stream
    trace = t.load()
    ops = trace.analysis(gpu_op_times)
    assert ops.impossible.tolist() == [0]
    assert (ops.end - ops.ts).tolist() == [100_000, 50_000, 50_000, 150_000_000]
    device = trace.analysis(device_times)[0]
    assert device.sum_ns == 150_200_000
    assert {s.stream: s.busy_ns for s in device.streams} == {9: 150_000_000, 7: 200_000}
    warning = next(w for w in lanewise.explain(trace).trace.warnings if w.id == "impossible-duration")
    assert "200 ms" in warning.text


def test_what_begins_with_an_impossible_op_does_not_hide_that_it_is_one() -> None:
    t = TraceBuilder()
    t.launch(0, 1, gpu=(10, 200_000))
    t.launch(2, 1, gpu=(10, 5))
    t.launch(4, 1, gpu=(300, 50))
    trace = t.load()
    ops = trace.analysis(gpu_op_times)
    assert (ops.end - ops.ts).tolist() == [290_000, 5000, 50_000]
    assert lanewise.explain(trace).trace.span_us == 350  # a false end is not the trace's end either


def test_an_op_that_contains_one_behind_a_straddling_op() -> None:
    t = TraceBuilder()
    t.launch(0, 1, gpu=(10, 200_000))
    t.launch(2, 1, gpu=(150_000, 90_000))  # begins within, ends after
    t.launch(4, 1, gpu=(160_000, 5))
    assert t.load().analysis(gpu_op_times).impossible.tolist() == [0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((10, 99_000), (50, 5)),  # contained, but below 100 ms: records of one stream overlap a little
        ((10, 200_000), (200_010, 5)),  # back to back
        ((10, 200_000), (100, 300_000)),  # straddles: programmatic dependent launch
        ((10, 200_000), (10, 5)),  # both begin at once
    ],
)
def test_durations_that_are_possible(first: tuple[int, int], second: tuple[int, int]) -> None:
    t = TraceBuilder()
    t.launch(0, 1, gpu=first)
    t.launch(2, 1, gpu=second)
    trace = t.load()
    assert trace.analysis(gpu_op_times).impossible.tolist() == []
    assert trace.analysis(device_times)[0].sum_ns == (first[1] + second[1]) * 1000


def test_many_streams_take_little_time() -> None:
    t = TraceBuilder()
    for i in range(5000):
        t.launch(i, 0.5, gpu=(i + 0.1, 0.5), stream=i, device=i % 50)
    assert len(t.load().analysis(device_times)) == 50


def test_communication_on_the_host_is_none_on_the_gpu() -> None:
    t = TraceBuilder()
    t.annotation("nccl:all_reduce", 0, 100)
    t.launch(10, 5, gpu=(30, 20))
    t.gpu("nccl:all_reduce", 30, 500, cat="gpu_user_annotation")
    device = t.load().analysis(device_times)[0]
    assert device.by_kind["communication"] == 0
    assert device.busy_ns == 20_000


def test_lane_skew_is_noted() -> None:
    t = TraceBuilder()
    t.launch(100, 5, gpu=(40, 20))
    t.launch(200, 5, gpu=(230, 20))
    report = lanewise.explain(t.load())
    skew = next(w for w in report.trace.warnings if w.id == "lane-skew")
    assert skew.text.startswith("1 GPU op ")
    assert "60.0 µs" in skew.text
    assert note_ids(t.load()) == ["integer-times"]
