"""All commands: errors, help, pipes, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Outcome

from places import DATA

Run = Callable[..., Outcome]

GPT = DATA / "05_gpt_train" / "clean_eager.json.gz"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explian"], "there is no command 'explian'. Did you mean explain?"),
        (["frobnicate"], "there is no command 'frobnicate'. See: lanewise --help"),
        (["trace.json.gz"], "trace.json.gz is a file, not a command. To explain it: lanewise explain trace.json.gz"),
        (["explain"], "TRACE is missing. See: lanewise explain --help"),
        (["explain", "x.json", "--limt", "3"], "--limit"),
        (["explain", "no-such-file.json"], "no-such-file.json: no such file."),
        (["explain", "x.json", "--steps", "b"], "--steps: 'b' is not a step"),
    ],
)
def test_errors_are_one_message_and_status_2(lanewise: Run, words: list[str], said: str) -> None:
    done = lanewise(*words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("lanewise: ")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_errors_speak_the_language_asked_for(lanewise: Run, trace: Path) -> None:
    assert "というコマンドはありません" in lanewise("explian", "--lang", "ja").err
    assert "という列はこの表にありません" in lanewise("ops", trace, "--sort", "x", "--lang=ja").err


@pytest.mark.parametrize("command", ["explain", "steps", "ops", "kernels", "tree", "slice"])
def test_help_teaches_with_an_example(lanewise: Run, command: str) -> None:
    done = lanewise(command, "--help")
    assert done.status == 0
    assert f"lanewise {command} " in done.out.split("Options:")[0].split("\n\n", 1)[1]


def _python(*words: str) -> list[str]:
    return [sys.executable, "-m", "lanewise", *words]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, lanewise.cli as c\n"
        "sys.argv = ['lanewise', '--help']\n"
        "try:\n    c.main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'polars', 'rich', 'msgspec', 'torch'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX process times")
def test_help_answers_at_once() -> None:
    best = 9.0
    for _ in range(3):
        # Time of the processor: the clock on the wall also counts what else the machine does.
        before = os.times()
        subprocess.run(_python("--help"), capture_output=True, check=True)
        after = os.times()
        best = min(best, after.children_user - before.children_user + after.children_system - before.children_system)
    assert best < 0.25


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m lanewise tree {GPT} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("ProfilerStep#")
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_130_and_no_traceback(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.json"
    os.mkfifo(pipe)
    process = subprocess.Popen(_python("explain", str(pipe)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w") as stream:  # opens once the command reads
        stream.write('{"traceEvents": [\n')
        stream.flush()
        while process.poll() is None:
            # Once may be too early: a signal between Python's last look and the read is seen when the read returns.
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (130, "", "lanewise: interrupted.")
