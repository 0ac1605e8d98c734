"""data-starvation, allocator, launch-bound, python-overhead, gc-pause, cold-start, outlier-step."""

from __future__ import annotations

import pytest
from diagnosing import claim, diagnosis, finding, outcome, timed, truth
from host_traces import TO_GPU_PINNED, Body, Program, program

from builder import TraceBuilder

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def before(us: float, name: str | None = None, *, copy: bool = False, ops: int = 20) -> Body:
    """Steps that do nothing on the GPU at first, in an annotation where a name is given."""

    def step(p: Program) -> None:
        if name is not None:
            p.t.annotation(name, p.now, us)
        p.idle(us + 2)
        if copy:
            p.copy(1 << 20, 20, TO_GPU_PINNED, waits=False)
        p.ops(ops)

    return step


# ---- data-starvation
@pytest.mark.parametrize(
    ("name", "confidence", "words"),
    [(LOADER, "high", "num_workers=8"), (WORKERS, "high", "prefetch_factor"), (None, "low", "num_workers=8")],
)
def test_time_before_the_batch(name: str | None, confidence: str, words: str) -> None:
    f = finding(program(before(2000, name)), "data-starvation")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(2000, rel=0.01)
    assert f.confidence == confidence
    assert words in f.fix


def test_unnamed_time_before_a_copy_is_surer() -> None:
    f = finding(program(before(2000, copy=True)), "data-starvation")
    assert f is not None
    assert f.confidence == "medium"
    assert "aten::to copies to the GPU" in f.text


def fetching(us: float, name: str = WORKERS) -> Body:
    """Steps that fetch a batch so quickly, then take 440 us."""

    def step(p: Program) -> None:
        p.t.annotation(name, p.now, us)
        p.idle(us + 2)
        p.ops(20)

    return step


def test_workers_that_filled_their_queue_while_the_profiler_started() -> None:
    f = finding(timed(program(fetching(30)), 2000), "data-starvation")
    assert f is not None
    # Recorded, a step takes 475 us, of it 30 for the fetch, and 3 us for each of 61 events are the profiler's.
    assert f.saving_us_per_step == pytest.approx(2000 - 445 + 3 * 61, rel=0.05)
    assert "outside the recorded ones" in f.title
    assert f.confidence == "medium"
    # Nothing else may claim that time.
    assert sum(other.saving_us_per_step or 0 for other in diagnosis(timed(program(fetching(30)), 2000)).findings) <= 2000


@pytest.mark.parametrize(("name", "real_us"), [(WORKERS, 480), (WORKERS, 300), (LOADER, 2000)])
def test_what_the_recorded_steps_explain_is_no_hidden_wait(name: str, real_us: float) -> None:
    f = finding(timed(program(fetching(30, name)), real_us), "data-starvation")
    assert f is None or "outside the recorded ones" not in f.title


def test_loading_behind_a_busy_gpu_costs_nothing() -> None:
    def step(p: Program) -> None:
        p.t.annotation(LOADER, p.now, 1000)
        p.idle(1002)
        p.ops(20, gpu_us=200)

    # 4 ms of kernels a step; 1.4 ms of CPU time.
    f = finding(program(step), "data-starvation")
    assert f is None or (f.share_ratio or 0) < 0.02


@pytest.mark.parametrize(
    "body",
    [before(900), before(20, LOADER), before(1, LOADER)],
    ids=["unnamed, under 1 ms", "under 5 % of the step", "nothing"],
)
def test_data_in_time(body: Body) -> None:
    assert outcome(program(body), "data-starvation") == "clear"


def test_pause_in_one_step_is_no_loader() -> None:
    p = Program()
    for i in range(6):
        p.step(i, before(2000 if i == 3 else 10))
    assert outcome(p.t, "data-starvation") == "clear"


# ---- allocator
def allocating(calls: tuple[str, ...], *, inside: bool, steps: tuple[int, ...] = (0, 1, 2, 3)) -> TraceBuilder:
    p = Program()
    for i in range(4):

        def step(p: Program, i: int = i) -> None:
            p.ops(10)
            for name in calls if i in steps else ():
                if inside:
                    p.t.op("aten::empty", p.now, 110)
                p.t.call(name, p.now + 5, 100)
                p.now += 112
            p.ops(10)

        p.step(i, step)
    return p.t


