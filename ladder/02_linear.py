# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 2: a linear layer, and the kernel that is not there.

A linear layer is a matrix product and an addition of the bias, as on rung 1;
yet one kernel runs, not two. cuBLAS adds the bias while the product is still
in registers (an epilogue; on Hopper the kernel's name says `bias`). There is
nothing left to fuse, so torch.compile launches the very same kernel and can
only save CPU time around it.

    python ladder/02_linear.py --guess "gemm add"          one of the two is wrong
    python ladder/02_linear.py --compile                   compare the kernel's name
"""

import torch
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 1024, "rows of the input")
lesson.size("--in_dim", 32, "columns of the input")
lesson.size("--out_dim", 64, "columns of the output")
lesson.compiling()
args = lesson.parse()

layer = torch.nn.Linear(args.in_dim, args.out_dim, bias=True, device=args.device, dtype=args.dtype)
x = torch.randn(args.batch, args.in_dim, device=args.device, dtype=args.dtype)
forward = lesson.compiled(layer)


@torch.no_grad()
def step():
    with record_function("linear_fwd"):
        forward(x)


sizes = [args.batch, args.in_dim, args.out_dim]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", lesson.variant])
