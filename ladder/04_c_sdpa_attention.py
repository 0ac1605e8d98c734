# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 4c: attention as one op, and the backend behind it.

`scaled_dot_product_attention` is one call, but which kernels run depends on
the backend. `math` is the formula again, step by step and in float32: 20 GPU
ops. `efficient` and `flash` are one kernel each, which keeps a tile of scores
on the chip and never writes them to memory. `cudnn` is one kernel too, with a
memset before it.

Which backend runs is otherwise chosen silently: a mask, a dtype or a head size
that flash does not take, and math may be what you get. `sdpa_kernel` pins it
and fails loudly instead.

    python ladder/04_c_sdpa_attention.py --backend math
    python ladder/04_c_sdpa_attention.py --backend flash --guess "attention"
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 8, "sequences", cpu=1)
lesson.size("--heads", 16, "attention heads", cpu=8)
lesson.size("--seq", 1024, "tokens in a sequence", cpu=256)
lesson.size("--head_dim", 64, "width of a head")
lesson.choice("--backend", ["flash", "math", "efficient", "cudnn"], "which implementation runs")
lesson.compiling()
args = lesson.parse()

backends = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
if args.device == "cpu" and args.backend in ("efficient", "cudnn"):
    lesson.cannot(f"the {args.backend} backend needs a GPU. On a CPU: --backend math or flash")

shape = (args.batch, args.heads, args.seq, args.head_dim)
q, k, v = (torch.randn(shape, device=args.device, dtype=args.dtype) for _ in range(3))
forward = lesson.compiled(torch.nn.functional.scaled_dot_product_attention)


@torch.no_grad()
def step():
    with sdpa_kernel(backends[args.backend]), record_function("sdpa_fwd"):
        forward(q, k, v, is_causal=True)


try:
    step()
except RuntimeError as error:
    lesson.cannot(f"the {args.backend} backend does not take this here: {str(error).splitlines()[0]}")

sizes = [args.batch, args.heads, args.seq, args.head_dim]
lesson.record(step, tag=[*sizes, args.dtype_name, args.backend, "warm", lesson.variant])
