"""Reading a part of a trace: some steps, or a time."""

from __future__ import annotations

import io

import pytest

import lanewise
from builder import TraceBuilder, note_ids
from lanewise.analyses.coverage import idle_ns
from lanewise.analyses.steps import steps
from lanewise.analyses.tables import kernel_table, op_table
from lanewise.errors import UsageError
from lanewise.loading.window import Moment, Window, window_of
from places import SHARED


def three_steps() -> TraceBuilder:
    """Three steps of 100 us from 1000 on; the GPU runs half a step late, so that work of each runs into the next."""
    t = TraceBuilder()
    t.op("before", 900, 50)
    for i in range(3):
        begin = 1000 + 100 * i
        t.step(i + 1, begin, 100)
        t.op(f"op{i + 1}", begin + 10, 40, **{"Sequence number": i})
        t.launch(begin + 20, 5, gpu=(begin + 70, 80), name=f"kernel{i + 1}")
    t.op("after", 1350, 10)
    return t


def names(trace: lanewise.Trace) -> list[str]:
    return [trace.name_of(i) for i in range(len(trace))]


def test_no_texts_are_no_window() -> None:
    assert window_of() is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("3", (3, 3)), ("3-5", (3, 5)), (" 3 .. 5 ", (3, 5)), ("0:2", (0, 2))],
)
def test_steps_are_a_number_or_a_range(text: str, wanted: tuple[int, int]) -> None:
    assert window_of(steps=text) == Window(steps=wanted)


@pytest.mark.parametrize(
    ("text", "ns", "absolute"),
    [
        ("1500", 1_500_000, False),
        ("1.5ms", 1_500_000, False),
        ("0.25 s", 250_000_000, False),
        ("12us", 12_000, False),
        ("7µs", 7_000, False),
        # A double would round this to a quarter of a microsecond.
        ("@1712195495505582.988", 1_712_195_495_505_582_988, True),
    ],
)
def test_times_are_exact(text: str, ns: int, absolute: bool) -> None:
    assert window_of(begin=text) == Window(begin=Moment(ns, absolute))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": "x"}, "not a step"),
        ({"steps": "5-3"}, "Write 3-5"),
        ({"begin": "soon"}, "not a time"),
        ({"begin": "5 parsecs"}, "not a time"),
        ({"steps": "3", "end": "5"}, "cannot be combined"),
    ],
)
def test_unreadable_windows_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        window_of(**options)


def test_a_step_is_its_cpu_work_and_what_it_launched() -> None:
    trace = three_steps().load(window=window_of(steps="2"))
    found = trace.analysis(steps)
    assert found.index.tolist() == [2]
    assert set(names(trace)) == {"ProfilerStep#2", "op2", "cudaLaunchKernel", "kernel2", "kernel1"}
    assert found.kernels.tolist() == [1]
    assert "window" in note_ids(trace)


def test_work_of_earlier_calls_keeps_step_time_and_idle_time_right() -> None:
    whole, part = three_steps().load(), three_steps().load(window=window_of(steps="2"))
    assert part.analysis(steps).time_ns.tolist() == [whole.analysis(steps).time_ns[1]]
    # From 1100 to 1150 kernel1 still runs, from 1150 to 1170 nothing does, then kernel2 up to 1250.
    assert idle_ns(part, 0) == 20_000


def test_earlier_work_can_be_left_out() -> None:
    window = window_of(steps="2")
    assert window is not None
    trace = three_steps().load(window=Window(steps=window.steps, earlier=False))
    assert [r.name for r in kernel_table(trace)] == ["kernel2"]


def test_several_steps() -> None:
    found = three_steps().load(window=window_of(steps="2-3")).analysis(steps)
    assert found.index.tolist() == [2, 3]
    assert found.launches.tolist() == [1, 1]


def test_times_count_from_the_first_event() -> None:
    # The first event is at 900: 100 to 200 after it is the first step.
    trace = three_steps().load(window=window_of(begin="100", end="200"))
    assert {"ProfilerStep#1", "op1", "kernel1"} <= set(names(trace))
    assert not {"before", "op2", "kernel2", "ProfilerStep#2"} & set(names(trace))


