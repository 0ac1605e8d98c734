# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4", "kernels>=0.17,<0.18", "liger-kernel>=0.8,<0.9"]
# ///
"""Rung 3, by hand: the same layer with a kernel that somebody tuned.

Liger's GeGLU layer keeps the three products and replaces GELU and
multiplication by one Triton kernel, written by hand. It launches as many
kernels as the compiled layer of `03_simple_mlp.py`: a library and a compiler
arrive at the same place, one without compiling at run time, the other without
anybody having written a kernel.

    python ladder/03_kernels_mlp.py --guess "3 gemm triton"

The layer comes from the kernels hub (`kernels-community/liger-kernels`), or
from the package `liger-kernel` where the hub cannot be reached, or from
`--kernel FOLDER`.
"""

from types import MethodType

import torch
from torch import nn
from torch.profiler import record_function

from lanewise.ladder import Lesson
from lanewise.ladder.hub import HubKernel, KernelUnavailableError

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 64, "sequences", cpu=4)
lesson.size("--seq", 128, "tokens in a sequence")
lesson.size("--dim", 768, "width of the model", cpu=256)
lesson.size("--hidden", 3072, "width of the hidden layer", cpu=1024)
lesson.compiling()
lesson.parser.add_argument("--kernel", metavar="FOLDER", help="a kernel folder on this machine instead of the hub")
args = lesson.parse()
hub = HubKernel("kernels-community/liger-kernels", version=1, attribute="layers.LigerGEGLUMLP")


def liger_layer() -> tuple[type, str]:
    """The layer's class and where it is from."""
    try:
        return hub.load(args.kernel), "hub"
    except KernelUnavailableError as reason:
        if args.kernel is not None:
            lesson.cannot(str(reason))
        print(reason)
    try:
        from liger_kernel.transformers.geglu import LigerGEGLUMLP
    except ImportError:
        lesson.cannot(
            "and the package is not installed either: pip install liger-kernel. Without it: 03_simple_mlp.py --compile"
        )
    print("Taking LigerGEGLUMLP from the package liger-kernel.")
    return LigerGEGLUMLP, "liger"


class GeGLU(nn.Module):
    """The same weights as in `03_simple_mlp.py`; `forward` is the library's."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)


if args.device == "cpu" and args.kernel is None:
    lesson.cannot("Liger's kernel is written in Triton, which needs a GPU. On a CPU: 03_simple_mlp.py --compile")
layer_class, source = liger_layer()
layer = GeGLU(args.dim, args.hidden).to(args.device, args.dtype)
layer.forward = MethodType(layer_class.forward, layer)
x = torch.randn(args.batch, args.seq, args.dim, device=args.device, dtype=args.dtype)
forward = lesson.compiled(layer)


@torch.no_grad()
def step():
    with record_function("mlp_fwd"):
        forward(x)


sizes = [args.batch, args.seq, args.dim, args.hidden]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", source, lesson.variant])
