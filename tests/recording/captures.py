"""Traces of tests, read back with `json`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from lanewise.recording import Recording


def trace_of(path: Path | None) -> dict[str, Any]:
    """The document of a small trace."""
    assert path is not None
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def step_names(document: dict[str, Any]) -> list[str]:
    """Step annotations in the order of time."""
    marks = [event for event in document["traceEvents"] if "ProfilerStep#" in event.get("name", "")]
    return [mark["name"] for mark in sorted(marks, key=lambda mark: mark["ts"])]


def notices(recording: Recording) -> list[str]:
    return [notice.key for notice in recording.notices]
