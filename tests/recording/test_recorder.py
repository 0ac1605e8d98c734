"""The recorder on a CPU: which steps are recorded, what is in the file, and every guard."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest
from captures import notices, step_names, trace_of

from lanewise.errors import UsageError
from lanewise.recording import Recorder, record, window
from lanewise.recording.plan import Plan

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]
SHORT = {"skip": 1, "timed": 2, "warmup": 2, "active": 2, "quiet": True}


def test_a_block_with_marked_steps(model: Any, torch: Any, tmp_path: Path) -> None:
    with record(out=str(tmp_path), **SHORT) as rec:
        for _ in range(9):
            model(torch.randn(2, 16))
            rec.step()
    document = trace_of(rec.path)
    assert step_names(document) == ["ProfilerStep#5", "ProfilerStep#6"]
    header = document["lanewise"]
    assert header["schema"] == "lanewise.recording/1"
    assert header["unprofiled_step_us"]["steps"] == 2
    assert 0 < header["unprofiled_step_us"]["min"] <= header["unprofiled_step_us"]["median"]
    assert header["unprofiled_step_us"]["median"] <= header["unprofiled_step_us"]["max"]
    assert header["window"]["first_step"] == 5
    assert header["window"]["last_step"] == 6
    assert header["window"]["interrupted"] is None
    assert header["flags"] == dict.fromkeys(("shapes", "stack", "memory", "flops", "modules"), False)
    assert header["versions"]["torch"] == torch.__version__
    assert header["seed"] == torch.initial_seed()
    assert rec.path is not None
    assert f".{header['pid']}.rank0.step5-6." in rec.path.name
    assert notices(rec.recording) == ["estimate", "written", "step-time"]


def test_the_table_lies_beside_the_trace(model: Any, torch: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.json.gz"
    for _ in record(out=str(out), **SHORT):
        model(torch.randn(2, 16))
    assert "aten::addmm" in (tmp_path / "x.txt").read_text()


def test_iterating_gives_exactly_the_steps_that_are_needed(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), **SHORT)
    assert [number for number in rec if model(torch.randn(2, 16)) is not None] == list(range(7))
    assert rec.path is not None


def test_iterating_over_a_loader_yields_every_item_and_counts_the_wait_for_it(torch: Any, tmp_path: Path) -> None:
    def loader() -> Any:
        for number in range(20):
            torch.arange(1000).cumsum(0)  # fetching
            yield number

    rec = record(loader(), out=str(tmp_path), **SHORT)
    assert list(rec) == list(range(20))
    events = trace_of(rec.path)["traceEvents"]
    steps = {event["name"]: event for event in events if event.get("name", "").startswith("ProfilerStep#")}
    fetches = [event for event in events if event.get("name") == "aten::cumsum"]
    assert len(fetches) == 2
    for fetch, step in zip(sorted(fetches, key=lambda event: event["ts"]), steps.values(), strict=True):
        assert step["ts"] <= fetch["ts"] <= step["ts"] + step["dur"]


def test_a_decorated_function_records_calls_and_nothing_between_them(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), **SHORT)

    @rec
    def handle(x: Any) -> Any:
        """Handles."""
        return model(x)

    for _ in range(8):
        assert handle(torch.randn(2, 16)).shape == (2, 4)
        torch.zeros(3).cumsum(0)  # between calls
    document = trace_of(rec.path)
    assert handle.__doc__ == "Handles."
    assert document["lanewise"]["window"]["marked_by"].endswith("handle")
    steps = [event for event in document["traceEvents"] if "ProfilerStep#" in event.get("name", "")]
    between = [event for event in document["traceEvents"] if event.get("name") == "aten::cumsum"]
    assert len(steps) == 2
    for event in between:
        assert not any(step["ts"] <= event["ts"] < step["ts"] + step["dur"] for step in steps)


def test_the_bare_decorator(model: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    @record
    def handle(x: Any) -> Any:
        return model(x)

    for _ in range(25):
        handle(torch.randn(2, 16))
    assert len(list((tmp_path / "traces").glob("*.json.gz"))) == 1


def test_an_awaited_function(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), **SHORT)

    @rec
    async def handle(x: Any) -> Any:
        await asyncio.sleep(0)
        return model(x)

    async def serve() -> None:
        for _ in range(8):
            await handle(torch.randn(2, 16))

    asyncio.run(serve())
    assert "aten::addmm" in {event.get("name") for event in trace_of(rec.path)["traceEvents"]}


def test_a_function_that_calls_itself_is_one_step(torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), **SHORT)

    @rec
    def countdown(number: int) -> int:
        torch.zeros(1).add(1)
        return number if number == 0 else countdown(number - 1)

    for _ in range(7):
        countdown(3)
    assert len(step_names(trace_of(rec.path))) == 2


def test_a_whole_block(model: Any, torch: Any, tmp_path: Path) -> None:
    with record(out=str(tmp_path), whole=True, quiet=True) as rec:
        model(torch.randn(2, 16))
    document = trace_of(rec.path)
    assert step_names(document) == []
    assert document["lanewise"]["window"]["interrupted"] is None
    assert "aten::addmm" in {event.get("name") for event in document["traceEvents"]}


@pytest.mark.parametrize("flag", ["shapes", "stack", "memory", "flops"])
def test_flags_reach_the_profiler(model: Any, torch: Any, tmp_path: Path, flag: str) -> None:
    for _ in (rec := record(out=str(tmp_path), **SHORT, **{flag: True})):
        model(torch.randn(2, 16))
    document = trace_of(rec.path)
    assert document["lanewise"]["flags"][flag] is True
    found = {
        "shapes": any("Input Dims" in event.get("args", {}) for event in document["traceEvents"]),
        "stack": any(event.get("cat") == "python_function" for event in document["traceEvents"]),
        "memory": any(event.get("name") == "[memory]" for event in document["traceEvents"]),
        "flops": any("Input Dims" in event.get("args", {}) for event in document["traceEvents"]),
    }
    assert found[flag]


# Guards.


def test_too_few_steps_are_told_with_numbers_that_would_do(model: Any, torch: Any, tmp_path: Path) -> None:
    with record(out=str(tmp_path), quiet=True) as rec:
        for _ in range(12):
            model(torch.randn(2, 16))
            rec.step()
    first, second = rec.recording.notices
    assert first.key == "not-reached"
    assert (first.slots["came"], first.slots["needed"]) == (12, 20)
    assert second.key == "try-fewer"
    assert sum(second.slots[name] for name in ("skip", "timed", "warmup", "active")) <= 12
    assert list(tmp_path.iterdir()) == []


def test_no_marked_step_at_all_says_what_to_call(tmp_path: Path) -> None:
    with record(out=str(tmp_path), quiet=True) as rec:
        pass
    assert notices(rec.recording) == ["not-reached", "no-step-calls"]


@pytest.mark.parametrize("came", [1, 2, 3, 4])
def test_a_run_that_ends_in_the_warm_up_leaves_torch_usable(model: Any, torch: Any, tmp_path: Path, came: int) -> None:
    with record(out=str(tmp_path), skip=0, timed=1, warmup=3, active=2, quiet=True) as rec:
        for _ in range(came):
            model(torch.randn(2, 16))
            rec.step()
    assert rec.path is None or came >= 4
    with torch.profiler.profile() as profile:
        model(torch.randn(2, 16))
    assert profile.events()


def test_an_exception_in_the_window_keeps_what_was_recorded(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), skip=1, timed=0, warmup=1, active=4, quiet=True)

    def run() -> None:
        with rec:
            for number in range(9):
                model(torch.randn(2, 16))
                if number == 4:
                    raise ValueError("boo")
                rec.step()

    with pytest.raises(ValueError, match="boo"):
        run()
    document = trace_of(rec.path)
    assert step_names(document) == ["ProfilerStep#2", "ProfilerStep#3", "Unfinished ProfilerStep#4"]
    assert document["lanewise"]["window"]["interrupted"] == "ValueError"
    assert document["lanewise"]["window"]["steps"] == 2
    assert "ended-early" in notices(rec.recording)


def test_breaking_out_of_the_loop_keeps_what_was_recorded(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(range(100), out=str(tmp_path), skip=1, timed=0, warmup=1, active=4, quiet=True)
    for number in rec:
        model(torch.randn(2, 16))
        if number == 5:
            break
    assert [name for name in step_names(trace_of(rec.path)) if name.startswith("ProfilerStep")] == [
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
    ]


def test_nothing_is_overwritten(model: Any, torch: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.json.gz"
    out.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        record(out=str(out), **SHORT)
    for _ in record(out=str(out), force=True, **SHORT):
        model(torch.randn(2, 16))
    assert trace_of(out)["lanewise"]


def test_a_file_that_appears_meanwhile_is_kept_and_so_is_the_capture(model: Any, torch: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.json.gz"
    rec = record(out=str(out), **SHORT)
    out.write_text("precious")
    for _ in rec:
        model(torch.randn(2, 16))
    assert out.read_text() == "precious"
    assert rec.path == tmp_path / "x-2.json.gz"
    assert "renamed" in notices(rec.recording)


def test_the_limit_shortens_the_window(model: Any, torch: Any, tmp_path: Path) -> None:
    def recorded(limit_bytes: int) -> Recorder:
        rec = record(out=str(tmp_path), skip=1, timed=0, warmup=2, active=8, limit_bytes=limit_bytes, quiet=True)
        with rec:
            for _ in range(12):
                model(torch.randn(2, 16))
                rec.step()
        return rec

    step_bytes = recorded(0).recording.notices[0].slots["step_bytes"]
    rec = recorded(step_bytes * 3 + step_bytes // 2)
    assert rec.recording.notices[0].key == "fewer-steps"
    assert rec.recording.notices[0].slots["active"] == 3
    assert step_names(trace_of(rec.path)) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]


def test_a_step_over_the_limit_is_not_recorded(model: Any, torch: Any, tmp_path: Path) -> None:
    for _ in (rec := record(out=str(tmp_path / "t"), limit_bytes=100, **SHORT)):
        model(torch.randn(2, 16))
    assert notices(rec.recording) == ["too-large"]
    assert not (tmp_path / "t").exists()


def test_a_folder_that_cannot_be_written_costs_the_trace_not_the_program(model: Any, torch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for _ in (rec := record(out=str(tmp_path / "file" / "x.json"), **SHORT)):
        model(torch.randn(2, 16))
    assert "write-failed" in notices(rec.recording)


def test_another_profiler_in_the_way_costs_the_trace_not_the_program(model: Any, torch: Any, tmp_path: Path) -> None:
    with torch.profiler.profile() as theirs:
        for _ in (rec := record(out=str(tmp_path), **SHORT)):
            model(torch.randn(2, 16))
    assert rec.path is None
    assert notices(rec.recording) == ["profiler-busy"]
    assert "aten::addmm" in {event.name for event in theirs.events()}


def test_steps_of_another_thread_do_not_disturb_the_window(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), **SHORT)
    with rec:
        for number in range(7):
            model(torch.randn(2, 16))
            rec.step()
            if number == 5:
                other = threading.Thread(target=rec.step)
                other.start()
                other.join()
    assert step_names(trace_of(rec.path)) == ["ProfilerStep#5", "ProfilerStep#6"]


def test_a_window_that_another_thread_opened_is_told_and_torch_stays_usable(model: Any, torch: Any, tmp_path: Path) -> None:
    rec = record(out=str(tmp_path), skip=1, timed=0, warmup=0, active=5, quiet=True)

    def work() -> None:
        rec.open()
        for _ in range(3):
            model(torch.randn(2, 16))
            rec.step()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert rec.close().path is None
    assert notices(rec.recording) == ["wrong-thread"]
    with torch.profiler.profile() as profile:
        model(torch.randn(2, 16))
    assert profile.events()


def test_a_forked_child_writes_nothing(model: Any, torch: Any, tmp_path: Path) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    rec = Recorder(Plan(out=str(tmp_path), skip=1, timed=0, warmup=0, active=2))
    with rec:
        model(torch.randn(2, 16))
        child = multiprocessing.get_context("fork").Process(target=rec.close)
        child.start()
        child.join(30)
        assert child.exitcode == 0
        assert list(tmp_path.iterdir()) == []


def test_launches_without_gpu_events_name_a_cause(
    model: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    health_of = window.health_of

    def without_gpu_events(path: Path) -> Any:
        import dataclasses

        return dataclasses.replace(health_of(path), launches=50)

    monkeypatch.setattr(window, "health_of", without_gpu_events)
    for _ in (rec := record(out=str(tmp_path), **SHORT)):
        model(torch.randn(2, 16))
    notice = next(notice for notice in rec.recording.notices if notice.key == "gpu-missing")
    assert notice.slots["launches"] == 50
    assert notice.slots["cause"] == "cause-torch-without-cupti"  # true of a CPU build


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="activ"):
        record(activ=3)


def test_messages_go_to_stderr_in_the_language_of_the_environment(
    model: Any, torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEWISE_LANG", "en")
    for _ in record(out=str(tmp_path / "x.json"), skip=0, timed=2, warmup=1, active=1):
        model(torch.randn(2, 16))
    said = capsys.readouterr()
    assert said.out == ""
    assert "1 steps" in said.err
    assert "without the profiler" in said.err


def test_outside_the_window_a_step_costs_next_to_nothing(tmp_path: Path) -> None:
    import time

    rec = Recorder(Plan(out=str(tmp_path), skip=1_000_000))
    rec.open()
    began = time.perf_counter_ns()
    for _ in range(10_000):
        rec.step()
    per_step_ns = (time.perf_counter_ns() - began) / 10_000
    rec.close()
    assert per_step_ns < 20_000  # measured: below 1 µs; the bound is for busy machines


def test_the_document_is_valid_json_with_the_metadata_in_front(model: Any, torch: Any, tmp_path: Path) -> None:
    for _ in record(out=str(tmp_path / "x.json"), **SHORT):
        model(torch.randn(2, 16))
    text = (tmp_path / "x.json").read_text()
    assert text.startswith('{\n"lanewise": ')
    assert next(iter(json.loads(text))) == "lanewise"
