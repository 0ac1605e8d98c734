"""no-tensor-cores: fp32 products and convolutions on CUDA cores of a card that has tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .attention_calls import attention_of
from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events, flops_rate
from .context import Context
from .limits import attention_ns, product_ns
from .sequence import Op, Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_KINDS = ("gemm", "gemv", "conv")
_BY_FFT = ("fp32", "complex64")
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "cudnn_convolution", "_convolution", "convolution_overrideable")
# autocast casts the input and the weight of each product (and its bias) from fp32, once a step; training casts the gradients
# back. Each cast reads 4 bytes an element and writes 2.
_CAST_BYTES = 6
_CASTS = {"addmm": 3, "baddbmm": 3}


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    seq = ctx.sequence
    slow = _on_cuda_cores(ctx, seq)
    training = bool(seq.backward.any())
    target = next((d for d in (("bf16", "fp16") if training else ("tf32", "fp16")) if ctx.device.peak_flops(d, True)), None)
    if target is None or not slow.any():
        return Clear()
    half = target != "tf32"
    new = _new_times(ctx, seq, slow, target)
    if half:
        attention = ctx.kernels_where(lambda k: k.kind == "attention" and k.dtype == "fp32")[seq.rows]
        new = np.minimum(new, _attention_times(ctx, seq, attention, target))
    faster = np.flatnonzero(new < seq.ns)
    if not len(faster):
        return Clear()
    after = {int(seq.rows[i]): int(new[i]) for i in faster}
    now = float(seq.ns[faster].sum())
    largest = faster[np.argsort(-seq.ns[faster], kind="stable")]
    top = seq.op(int(largest[0])).product
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(faster))),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(float(new[faster].sum()))),
                "rate": flops_rate(None if top is None else top.flops / float(seq.ns[largest[0]]) * 1e9),
                "peak": flops_rate(ctx.device.peak_flops(target, True)),
                "kernel": ctx.kernel(int(seq.rows[largest[0]])).name[:60],
            },
            Change(gpu=after, extra_cpu_ns=_casting_ns(ctx, seq, slow, training) if half else 0.0),
            ctx.per_step(now),
            first_events(ctx.gpu_event[seq.rows[largest]]),
            variant=("train" if training else "half") if half else "",
            confidence="medium" if half else "high",
            where=ctx.where(int(seq.owner[largest[0]])),
        )
    ]


def _on_cuda_cores(ctx: Context, seq: Sequence) -> Array:
    """bool (n,): fp32 products that leave the tensor cores idle."""
    slow = ctx.kernels_where(lambda k: k.kind in _KINDS and k.tensor_cores is False and k.dtype == "fp32")[seq.rows]
    # A convolution by FFT: transforms, and products of complex numbers.
    transformed = ctx.kernels_where(lambda k: k.kind in _KINDS and k.tensor_cores is not True and k.dtype in _BY_FFT)[seq.rows]
    found: Array = slow | (transformed & np.array(["convolution" in op.name for op in seq.ops], dtype=np.bool_)[seq.op_of])
    return found


def _new_times(ctx: Context, seq: Sequence, slow: Array, target: str) -> Array:
    """ns (n,): the kernels' times on tensor cores; their present times where that is not known."""
    new = seq.ns.astype(np.float64)
    chosen = np.flatnonzero(slow)
    calls, call_of = np.unique(seq.owner[chosen], return_inverse=True)
    present = np.bincount(call_of, weights=seq.ns[chosen], minlength=len(calls))
    per_op = np.array([_product_time(ctx, seq, int(i), target) for i in _one_of_each(seq, chosen)])
    ops = np.unique(seq.op_of[chosen])
    wanted = per_op[np.searchsorted(ops, seq.op_of[chosen])]
    ratio = np.where(np.isnan(wanted), 1.0, np.minimum(wanted / np.maximum(present[call_of], 1), 1.0))
    new[chosen] *= ratio
    return new


def _one_of_each(seq: Sequence, chosen: Array) -> Array:
    """One place of each distinct op among some, by op."""
    _, first = np.unique(seq.op_of[chosen], return_index=True)
    return chosen[first]


