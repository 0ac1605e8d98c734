"""Planted causes of round 6 between CPU and GPU, and a program in which nothing is wrong."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Pair
from torch import nn


def channels_one_by_one() -> Pair:
    """Seismic stations: each channel's offset, amplitude and peak computed and applied in a loop, against all at once."""
    channels, samples = 64, 24000
    x = torch.randn(channels, samples, device=DEV) * torch.rand(channels, 1, device=DEV) + 3.0
    picker = (
        nn.Sequential(
            nn.Conv1d(1, 32, 9, 4, 4),
            nn.ReLU(),
            nn.Conv1d(32, 64, 9, 4, 4),
            nn.ReLU(),
            nn.Conv1d(64, 64, 9, 1, 4),
            nn.ReLU(),
            nn.Conv1d(64, 3, 1),
        )
        .to(DEV)
        .eval()
    )

    def loop() -> tuple[torch.Tensor, torch.Tensor]:
        rows, facts = [], []
        for c in range(channels):
            s = x[c] - x[c].mean()
            rms = s.square().mean().sqrt()
            rows.append((s / (rms + 1e-6)).clamp(-5.0, 5.0))
            facts.append(torch.stack((rms, s.abs().amax())))
        return torch.stack(rows), torch.stack(facts)

    def whole() -> tuple[torch.Tensor, torch.Tensor]:
        s = x - x.mean(1, keepdim=True)
        rms = s.square().mean(1, keepdim=True).sqrt()
        return (s / (rms + 1e-6)).clamp(-5.0, 5.0), torch.cat((rms, s.abs().amax(1, keepdim=True)), 1)

    def make(how: Any) -> Any:
        @torch.inference_mode()
        def step() -> tuple[torch.Tensor, torch.Tensor]:
            rows, facts = how()
            return picker(rows[:, None]).softmax(1), facts

        return step

    bad, fixed = make(loop), make(whole)
    return bad, fixed


class _Opt(nn.Module):
    """A decoder's layer, one token a sequence, with a cache of fixed size."""

    def __init__(self, width: int, heads: int, batch: int, limit: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("k", torch.zeros(batch, heads, limit, self.size))
        self.register_buffer("v", torch.zeros(batch, heads, limit, self.size))

    def forward(self, x: torch.Tensor, at: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, c = x.shape
        q, k, v = self.qkv(self.a(x)).view(b, 3, self.heads, 1, self.size).unbind(1)
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        h = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        x = x + self.out(h.reshape(b, c))
        return x + self.down(F.relu(self.up(self.b(x))))


def fine_graphed_decode() -> Pair:
    """Decoding for 32 sequences: bf16, caches of fixed size, and one CUDA graph for the whole token."""
    width, heads, batch, limit, vocab = 2048, 16, 32, 1024, 50304
    with torch.device(DEV):
        layers = nn.ModuleList([_Opt(width, heads, batch, limit).to(BF16) for _ in range(12)]).eval()
        embed, where = nn.Embedding(vocab, width).to(BF16), nn.Embedding(limit, width).to(BF16)
        norm, head = nn.LayerNorm(width).to(BF16), nn.Linear(width, vocab, bias=False).to(BF16)
    ids = torch.zeros(batch, dtype=torch.long, device=DEV)
    at = torch.full((1,), limit // 2, device=DEV)
    places = torch.arange(limit, device=DEV)
    masks = torch.where(places[None] <= places[:, None], 0.0, float("-inf")).to(BF16)  # a row for each position

    @torch.no_grad()
    def token() -> None:
        mask = masks.index_select(0, at)[None, None]
        h = embed(ids) + where(at)
        for layer in layers:
            h = layer(h, at, mask)
        ids.copy_(head(norm(h)).argmax(-1))
        at.add_(1).remainder_(limit)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            token()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()
    alive: Any = (layers, embed, where, norm, head, masks, places)

    def step() -> torch.Tensor:
        graph.replay()
        _ = alive  # what the graph reads must live
        return ids

    return step, step
