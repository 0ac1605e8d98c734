"""Where steps end, found in programs that do not say so."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from captures import trace_of

from lanewise.recording import Recorder
from lanewise.recording.plan import Plan
from lanewise.recording.stepping import Leader, follow_functions, follow_modules, follow_optimizers, follow_steps

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


class Thing:
    pass


@pytest.fixture(autouse=True)
def no_optimizer_of_another_test() -> None:
    gc.collect()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """Counts steps and never opens its window."""
    rec = Recorder(Plan(skip=10_000, out=str(tmp_path)))
    rec.open()
    yield rec
    rec.discard()


def train(torch: Any, model: Any, optimizer: Any, times: int) -> None:
    for _ in range(times):
        optimizer.zero_grad()
        model(torch.ones(2, 16)).sum().backward()
        optimizer.step()


# Leaders.


def test_the_first_leads_while_others_come_between() -> None:
    critic, generator = Thing(), Thing()
    leader = Leader(patience=5)
    steps = [leader.leads(thing) for thing in [critic, critic, critic, generator] * 3]
    assert steps == [True, True, True, False] * 3


def test_one_that_no_longer_comes_is_replaced() -> None:
    encoder, unet = Thing(), Thing()
    leader = Leader(patience=3)
    assert [leader.leads(thing) for thing in [encoder, unet, unet, unet, unet, unet, encoder, unet]] == [
        *(True, False, False, False, True, True, False, True)
    ]


def test_one_that_is_gone_is_replaced_at_once() -> None:
    leader = Leader(patience=100)
    first, second = Thing(), Thing()
    assert leader.leads(first)
    del first
    gc.collect()
    assert leader.leads(second)


# Optimizers.


def test_each_optimizer_step_is_a_step(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_optimizers(recorder)
    optimizer = torch.optim.AdamW(model.parameters())
    train(torch, model, optimizer, 4)
    assert recorder.recording.completed == 4
    assert recorder.source == "steps of AdamW"
    detach()
    train(torch, model, optimizer, 2)
    assert recorder.recording.completed == 4
    assert "step" not in vars(optimizer)


@pytest.mark.parametrize("when", ["before", "after"])
def test_learning_rate_schedulers_stay_content(torch: Any, model: Any, recorder: Recorder, when: str) -> None:
    detach = follow_optimizers(recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if when == "after":
        train(torch, model, optimizer, 1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)  # warns where it finds step() replaced
    for _ in range(3):
        train(torch, model, optimizer, 1)
        scheduler.step()
    assert recorder.recording.completed == (4 if when == "after" else 3)
    assert optimizer.param_groups[0]["lr"] == 0.125
    detach()
    train(torch, model, optimizer, 1)
    scheduler.step()
    assert recorder.recording.completed == (4 if when == "after" else 3)


def test_a_replaced_step_method_is_still_seen(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_optimizers(recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    original = optimizer.step
    train(torch, model, optimizer, 2)
    optimizer.step = original  # as a gradient scaler does that swaps methods
    train(torch, model, optimizer, 2)
    assert recorder.recording.completed == 4
    detach()


def test_of_two_optimizers_one_marks_the_steps(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_optimizers(recorder)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        train(torch, model, first, 1)
        train(torch, model, second, 1)
    assert recorder.recording.completed == 3
    detach()


def test_an_optimizer_can_be_collected(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_optimizers(recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(torch, model, optimizer, 2)
    reference = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert reference() is None
    detach()


def test_a_step_ends_after_the_optimizers_own_annotation(torch: Any, model: Any, tmp_path: Path) -> None:
    rec = Recorder(Plan(skip=2, timed=0, warmup=1, active=3, out=str(tmp_path)))
    detach = follow_optimizers(rec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec.open()
    train(torch, model, optimizer, 8)
    detach()
    events = [event for event in trace_of(rec.path)["traceEvents"] if event.get("cat") == "user_annotation"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    updates = [event for event in events if event["name"].startswith("Optimizer.step#")]
    assert len(steps) == len(updates) == 3
    for update in updates:
        around = [s for s in steps if s["ts"] <= update["ts"] and update["ts"] + update["dur"] <= s["ts"] + s["dur"]]
        assert len(around) == 1


# Modules.


def test_each_outermost_call_is_a_step(torch: Any, model: Any, recorder: Recorder) -> None:
    original = torch.nn.Module.__call__
    detach = follow_modules(recorder)
    for _ in range(3):
        model(torch.ones(2, 16))
    assert recorder.recording.completed == 3
    assert recorder.source == "calls of Sequential"
    detach()
    model(torch.ones(2, 16))
    assert recorder.recording.completed == 3
    if "torch._dynamo" not in sys.modules:
        assert torch.nn.Module.__call__ is original


def test_modules_without_parameters_are_no_steps(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_modules(recorder)
    transform = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten())
    for _ in range(5):
        model(transform(torch.ones(2, 16)))
    assert recorder.recording.completed == 5
    assert recorder.source == "calls of Sequential"
    detach()


def test_an_error_in_a_call_passes_and_the_next_call_counts(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_modules(recorder)
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 3))
    model(torch.ones(2, 16))
    assert recorder.recording.completed == 1
    detach()


# Training or inference.


def test_inference_without_no_grad_counts_calls(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_steps(recorder)
    for _ in range(4):
        model(torch.ones(2, 16))
    assert recorder.recording.completed == 4
    detach()


def test_what_came_before_the_first_optimizer_step_is_forgotten(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_steps(recorder)
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(2, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(torch, model, optimizer, 2)
    assert recorder.recording.completed == 2
    assert recorder.source == "steps of SGD"
    detach()


def test_micro_batches_are_no_steps(torch: Any, model: Any, recorder: Recorder) -> None:
    detach = follow_steps(recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        model(torch.ones(2, 16)).sum().backward()
    assert recorder.recording.completed <= 1  # the first call cannot be told from inference
    optimizer.step()
    assert recorder.recording.completed == 1
    assert recorder.source == "steps of SGD"
    detach()


def test_validation_before_training_does_not_open_the_window(torch: Any, model: Any, tmp_path: Path) -> None:
    rec = Recorder(Plan(skip=2, timed=1, warmup=1, active=2, out=str(tmp_path)))
    detach = follow_steps(rec)
    rec.open()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(20):
            model(torch.ones(2, 16))
    assert rec.phase == "skip"
    train(torch, model, optimizer, 6)
    detach()
    assert trace_of(rec.path)["lanewise"]["window"]["marked_by"] == "steps of SGD"


def test_an_optimizer_that_never_steps_holds_inference_up_only_for_a_while(torch: Any, model: Any, tmp_path: Path) -> None:
    rec = Recorder(Plan(skip=2, timed=1, warmup=1, active=2, out=str(tmp_path)))
    detach = follow_steps(rec)
    rec.open()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(220):
            model(torch.ones(2, 16))
    detach()
    assert trace_of(rec.path)["lanewise"]["window"]["marked_by"] == "calls of Sequential"
    assert optimizer is not None


def test_a_window_of_inference_is_not_disturbed_by_training(torch: Any, model: Any, tmp_path: Path) -> None:
    rec = Recorder(Plan(skip=1, timed=0, warmup=0, active=4, out=str(tmp_path)))
    detach = follow_steps(rec)
    rec.open()
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(2, 16))
    assert rec.phase == "active"
    train(torch, model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    detach()
    assert trace_of(rec.path)["lanewise"]["window"]["marked_by"] == "calls of Sequential"


@pytest.mark.parametrize("way", ["module", "in place", "function"])
def test_compiled_code_is_the_same_with_the_finder_in_place(torch: Any, recorder: Recorder, way: str) -> None:
    dynamo = pytest.importorskip("torch._dynamo")

    def graphs() -> tuple[int, int]:
        dynamo.reset()
        counted = dynamo.testing.CompileCounter()
        network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 4)))
        if way == "module":
            call = torch.compile(network, backend=counted)
        elif way == "in place":
            network.compile(backend=counted)
            call = network
        else:
            call = torch.compile(lambda x: network(x) * 2, backend=counted)
        with torch.no_grad():
            for _ in range(4):
                call(torch.ones(2, 4))
        return counted.frame_count, counted.op_count

    import torch._dynamo.testing

    before = graphs()
    detach = follow_steps(recorder)
    assert graphs() == before
    detach()
    assert graphs() == before
    if way != "function":  # which is no module, and what it compiles away is not called
        assert recorder.recording.completed == 4


# Functions.


def test_a_function_of_a_module(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("some_package_of_a_test")
    exec("def work(x):\n    return x + 1\nclass Loop:\n    @staticmethod\n    def once(x):\n        return x\n", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    detach = follow_functions(recorder, "some_package_of_a_test:work")
    assert [module.work(number) for number in range(3)] == [1, 2, 3]
    assert recorder.recording.completed == 3
    detach()
    module.work(1)
    assert recorder.recording.completed == 3
    detach = follow_functions(recorder, "some_package_of_a_test:Loop.once")
    assert module.Loop.once(5) == module.Loop().once(5) == 5
    assert recorder.recording.completed == 5
    detach()
    assert isinstance(vars(module.Loop)["once"], staticmethod)


def test_a_function_of_a_module_that_is_imported_later(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later_in_a_test.py").write_text("def work():\n    return 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    detach = follow_functions(recorder, "imported_later_in_a_test:work")
    import imported_later_in_a_test as later  # type: ignore[import-not-found]

    assert later.work() == 7
    assert recorder.recording.completed == 1
    detach()
    monkeypatch.delitem(sys.modules, "imported_later_in_a_test")
