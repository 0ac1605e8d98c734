"""The rates that a piece of work is compared with, and the time that it takes at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lanewise.devices import Ceiling, Ceilings, ceilings_for
from lanewise.kernels import Kernel
from lanewise.model.trace import Trace
from lanewise.work import Work

__all__ = ["PRODUCTS", "arithmetic_ceiling", "arithmetic_type", "device_ceilings", "limit_ns"]

PRODUCTS = frozenset({"gemm", "gemv", "conv", "attention", "moe"})
"""Kinds of work whose arithmetic is matrix products, which tensor cores do."""


def device_ceilings(trace: Trace) -> dict[int, Ceilings | None]:
    """The rates to compare with, for each device that has GPU ops; None where the card is not known."""
    out: dict[int, Ceilings | None] = {}
    for index in np.unique(trace.column("gpu_ops", "device")).tolist():
        known = trace.device(index)
        out[index] = ceilings_for(known.name, known.sms, known.memory_bytes) if known.name else None
    return out


def arithmetic_type(work: Work, kernel: Kernel | None = None) -> str | None:
    """The type whose rate counts; None where it is not known.

    Of products that of the operands; fp32 runs as tf32 or as itself, and where a kernel is given only it tells which. All else
    is computed in fp32 (ATen's arithmetic on shorter types) or fp64.
    """
    if work.kind not in PRODUCTS:
        return "fp64" if work.dtype == "fp64" else "fp32"
    if work.dtype not in (None, "fp32") or kernel is None:
        return work.dtype
    if kernel.dtype is not None:
        return kernel.dtype.split("+")[0]
    return work.dtype if kernel.tensor_cores is False else None


def arithmetic_ceiling(ceilings: Ceilings, work: Work, kernel: Kernel | None = None) -> Ceiling | None:
    """The rate for a work's arithmetic; None where its type is not known or no source states the rate.

    Products: that of the tensor cores, whether the kernel uses them or not, else that of the ordinary units. fp32 on tensor
    cores without that type is done by three tf32 products.
    """
    dtype = arithmetic_type(work, kernel)
    if dtype is None:
        return None
    if work.kind not in PRODUCTS:
        return ceilings.flops(dtype, False)
    rate = ceilings.flops(dtype, True)
    if rate is None and dtype == "fp32" and kernel is not None and kernel.tensor_cores:
        single = ceilings.flops("tf32", True)
        rate = None if single is None else Ceiling(single.rate / 3, single.source)
    return ceilings.flops(dtype, False) if rate is None else rate


def limit_ns(ceilings: Ceilings, work: Work, dtype: str | None = None) -> float | None:
    """Time of a work at the ceilings: the larger of arithmetic and traffic, of those that are known.

    Args:
        ceilings: of the card.
        work: of an op call.
        dtype: type of a product's operands where it is not the recorded one: ``tf32``.
    """
    rate, memory = (
        arithmetic_ceiling(ceilings, work if dtype is None else replace(work, dtype=dtype)),
        ceilings.memory_bandwidth,
    )
    times = []
    if work.bytes is not None and memory is not None:
        times.append(work.bytes / memory.rate * 1e9)
    if work.flops is not None and rate is not None:
        times.append(work.flops / rate.rate * 1e9)
    return max(times, default=None)