def test_absolute_times_are_those_of_the_file() -> None:
    relative = three_steps().load(window=window_of(begin="100", end="200"))
    absolute = three_steps().load(window=window_of(begin="@1000", end="@1100"))
    assert names(relative) == names(absolute)


def test_a_step_that_the_window_cuts_is_no_step() -> None:
    trace = three_steps().load(window=window_of(begin="@1050", end="@1250"))
    assert trace.analysis(steps).index.tolist() == [2]
    assert {r.name for r in op_table(trace) if r.name.startswith("op")} == {"op2", "op3"}


def test_one_end_is_enough() -> None:
    assert "before" not in names(three_steps().load(window=window_of(begin="@1000")))
    assert "after" not in names(three_steps().load(window=window_of(end="@1300")))


def test_repeated_annotations_are_steps_too() -> None:
    t = TraceBuilder()
    for i in range(3):
        t.annotation(f"iteration {i}", 100 * i, 100)
        t.op("aten::add", 100 * i + 10, 20)
    trace = t.load(window=window_of(steps="1"))
    assert sorted(names(trace)) == ["aten::add", "iteration 1"]


def test_marks_of_one_name_are_told_apart_by_their_time() -> None:
    t = TraceBuilder()
    for i in range(4):
        t.annotation("train_step", 100 * i, 100)
    trace = t.load(window=window_of(steps="1-2"))
    assert (trace.ts // 1000).tolist() == [100, 200]


def test_strays_at_zero_do_not_move_the_start() -> None:
    t = TraceBuilder()
    t.op("stray", 0, 1)
    for i in range(3):
        t.op(f"op{i}", 5_000_000_000 + 100 * i, 50)
    assert names(t.load(window=window_of(begin="100", end="150"))) == ["op1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": "7"}, "It has steps 1-3"),
        ({"steps": "2-4"}, "It has steps 1-3"),
        ({"begin": "300", "end": "200"}, "ends before it begins"),
        ({"begin": "5000"}, "lies outside"),
        ({"end": "@10"}, "lies outside"),
        ({"begin": "@5", "end": "@10"}, "lies outside"),
    ],
)
def test_windows_that_the_trace_does_not_have_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        three_steps().load(window=window_of(**options))


def test_steps_of_a_trace_without_marks_are_refused() -> None:
    t = TraceBuilder()
    t.op("aten::add", 0, 1)
    with pytest.raises(UsageError, match="no step marks"):
        t.load(window=window_of(steps="1"))


def test_what_cannot_be_read_twice_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(UsageError, match="two readings"):
        lanewise.load(Pipe(three_steps().text().encode()), window=window_of(steps="1"))
    with pytest.raises(UsageError, match="standard input"):
        lanewise.load("-", window=window_of(steps="1"))


def test_a_file_object_is_read_again_from_where_it_stood() -> None:
    stream = io.BytesIO(b"junk" + three_steps().text().encode())
    stream.seek(4)
    assert lanewise.load(stream, window=window_of(steps="1")).analysis(steps).index.tolist() == [1]


@pytest.mark.shared
@pytest.mark.parametrize(
    "path",
    [
        "h200/05_gpt_train/sins_eager.json.gz",
        "h200/01_matmul_add/4096_bf16_20steps_eager.json.gz",
        "planted/sdpa_math_backend/bad.json.gz",
        "public/HolisticTraceAnalysis__ns_resolution_rank-0.json.gz",
        "public/kineto__resnet50_nw0.1623143089861.json.gz",
    ],
)
def test_a_step_of_a_real_trace_reads_the_same_alone(path: str) -> None:
    source = SHARED / "traces" / path
    found = lanewise.load(source, processes=0).analysis(steps)
    i = len(found) // 2
    alone = lanewise.load(source, processes=0, window=Window(steps=(int(found.index[i]),) * 2)).analysis(steps)
    for column in ("index", "wall_ns", "gpu_busy_ns", "kernels", "copies", "memsets", "launches", "end"):
        assert getattr(alone, column).tolist() == [getattr(found, column)[i]], column
