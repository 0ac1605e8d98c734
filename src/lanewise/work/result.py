"""The amount of work that one op call stands for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic and memory traffic of one call of an op, as its definition demands, whatever kernels run it.

    Attributes:
        kind: what it computes, in the vocabulary of the kernel kinds (``gemm``, ``conv``, ``attention``,
            ``norm``, ``elementwise``, ``optimizer``, ...).
        flops: arithmetic operations, a multiply-add counted as two; None where they cannot be told.
        bytes: the least traffic with the GPU's memory: every input read once and every output written once,
            expanded inputs by the memory that they occupy; None where it cannot be told.
        dtype: type of the operands of the arithmetic (``bf16``), None where not recorded. ``fp32`` products
            may have run as ``tf32``: only the kernel tells.
        causal: whether a causal mask was counted, so that only the scores on its kept side are in `flops`;
            None where there is no attention.
        at_least: `bytes` (and `flops`, where stated in the note) are a lower bound, since what was accessed
            depends on values that the trace does not have.
        note: what was assumed; "" where nothing was.
    """

    kind: str
    flops: int | None
    bytes: int | None
    dtype: str | None = None
    causal: bool | None = None
    at_least: bool = False
    note: str = ""
