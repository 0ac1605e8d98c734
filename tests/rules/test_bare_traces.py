"""Rules on traces that have next to nothing: no ops, no replayable steps."""

from __future__ import annotations

import pytest

import lanewise
from builder import TraceBuilder


def test_waits_in_a_trace_without_ops() -> None:
    t = TraceBuilder()
    t.step(1, 17, 39, tid=2)
    t.call("hipStreamSynchronize", 46.5, 0, 9)
    t.launch(48, 0, gpu=(54.5, 4))
    checks = lanewise.explain(t.load()).checks
    assert [c.reason for c in checks if c.outcome == "failed"] == []


@pytest.mark.parametrize("header", [{}, {"lanewise": {"unprofiled_step_us": {"median": 150, "steps": 10}}}])
def test_parts_sum_to_the_step_where_nothing_can_be_replayed(header: dict[str, object]) -> None:
    t = TraceBuilder(header=header)
    for i, dur in enumerate((50, 300, 100)):  # the median is not the mean of the later ones
        t.step(i, i * 400, dur)
    t.launch(2000, 1, gpu=(2010, 5))  # after the last step: the steps launched nothing
    report = lanewise.explain(t.load())
    assert report.where
    assert sum(r.us for r in report.where) == pytest.approx(report.step.time_us, abs=0.01)
