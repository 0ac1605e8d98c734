"""The engine: failures stay with their rule, what is missing is said, and no two findings claim the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder import TraceBuilder
from lanewise import engine
from lanewise.analyses.replay import Change
from lanewise.rules.base import DOC_KEYS, Clear, Draft, NotChecked, Outcome, Rule, duration
from lanewise.rules.context import Context


def rule(rule_id: str, check: Any, **more: Any) -> Rule:
    texts = dict.fromkeys(("title", "text", "fix"), f"{rule_id} {{time}}") | dict.fromkeys(("name", *DOC_KEYS), "-")
    return Rule(id=rule_id, english=texts, check=check, **more)


def cpu_bound_steps() -> TraceBuilder:
    """Four steps of 100 us, each with two kernels of 40 us back to back."""
    t = TraceBuilder()
    for n in range(4):
        s = n * 100
        t.step(n, s, 100)
        t.op("aten::mm", s + 1, 8)
        t.launch(s + 2, 3, gpu=(s + 10, 40), name="first_kernel")
        t.op("aten::mm", s + 10, 8)
        t.launch(s + 12, 3, gpu=(s + 50, 40), name="second_kernel")
    return t


def run(monkeypatch: pytest.MonkeyPatch, builder: TraceBuilder, *found: Rule) -> engine.Diagnosis:
    monkeypatch.setattr(engine, "rules", lambda: found)
    return engine.diagnose(Context(builder.load()))


def rows_named(ctx: Context, name: str) -> list[int]:
    return [r for r in range(len(ctx.gpu_event)) if ctx.trace.name_of(int(ctx.gpu_event[r])) == name]


def removes(name: str) -> Any:
    def check(ctx: Context) -> Outcome:
        rows = rows_named(ctx, name)
        return [Draft({"time": duration(40_000)}, Change(gpu=dict.fromkeys(rows, 0)), 40_000, [int(ctx.gpu_event[rows[0]])])]

    return check


def test_gpu_time_counts_nothing_where_the_cpu_bounds_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # A step is 100 us of CPU work and 80 us of GPU work: without half of the GPU work it still takes 100 us.
    done = run(monkeypatch, cpu_bound_steps(), rule("takes-first", removes("first_kernel")))
    assert done.findings == []
    assert done.checks[0].outcome == "clear"


def test_failing_rule_costs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(ctx: Context) -> Outcome:
        raise ZeroDivisionError("boom")

    done = run(monkeypatch, cpu_bound_steps(), rule("breaks", fails), rule("fine", lambda ctx: Clear()))
    assert {c.id: c.outcome for c in done.checks} == {"breaks": "failed", "fine": "clear"}
    assert "boom" in (done.checks[0].reason or "")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = rule("needs-shapes", lambda ctx: Clear(), needs=("shapes",))
    cannot = rule("one-rank", lambda ctx: NotChecked("one-rank"))
    checks = run(monkeypatch, cpu_bound_steps(), needs, cannot).checks
    assert [c.outcome for c in checks] == ["not-checked", "not-checked"]
    assert "record_shapes" in (checks[0].reason or "")


@pytest.mark.parametrize(
    ("flag", "op", "outcome"),
    [(1, "triton_poi_fused_add_0", "clear"), (0, "triton_poi_fused_add_0", "not-checked"), (1, "aten::add", "not-checked")],
)
def test_compiled_code_leaves_no_op_whose_shapes_could_be_missing(
    monkeypatch: pytest.MonkeyPatch, flag: int, op: str, outcome: str
) -> None:
    t = TraceBuilder()
    t.header["record_shapes"] = flag
    for n in range(3):
        t.step(n, n * 50, 45)
        t.op("Torch-Compiled Region: 0/0", n * 50 + 1, 40)
        t.op(op, n * 50 + 2, 30)
        t.launch(n * 50 + 3, 2, gpu=(n * 50 + 10, 20), name="triton_poi_fused_add_0")
    checks = run(monkeypatch, t, rule("needs-shapes", lambda ctx: Clear(), needs=("shapes",))).checks
    assert [c.outcome for c in checks] == [outcome]


def test_time_is_claimed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    t = TraceBuilder()
    for n in range(4):  # GPU-bound: 90 us of kernels every 90 us, launched far ahead
        t.step(n, n * 10, 10)
        t.launch(n * 10 + 1, 2, gpu=(20 + n * 90, 90), name="kernel")
    first = rule("specific", removes("kernel"), precedence=10)
    second = rule("broader", removes("kernel"), precedence=50)
    found = run(monkeypatch, t, second, first).findings
    assert [f.id for f in found] == ["specific"]
    assert found[0].title == "specific 40.0 µs"
    assert found[0].evidence[0].name == "kernel"
    assert found[0].saving_us_per_step == pytest.approx(80, abs=1)  # what remains is the CPU's 10 us a step


def test_minor_findings_are_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(ctx: Context) -> Outcome:
        return [Draft({"time": duration(1)}, None, 1, [], saving_ns=100.0)]

    done = run(monkeypatch, cpu_bound_steps(), rule("tiny", tiny))
    assert done.findings == []
    assert done.checks[0].outcome == "clear"
    assert "1 %" in (done.checks[0].reason or "")


def test_symptoms_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    def worth(saving: float, *symptoms: str) -> Any:
        return lambda ctx: [Draft({"time": duration(1)}, None, 1, [], saving_ns=saving, symptoms=symptoms)]

    done = run(monkeypatch, cpu_bound_steps(), rule("cause", worth(50_000, "symptom")), rule("symptom", worth(40_000)))
    assert [(f.id, f.folded) for f in done.findings] == [("cause", ["symptom"])]
    assert {c.id: c.outcome for c in done.checks} == {"cause": "found", "symptom": "clear"}


def test_good_news_has_no_saving_and_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    good = rule("good", lambda ctx: [Draft({"time": duration(1)}, None, 9_000, [], good=True)])
    bad = rule("bad", lambda ctx: [Draft({"time": duration(1)}, None, 1, [], saving_ns=20_000.0)])
    found = run(monkeypatch, cpu_bound_steps(), good, bad).findings
    assert [f.id for f in found] == ["bad", "good"]
    assert found[1].saving_us_per_step is None
    assert found[1].share_ratio is None


def test_numpy_numbers_reach_json(monkeypatch: pytest.MonkeyPatch) -> None:
    import lanewise

    odd = rule("numpy", lambda ctx: [Draft({"time": duration(1)}, None, np.float64(5), [], saving_ns=np.float64(50_000))])
    monkeypatch.setattr(engine, "rules", lambda: (odd,))
    assert '"saving_us_per_step":50.0' in lanewise.explain(cpu_bound_steps().load()).to_json()
