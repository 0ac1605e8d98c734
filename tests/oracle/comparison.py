"""A report beside the oracle's figures: every figure that is off, in a line."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .figures import Figures

# The report's capabilities beyond these are finer ones, of which the oracle does not speak.
# Beyond this a double, as readers of JSON have them, does not hold whole nanoseconds: times since 1970.
EXACT_US = 2**43
CAPABILITIES = {"cpu_ops", "gpu_events", "steps", "shapes", "stacks", "modules", "memory"}


def microseconds(ns: int | Fraction | None) -> Decimal | None:
    """A time as the report should print it, with three decimals; half a nanosecond may go either way."""
    return None if ns is None else Decimal(round(ns * 1)) / 1000


def _same(want: Any, got: Any) -> bool:
    if isinstance(want, Fraction):
        return got is not None and abs(Fraction(got) * 1000 - want) <= max(Fraction(1, 2), abs(want) / 2**52)
    return bool(want == got) and (want is None) == (got is None)


def _row(where: str, want: Figures, got: Figures | None, out: list[str]) -> None:
    if got is None:
        out.append(f"{where}: missing")
        return
    for key, value in want.items():
        name = key.replace("_ns", "_us")
        have = got.get(name)
        if key.endswith("_ns") and isinstance(value, int):
            value = Decimal(value) / 1000
        if isinstance(value, Decimal) and have is not None and abs(value) > EXACT_US:
            value, have = float(value), float(have)
        if not _same(value, have):
            shown = Fraction(value) / 1000 if isinstance(value, Fraction) else value
            out.append(f"{where}.{name}: oracle {shown}, lanewise {have}")


def _rows(where: str, want: dict[Any, Figures], got: dict[Any, Figures], out: list[str]) -> None:
    for key, row in want.items():
        _row(f"{where}[{key}]", row, got.get(key), out)
    out += [f"{where}[{key}]: not in the oracle" for key in got if key not in want]


def _kernels(want: dict[str, Figures], got: list[Figures], out: list[str]) -> None:
    rows = {row["name"]: row for row in got}
    for name, row in want.items():
        have = rows.get(name, {})
        counts: dict[str, int] = dict(row["ops"])
        listed = have.get("ops", [])
        if set(listed) != set(counts) or [counts[o] for o in listed] != sorted(counts.values(), reverse=True):
            out.append(f"kernels[{name}].ops: oracle {counts}, lanewise {listed}")
        if (have.get("kind") == "collective") != row["collective"]:
            out.append(f"kernels[{name}].kind: oracle collective {row['collective']}, lanewise {have.get('kind')}")
    plain = {name: {k: v for k, v in row.items() if k not in ("ops", "collective")} for name, row in want.items()}
    _rows("kernels", plain, rows, out)


def differences(want: Figures, text: str) -> list[str]:
    """Every figure of a report that is not the oracle's."""
    got = json.loads(text, parse_float=Decimal)
    out: list[str] = []
    trace = dict(want["trace"])
    listed = {d["index"]: (d["name"], d["sms"]) for d in got["trace"]["devices"]}
    if listed != trace.pop("devices"):
        out.append(f"trace.devices: oracle {want['trace']['devices']}, lanewise {listed}")
    known = set(got["trace"]["capabilities"]) & CAPABILITIES
    if known != trace.pop("capabilities"):
        out.append(f"trace.capabilities: oracle {want['trace']['capabilities']}, lanewise {known}")
    _row("trace", trace, got["trace"], out)
    _row("coverage", want["coverage"], got["coverage"], out)
    devices = {row["device"]: row | {"streams": {s.pop("stream"): s for s in row["streams"]}} for row in got["gpu"]}
    for number, row in want["gpu"].items():
        _rows(f"gpu[{number}].streams", row.pop("streams"), devices.get(number, {}).get("streams", {}), out)
    _rows("gpu", want["gpu"], devices, out)
    _row("step", want["step"], got["step"], out)
    sums = [row["gpu_us"] for row in (got["roofline"] or {}).get("steps", [])]
    if sums:
        for row, total in zip(got["steps"], sums, strict=True):
            row["sum_us"] = total
    else:  # no GPU work, no roofline
        want["steps"] = [{k: v for k, v in row.items() if k != "sum_ns"} for row in want["steps"]]
    _rows("steps", dict(enumerate(want["steps"])), dict(enumerate(got["steps"])), out)
    _rows("ops", want["ops"], {(row["name"], row["cat"]): row for row in got["ops"]}, out)
    _kernels(want["kernels"], got["kernels"], out)
    return out
