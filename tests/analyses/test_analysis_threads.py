"""Analyses that several threads ask for: computed once, and again after a failure."""

from __future__ import annotations

import threading
import time

import pytest

from builder import TraceBuilder
from lanewise import explaining
from lanewise.model.trace import Trace


@pytest.fixture
def trace() -> Trace:
    t = TraceBuilder()
    t.op("a", 0, 1)
    return t.load()


def test_computed_once_for_all_threads(trace: Trace) -> None:
    calls = []

    def slow(asked: Trace) -> int:
        calls.append(asked)
        time.sleep(0.05)
        return len(asked)

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(trace.analysis(slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 4
    assert len(calls) == 1


def test_a_failure_is_not_kept(trace: Trace) -> None:
    calls = []

    def fails_first(asked: Trace) -> int:
        calls.append(asked)
        if len(calls) == 1:
            raise ValueError("the first time")
        return len(asked)

    with pytest.raises(ValueError, match="the first time"):
        trace.analysis(fails_first)
    assert trace.analysis(fails_first) == 1


def test_what_fails_beside_fails_here(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(asked: Trace) -> None:
        raise ValueError(f"no table of {len(asked)} events")

    monkeypatch.setattr(explaining, "op_table", fail)
    with pytest.raises(ValueError, match="no table of 1 events"):
        explaining.explain(trace)