def _product_time(ctx: Context, seq: Sequence, i: int, target: str) -> float:
    """ns of one call on tensor cores with its casts; NaN where its sizes are not known."""
    work = ctx.work(int(seq.owner[i])) if seq.owner[i] >= 0 else None
    if work is None or work.flops is None or work.bytes is None:
        return float("nan")
    if target == "tf32":
        ns = product_ns(ctx, work.flops, work.bytes, target)
        return float("nan") if ns is None else ns
    ns = product_ns(ctx, work.flops, work.bytes / 2, target)
    cast = ctx.memory_ns(_operand_elements(seq.op(i)) * _CAST_BYTES)
    return float("nan") if ns is None or cast is None else ns + cast


def _operand_elements(op: Op) -> int:
    return sum(t.stored for t in op.tensors[:3])


def _attention_times(ctx: Context, seq: Sequence, chosen: Array, target: str) -> Array:
    """ns (n,): fp32 attention in half precision; present times of all else."""
    new = seq.ns.astype(np.float64)
    for i in _one_of_each(seq, np.flatnonzero(chosen)):
        found = attention_of(seq.op(int(i)))
        ns = None if found is None else attention_ns(ctx, found.sizes.of_type(target), found.backward)
        if ns is not None:
            same = chosen & (seq.op_of == seq.op_of[i])
            new[same] = np.minimum(new[same], ns)
    return new


def _casting_ns(ctx: Context, seq: Sequence, slow: Array, training: bool) -> float:
    """CPU time per step of the casts that autocast adds.

    A cast is one pointwise op, without the module around it that other calls have: its CPU time is that of the median call with
    one kernel (0.8 to 1.1 of it on four pairs of traces).
    """
    forward = np.unique(np.where(slow & ~seq.backward & np.isin(seq.named, _PRODUCTS), seq.owner, -1))
    names = [ctx.trace.name_of(int(e)).removeprefix("aten::") for e in forward if e >= 0]
    casts = sum(_CASTS.get(name, 2) for name in names)
    return ctx.per_step(casts) * (2 if training else 1) * ctx.op_cpu_ns


RULE = Rule(
    id="no-tensor-cores",
    precedence=25,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Matmuls without tensor cores",
        "title": "{gpu} of fp32 matmuls a step run on CUDA cores",
        "text": "Kernels that multiply in full fp32 and leave the tensor cores idle: {kernels} a step. The largest reaches {rate}, where TF32 "
        "allows {peak}; in TF32 all would take about {after}.",
        "fix": 'torch.set_float32_matmul_precision("high")  # TF32: 10 bits of mantissa, range of fp32',
        "title_train": "{gpu} of fp32 matmuls a step train on CUDA cores",
        "text_train": "Kernels that compute in full fp32 and leave the tensor cores idle: {kernels} a step. Under bf16 autocast they would take "
        "about {after}; the CPU time of the casts that autocast adds is counted.",
        "fix_train": 'with torch.autocast("cuda", torch.bfloat16): loss = model(x)   # or TF32, one line and no casts: '
        'torch.set_float32_matmul_precision("high")',
        "text_half": "Kernels that multiply in full fp32: {kernels} a step. This card's tensor cores take fp16, in which all would take about "
        "{after}.",
        "fix_half": 'with torch.autocast("cuda", torch.float16): y = model(x)',
        "doc_finds": "Matmuls and convolutions of fp32 tensors in kernels without matrix instructions (`sgemm`, `simt`, `ffma` in "
        "their names), on a card that has tensor cores.",
        "doc_why": "Tensor cores do TF32 seven times and bf16 fifteen times as fast as the CUDA cores of an H100 do fp32. PyTorch leaves "
        "TF32 off for matmuls unless told otherwise.",
        "doc_fix": 'torch.set_float32_matmul_precision("high")\n\nor, which also halves memory traffic, bf16 autocast in training and '
        "bf16 weights in inference: `model.to(torch.bfloat16)`.",
        "doc_fine": "Where 24 bits of mantissa are needed (solvers, some physics), or where the CPU bounds the step: autocast adds casts, "
        "and a CPU-bound step can become slower with it.",
        "doc_measured": "Each call's arithmetic and traffic from its shapes, at 80 % of the dense peak of TF32 (inference) or bf16 (training, "
        "with the traffic of the casts), or at the memory bandwidth where that is longer; 80 % is what well-shaped cuBLAS matmuls reach. "
        "Autocast's casts cost the CPU the median call of one kernel each: 2 or 3 for each matmul, twice in training.",
    },
)
