"""Traces of single op calls with their inputs, for tests of limits."""

from __future__ import annotations

from typing import Any

from builder import TraceBuilder

BF16, FP16, FP32 = "c10::BFloat16", "c10::Half", "float"
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
SGEMM = "ampere_sgemm_128x64_nn"
TF32 = "cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4"
ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
FUSED_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::(anonymous namespace)::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, "
    "float*, float*, (at::native::(anonymous namespace)::ADAM_MODE)1>"
)
FULL = 132


def inputs(dims: list[Any], types: list[str], concrete: list[str] | None = None) -> dict[str, Any]:
    """Arguments of an op as Kineto records them, contiguous tensors."""
    out: dict[str, Any] = {"Input Dims": dims, "Input type": types, "Input Strides": [_strides(d) for d in dims]}
    if concrete is not None:
        out["Concrete Inputs"] = concrete
    return out


def _strides(dims: Any) -> Any:
    out, step = [], 1
    for size in reversed(dims):
        if not isinstance(size, int):
            return []
        out.append(step)
        step *= size
    return out[::-1]


def shape(
    blocks: int, threads: int = 128, registers: int = 32, shared: int = 0, occupancy: int | None = None
) -> dict[str, Any]:
    """How a kernel was launched, as Kineto records it."""
    out: dict[str, Any] = {
        "grid": [blocks, 1, 1],
        "block": [threads, 1, 1],
        "registers per thread": registers,
        "shared memory": shared,
    }
    if occupancy is not None:
        out["est. achieved occupancy %"] = occupancy
    return out


class Calls(TraceBuilder):
    """One op call after the other, a millisecond apart, each with the GPU ops that it launches."""

    def __init__(self, **header: Any) -> None:
        super().__init__(**header)
        self.now = 0.0

    def add(
        self, op: str, recorded: dict[str, Any], *gpu: tuple[str, float, dict[str, Any]], call: str = "cudaLaunchKernel"
    ) -> None:
        """An op call; each GPU op is (name, microseconds, arguments)."""
        self.op(op, self.now, 100, **recorded)
        at = self.now + 200
        for i, (name, us, more) in enumerate(gpu):
            self.launch(self.now + 10 + 10 * i, 5, (at, us), name=name, call=call, **more)
            at += us
        self.now += 1000 + sum(us for _, us, _ in gpu)


def mm(m: int, n: int, k: int, dtype: str = BF16) -> dict[str, Any]:
    """Inputs of ``aten::mm``."""
    return inputs([[m, k], [k, n]], [dtype, dtype])
