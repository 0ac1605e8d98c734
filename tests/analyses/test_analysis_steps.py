"""Steps: what marks them, what belongs to them, and what each adds to the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanewise
from builder import TraceBuilder
from lanewise.analyses.steps import steps


def _us(values: object) -> list[float]:
    return [v / 1000 for v in values]  # type: ignore[attr-defined]


def test_a_step_costs_from_the_end_of_the_one_before_to_its_own_end() -> None:
    t = TraceBuilder()
    for i in range(3):
        t.step(i, i * 10, 8)  # the CPU needs 8 us
        t.launch(i * 10 + 1, 2, gpu=(i * 100 + 5, 100))  # the GPU 100
    found = t.load().analysis(steps)
    assert _us(found.wall_ns) == [8, 8, 8]
    assert _us(found.end) == [105, 205, 305]
    assert _us(found.time_ns) == [105, 100, 100]
    assert _us(found.gpu_busy_ns) == [100, 100, 100]


def test_the_first_step_counts_from_the_end_of_earlier_gpu_work() -> None:
    t = TraceBuilder()
    t.launch(0, 2, gpu=(5, 40))  # before the first step, and still running when it begins
    t.step(1, 10, 8)
    t.launch(11, 2, gpu=(45, 30))
    t.step(2, 20, 8)
    t.launch(21, 2, gpu=(75, 30))
    assert _us(t.load().analysis(steps).time_ns) == [30, 30]


def test_gpu_work_belongs_to_the_step_that_launched_it() -> None:
    t = TraceBuilder()
    t.step(1, 0, 100)
    t.launch(10, 5, gpu=(150, 30))  # runs during step 2
    t.launch(20, 5, gpu=(180, 5), cat="gpu_memcpy", name="Memcpy HtoD", call="cudaMemcpyAsync")
    t.step(2, 110, 100)
    t.launch(120, 5, gpu=(190, 2), cat="gpu_memset", name="Memset (Device)", call="cudaMemsetAsync")
    t.launch(230, 5, gpu=(240, 5))  # after the last step
    found = t.load().analysis(steps)
    assert found.kernels.tolist() == [1, 0]
    assert found.copies.tolist() == [1, 0]
    assert found.memsets.tolist() == [0, 1]
    assert found.launches.tolist() == [2, 1]
    assert found.gpu_step.tolist() == [0, 0, 1, -1]
    assert _us(found.gpu_busy_ns) == [35, 2]


def test_warmup_work_that_spills_into_the_window_belongs_to_no_step() -> None:
    t = TraceBuilder()
    t.gpu("k", 5, 40, 900)  # its launch is not recorded
    t.step(1, 10, 50)
    t.launch(11, 2, gpu=(45, 30))
    found = t.load().analysis(steps)
    assert found.gpu_ops.tolist() == [1]


def test_a_step_that_launched_and_shows_nothing_and_one_that_launched_nothing() -> None:
    t = TraceBuilder()
    t.step(1, 0, 50)
    t.launch(10, 5, gpu=(20, 5))
    t.step(2, 60, 50)
    t.call("cudaLaunchKernel", 70, 5, 99)
    t.step(3, 120, 50)
    report = lanewise.explain(t.load())
    assert [s.gpu_busy_us for s in report.steps] == [5.0, None, 0.0]
    assert report.coverage.gpu_timing == "partial"
    assert report.gpu[0].idle_us is None
    assert "steps-without-gpu" in {w.id for w in report.trace.warnings}


@pytest.mark.parametrize(
    ("names", "marks"),
    [
        (["ProfilerStep#1", "ProfilerStep#2"], "ProfilerStep"),
        (["ProfilerStep#7"], "ProfilerStep"),
        (["step[1]", "step[2]"], "annotation"),
        (["execute_context_1(8)_generation_0(0)", "execute_context_0(0)_generation_1(1)"], "annotation"),
        (["iteration 1", "iteration 2"], "annotation"),
        (["step[1]"], None),
        (["train_step", "train_step"], "annotation"),
        (["forward", "backward"], None),
        (["stepping stone", "stepping stone"], None),
        ([], None),
    ],
)
def test_what_marks_steps(names: list[str], marks: str | None) -> None:
    t = TraceBuilder()
    t.launch(1, 2, gpu=(5, 2))
    for i, name in enumerate(names):
        t.annotation(name, i * 100, 90)
    found = t.load().analysis(steps)
    assert found.marks == marks
    assert len(found) == (len(names) if marks else 0)
    report = lanewise.explain(t.load())
    assert ("steps" in report.trace.capabilities) is (marks is not None)
    if marks is None:
        assert report.step.time_us is None
        assert report.step.source is None


def test_marks_inside_one_another_are_no_sequence() -> None:
    t = TraceBuilder()
    t.annotation("step[0]", 0, 100)
    t.annotation("step[1]", 10, 20)
    assert t.load().analysis(steps).marks is None


def test_marks_on_the_gpu_lane_and_on_other_threads_are_not_counted_twice() -> None:
    t = TraceBuilder()
    for i in range(3):
        t.step(i, i * 100, 90)
        t.gpu(f"ProfilerStep#{i}", i * 100 + 5, 90, cat="gpu_user_annotation")
    t.step(0, 0, 90, tid=2)
    assert len(t.load().analysis(steps)) == 3


@pytest.mark.parametrize("number", ["99999999999999999999999", "0", "000012"])
def test_numbers_of_steps(number: str) -> None:
    t = TraceBuilder()
    t.annotation(f"ProfilerStep#{number}", 0, 90)
    assert t.load().analysis(steps).index.tolist() == [int(number) if len(number) < 10 else 0]


def test_the_time_outside_the_profiler_counts_where_the_recorder_left_it() -> None:
    def section(own: object) -> lanewise.Report:
        t = TraceBuilder(header={"lanewise": own})
        t.step(1, 0, 50)
        t.step(2, 60, 50)
        return lanewise.explain(t.load())

    step = section({"schema": "lanewise.recording/1", "unprofiled_step_us": {"median": 31.25, "steps": 20}}).step
    assert (step.time_us, step.source, step.profiled_time_us, step.unprofiled_steps) == (31.25, "unprofiled", 55.0, 20)
    odd: list[object] = [None, [], {}, {"unprofiled_step_us": 5}]
    odd += [{"unprofiled_step_us": {"median": median}} for median in (True, -1, None, "5", [5], 10**400)]
    for own in odd:
        step = section(own).step
        assert (step.time_us, step.source) == (55.0, "profiled")


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(0, 30), st.lists(st.integers(0, 80), max_size=4)), min_size=1, max_size=8
    )
)
def test_times_add_up_to_the_run(shape: list[tuple[int, int, list[int]]]) -> None:
    """Steps of any length, with any GPU work: what they add up to is the time from the first start to the last end."""
    t = TraceBuilder()
    at = gpu = 0
    for number, (wall, pause, work) in enumerate(shape):
        t.step(number, at, wall)
        for dur in work:
            gpu = max(gpu, at) + dur
            t.launch(at, 0, gpu=(gpu - dur, dur))
        at += wall + pause
    found = t.load().analysis(steps)
    assert (found.time_ns >= 0).all()
    assert found.time_ns.sum() == found.end.max() - found.start[0]
    assert found.gpu_ops.sum() == found.launches.sum() == sum(len(work) for _, _, work in shape)
    assert (found.gpu_busy_ns <= found.end - found.start).all()


def test_unlinked_work_of_a_later_step_is_not_taken_for_earlier_work() -> None:
    t = TraceBuilder()
    t.step(1, 0, 100)
    t.launch(10, 5, gpu=(20, 30))
    t.step(2, 100, 100)
    t.launch(110, 5, gpu=(120, 30))
    t.call("hipLaunchKernel", 150, 5, 0)
    t.gpu("ncclDevKernel_AllReduce", 160, 10, 0, stream=9)  # 0 identifies nothing
    t.gpu("lost", 155, 10, 999)  # behind work of the steps on its own stream: its call was lost
    assert _us(t.load().analysis(steps).time_ns) == [100, 100]


def test_of_overlapping_steps_the_last_begun_has_the_work() -> None:
    t = TraceBuilder()
    t.step(1, 0, 100)
    t.step(2, 20, 20)
    t.step(3, 30, 40)
    for at in (10, 25, 35, 60, 80, 120):
        t.launch(at, 2, gpu=(at + 3, 1))
    assert t.load().analysis(steps).launch_step.tolist() == [0, 1, 2, 2, 0, -1]


def test_copies_of_marks_that_lost_their_durations_do_not_count() -> None:
    t = TraceBuilder()
    t.span("user_annotation", "ProfilerStep#1", 0, None, 100, 2)
    t.span("user_annotation", "ProfilerStep#2", 50, None, 100, 2)
    t.step(1, 0, 50)
    t.step(2, 50, 50)
    assert _us(t.load().analysis(steps).wall_ns) == [50, 50]
