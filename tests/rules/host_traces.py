"""Small traces for the rules about the CPU side: steps of ops one after the other, each with a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from builder import TraceBuilder

STEPS = 4
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
TO_GPU_PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
TO_GPU_PINNED = "Memcpy HtoD (Pinned -> Device)"
TO_CPU = "Memcpy DtoH (Device -> Pinned)"

Shapes = Sequence[Sequence[int]]
Body = Callable[["Program"], object]


def inputs(dims: Shapes, dtype: str = "float") -> dict[str, Any]:
    """Recorded inputs of an op: tensors of one type."""
    return {"Input Dims": [list(d) for d in dims], "Input type": [dtype] * len(dims)}


class Program:
    """A thread that makes calls one after the other, and a stream that runs what it launches.

    Attributes:
        now: where the CPU is, in us.
        free: when the GPU is done with all it was given.
    """

    def __init__(self, **options: Any) -> None:
        self.t = TraceBuilder(**options)
        self.now = 0.0
        self.free = 0.0
        self.pause = 2.0

    def queue(self, gpu_us: float, name: str = KERNEL, call: str = "cudaLaunchKernel", at: float = 0.0, **args: Any) -> float:
        """Launch something at a moment; the moment when the GPU is done with it."""
        start = max(self.free, at + 5)
        self.free = start + gpu_us
        self.t.launch(at, 4, gpu=(start, gpu_us), name=name, call=call, **args)
        return self.free

    def op(
        self,
        name: str,
        cpu_us: float = 20.0,
        gpu_us: float | None = 3.0,
        dims: Shapes | None = None,
        dtype: str = "float",
    ) -> None:
        """An op that takes some CPU time and launches a kernel (none for None)."""
        self.t.op(name, self.now, cpu_us, **(inputs(dims, dtype) if dims is not None else {}))
        if gpu_us is not None:
            self.queue(gpu_us, at=self.now + cpu_us / 2)
        self.now += cpu_us + self.pause

    def ops(self, n: int, **args: Any) -> None:
        """Several ops of one kind."""
        for _ in range(n):
            self.op("aten::add", **args)

    def read(self, name: str = "aten::item", dtype: str = "float", shape: Sequence[int] = ()) -> None:
        """A value read into Python: a copy to the CPU and a wait for it, 20 us of CPU time beside the wait."""
        begin = self.now
        copied = self.queue(1, TO_CPU, "cudaMemcpyAsync", at=begin + 6, cat="gpu_memcpy", bytes=4)
        wait_from = begin + 12
        wait = max(copied - wait_from, 0) + 4
        end = wait_from + wait + 8
        self.t.op(name, begin, end - begin, **inputs([shape], dtype))
        self.t.op("aten::_local_scalar_dense", begin + 2, end - begin - 4, **inputs([shape], dtype))
        self.t.call("cudaStreamSynchronize", wait_from, wait)
        self.now = end + self.pause

    def copy(self, n_bytes: int, gpu_us: float, name: str = TO_GPU_PAGEABLE, *, waits: bool = True) -> None:
        """`x.to(device)`, 20 us of CPU time: a copy to the GPU. A large one from pageable memory returns with the copy."""
        begin, at = self.now, self.now + 10
        start = max(self.free, at + 5)
        self.free = start + gpu_us
        call = self.free - at if "Pageable" in name and n_bytes > 65536 else 4
        self.t.launch(at, call, gpu=(start, gpu_us), name=name, call="cudaMemcpyAsync", cat="gpu_memcpy", bytes=n_bytes)
        end = at + call + 6
        if waits:
            wait_from = at + call + 1
            wait = max(self.free - wait_from, 0) + 4
            self.t.call("cudaStreamSynchronize", wait_from, wait)
            end = wait_from + wait + 5
        self.t.op("aten::to", begin, end - begin)
        self.t.op("aten::copy_", begin + 1, end - begin - 2)
        self.now = end + self.pause

    def idle(self, us: float) -> None:
        """Python, or nothing."""
        self.now += us

    def step(self, number: int, body: Body) -> None:
        """A step around some calls."""
        begin = self.now
        body(self)
        self.t.step(number, begin, self.now - begin)
        self.now += 1


def program(body: Body, steps: int = STEPS, **options: Any) -> TraceBuilder:
    """A trace of some equal steps, and the profiler's synchronisation after the last."""
    p = Program(**options)
    for i in range(steps):
        p.step(i, body)
    p.t.call("cudaDeviceSynchronize", p.now + 5, max(p.free - p.now, 0) + 5)
    return p.t
