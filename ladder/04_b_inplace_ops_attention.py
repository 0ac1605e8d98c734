# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 4b: the same attention, one letter longer.

`masked_fill_` instead of `masked_fill`. The underscore fills the scores where
they are, and the copy of 268 MB is gone from the trace, kernel for kernel the
same otherwise. Nobody reads the unmasked scores again, so nothing is lost;
under autograd, softmax keeps its own output and the masking needs only the
mask, so this stays legal in training.

    python ladder/04_b_inplace_ops_attention.py --guess "gemm mul mask softmax gemm"
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
    scores.masked_fill_(future, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


forward = lesson.compiled(attention)


@torch.no_grad()
def step():
    with record_function("attn_fwd"):
        forward(q, k, v)


sizes = [args.batch, args.heads, args.seq, args.head_dim]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", lesson.variant])