def test_cache_emptied_in_every_step() -> None:
    f = finding(allocating(("cudaMalloc", "cudaFree", "cudaFree"), inside=False), "allocator")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(300, rel=0.02)
    assert "empty_cache" in f.fix
    assert f.title.startswith("2 frees and 1 allocations")


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (("cudaMalloc", "cudaMalloc"), "expandable_segments"),
        (("cudaMalloc", "cudaFree", "cudaMalloc"), "smaller batch"),
        (("cudaHostAlloc",), "once"),
        (("hipMalloc", "hipFree"), "smaller batch"),
    ],
)
def test_advice_by_kind_of_allocation(calls: tuple[str, ...], words: str) -> None:
    f = finding(allocating(calls, inside=True), "allocator")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(100 * len(calls), rel=0.03)
    assert words in f.fix


def test_growing_cache_at_the_start_is_fine() -> None:
    assert outcome(allocating(("cudaMalloc",), inside=True, steps=(0, 1)), "allocator") == "clear"
    assert outcome(allocating((), inside=True), "allocator") == "clear"
    assert outcome(allocating(("cudaMallocAsync",), inside=True), "allocator") == "clear"


# ---- launch-bound and python-overhead
def test_many_small_kernels() -> None:
    f = finding(program(lambda p: p.ops(50)), "launch-bound")
    assert f is not None
    # 50 ops of 22 us against 150 us of kernels: with one graph launch (10 us and 50 x 1 us) the GPU bounds the step.
    assert f.saving_us_per_step == pytest.approx(50 * 22 - 150, rel=0.02)
    assert f.title.startswith("50 launches per step")
    assert f.saving_low_us_per_step == pytest.approx(50 * 22 - 50 * 4, rel=0.05)  # a launch call of 4 us each stays


def test_graph_launch_costs_something() -> None:
    f = finding(program(lambda p: p.ops(50, gpu_us=0.5)), "launch-bound")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(50 * 22 - 60, rel=0.02)


@pytest.mark.parametrize("gpu_us", [22, 40])
def test_gpu_as_slow_as_the_launches(gpu_us: float) -> None:
    assert outcome(program(lambda p: p.ops(50, gpu_us=gpu_us)), "launch-bound") == "clear"


def test_work_from_graphs_is_not_launch_bound() -> None:
    def step(p: Program) -> None:
        for _ in range(5):
            p.op("aten::add", cpu_us=100)
        p.t.call("cudaGraphLaunch", p.now, 50, 7000 + int(p.now))
        for k in range(20):
            p.t.gpu("k", p.now + 60 + 2 * k, 1, 7000 + int(p.now))
        p.now += 60

    assert outcome(program(step), "launch-bound") == "clear"


def test_advice_names_the_waits() -> None:
    def step(p: Program) -> None:
        p.ops(30)
        p.read()

    f = finding(program(step), "launch-bound")
    assert f is not None
    assert "1 wait per step" in f.fix


def test_compiled_model_is_told_about_graphs() -> None:
    def step(p: Program) -> None:
        begin = p.now
        p.ops(30)
        p.t.op("Torch-Compiled Region: 0/0", begin, p.now - begin)

    f = finding(program(step), "launch-bound")
    assert f is not None
    assert f.fix.startswith("The model is compiled")


def test_python_between_ops() -> None:
    def step(p: Program) -> None:
        p.pause = 30
        p.ops(30)

    f = finding(program(step), "python-overhead")
    assert f is not None
    # 30 ops of 20 us, and 30 us of Python around each: more than launching.
    assert f.saving_us_per_step == pytest.approx(30 * 30, rel=0.05)
    assert "launch-bound" in f.folded


def test_usual_python_between_ops_is_a_part_of_launching() -> None:
    def step(p: Program) -> None:
        p.pause = 6
        p.ops(30)

    found = diagnosis(program(step))
    assert [f.id for f in found.findings if f.id in ("launch-bound", "python-overhead")] == ["launch-bound"]


