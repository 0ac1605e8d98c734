"""Reads the conformance cases' paths and checks their expectations against a report.

A path is keys and brackets: ``gpu[0].busy_us``, ``ops[name=aten::mm].count``, ``trace.capabilities[=steps]`` (the entry that
equals "steps"), ``ops[name="odd ] name"].count``; ``a + b`` adds two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

NOTHING = object()
_STEP = re.compile(r'\.?(?P<key>\w+)|\[(?P<place>\d+)\]|\[(?P<field>\w*)=(?P<wanted>"(?:[^"\\]|\\.)*"|[^\]]*)\]')


def found(report: Any, path: str) -> Any:
    """The value at a path, NOTHING where there is none."""
    parts = [_one(report, part) for part in path.split(" + ")]
    if len(parts) == 1:
        return parts[0]
    return sum(parts) if all(_is_number(p) for p in parts) else NOTHING


def _one(value: Any, path: str) -> Any:
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        assert step is not None, f"cannot read the path {path!r} from {path[at:]!r}"
        at = step.end()
        value = _inside(value, step)
        if value is NOTHING:
            break
    return value


def _inside(value: Any, step: re.Match[str]) -> Any:
    key, place, field, wanted = step["key"], step["place"], step["field"], step["wanted"]
    if key is not None:
        return value.get(key, NOTHING) if isinstance(value, dict) else NOTHING
    if not isinstance(value, list):
        return NOTHING
    if place is not None:
        return value[int(place)] if int(place) < len(value) else NOTHING
    wanted = json.loads(wanted) if wanted.startswith('"') else wanted
    same = (row for row in value if _text(row.get(field, NOTHING) if field and isinstance(row, dict) else row) == wanted)
    return next(same, NOTHING)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) or value is NOTHING else json.dumps(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds(value: Any, word: Any) -> bool:
    """Whether a text is in a string or anywhere below."""
    if isinstance(value, str):
        return str(word).lower() in value.lower()
    if isinstance(value, dict):
        value = list(value.values())
    return any(_holds(v, word) for v in value) if isinstance(value, list) else bool(value == word)


def failure(report: Any, expectation: dict[str, Any]) -> str | None:
    """What is wrong, or None when the expectation holds."""
    got = found(report, expectation["path"])
    op, want, tol = expectation["op"], expectation.get("value"), expectation.get("tol", 0.001)
    there, number = got is not NOTHING, _is_number(got)
    tests: dict[str, Callable[[], bool]] = {
        "==": lambda: number and abs(got - want) <= tol if _is_number(want) else type(got) is type(want) and got == want,
        "<=": lambda: number and got <= want + tol,
        ">=": lambda: number and got >= want - tol,
        "contains": lambda: there and _holds(got, want),
        "is_null": lambda: not there or got is None,
        "exists": lambda: there and got is not None,
        "absent": lambda: not there,
    }
    if tests[op]():
        return None
    return f"{expectation['path']}: wanted {op} {want!r}, got {'nothing there' if not there else repr(got)[:160]}"
