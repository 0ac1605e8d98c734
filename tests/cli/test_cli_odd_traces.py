"""Every command on traces that lack a side: a message at worst, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from running import Outcome

from builder import TraceBuilder

Run = Callable[..., Outcome]


def _only_gpu() -> TraceBuilder:
    t = TraceBuilder()
    for i in range(3):
        t.gpu("sgemm", 100 * i, 50, i + 1)
    return t


def _no_ops() -> TraceBuilder:
    t = TraceBuilder()
    for i in range(3):
        t.launch(100 * i, 5, gpu=(100 * i + 10, 50))
    return t


def _only_cpu() -> TraceBuilder:
    t = TraceBuilder(gpus=0)
    t.op("aten::mm", 0, 5)
    return t


def _halves() -> TraceBuilder:
    t = TraceBuilder()
    for ts, phase in ((0, "B"), (5, "B"), (7, "E"), (9, "E")):
        t.event(ph=phase, cat="cpu_op", name="aten::mm", pid=1, tid=1, ts=ts)
    return t


def _deep() -> TraceBuilder:
    """A program that calls itself, in frames and in ops that take no time to begin."""
    t = TraceBuilder()
    for i in range(600):
        t.frame(f"train.py(3): walk{i % 7}", 0, 2000)
        t.op(f"op{i % 5}", 1, 1000)
    t.launch(5, 5, gpu=(30, 20))
    return t


def _no_time() -> TraceBuilder:
    """Steps in which nothing takes time."""
    t = TraceBuilder()
    for i in range(3):
        t.step(i, 7, 0)
        t.launch(7, 0, gpu=(7, 0))
    return t


def _no_objects() -> TraceBuilder:
    t = _no_ops()
    for text in ("null", "[1, {}]", "7", '"a"'):
        t.raw(text)
    return t


def _bare() -> TraceBuilder:
    return TraceBuilder(gpus=0)


TRACES = (_only_gpu, _no_ops, _only_cpu, _halves, _deep, _no_time, _no_objects, _bare)
COMMANDS = (
    ("explain",),
    ("explain", "-o", "{out}.html"),
    ("explain", "--format", "markdown"),
    ("steps",),
    ("ops",),
    ("kernels", "--limits"),
    ("tree",),
    ("tree", "--python"),
    ("slice", "--from", "1", "--to", "40", "-o", "{out}.json"),
    ("export", "--for", "perfetto", "-o", "{out}.json"),
    ("diff", "{other}"),
    ("diff", "{other}", "-o", "{out}.html"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("built", TRACES)
def test_no_traceback(built: Callable[[], TraceBuilder], command: tuple[str, ...], lanewise: Run, tmp_path: Path) -> None:
    path = built().write(tmp_path / "t.json")
    other = _no_ops().write(tmp_path / "other.json")
    word, *rest = (w.format(out=tmp_path / "out", other=other) for w in command)
    done = lanewise(word, path, *rest)
    assert done.status in (0, 2)
    assert "Traceback" not in done.err
    assert done.status == 0 or done.err.startswith(("lanewise: ", "Usage"))
