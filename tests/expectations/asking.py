"""One expectation of a trace, and what comes of it."""

from __future__ import annotations

from typing import Any

from lanewise.expectations.checking import checked
from lanewise.expectations.document import Outcome
from lanewise.expectations.reading import expectations_of

__all__ = ["one", "status"]


def one(trace: Any, document: dict[str, Any]) -> Outcome:
    (row,) = checked(trace, expectations_of(document)).rows
    return row


def status(trace: Any, **expected: Any) -> str:
    return one(trace, {"step": expected}).status
