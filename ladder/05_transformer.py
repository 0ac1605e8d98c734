# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 5: a whole small decoder, forward or training.

The layers of the rungs before, stacked, with embeddings below and a head
above. A forward is a few hundred kernels; a training step is three times that,
plus the optimizer. How the optimizer walks over the parameters is worth a look
of its own: one kernel for each of them and each operation (`for-loop`), one
for many (`foreach`), or one that does the whole update (`fused`).

    python ladder/05_transformer.py
    python ladder/05_transformer.py --train --optimizer for-loop
    python ladder/05_transformer.py --train --optimizer fused
    python ladder/05_transformer.py --train --compile
"""

import torch
from torch import nn
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.size("--layers", 6, "decoder blocks", cpu=2)
lesson.size("--dim", 768, "width of the model", cpu=128)
lesson.size("--heads", 12, "attention heads", cpu=4)
lesson.size("--seq", 512, "tokens in a sequence", cpu=64)
lesson.size("--batch", 8, "sequences", cpu=2)
lesson.size("--vocab", 32768, "size of the vocabulary", cpu=1024)
lesson.switch("--train", "a training step instead of a forward")
lesson.choice("--optimizer", ["foreach", "fused", "for-loop"], "how AdamW walks over the parameters")
lesson.compiling()
args = lesson.parse()


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and added to what came in."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, dim))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """Embeddings, blocks, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(args.vocab, args.dim)
        self.position = nn.Embedding(args.seq, args.dim)
        self.blocks = nn.Sequential(*(Block(args.dim, args.heads) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.dim)
        self.head = nn.Linear(args.dim, args.vocab, bias=False)
        self.register_buffer("positions", torch.arange(args.seq))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(self.positions)
        return self.head(self.norm(self.blocks(x)))


model = Decoder().to(args.device, args.dtype)
tokens = torch.randint(args.vocab, (args.batch, args.seq + 1), device=args.device)
inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
walk = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for-loop": {"foreach": False}}[args.optimizer]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **walk)
forward = lesson.compiled(model)


@torch.no_grad()
def infer():
    with record_function("forward"):
        forward(inputs)


def train():
    with record_function("forward"):
        logits = forward(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


mode = ["train", args.optimizer] if args.train else ["forward"]
sizes = [args.layers, args.dim, args.heads, args.seq, args.batch]
lesson.record(train if args.train else infer, tag=[*sizes, args.dtype_name, *mode, "warm", lesson.variant])
