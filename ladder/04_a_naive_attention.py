# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 4a: attention as the formula has it.

softmax(q k^T / sqrt(d), masked) v, one op after the other. The scores are
batch x heads x seq x seq: 268 MB in bf16 for the default sizes, written and
read again by every op between the two products. `masked_fill` makes it worse:
not in place, it copies all scores first (a device-to-device memcpy in the
trace) and then fills the copy.

    python ladder/04_a_naive_attention.py --guess "gemm mul copy mask softmax gemm"
    python ladder/04_a_naive_attention.py --compile
"""

import math

import torch
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 8, "sequences", cpu=1)
lesson.size("--heads", 16, "attention heads", cpu=8)
lesson.size("--seq", 1024, "tokens in a sequence", cpu=256)
lesson.size("--head_dim", 64, "width of a head")
lesson.compiling()
args = lesson.parse()

shape = (args.batch, args.heads, args.seq, args.head_dim)
q, k, v = (torch.randn(shape, device=args.device, dtype=args.dtype) for _ in range(3))
future = torch.ones(args.seq, args.seq, device=args.device, dtype=torch.bool).triu(1)


def attention(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores = scores * (1 / math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(future, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


forward = lesson.compiled(attention)


@torch.no_grad()
def step():
    with record_function("attn_fwd"):
        forward(q, k, v)


sizes = [args.batch, args.heads, args.seq, args.head_dim]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", lesson.variant])
