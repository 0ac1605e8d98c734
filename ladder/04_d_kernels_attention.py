# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4", "kernels>=0.17,<0.18"]
# ///
"""Rung 4d: an attention kernel from the kernels hub.

Flash attention again, not the copy inside torch but one that is fetched ready
compiled for this torch and this CUDA, at a pinned version. One kernel, as on
rung 4c; what differs is who built it, and how soon you get a newer one. It
wants the sequence before the heads, so there is nothing to transpose behind a
projection.

    python ladder/04_d_kernels_attention.py --guess "attention"
    python ladder/04_d_kernels_attention.py --kernel FOLDER     a kernel folder instead of the hub
"""

import torch
from torch.profiler import record_function

from lanewise.ladder import Lesson
from lanewise.ladder.hub import HubKernel, KernelUnavailableError

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 8, "sequences", cpu=1)
lesson.size("--heads", 16, "attention heads", cpu=8)
lesson.size("--seq", 1024, "tokens in a sequence", cpu=256)
lesson.size("--head_dim", 64, "width of a head")
lesson.compiling()
lesson.parser.add_argument("--kernel", metavar="FOLDER", help="a kernel folder on this machine instead of the hub")
args = lesson.parse()
hub = HubKernel("kernels-community/flash-attn2", version=1, attribute="flash_attn_func")

if args.device == "cpu" and args.kernel is None:
    lesson.cannot("this kernel needs a GPU. On a CPU: 04_c_sdpa_attention.py --backend flash")
try:
    flash_attention = hub.load(args.kernel)
except KernelUnavailableError as reason:
    lesson.cannot(f"{reason} The same algorithm inside torch: 04_c_sdpa_attention.py --backend flash")

shape = (args.batch, args.seq, args.heads, args.head_dim)
q, k, v = (torch.randn(shape, device=args.device, dtype=args.dtype) for _ in range(3))
forward = lesson.compiled(flash_attention)


@torch.no_grad()
def step():
    with record_function("attn_fwd"):
        forward(q, k, v, causal=True)


sizes = [args.batch, args.heads, args.seq, args.head_dim]
lesson.record(step, tag=[*sizes, args.dtype_name, "hub", "warm", lesson.variant])
