"""What the header and the file's name say: devices, rank, base time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lanewise
from builder import TraceBuilder, note_ids
from lanewise.loading.header import base_time, devices_of, rank_in_name
from lanewise.model.trace import Distributed


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json", 0),
        ("rank-12.pt.trace.json.gz", 12),
        ("trace_rank3.json", 3),
        ("trace.rank_007.json", 7),
        ("Rank=5.json", 5),
        ("rank 4 of 8.json", 4),
        ("nccl_data.json", None),
        ("frank3.json", None),
        ("ranking.json", None),
        ("rank1234567.json", None),
        ("/runs/rank9/trace.json", None),
        ("/runs/rank9/rank1.json", 1),
        ("worker0_step_12.1694128201545.json", None),
    ],
)
def test_rank_in_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


@pytest.mark.parametrize(
    ("info", "name", "expected", "notes"),
    [
        ({"rank": 2, "world_size": 8, "backend": "nccl"}, "trace.json", Distributed(2, 8, "nccl", "header"), []),
        ({"rank": 2, "world_size": 8}, "rank2.json", Distributed(2, 8, None, "header"), []),
        ({"rank": 2, "world_size": 8}, "rank5.json", Distributed(2, 8, None, "header"), ["rank-disagrees"]),
        ({"rank": 0}, "rank5.json", Distributed(0, None, None, "header"), ["rank-disagrees"]),
        (None, "rank5.json", Distributed(5, None, None, "file name"), ["rank-from-name"]),
        (None, "trace.json", Distributed(), []),
        ({"rank": "3", "world_size": "4"}, "trace.json", Distributed(3, 4, None, "header"), []),
        ({"rank": 3.0}, "trace.json", Distributed(3, None, None, "header"), []),
        ({"rank": -1, "world_size": -1}, "trace.json", Distributed(), []),
        ({"rank": True, "backend": 7}, "trace.json", Distributed(), []),
        ({"rank": None}, "trace.json", Distributed(), []),
        ({"rank": "²"}, "trace.json", Distributed(), []),
        ({"rank": 2**70}, "trace.json", Distributed(), []),
        ([1, 2], "trace.json", Distributed(), []),
        ("rank 3", "trace.json", Distributed(), []),
    ],
)
def test_distributed(info: Any, name: str, expected: Distributed, notes: list[str], tmp_path: Path) -> None:
    t = TraceBuilder(header={} if info is None else {"distributedInfo": info})
    t.op("a", 0, 5)
    trace = lanewise.load(t.write(tmp_path / name))
    assert trace.distributed == expected
    assert note_ids(trace) == notes
    report = lanewise.explain(trace)
    assert report.trace.ranks == ([] if expected.rank is None else [expected.rank])


def test_devices() -> None:
    entries: list[Any] = [
        {"id": 1, "name": " NVIDIA H100 ", "numSms": 132, "totalGlobalMem": 85 << 30, "computeMajor": 9, "computeMinor": 0},
        {"name": "", "numSms": -5},
        {"id": 1, "name": "twice"},
        "not a device",
        {"id": "3", "name": ["x"], "numSms": None, "computeMajor": 9},
    ]
    found = devices_of({"deviceProperties": entries}, [1, 7, -1])
    assert [(d.index, d.name, d.sms, d.memory_bytes, d.compute_capability) for d in found] == [
        (1, "NVIDIA H100", 132, 85 << 30, (9, 0)),
        (3, None, None, None, None),
        (7, None, None, None, None),
    ]
    odd: list[Any] = [None, {}, "x", 5]
    for value in odd:
        assert devices_of({"deviceProperties": value}, []) == ()


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (1_700_000_000_000_000_000, 1_700_000_000_000_000_000),
        (0, 0),
        ("12", 12),
        (None, None),
        (1e300, None),
        (2**64, None),
        ([], None),
    ],
)
def test_base_time(value: Any, ns: int | None) -> None:
    assert base_time({"baseTimeNanoseconds": value}) == ns
    assert base_time({}) is None
