"""sdpa-math: scaled_dot_product_attention in its math backend, op by op."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .attention_calls import attention_of
from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context
from .fused_attention import Site, fusion
from .limits import Attention
from .sequence import Op

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_MATH = "aten::_scaled_dot_product_attention_math"
# FlashAttention takes heads up to this size (sdp_utils.cpp, check_head_dim_size_flash).
_FLASH_DIM = 256
# The memory-efficient kernel loads 16 bytes at a time: heads of a multiple of 8 elements in half precision.
_EFFICIENT_UNIT = 8
# Cards below compute capability 8.0 have no FlashAttention and no bf16 tensor cores.
_FLASH_CAPABILITY = 8.0
_FUSED_TYPES = ("fp16", "bf16", "fp32")


def _check(ctx: Context) -> Outcome:
    events = ctx.in_steps(ctx.events_named(_MATH))
    if not len(events):
        return Clear()
    inner = _around(ctx, events)
    order = np.argsort(ctx.trace.ts[events], kind="stable")
    sites, ops = [], []
    for number in order:
        event = int(events[number])
        op = _op(ctx, event)
        call = attention_of(op)
        places = np.flatnonzero(inner == number)
        if len(places):
            sites.append(Site(event, event, places, None if call is None else _fusible(call.sizes)))
            ops.append(op)
    found = fusion(ctx, sites) if sites else None
    if found is None:
        return Clear()
    op, sizes = ops[0], sites[0].sizes
    named = {"shape": "", "dtype": "", "dim": ""}
    if sizes is not None:
        named = {"shape": str(list(op.tensors[0].shape)), "dtype": str(op.tensors[0].dtype), "dim": str(sizes.dim)}
    return [
        Draft(
            {
                "calls": count(ctx.per_step(found.sites)),
                "kernels": count(ctx.per_step(found.kernels)),
                "gpu": duration(ctx.per_step(found.now_ns)),
                "after": duration(ctx.per_step(found.after_ns)),
                **named,
            },
            found.change,
            ctx.per_step(found.now_ns),
            [int(sites[0].first), *first_events(ctx.gpu_event[found.rows])],
            variant="" if sizes is None else "shapes",
            fix_variant="" if sizes is None else _reason(ctx, op, sizes),
            confidence="medium" if sizes is None else "high",
            where=ctx.where(int(sites[0].first)),
        )
    ]


def _fusible(sizes: Attention) -> Attention:
    """What a fused kernel would compute: types that none takes are cast to half precision."""
    return sizes if sizes.dtype in _FUSED_TYPES else sizes.of_type("bf16")


def _around(ctx: Context, events: Array) -> Array:
    """int64 (n,): which of some events is around each GPU op of the sequence, -1 for none."""
    number = np.full(len(ctx.trace) + 1, -1, dtype=np.int64)
    number[events] = np.arange(len(events))
    inside = np.full(len(ctx.tree.events), -1, dtype=np.int64)
    inside[:] = number[ctx.tree.events]
    for level in ctx.tree.levels()[1:]:
        inside[level] = np.where(inside[level] >= 0, inside[level], inside[ctx.tree.parent[level]])
    of_event = np.full(len(ctx.trace) + 1, -1, dtype=np.int64)
    of_event[ctx.tree.events] = inside
    return of_event[np.where(ctx.sequence.owner >= 0, ctx.sequence.owner, -1)]


def _op(ctx: Context, event: int) -> Op:
    return Op(ctx.trace.name_of(event).removeprefix("aten::"), ctx.arguments(event))


def _reason(ctx: Context, op: Op, sizes: Attention) -> str:
    """Why the fused backends did not take these inputs, as far as they tell; the order is that of their checks."""
    inputs, q = op.inputs, op.tensors[0]
    if inputs is None:
        return ""
    masked = inputs.tensor(3) is not None
    if len(q.shape) != 4:
        return "rank"
    if q.dtype not in _FUSED_TYPES:
        return "dtype"
    if any(t.strides is not None and t.shape[-1] > 1 and t.strides[-1] != 1 for t in op.tensors[:3]):
        return "stride"
    if sizes.dim > _FLASH_DIM or (sizes.dim % _EFFICIENT_UNIT and sizes.dtype != "fp32"):
        return "head"
    grouped = op.tensors[1].shape[1] != q.shape[1]
    if grouped and (masked or sizes.dtype == "fp32"):
        return "grouped"
    capability = _capability(ctx)
    if sizes.dtype == "bf16" and capability is not None and capability < _FLASH_CAPABILITY:
        return "card"
    return "pinned"


def _capability(ctx: Context) -> float | None:
    try:
        return float(ctx.device.compute_capability) if ctx.device is not None else None
    except ValueError:
        return None


RULE = Rule(
    id="sdpa-math",
    precedence=10,
    needs=("gpu_events", "launches", "cpu_ops"),
    check=_check,
    english={
        "name": "Attention in the math backend",
        "title": "scaled_dot_product_attention runs as {kernels} kernels a step",
        "text": "The math backend writes all scores to memory and computes in fp32: {gpu} a step (calls: {calls}). A fused kernel takes "
        "about {after}.",
        "text_shapes": "The math backend writes all scores to memory and computes in fp32: {gpu} a step (calls: {calls}, queries "
        "{shape}, {dtype}). A fused kernel takes about {after}.",
        "fix": "Let a fused backend run: sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]) says in a warning why "
        "it cannot.",
        "fix_pinned": "These inputs qualify for the fused kernels: remove sdpa_kernel(SDPBackend.MATH) or "
        "torch.backends.cuda.enable_flash_sdp(False).",
        "fix_rank": "The fused kernels take 4 dimensions (batch, heads, length, head size), not {shape}: q.unsqueeze(0) or a view.",
        "fix_dtype": "The fused kernels take fp16, bf16 and (memory-efficient) fp32, not {dtype}: cast q, k and v.",
        "fix_stride": "The fused kernels need the last dimension without gaps: .contiguous() on the tensor that is transposed there.",
        "fix_head": "FlashAttention takes head sizes up to 256, all fused kernels multiples of 8, not {dim}: pad the head size.",
        "fix_grouped": "With fewer key heads than query heads only FlashAttention is fused, and it takes no mask and no fp32: is_causal=True "
        "instead of attn_mask, bf16, or repeat_interleave for keys and values.",
        "fix_card": "This card has no fused kernel for bf16: use fp16.",
        "doc_finds": "`aten::_scaled_dot_product_attention_math` around GPU work: the fallback of `F.scaled_dot_product_attention`.",
        "doc_why": "The fallback multiplies, scales, masks, normalises and multiplies again, each op reading and writing a matrix of "
        "queries times keys, in fp32 where the inputs are in half precision. FlashAttention never writes that matrix.",
        "doc_fix": "from torch.nn.attention import SDPBackend, sdpa_kernel\n\nwith sdpa_kernel([SDPBackend.FLASH_ATTENTION]):\n    "
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # raises and says why, instead of falling back",
        "doc_fine": "For a few short queries (decoding), where the scores are small, or where double precision is wanted.",
        "doc_measured": "All GPU time inside the op, and in the nodes of its backward pass by their sequence numbers, against a fused "
        "kernel: its arithmetic at 30 % of the dense peak with heads of 64 and 42 % of 128 (27 and 37 % backward), what cuDNN and "
        "FlashAttention reach on an H200. The reason is read off shapes, types, strides and mask.",
    },
)
