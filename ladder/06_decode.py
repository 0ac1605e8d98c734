# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 6: generation, one token at a time.

Every token is a forward of its own, over a batch of one row: dozens of kernels
that each run for two microseconds, launched one by one. The GPU waits for the
CPU nearly all the time. A CUDA graph records the launches of one token once
and replays them as one. For that, nothing may change between tokens but the
contents of memory: the token, the position and the cache live at fixed
addresses, and the position is a tensor on the GPU instead of a number in
Python.

    python ladder/06_decode.py --tokens 8
    python ladder/06_decode.py --tokens 8 --graph
"""

import torch
from torch import nn
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--tokens", 8, "tokens to generate in one step")
lesson.size("--layers", 6, "decoder blocks", cpu=2)
lesson.size("--dim", 768, "width of the model", cpu=128)
lesson.size("--heads", 12, "attention heads", cpu=4)
lesson.size("--context", 512, "room in the cache", cpu=64)
lesson.switch("--graph", "replay a CUDA graph for each token")
args = lesson.parse()
if args.graph and args.device == "cpu":
    lesson.cannot("--graph records CUDA launches, which need a GPU. On a CPU: without --graph")
if args.tokens > args.context:
    lesson.cannot(f"--tokens {args.tokens} do not fit in a cache of --context {args.context}.")
VOCAB = 32768 if args.device == "cuda" else 1024


class Block(nn.Module):
    """A decoder block that remembers the keys and values of the tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(args.dim)
        self.qkv = nn.Linear(args.dim, 3 * args.dim)
        self.out = nn.Linear(args.dim, args.dim)
        self.mlp_norm = nn.LayerNorm(args.dim)
        self.mlp = nn.Sequential(nn.Linear(args.dim, 4 * args.dim), nn.GELU(), nn.Linear(4 * args.dim, args.dim))
        cache = torch.zeros(1, args.heads, args.context, args.dim // args.heads)
        self.register_buffer("keys", cache)
        self.register_buffer("values", cache.clone())

    def forward(self, x: torch.Tensor, position: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.attention_norm(x)).view(1, 1, 3, args.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        attended = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).reshape(1, 1, args.dim))
        return x + self.mlp(self.mlp_norm(x))


embedding = nn.Embedding(VOCAB, args.dim).to(args.device, args.dtype)
blocks = nn.ModuleList(Block() for _ in range(args.layers)).to(args.device, args.dtype)
head = nn.Linear(args.dim, VOCAB, bias=False).to(args.device, args.dtype)
token = torch.zeros(1, 1, dtype=torch.long, device=args.device)
position = torch.zeros(1, dtype=torch.long, device=args.device)
places = torch.arange(args.context, device=args.device)


def next_token():
    """Append one token, all of it in place."""
    seen = (places <= position).view(1, 1, 1, -1)
    x = embedding(token)
    for block in blocks:
        x = block(x, position, seen)
    token.copy_(head(x)[:, -1:].argmax(-1))
    position.add_(1)


@torch.no_grad()
def captured():
    """A graph of one token. Warm up on another stream first, as capturing requires."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            next_token()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        next_token()
    return graph


advance = captured().replay if args.graph else next_token


@torch.no_grad()
def step():
    with record_function("decode"):
        position.zero_()
        for _ in range(args.tokens):
            advance()


variant = "graph" if args.graph else "eager"
sizes = [args.tokens, args.layers, args.dim, args.heads, args.context]
lesson.record(step, tag=[*sizes, args.dtype_name, "warm", variant])
