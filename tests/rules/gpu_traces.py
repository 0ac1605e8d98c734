"""Small traces for the rules about GPU work: steps of ops with recorded inputs, whose kernels run one after the other.

The CPU is quick (a few us an op) and the GPU slow, so that the GPU bounds each step: a saving is GPU time that goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from builder import TraceBuilder

BF16, FP16, FP32 = "c10::BFloat16", "c10::Half", "float"
MUL = "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, MulFunctor<float> >>"
CAST = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)>"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float>>>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 9, false, false>"
TENSOR = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4_alignc4_kernel"
ALIGN1 = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>"
DTOD = "Memcpy DtoD (Device -> Device)"

Shape = Sequence[int]


@dataclass
class Call:
    """A call of an op, with the ops inside it down to the one that launches.

    Attributes:
        names: the called op, and what is nested in it; the last one launches.
        kernels: (name, us) of its GPU ops.
        inputs: of the op that launches.
        grid: of its kernels.
        backward: autograd node that makes the call; "" for the forward pass.
        sequence: autograd's number of the forward op, or of the node.
        outer: inputs of the called op, where others than those of the launching one.
    """

    names: tuple[str, ...]
    kernels: list[tuple[str, float]]
    inputs: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, int, int] = (1024, 1, 1)
    backward: str = ""
    sequence: int | None = None
    outer: dict[str, Any] | None = None


def contiguous(shape: Shape) -> list[int]:
    """Strides of a tensor without gaps."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def tensors(
    *shapes: Shape, dtype: str | Sequence[str] = BF16, strides: Sequence[Shape | None] = (), **more: Any
) -> dict[str, Any]:
    """Recorded inputs: tensors with their strides (without gaps where not given), then scalars by their text in `scalars`."""
    types = [dtype] * len(shapes) if isinstance(dtype, str) else list(dtype)
    scalars = list(more.get("scalars", ()))
    found = [list(s) for s in strides] if strides else [contiguous(s) for s in shapes]
    found = [f or contiguous(s) for f, s in zip(found, shapes, strict=True)]
    return {
        "Input Dims": [*[list(s) for s in shapes], *[[] for _ in scalars]],
        "Input type": [*types, *["Scalar"] * len(scalars)],
        "Input Strides": [*found, *[[] for _ in scalars]],
        "Concrete Inputs": [*[""] * len(shapes), *scalars],
    }


def op(name: str, kernel: str, us: float, inputs: dict[str, Any] | None = None, **more: Any) -> Call:
    """A call of one op with one kernel."""
    return Call((f"aten::{name}",), [(kernel, us)], inputs or {}, **more)


def product(m: int, k: int, n: int, us: float, kernel: str = TENSOR, dtype: str = BF16, **more: Any) -> Call:
    """A call of `matmul` of two matrices."""
    return Call(("aten::matmul", "aten::mm"), [(kernel, us)], tensors((m, k), (k, n), dtype=dtype), **more)


def trace(calls: Sequence[Call], steps: int = 4, op_us: float = 8.0, between_us: float = 2.0) -> TraceBuilder:
    """Steps of some calls, one right after the other on the CPU; the GPU falls behind and runs without gaps."""
    return trace_of([calls] * steps, op_us, between_us)


def trace_of(steps: Sequence[Sequence[Call]], op_us: float = 8.0, between_us: float = 2.0, marked: bool = True) -> TraceBuilder:
    """The same of steps that may differ, and may not be marked as steps."""
    t = TraceBuilder()
    free, begin = 0.0, 100.0
    for step, calls in enumerate(steps):
        cpu_us = len(calls) * (op_us + between_us) + 10
        numbers = 1 + max((c.sequence or 0 for c in calls), default=0)
        if marked:
            t.step(step, begin, cpu_us)
        now = begin + 5.0
        for call in calls:
            free = _made(t, call, now, op_us, max(free, now + 6), step * numbers)
            now += op_us + between_us
        begin += cpu_us + 1
    return t


def _made(t: TraceBuilder, call: Call, now: float, op_us: float, free: float, numbers: int) -> float:
    lane = 2 if call.backward else 1
    number = (
        {} if call.sequence is None else {"Sequence number": call.sequence + numbers, "Fwd thread id": int(bool(call.backward))}
    )
    if call.backward:
        t.op(f"autograd::engine::evaluate_function: {call.backward}", now - 0.5, op_us + 1, lane, **number)
    inset = 0.25
    for depth, name in enumerate(call.names):
        innermost = depth == len(call.names) - 1
        recorded = call.inputs if innermost else call.outer if depth == 0 and call.outer else {}
        own = {} if call.backward else number
        t.op(name, now + depth * inset, op_us - 2 * depth * inset, lane, **recorded, **own)
    at = now + len(call.names) * inset
    for name, us in call.kernels:
        copy = name.startswith("Memcpy")
        where: dict[str, Any] = {"cat": "gpu_memcpy"} if copy else {"grid": list(call.grid)}
        t.launch(at, 0.5, gpu=(free, us), name=name, tid=lane, call="cudaMemcpyAsync" if copy else "cudaLaunchKernel", **where)
        at += 0.6
        free += us
    return free
