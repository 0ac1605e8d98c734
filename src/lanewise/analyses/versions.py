"""Which software made a trace, as far as its header says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lanewise.model.trace import Trace

__all__ = ["versions"]


def versions(trace: Trace) -> dict[str, str]:
    """Name to version: ``torch``, ``CUDA`` or ``HIP``, ``CUDA driver``, ``roctracer``, ``NCCL``.

    What the header does not say is missing. torch is only known where the recorder or another tool left it.
    """
    header = trace.header
    found = {
        "torch": _torch(header),
        "CUDA": _cuda(header.get("cuda_runtime_version")),
        "HIP": _hip(header.get("hip_runtime_version")),
        "CUDA driver": _cuda(header.get("cuda_driver_version")),
        "roctracer": _text(header.get("roctracer_version")),
        "NCCL": _text(_mapping(header.get("distributedInfo")).get("nccl_version")),
    }
    return {name: version for name, version in found.items() if version}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _torch(header: Mapping[str, Any]) -> str | None:
    """Where lanewise's recorder leaves it, or under one of the keys that other tools use."""
    own = _mapping(_mapping(header.get("lanewise")).get("versions")).get("torch")
    for value in (own, header.get("torch_version"), header.get("pytorch_version")):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _cuda(number: Any) -> str | None:
    """CUDA numbers its versions 1000 * major + 10 * minor (`cudaRuntimeGetVersion`)."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1000:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def _hip(number: Any) -> str | None:
    """HIP numbers its versions 10,000,000 * major + 100,000 * minor + patch (`HIP_VERSION`)."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 10_000_000:
        return None
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
