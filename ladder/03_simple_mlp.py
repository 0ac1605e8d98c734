# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 3: the feed-forward layer of a transformer, gated by a GELU.

Three matrix products do nearly all the arithmetic. Between them lie a GELU and
a multiplication, each of which reads and writes the whole hidden activation:
hardly any arithmetic, but as many bytes as a product moves. torch.compile
makes one kernel of the two (`triton_poi_fused_...`), which reads both inputs
once and writes once.

    python ladder/03_simple_mlp.py --guess "3 gemm gelu mul"
    python ladder/03_simple_mlp.py --compile --guess "3 gemm triton"

Copies and memsets count as GPU ops too: cuBLAS clears a workspace before some
products.
"""

import torch
from torch import nn
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--batch", 64, "sequences", cpu=4)
lesson.size("--seq", 128, "tokens in a sequence")
lesson.size("--dim", 768, "width of the model", cpu=256)
lesson.size("--hidden", 3072, "width of the hidden layer", cpu=1024)
lesson.compiling()
args = lesson.parse()


class GeGLU(nn.Module):
    """down(gelu(gate(x)) * up(x)), the GELU in its tanh form, no biases."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = nn.functional.gelu(self.gate_proj(x), approximate="tanh")
        return self.down_proj(gate * self.up_proj(x))


layer = GeGLU(args.dim, args.hidden).to(args.device, args.dtype)
x = torch.randn(args.batch, args.seq, args.dim, device=args.device, dtype=args.dtype)
forward = lesson.compiled(layer)


@torch.no_grad()
def step():
    with record_function("mlp_fwd"):
        forward(x)


sizes = [args.batch, args.seq, args.dim, args.hidden]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", lesson.variant])
