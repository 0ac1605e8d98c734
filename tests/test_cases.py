"""The conformance cases of tests/cases: small traces that stand for reported bugs, each with what a right report holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lanewise
from expectations import failure, found
from places import CASES as CASES_DIR

CASES: list[dict[str, Any]] = json.loads((CASES_DIR / "cases.json").read_text("utf-8"))


def _not_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def report_of(path: Path) -> Any:
    """The report of a trace, through its JSON text."""
    return json.loads(lanewise.explain(lanewise.load(path)).to_json(), parse_constant=_not_json)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_case(case: dict[str, Any]) -> None:
    allowed = case.get("expect_exit", 0)
    allowed = allowed if isinstance(allowed, list) else [allowed]
    report, refusal = _outcome(CASES_DIR / case["input"])
    if refusal is None:
        assert 0 in allowed
        wrong = [text for row in case["expect"] if (text := failure(report, row))]
    else:
        assert 2 in allowed, refusal
        wrong = [f"{refusal}: no {words}" for words in case.get("stderr_contains", []) if not _says(refusal, words)]
    assert not wrong, "\n".join([case["about"], *wrong])


def _outcome(path: Path) -> tuple[Any, str | None]:
    """(report, None) or (None, why the file was refused)."""
    try:
        return report_of(path), None
    except lanewise.LanewiseError as error:
        return None, str(error)


def _says(text: str, words: str | list[str]) -> bool:
    return any(w.lower() in text.lower() for w in ([words] if isinstance(words, str) else words))


def test_every_input_is_listed() -> None:
    assert {p.name for p in CASES_DIR.iterdir()} == {c["input"] for c in CASES} | {"cases.json"}


def test_expectations_can_fail() -> None:
    report = {"gpu": [{"busy_us": 5.0, "idle_us": None}], "ops": [{"name": "a ] b", "count": 2}], "caps": ["steps"]}
    assert found(report, 'ops[name="a ] b"].count + gpu[0].busy_us') == 7.0
    assert failure(report, {"path": "gpu[0].busy_us", "op": "==", "value": 5.0005}) is None
    assert failure(report, {"path": "caps[=steps]", "op": "exists"}) is None
    assert failure(report, {"path": "gpu[1]", "op": "absent"}) is None
    for row in (
        {"path": "gpu[0].busy_us", "op": "==", "value": 5.002},
        {"path": "gpu[0].idle_us", "op": "exists"},
        {"path": "gpu[0].busy_us", "op": "is_null"},
        {"path": "caps", "op": "contains", "value": "shapes"},
        {"path": "ops[name=b].count", "op": ">=", "value": 0},
    ):
        assert failure(report, row) is not None
