"""`lanewise record -- COMMAND`: the command runs as it would without, and leaves a trace."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from captures import step_names, trace_of

from lanewise.errors import UsageError
from lanewise.recording.script import command_of

pytestmark = pytest.mark.torch
Script = Callable[..., Path]
QUICK = ("--skip", "1", "--timed", "2", "--warmup", "2", "--active", "2")

TRAINING = """
import os, signal, sys, time
import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
for number in range(12):
    optimizer.zero_grad()
    model(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    if number == 5:
        EVENT
print("arguments", sys.argv[1:], "input", sys.stdin.read())
print("path is clean:", not any("bootstrap" in entry for entry in sys.path), file=sys.stderr)
sys.exit(7)
"""


def training(event: str = "pass") -> str:
    return TRAINING.replace("EVENT", event)


def test_everything_of_the_command_is_kept(lanewise_record: Any, script: Script, traces: Any) -> None:
    done = lanewise_record(*QUICK, "--", sys.executable, script(training()), "--lr", "1", "--", "x", stdin="from stdin")
    assert done.returncode == 7
    assert done.stdout == "arguments ['--lr', '1', '--', 'x'] input from stdin\n"
    assert "path is clean: True" in done.stderr
    (path,) = traces()
    document = trace_of(path)
    assert step_names(document) == ["ProfilerStep#5", "ProfilerStep#6"]
    assert document["lanewise"]["window"]["marked_by"] == "steps of AdamW"
    assert document["lanewise"]["unprofiled_step_us"]["steps"] == 2
    assert document["lanewise"]["command"][-4:] == ["--lr", "1", "--", "x"]
    assert path.name.startswith("program.")
    assert path.with_name(path.name.replace(".json.gz", ".txt")).exists()
    assert f"lanewise: Next: lanewise explain {Path('traces') / path.name}" in done.stderr


def test_a_module_and_a_bare_script(lanewise_record: Any, script: Script, traces: Any) -> None:
    script(training(), "package/inner.py")
    script("", "package/__init__.py")
    assert lanewise_record(*QUICK, "-m", "package.inner").returncode == 7
    assert lanewise_record(*QUICK, "--", "-m", "package.inner", "a").returncode == 7
    done = lanewise_record(*QUICK, "--", script(training()), "a", "-b")
    assert done.returncode == 7
    assert "['a', '-b']" in done.stdout
    assert len(traces()) == 3


def test_an_exception_in_the_window(lanewise_record: Any, script: Script, traces: Any) -> None:
    done = lanewise_record(*QUICK, "--", script(training("raise ValueError('boo')")))
    assert done.returncode == 1
    assert "ValueError: boo" in done.stderr
    (path,) = traces()
    document = trace_of(path)
    assert document["lanewise"]["window"]["interrupted"] == "ValueError"
    assert step_names(document)[0] == "ProfilerStep#5"


def test_sys_exit_in_the_window(lanewise_record: Any, script: Script, traces: Any) -> None:
    assert lanewise_record(*QUICK, "--", script(training("sys.exit(5)"))).returncode == 5
    assert len(traces()) == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_the_window(lanewise_record: Any, script: Script, traces: Any, name: str) -> None:
    done = lanewise_record(*QUICK, "--", script(training(f"os.kill(os.getpid(), signal.{name}); time.sleep(20)")))
    assert done.returncode == -getattr(signal, name)
    (path,) = traces()
    assert trace_of(path)["lanewise"]["window"]["interrupted"] in ("KeyboardInterrupt", "SIGTERM")
    assert "The run ended in the window" in done.stderr


def test_a_signal_to_the_launcher_reaches_the_command(script: Script, tmp_path: Path, traces: Any, torch: Any) -> None:
    program = script(training("print('ready', flush=True); time.sleep(60)"))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lanewise.cli.record", *QUICK, "--", str(program)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert launcher.stdout is not None
    assert launcher.stdout.readline() == "ready\n"
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=60)
    assert launcher.returncode == -signal.SIGTERM
    assert len(traces()) == 1


def test_a_process_that_is_killed_is_missed(lanewise_record: Any, script: Script, traces: Any) -> None:
    done = lanewise_record(*QUICK, "--", script(training("os.kill(os.getpid(), signal.SIGKILL)")))
    assert done.returncode == -signal.SIGKILL
    assert traces() == []
    assert "ended in the window without writing a trace" in done.stderr


def test_a_handler_of_the_script_stays_its_own(lanewise_record: Any, script: Script, traces: Any) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: print('mine')); "
    text = training("os.kill(os.getpid(), signal.SIGTERM)").replace("model = ", handler + "\nmodel = ", 1)
    done = lanewise_record(*QUICK, "--", script(text))
    assert done.returncode == 7
    assert done.stdout.startswith("mine\n")
    assert len(traces()) == 1


def test_too_few_steps(lanewise_record: Any, script: Script, traces: Any) -> None:
    done = lanewise_record("--", script(training()))
    assert done.returncode == 7
    assert "No trace: 12 steps came, 20 were needed" in done.stderr
    assert "For 12 steps: --skip" in done.stderr
    assert "--whole" in done.stderr
    assert traces() == []


def test_the_whole_run(lanewise_record: Any, script: Script, traces: Any) -> None:
    assert lanewise_record("--whole", "--", script(training())).returncode == 7
    (path,) = traces()
    document = trace_of(path)
    assert step_names(document) == []
    assert sum(event.get("name") == "aten::addmm" for event in document["traceEvents"]) == 24


def test_no_torch_and_no_steps_are_told_apart(lanewise_record: Any, script: Script) -> None:
    assert "imported torch" in lanewise_record("--", script("print('hello')")).stderr
    done = lanewise_record("--", script("import torch\ntorch.ones(3).sum()"))
    assert done.returncode == 0
    assert "no optimizer stepped" in done.stderr
    assert "--step-on" in done.stderr


def test_inference(lanewise_record: Any, script: Script, traces: Any) -> None:
    text = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 4)))
with torch.inference_mode():
    for _ in range(9):
        model(torch.ones(2, 16)).argmax(-1)
"""
    assert lanewise_record(*QUICK, "--", script(text)).returncode == 0
    (path,) = traces()
    document = trace_of(path)
    assert document["lanewise"]["window"]["marked_by"] == "calls of Sequential"
    assert len(step_names(document)) == 2


def test_a_function_of_the_script(lanewise_record: Any, script: Script, traces: Any) -> None:
    text = """
import torch
class Loop:
    def one_step(self, x):
        return (x @ x).sum()
def one_step():
    raise SystemExit("the wrong one")
loop = Loop()
for _ in range(10):
    loop.one_step(torch.ones(4, 4))
"""
    assert lanewise_record(*QUICK, "--step-on", "Loop.one_step", "--", script(text)).returncode == 0
    (path,) = traces()
    assert trace_of(path)["lanewise"]["window"]["marked_by"] == "calls of Loop.one_step"


def test_a_function_that_never_comes_is_named(lanewise_record: Any, script: Script) -> None:
    done = lanewise_record("--step-on", "nobody", "--", script(training()))
    assert done.returncode == 7
    assert "nobody was not called, or once only" in done.stderr


def test_the_sitecustomize_of_the_environment_still_runs(lanewise_record: Any, script: Script, traces: Any) -> None:
    script("print('theirs')", "site/sitecustomize.py")
    done = lanewise_record(*QUICK, "--", script(training()), env={"PYTHONPATH": "site"})
    assert done.returncode == 7
    assert done.stdout.startswith("theirs\n")
    assert len(traces()) == 1


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_loader_workers_leave_nothing(lanewise_record: Any, script: Script, traces: Any, start: str) -> None:
    text = f"""
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self):
        self.transform = torch.nn.Linear(16, 16)
    def __len__(self):
        return 200
    def __getitem__(self, index):
        return self.transform(torch.ones(16)).detach()

if __name__ == "__main__":
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Data(), batch_size=8, num_workers=2, multiprocessing_context={start!r}):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
"""
    done = lanewise_record(*QUICK, "--", script(text))
    assert done.returncode == 0, done.stderr
    (path,) = traces()
    assert trace_of(path)["lanewise"]["window"]["marked_by"] == "steps of SGD"
    assert done.stderr.count("lanewise: ") == 4  # of one process


RANKED = """
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    model(torch.ones(2, 16)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def test_each_rank_of_a_distributed_run(lanewise_record: Any, script: Script, traces: Any, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

    def ranked(*words: str) -> Any:
        # On a busy machine a worker was killed once by a signal, which some hundred repeats did not show again: that is tried
        # a second time, with its stack shown if it comes again. Any other failure counts at once.
        command = (*QUICK, "--force", *words, "--", *torchrun, script(RANKED))
        done = lanewise_record(*command, env={"PYTHONFAULTHANDLER": "1"})
        return lanewise_record(*command, env={"PYTHONFAULTHANDLER": "1"}) if "Signal " in done.stderr else done

    done = ranked()
    assert done.returncode == 0, done.stderr
    headers = [trace_of(path)["lanewise"] for path in traces()]
    assert sorted(header["rank"] for header in headers) == [0, 1]
    assert {header["world_size"] for header in headers} == {2}
    assert {header["window"]["first_step"] for header in headers} == {5}
    assert sorted(path.name.split(".rank")[1][0] for path in traces()) == ["0", "1"]
    chosen = ranked("--ranks", "1", "-o", "one")
    assert chosen.returncode == 0, chosen.stderr
    assert [path.name.split(".rank")[1][0] for path in (tmp_path / "one").glob("*.gz")] == ["1"]


def test_an_existing_output_is_refused_and_the_command_does_not_run(
    lanewise_record: Any, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "x.json.gz").write_text("precious")
    done = lanewise_record("-o", "x.json.gz", "--", script("open('ran', 'w')"))
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "x.json.gz").read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command"),
        (["--", "no-such-command-anywhere"], "could not be started"),
        (["--skip", "0", "--", "true"], "Give 1 or more"),
        (["--active", "0", "--", "true"], "active"),
        (["--limit", "big", "--", "true"], "not a size"),
        (["--ranks", "a", "--", "true"], "not a list of ranks"),
    ],
)
def test_wrong_usage_is_exit_2(lanewise_record: Any, words: list[str], said: str) -> None:
    done = lanewise_record(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_command_gets_a_python_where_it_needs_one(tmp_path: Path) -> None:
    assert command_of(["-m", "a.b", "-x"]) == [sys.executable, "-m", "a.b", "-x"]
    assert command_of(["train.py", "-x"]) == [sys.executable, "train.py", "-x"]
    assert command_of(["torchrun", "train.py"]) == ["torchrun", "train.py"]
    executable = tmp_path / "train.py"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    assert command_of([str(executable)]) == [str(executable)]
    with pytest.raises(UsageError):
        command_of([])


def test_messages_in_japanese(lanewise_record: Any, script: Script) -> None:
    done = lanewise_record("--lang", "ja", "--", script(training()))
    assert "12 ステップで終わりました" in done.stderr


def test_what_follows_a_module_is_the_modules() -> None:
    from click import Context

    from lanewise.cli.record import command

    for words, wanted in (
        (["-m", "package.train", "--epochs", "1", "-h"], ("-m", "package.train", "--epochs", "1", "-h")),
        (["--active", "2", "--shapes", "-m", "train", "--steps", "3"], ("-m", "train", "--steps", "3")),
        (["python", "-m", "train", "--steps"], ("python", "-m", "train", "--steps")),
        (["--", "python", "-m", "train"], ("python", "-m", "train")),
    ):
        ctx: Context = command.make_context("record", list(words))
        assert ctx.params["words"] == wanted
        assert ctx.params["module"] is None
