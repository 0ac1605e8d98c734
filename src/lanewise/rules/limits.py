"""How long work takes on this card when it is done well: realistic times, from the data sheet's rates and the share that good
kernels reach of them.

The shares were measured on an H200 (torch 2.11, cuBLAS and cuDNN of CUDA 13); A100 and H100 reach about the same. Each is what
usual kernels reach, not the best: a price is what a fix is likely to bring.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .context import Context

__all__ = ["LAUNCH_NS", "Attention", "arithmetic_ns", "attention_ns", "fused_speedup", "product_ns", "stream_ns"]

# A kernel takes this long however little it does: the shortest on an H200 take 1 us, those with a tile's work 2 to 3.
LAUNCH_NS = 2_500.0
# Vectorised pointwise kernels and copies of 25 MB and more: 0.83 to 0.94 of the data sheet's bandwidth.
STREAM_SHARE = 0.88
# 110 products of 2 to 1100 GFLOP, bf16 and TF32: within 15 % of 0.8 of the dense peak plus the launch.
TENSOR_CORE_SHARE = 0.8
# fp32 products on CUDA cores: 0.65 to 0.77 of the peak.
CUDA_CORE_SHARE = 0.72
# Fused attention (cuDNN and FlashAttention 2 and 3, bf16, 256 to 4096 keys), operations of the full score matrix against the
# dense peak: forward 0.22 to 0.46 with heads of 64, 0.29 to 0.67 of 128; backward 0.15 to 0.44 and 0.17 to 0.56.
_ATTENTION_SHARE = {(64, False): 0.3, (64, True): 0.27, (128, False): 0.42, (128, True): 0.37}
# fp32 runs in the memory-efficient kernel: 38 to 42 of the 67 TFLOP/s of the CUDA cores.
_ATTENTION_FP32_SHARE = 0.58
# What a causal mask leaves of the time: 0.6 to 0.75 from 1024 keys on, nothing is gained below 512.
_CAUSAL_SHARE = 0.7
_CAUSAL_KEYS = 1024


def stream_ns(ctx: Context, n_bytes: float) -> float | None:
    """Time in ns of a kernel that does nothing but move some bytes; None for an unknown card."""
    ns = ctx.memory_ns(n_bytes)
    return None if ns is None else max(ns / STREAM_SHARE, LAUNCH_NS)


def arithmetic_ns(ctx: Context, instructions: float) -> float:
    """Time in ns that the CUDA cores need to issue some fp32 instructions; 0 for an unknown card."""
    peak = ctx.device.peak_flops("fp32", tensor_cores=False) if ctx.device is not None else None
    # The data sheet counts a multiply-add as two operations; it is one instruction.
    return 0.0 if not peak else instructions / (peak / 2) * 1e9


def product_ns(ctx: Context, flops: float, n_bytes: float, dtype: str) -> float | None:
    """Time in ns of a matrix product or convolution whose sizes suit the card; None where its rates are not known.

    Args:
        ctx: the trace's context.
        flops: operations, a multiply-add counted as two.
        n_bytes: least memory traffic.
        dtype: type of the operands; ``tf32`` for fp32 on tensor cores, ``fp32`` for CUDA cores.
    """
    if ctx.device is None:
        return None
    cuda_cores = dtype in ("fp32", "fp64") and ctx.device.peak_flops(dtype, tensor_cores=True) is None
    peak = ctx.device.peak_flops(dtype, tensor_cores=not cuda_cores)
    memory = ctx.memory_ns(n_bytes)
    if not peak or memory is None:
        return None
    share = CUDA_CORE_SHARE if cuda_cores else TENSOR_CORE_SHARE
    return max(flops / (peak * share) * 1e9, memory / STREAM_SHARE) + LAUNCH_NS


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes of one attention call.

    Attributes:
        heads: batch times heads.
        queries, keys: lengths.
        dim, value_dim: sizes of a head.
        dtype: of queries, keys and values.
        causal: whether a causal mask is known to apply.
    """

    heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int
    dtype: str
    causal: bool = False

    def of_type(self, dtype: str) -> Attention:
        """The same sizes with another type."""
        return replace(self, dtype=dtype)


def fused_speedup(ctx: Context) -> float:
    """How much faster fused attention in half precision computes than fp32 products on CUDA cores; 1 for an unknown card."""
    if ctx.device is None:
        return 1.0
    half = ctx.device.peak_flops("fp16", tensor_cores=True)
    single = ctx.device.peak_flops("fp32", tensor_cores=False)
    return half * _ATTENTION_SHARE[64, False] / (single * CUDA_CORE_SHARE) if half and single else 1.0


def attention_ns(ctx: Context, a: Attention, backward: bool) -> float | None:
    """Time in ns of a fused attention kernel, forward or backward; None where the card's rates are not known."""
    if ctx.device is None:
        return None
    scores = a.heads * a.queries * a.keys
    flops = 2.0 * scores * (a.dim + a.value_dim) * (2.5 if backward else 1.0)
    if a.dtype in ("fp32", "fp64"):
        peak, share = ctx.device.peak_flops(a.dtype, tensor_cores=False), _ATTENTION_FP32_SHARE
    else:
        peak = ctx.device.peak_flops(a.dtype, tensor_cores=True)
        share = _ATTENTION_SHARE[128 if a.dim >= 96 else 64, backward]
    item = 2 if a.dtype in ("fp16", "bf16") else 4
    moved = a.heads * item * (a.queries * (a.dim + a.value_dim) + a.keys * (a.dim + a.value_dim)) * (2.5 if backward else 1)
    memory = ctx.memory_ns(moved)
    if not peak or memory is None:
        return None
    causal = _CAUSAL_SHARE if a.causal and min(a.queries, a.keys) >= _CAUSAL_KEYS else 1.0
    return max(flops / (peak * share) * 1e9 * causal, memory / STREAM_SHARE) + LAUNCH_NS
