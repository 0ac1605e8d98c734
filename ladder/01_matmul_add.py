# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 1: one matrix product, one addition, and everything around them.

The smallest program worth a trace: two kernels. At size 64 each runs for a
microsecond or two, while the CPU needs ten to find and launch it, so the GPU
mostly waits: the program is bound by its launches. At 4096 the same two ops
take 180 microseconds and the CPU runs ahead. Same code, other bottleneck.

    python ladder/01_matmul_add.py --guess "gemm add"      cold: the first calls, with all they set up
    python ladder/01_matmul_add.py --warmup                warm: what every later call costs
    python ladder/01_matmul_add.py --warmup --size 4096    the GPU is the bottleneck now
    python ladder/01_matmul_add.py --warmup --compile      does the addition disappear into the product?
"""

import torch
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--size", 64, "rows and columns of all three matrices")
lesson.switch("--batched", "a batch of 8 products instead of one")
lesson.switch("--warmup", "call it before the recording; without, the recording shows the first calls")
lesson.compiling()
args = lesson.parse()

shape = (8, args.size, args.size) if args.batched else (args.size, args.size)
x, w, b = (torch.randn(shape, device=args.device, dtype=args.dtype) for _ in range(3))


def matmul_add(x, w, b):
    # Two ops, so two kernels: the product is written to memory and read again by the addition.
    return torch.add(torch.matmul(x, w), b)


forward = lesson.compiled(matmul_add)


@torch.no_grad()
def step():
    # The annotation appears in the trace on the CPU's lane and, where there is one, on the GPU's.
    with record_function("matmul_add"):
        forward(x, w, b)


warmth = "warm" if args.warmup else "cold"
batched = ["batched"] if args.batched else []
lesson.record(step, tag=[args.size, *batched, args.dtype_name, warmth, lesson.variant], warm=args.warmup)