def test_long_python_is_not_dispatch() -> None:
    def step(p: Program) -> None:
        p.ops(15)
        p.idle(3000)
        p.ops(15)

    found = {f.id: f for f in diagnosis(program(step)).findings}
    python = found["python-overhead"]
    assert python.saving_us_per_step == pytest.approx(3000, rel=0.03)
    assert "aten::add" in python.text
    assert "launch-bound" not in found or (found["launch-bound"].saving_us_per_step or 0) < 700


# ---- gc-pause
def test_collections_in_the_step() -> None:
    def step(p: Program) -> None:
        p.ops(20)
        p.t.frame("train.py(12): step", p.now, 500)
        p.t.frame("<built-in function collect>", p.now + 5, 450)
        p.now += 510

    f = finding(program(step), "gc-pause")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(450, rel=0.02)
    assert f.where == "train.py(12): step"


def test_collections_need_stacks() -> None:
    assert outcome(program(lambda p: p.ops(20)), "gc-pause") == "not-checked"


# ---- cold-start and outlier-step
def first_step(us: float, call: str) -> TraceBuilder:
    p = Program()
    for i in range(4):

        def step(p: Program, i: int = i) -> None:
            p.ops(10)
            p.t.call(call, p.now, us if i == 0 else 5)
            p.now += us if i == 0 else 5

        p.step(i, step)
    return p.t


def test_first_step_that_loads_code() -> None:
    f = finding(first_step(5000, "cuModuleLoadData"), "cold-start")
    assert f is not None
    assert f.saving_us_per_step is None
    assert "cuModuleLoadData" in f.text
    assert outcome(first_step(20, "cuModuleLoadData"), "cold-start") == "clear"
    # Slower, but for no reason that the trace shows.
    assert outcome(first_step(5000, "cudaGetDevice"), "cold-start") == "clear"


def outlier(kind: str, steps: int = 8) -> TraceBuilder:
    p = Program()
    for i in range(steps):

        def step(p: Program, odd: bool = i == 5) -> None:
            p.ops(10, gpu_us=60 if odd and kind == "clocks" else 25)
            if odd and kind == "allocation":
                p.t.call("cudaMalloc", p.now, 2000)
                p.now += 2000
            if odd and kind == "python":
                p.idle(2000)

        p.step(i, step)
    return p.t


@pytest.mark.parametrize(
    ("kind", "words"),
    [("clocks", "2.40 times as long"), ("allocation", "cudaMalloc"), ("python", "nothing was recorded")],
)
def test_step_that_stands_out_is_explained(kind: str, words: str) -> None:
    f = finding(outlier(kind), "outlier-step")
    assert f is not None
    assert f.title.startswith("Step 5 takes")
    assert words in f.text


def test_equal_steps_and_few_steps() -> None:
    assert outcome(outlier("none"), "outlier-step") == "clear"
    assert outcome(outlier("none", steps=4), "outlier-step") == "not-checked"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("slow_loader", "data-starvation"),
        ("allocator_thrash", "allocator"),
        ("launch_bound_small_layers", "launch-bound"),
        ("launch_bound_decode", "launch-bound"),
    ],
)
def test_planted(case: str, rule: str) -> None:
    assert claim(case, "bad", rule) == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", rule) < 0.05


@pytest.mark.shared
@pytest.mark.parametrize("case", ["nothing_wrong_gemm", "nothing_wrong_train", "nothing_wrong_compiled"])
def test_healthy(case: str) -> None:
    for rule in (
        "launch-bound",
        "host-sync",
        "data-starvation",
        "python-overhead",
        "allocator",
        "small-copies",
        "pageable-copy",
    ):
        assert claim(case, "bad", rule) < 0.05


def test_the_profiler_does_not_slow_what_the_driver_does() -> None:
    """Outside the profiler ops take 15 us instead of 20; a driver's allocation takes its 100 us either way."""

    def step(p: Program) -> None:
        p.ops(20)
        p.t.call("cudaMalloc", p.now, 100)
        p.idle(100)
        p.ops(20)

    f = finding(timed(program(step), 40 * (15 + 2) + 100), "allocator")
    assert f is not None
    assert f.saving_us_per_step == pytest.approx(100, rel=0.03)
