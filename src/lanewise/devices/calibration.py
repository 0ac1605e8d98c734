"""Measures what the present GPU really reaches: streaming its memory, and large matrix products by type.

Each call is timed by events on the GPU, in short bursts with rests between them; a burst counts as its median, a kernel
as its best burst, a rate as its best kernel and size: a ceiling is what can be reached. The rests matter, since under
unbroken load a card lowers its clock (an H200 fell from 796 to 690 TFLOP/s in bf16 within 20 products of 8192), and most
programs leave such rests. So do the operands: here they are normally distributed, as weights and activations are.
Numbers whose bits change less draw less power (uniform ones between 0 and 1: 7 % faster there), so that a kernel can come
out a few per cent above this ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median
from time import sleep
from typing import Any

from lanewise.errors import UsageError

from .ceilings import Measurement
from .texts import TEXTS

__all__ = ["DTYPES", "measure"]

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")

# The best of some bursts, with rests between: a card that is warm from the burst before lowers its clock.
_WARM_UP = 3
_BURSTS = 6
_CALLS = 5
_REST_S = 0.1
_GIB = 1 << 30
# A stream must be far larger than any L2 cache (128 MB and growing).
_STREAM_BYTES = 2 * _GIB
# Sizes of products, all multiples of every tile; each is tried as long as a call stays below the limit. None is best
# everywhere: on an H200 bf16 was as fast at 4096 as at 8192, fp8 and int8 at 8192 or above.
_SIZES = (2048, 4096, 8192, 16384)
_LONGEST_CALL_S = 0.06  # a size takes 33 calls: two seconds

# FP64 tensor cores are in the data-center cards alone (CUDA C++ Programming Guide, compute capabilities 8.0, 9.0, 10.0).
_FP64_TENSOR_CORES = {(8, 0), (9, 0), (10, 0)}


@dataclass(frozen=True)
class _Gpu:
    """The card under test, and torch."""

    torch: Any
    index: int

    @property
    def device(self) -> str:
        return f"cuda:{self.index}"

    @property
    def properties(self) -> Any:
        return self.torch.cuda.get_device_properties(self.index)

    @property
    def is_hip(self) -> bool:
        return self.torch.version.hip is not None

    @property
    def capability(self) -> tuple[int, int]:
        major, minor = self.torch.cuda.get_device_capability(self.index)
        return int(major), int(minor)

    def free_bytes(self) -> int:
        return int(self.torch.cuda.mem_get_info(self.index)[0])

    def seconds(self, call: Callable[[], object]) -> float:
        """Time of a call on the GPU: the median of its best burst."""
        for _ in range(_WARM_UP):
            call()
        return min(self._burst(call) for _ in range(_BURSTS))

    def _burst(self, call: Callable[[], object]) -> float:
        event = self.torch.cuda.Event
        events = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(_CALLS)]
        self.torch.cuda.synchronize(self.index)
        sleep(_REST_S)
        for start, end in events:
            start.record()
            call()
            end.record()
        self.torch.cuda.synchronize(self.index)
        return median(start.elapsed_time(end) for start, end in events) / 1e3


def measure(index: int = 0, dtypes: Iterable[str] = DTYPES, progress: Callable[[str], None] | None = None) -> Measurement:
    """Measures the ceilings of one GPU; takes about half a minute.

    Args:
        index: number of the GPU, as torch counts.
        dtypes: types of the products; one that the card or this torch cannot do is left out.
        progress: told what is measured next: ``memory``, then each type.

    Raises:
        UsageError: no torch, no GPU, no such number, an unknown type, or no free memory.
    """
    wanted = list(dtypes)
    unknown = [dtype for dtype in wanted if dtype not in DTYPES]
    if unknown:
        raise UsageError(unknown[0], TEXTS.message("unknown_dtype"), TEXTS.message("known_dtypes", dtypes=", ".join(DTYPES)))
    gpu = _gpu(index)
    tell = progress or (lambda what: None)
    with gpu.torch.cuda.device(index), gpu.torch.no_grad():
        tell("memory")
        bandwidth = _bandwidth(gpu)
        rates = {}
        for dtype in wanted:
            tell(dtype)
            rate = _product_rate(gpu, dtype)
            if rate is not None:
                rates[dtype] = rate
    return Measurement(
        name=str(gpu.properties.name),
        sms=int(gpu.properties.multi_processor_count),
        memory_bandwidth=bandwidth,
        vector_flops={dtype: rate for dtype, rate in rates.items() if not _on_tensor_cores(gpu, dtype)},
        matrix_flops={dtype: rate for dtype, rate in rates.items() if _on_tensor_cores(gpu, dtype)},
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=_versions(gpu),
    )


def _gpu(index: int) -> _Gpu:
    try:
        import torch
    except ImportError as error:
        raise UsageError("calibrate", TEXTS.message("no_torch"), TEXTS.message("install_torch")) from error
    if not torch.cuda.is_available():
        raise UsageError("calibrate", TEXTS.message("no_gpu"), TEXTS.message("run_elsewhere"))
    count = torch.cuda.device_count()
    if not 0 <= index < count:
        raise UsageError("--device", TEXTS.message("no_such_gpu", index=index, count=count))
    return _Gpu(torch, index)


def _versions(gpu: _Gpu) -> dict[str, str]:
    runtime = ("rocm", gpu.torch.version.hip) if gpu.is_hip else ("cuda", gpu.torch.version.cuda)
    return {"torch": str(gpu.torch.__version__), runtime[0]: str(runtime[1])}


def _bandwidth(gpu: _Gpu) -> float:
    """Bytes/s of the fastest of three streams: a copy, a sum of two (as most elementwise ops), a fill."""
    torch = gpu.torch
    n_bytes = min(_STREAM_BYTES, gpu.free_bytes() // 8)
    if n_bytes < 64 << 20:
        raise UsageError("calibrate", TEXTS.message("no_memory"), TEXTS.message("free_memory"))
    a, b, c = (torch.rand(n_bytes // 4, device=gpu.device) for _ in range(3))
    streams: list[tuple[int, Callable[[], object]]] = [
        (2, lambda: c.copy_(a)),
        (3, lambda: torch.add(a, b, out=c)),
        (1, lambda: c.fill_(1.0)),
    ]
    moved = n_bytes // 4 * 4
    return max(passes * moved / gpu.seconds(call) for passes, call in streams)


def _on_tensor_cores(gpu: _Gpu, dtype: str) -> bool:
    """Whether the libraries run a large product of this type on tensor cores (AMD: matrix cores)."""
    if gpu.is_hip:
        return True
    if dtype == "fp64":
        return gpu.capability in _FP64_TENSOR_CORES
    if dtype == "fp16":
        return gpu.capability >= (7, 0)
    return dtype != "fp32"


def _supported(gpu: _Gpu, dtype: str) -> bool:
    """Whether the card has the type. What this torch cannot do shows when it is tried."""
    if gpu.is_hip:
        return dtype != "tf32"
    least = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "int8": (7, 5)}
    return gpu.capability >= least.get(dtype, (0, 0))


def _product_rate(gpu: _Gpu, dtype: str) -> float | None:
    """FLOP/s of the fastest square product; None where the card or this torch cannot do it."""
    if not _supported(gpu, dtype):
        return None
    precision = gpu.torch.get_float32_matmul_precision()
    gpu.torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    best: float | None = None
    try:
        for size in _SIZES:
            # Three matrices, and room for what the library needs.
            if 4 * size * size * 8 > gpu.free_bytes():
                break
            duration = gpu.seconds(_product(gpu, dtype, size))
            best = max(best or 0.0, 2 * size**3 / duration)
            # The next size takes eight times as long.
            if 8 * duration > _LONGEST_CALL_S:
                break
    except (RuntimeError, AttributeError, NotImplementedError):
        return best
    finally:
        gpu.torch.set_float32_matmul_precision(precision)
        gpu.torch.cuda.empty_cache()
    return best


def _product(gpu: _Gpu, dtype: str, size: int) -> Callable[[], object]:
    """A call that multiplies two random square matrices."""
    torch = gpu.torch
    if dtype == "fp8":
        return _fp8_product(gpu, size)
    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (size, size), device=gpu.device, dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())
    kinds = {"fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
    kind = kinds.get(dtype, torch.float32)
    x, y, out = (torch.randn(size, size, device=gpu.device, dtype=kind) for _ in range(3))
    return lambda: torch.mm(x, y, out=out)


def _fp8_product(gpu: _Gpu, size: int) -> Callable[[], object]:
    """e4m3 with one scale a matrix and a bf16 result, as in training. MI300's e4m3 has another zero and no infinity."""
    torch = gpu.torch
    architecture = str(getattr(gpu.properties, "gcnArchName", ""))
    kind = torch.float8_e4m3fnuz if architecture.startswith("gfx942") else torch.float8_e4m3fn
    a, b = (torch.randn(size, size, device=gpu.device).to(kind) for _ in range(2))
    one = torch.ones((), device=gpu.device)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
