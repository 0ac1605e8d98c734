"""The rates to compare a kernel with: measured on this card where `lanewise calibrate` has run, else the data sheet's.

Measurements are kept in one JSON file in the user's cache folder, by the name that CUDA or HIP reports:
``{"schema": "lanewise.ceilings/1", "devices": {"NVIDIA H200": {...}}}``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lanewise.errors import UsageError

from .catalog import find_device
from .device import Device, canonical_dtype
from .texts import TEXTS

__all__ = [
    "Ceiling",
    "Ceilings",
    "Measurement",
    "Source",
    "ceilings_for",
    "ceilings_path",
    "load_measurements",
    "save_measurement",
]

SCHEMA = "lanewise.ceilings/1"

Source = Literal["measured", "data sheet"]


class Ceiling(NamedTuple):
    """A rate (FLOP/s or bytes/s) and where it comes from."""

    rate: float
    source: Source


@dataclass(frozen=True, slots=True)
class Measurement:
    """What `lanewise calibrate` measured on one card.

    Attributes:
        name: as CUDA or HIP reports it.
        sms: multiprocessors.
        memory_bandwidth: bytes/s, reads and writes together, of the fastest of a few streaming kernels.
        vector_flops: FLOP/s of large products without tensor cores, by dtype.
        matrix_flops: FLOP/s of large products on tensor cores, by dtype.
        measured_at: ISO 8601, UTC.
        versions: torch, CUDA or ROCm, driver where known.
    """

    name: str
    sms: int
    memory_bandwidth: float
    vector_flops: Mapping[str, float] = field(hash=False)
    matrix_flops: Mapping[str, float] = field(hash=False)
    measured_at: str
    versions: Mapping[str, str] = field(hash=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates of one card, each from a measurement where there is one.

    Attributes:
        name: as asked for.
        device: the card by its data sheet; None where it is not known.
        measurement: what was measured on this card; None where nothing was.
    """

    name: str
    device: Device | None
    measurement: Measurement | None

    @property
    def source(self) -> Source | None:
        """``measured`` where the card was calibrated, else ``data sheet``; None where neither is there."""
        if self.measurement is not None:
            return "measured"
        return None if self.device is None else "data sheet"

    @property
    def memory_bandwidth(self) -> Ceiling | None:
        """Bytes/s of the GPU's memory, reads and writes together."""
        if self.measurement is not None:
            return Ceiling(self.measurement.memory_bandwidth, "measured")
        return None if self.device is None else Ceiling(self.device.memory_bandwidth, "data sheet")

    def flops(self, dtype: str, tensor_cores: bool) -> Ceiling | None:
        """FLOP/s for a type of operands, a multiply-add counted as two; None where not known."""
        if self.measurement is not None:
            rates = self.measurement.matrix_flops if tensor_cores else self.measurement.vector_flops
            measured = rates.get(canonical_dtype(dtype))
            if measured is not None:
                return Ceiling(measured, "measured")
        peak = None if self.device is None else self.device.peak_flops(dtype, tensor_cores)
        return None if peak is None else Ceiling(peak, "data sheet")


def ceilings_path() -> Path:
    """The file with the measurements: in ``LANEWISE_CACHE_DIR``, else where the platform keeps a user's caches."""
    chosen = os.environ.get("LANEWISE_CACHE_DIR")
    if chosen:
        return Path(chosen) / "ceilings.json"
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "lanewise" / "ceilings.json"


def load_measurements(path: Path | None = None) -> dict[str, Measurement]:
    """Measurements by the name of the card; empty where none were made.

    Args:
        path: the file; `ceilings_path` where not given.

    Raises:
        UsageError: the file is not one of these.
    """
    file = ceilings_path() if path is None else path
    try:
        document = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unusable(file, str(error)) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _unusable(file, TEXTS.message("wrong_schema", schema=SCHEMA))
    try:
        return {name: _measurement(name, row) for name, row in document["devices"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(file, TEXTS.message("incomplete")) from error


def _unusable(file: Path, reason: str) -> UsageError:
    return UsageError(str(file), TEXTS.message("unusable", reason=reason), TEXTS.message("calibrate_again"))


def _measurement(name: str, row: Mapping[str, Any]) -> Measurement:
    return Measurement(
        name=name,
        sms=int(row["sms"]),
        memory_bandwidth=float(row["memory_bandwidth"]),
        vector_flops={dtype: float(rate) for dtype, rate in row["vector_flops"].items()},
        matrix_flops={dtype: float(rate) for dtype, rate in row["matrix_flops"].items()},
        measured_at=str(row["measured_at"]),
        versions={key: str(value) for key, value in row.get("versions", {}).items()},
    )


def save_measurement(measurement: Measurement, path: Path | None = None) -> Path:
    """Adds a measurement to the file, in place of an earlier one of a card of the same name. A file that cannot be read is
    replaced.

    Returns:
        The file.

    Raises:
        UsageError: it cannot be written.
    """
    file = ceilings_path() if path is None else path
    try:
        kept = load_measurements(file)
    except UsageError:
        kept = {}
    kept[measurement.name] = measurement
    rows = {name: {key: value for key, value in asdict(row).items() if key != "name"} for name, row in kept.items()}
    text = json.dumps({"schema": SCHEMA, "devices": rows}, indent=2, sort_keys=True) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Never half a file: another process may read it meanwhile.
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        fresh.write_text(text, "utf-8")
        fresh.replace(file)
    except OSError as error:
        fact = TEXTS.message("not_writable", reason=error.strerror)
        raise UsageError(str(file), fact, TEXTS.message("other_folder")) from error
    return file


def ceilings_for(
    device: Device | str, sms: int | None = None, memory_bytes: int | None = None, path: Path | None = None
) -> Ceilings | None:
    """The rates to compare with, for a card as a trace names it.

    Measurements that cannot be read are passed over: the source of each rate says so.

    Args:
        device: what `find_device` found, or a name as CUDA or HIP reports it (a card that is not listed can have been
            measured).
        sms: multiprocessors as reported; measurements of a card with another number are not used.
        memory_bytes: total memory as reported.
        path: the file with the measurements; `ceilings_path` where not given.

    Returns:
        None where the card is neither known nor measured.
    """
    if isinstance(device, Device):
        known: Device | None = device
        name, sms = device.reported_name or device.name, device.sms
    else:
        known, name = find_device(device, sms, memory_bytes), device
    try:
        measurement = load_measurements(path).get(name)
    except UsageError:
        measurement = None
    if measurement is not None and sms is not None and measurement.sms != sms:
        measurement = None
    if known is None and measurement is None:
        return None
    return Ceilings(name, known, measurement)
