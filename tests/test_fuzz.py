"""Whatever is done to a trace: lanewise gives a result or a clear error, soon; never a traceback, a hang or broken JSON.

LANEWISE_FUZZ sets the number of mutants, LANEWISE_FUZZ_FIRST the first one's number.
"""

from __future__ import annotations

import io
import json
import os
import time
import warnings
from typing import Any

import numpy as np
import pytest

import lanewise
from lanewise.loading import source as source_module
from lanewise.model.schema import TABLES
from lanewise.model.trace import Trace
from mutation import mutant, seeds

MUTANTS = int(os.environ.get("LANEWISE_FUZZ", "1600"))
FIRST = int(os.environ.get("LANEWISE_FUZZ_FIRST", "0"))
BATCHES = 8
LONGEST_S = 20.0  # for one mutant, on a busy machine; they take some milliseconds


@pytest.fixture(scope="module")
def texts() -> dict[str, bytes]:
    return seeds()


def _not_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _check_trace(trace: Trace) -> None:
    assert (np.diff(trace.ts) >= 0).all()
    assert (trace.dur >= 0).all()
    for columns in trace.tables.values():
        assert len({len(values) for values in columns.values()}) == 1
        if "event" in columns:
            assert (np.diff(columns["event"]) >= 0).all()
    assert trace.lane.max(initial=-1) < len(trace.lanes)
    assert trace.name.max(initial=-1) < len(trace.strings)


def _check_report(document: Any) -> None:
    for row in document["gpu"]:
        kinds = [row[f"{kind}_us"] for kind in ("compute", "communication", "copy", "memset")]
        assert max(kinds) - 0.01 <= row["busy_us"] <= sum(kinds) + 0.01
        assert row["busy_us"] <= row["sum_us"] + 0.01
        assert row["idle_us"] is None or row["idle_us"] >= 0
    assert document["coverage"]["gpu_ops_linked"] <= document["coverage"]["gpu_ops"]
    assert sum(r["count"] for r in document["kernels"]) == document["coverage"]["gpu_ops"]
    for row in document["ops"]:
        assert row["count"] > 1 or 0 <= row["gpu_self_us"] <= row["gpu_total_us"] + 0.01, row
    assert [c["reason"] for c in document["checks"] if c["outcome"] == "failed"] == []


def outcome(data: bytes) -> str:
    """``refused`` or ``read``; anything else raises."""
    try:
        trace = lanewise.load(io.BytesIO(data), processes=0)
    except lanewise.LanewiseError as error:
        return "refused" if str(error) else "refused without a word"
    _check_trace(trace)
    for lang in ("en", "ja"):
        report = lanewise.explain(trace, lang)
        _check_report(json.loads(report.to_json(), parse_constant=_not_json))
    for table in TABLES:
        assert list(trace.frame(table).columns) == list(TABLES[table])
    return "read"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutants(batch: int, texts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for number in range(FIRST + batch, FIRST + MUTANTS, BATCHES):
        what, data = mutant(number, texts)
        print(what)  # shown when something goes wrong, also when it hangs
        monkeypatch.setattr(source_module, "BLOCK_BYTES", (4 << 20, 1000, 5000)[number % 3])
        begun = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                outcomes.append(outcome(data))
            except Exception as error:
                error.add_note(what) if hasattr(error, "add_note") else None
                raise
        assert time.monotonic() - begun < LONGEST_S, what
    # Most mutants are readable; if not, this would test nothing.
    assert outcomes.count("read") > 0.6 * len(outcomes)


def test_mutants_can_be_made_again(texts: dict[str, bytes]) -> None:
    assert [mutant(n, texts) for n in range(20)] == [mutant(n, seeds()) for n in range(20)]


def test_all_prefixes_and_suffixes_of_a_small_trace(texts: dict[str, bytes]) -> None:
    text = texts["numbers-nested-copy.json"]
    for at in range(0, len(text), 23):
        outcome(text[:at]) if at else None
        outcome(text[at:])
