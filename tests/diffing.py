"""Helpers for tests of comparison: built steps, and the shared traces, each explained once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import lanewise
from builder import TraceBuilder
from lanewise.comparison import difference
from lanewise.comparison.document import Figure, KernelGroup, Pair
from lanewise.comparison.figures import TraceSide
from lanewise.model.trace import Trace
from places import SHARED

GELU = "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)>"  # noqa: E501
MUL = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<float, float, float, at::native::MulFunctor>>"
)
GEMM = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1"
FUSED = "triton_poi_fused_gelu_mul_0"

# Op, kernel, GPU time in us.
Call = tuple[str, str, float]
EAGER: tuple[Call, ...] = (("aten::mm", GEMM, 50), ("aten::gelu", GELU, 30), ("aten::mul", MUL, 30), ("aten::mm", GEMM, 50))
COMPILED: tuple[Call, ...] = (("aten::mm", GEMM, 50), (FUSED, FUSED, 35), ("aten::mm", GEMM, 50))


def built(
    calls: Sequence[Call] = EAGER, *, steps: int = 6, cpu: float = 10.0, outlier: int | None = None, real: float | None = None
) -> TraceBuilder:
    """Steps that call ops one after the other, each launching one kernel.

    Args:
        calls: what each step calls.
        steps: number of steps.
        cpu: us on the CPU of a call; a little is added that differs from step to step.
        outlier: step whose CPU times are ten times as long.
        real: the step's time outside the profiler, in us.
    """
    t = TraceBuilder()
    if real is not None:
        t.header["lanewise"] = {"schema": "lanewise.recording/1", "unprofiled_step_us": {"median": real, "steps": 20}}
    at = free = 0.0
    for i in range(steps):
        begin = at
        each = (cpu + 0.1 * (i * 7 % 5)) * (10 if i == outlier else 1)
        for op, kernel, gpu in calls:
            t.op(op, round(at + 1, 3), round(each, 3))
            start = max(round(at + 2 + each, 3), free)
            free = round(start + gpu + 0.01 * (i * 3 % 4), 3)
            t.launch(round(at + 2, 3), round(each / 2, 3), gpu=(start, round(free - start, 3)), name=kernel)
            at = round(at + each + 2, 3)
        t.span("user_annotation", f"ProfilerStep#{i}", begin, round(at - begin, 3), t.pid, 1)
        at += 1
    return t


def named(builder: TraceBuilder, name: str) -> Trace:
    """A built trace with a name."""
    trace = builder.load()
    trace.path = f"{name}.json"
    return trace


def pair(base: TraceSide, new: TraceSide, *, anyway: bool = False, lang: str = "en") -> Pair:
    """Two sides compared."""
    return difference.pair(base, new, 1, ("base", "new"), lang, anyway)


def built_pair(base: TraceBuilder, new: TraceBuilder, *, anyway: bool = False) -> Pair:
    """Two built traces compared."""
    return pair(TraceSide(base.load(), "en"), TraceSide(new.load(), "en"), anyway=anyway)


@cache
def side(path: str) -> TraceSide:
    """A shared trace by its path below ``traces``."""
    return TraceSide(lanewise.load(SHARED / "traces" / path), "en")


@cache
def shared_pair(base: str, new: str) -> Pair:
    """Two shared traces compared."""
    return pair(side(base), side(new))


def figure(found: Pair, name: str) -> Figure:
    """A figure by its id."""
    return next(f for f in found.figures if f.id == name)


def labels(group: KernelGroup) -> tuple[list[str], list[str]]:
    """What a group stands for, in short."""
    return [p.label for p in group.base], [p.label for p in group.new]


def repeats(workload: str) -> list[Path]:
    """Recordings of one program."""
    return sorted((SHARED / "traces/repeats").glob(f"{workload}_*.json.gz"))
