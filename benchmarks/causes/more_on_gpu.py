"""Planted causes in the GPU's work of programs of other kinds: caches, simulations, diffusion, frozen backbones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Pair, Step, descend, relu_net
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential


def cache_by_cat() -> Pair:
    b, heads, length, dim = 16, 16, 2048, 128
    caches = [[torch.randn(b, heads, length, dim, device=DEV, dtype=BF16) for _ in "kv"] for _ in range(6)]
    x = torch.randn(b, 1, heads * dim, device=DEV, dtype=BF16)
    projections = nn.ModuleList([nn.Linear(heads * dim, 3 * heads * dim) for _ in range(6)]).to(DEV, BF16)

    def split(layer: nn.Module, h: torch.Tensor) -> Any:
        return layer(h).view(b, 1, 3, heads, dim).permute(2, 0, 3, 1, 4)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for layer, (k, v) in zip(projections, caches, strict=True):
            q, new_k, new_v = split(layer, h)
            out = F.scaled_dot_product_attention(q, torch.cat([k[:, :, 1:], new_k], 2), torch.cat([v[:, :, 1:], new_v], 2))
            h = h + out.transpose(1, 2).flatten(2)

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for layer, (k, v) in zip(projections, caches, strict=True):
            q, new_k, new_v = split(layer, h)
            k[:, :, -1:], v[:, :, -1:] = new_k, new_v
            h = h + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    return bad, fixed


def all_pairs() -> Pair:
    a, b = torch.randn(2048, 96, device=DEV), torch.randn(2048, 96, device=DEV)

    def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a[:, None] - b[None]).square().sum(-1).neg().div(0.1).exp()

    fast = torch.compile(distances)
    return torch.inference_mode()(lambda: distances(a, b)), torch.inference_mode()(lambda: fast(a, b))


def adam_by_hand() -> Pair:
    net = relu_net(30, 512)
    parameters = list(net.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    opt = torch.optim.Adam(parameters, 1e-4, fused=True)
    x = torch.randn(128, 512, device=DEV)

    def bad() -> None:
        for p in parameters:
            p.grad = None
        net(x).square().mean().backward()
        with torch.no_grad():
            for p, m, v in zip(parameters, first, second, strict=True):
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-4)

    return bad, lambda: descend(opt, lambda: net(x).square().mean())


def double_by_accident() -> Pair:
    def make(dtype: torch.dtype) -> Step:
        net = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(256, 256), nn.Tanh())]).to(DEV, dtype)
        opt = torch.optim.Adam(net.parameters(), fused=True)
        x = torch.randn(65536, 256, device=DEV, dtype=dtype)
        return lambda: descend(opt, lambda: net(x).square().mean())

    return make(torch.float64), make(torch.float32)


def snapshots_cloned() -> Pair:
    w = torch.randn(1024, 1024, device=DEV, dtype=BF16) / 32
    x = torch.randn(4096, 1024, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for _ in range(24):
            before = h.clone()
            h = torch.tanh(h @ w) + before

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for _ in range(24):
            h = torch.tanh(h @ w) + h

    return bad, fixed


def outputs_by_cat() -> Pair:
    w = torch.randn(1024, 1024, device=DEV, dtype=BF16) / 32
    x = torch.randn(512, 1024, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def bad() -> None:
        h, out = x, x.unsqueeze(1)
        for _ in range(96):
            h = torch.tanh(h @ w)
            out = torch.cat([out, h.unsqueeze(1)], 1)

    @torch.inference_mode()
    def fixed() -> None:
        h, out = x, [x]
        for _ in range(96):
            h = torch.tanh(h @ w)
            out.append(h)
        torch.stack(out, 1)

    return bad, fixed


def grouped_queries_fp32() -> Pair:
    q = torch.randn(4, 16, 1024, 64, device=DEV)
    k, v = (torch.randn(4, 4, 1024, 64, device=DEV) for _ in range(2))

    @torch.inference_mode()
    def bad() -> None:
        F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    @torch.inference_mode()
    def fixed() -> None:
        wide = [t.repeat_interleave(4, 1) for t in (k, v)]
        F.scaled_dot_product_attention(q, *wide, is_causal=True)

    return bad, fixed


def autocast_reentered() -> Pair:
    layers = nn.ModuleList([nn.Linear(2048, 2048) for _ in range(3)]).to(DEV)
    opt = torch.optim.SGD(layers.parameters(), 1e-3, fused=True)
    x = torch.randn(256, 2048, device=DEV)

    def rounds() -> torch.Tensor:
        h = x
        for _ in range(8):
            with torch.autocast(DEV, BF16):
                for layer in layers:
                    h = F.relu(layer(h))
        return h.float().square().mean()

    def once() -> torch.Tensor:
        h = x
        with torch.autocast(DEV, BF16):
            for _ in range(8):
                for layer in layers:
                    h = F.relu(layer(h))
        return h.float().square().mean()

    return lambda: descend(opt, rounds), lambda: descend(opt, once)


def loss_over_vocabulary() -> Pair:
    hidden = torch.randn(4096, 512, device=DEV, dtype=BF16)
    head = nn.Linear(512, 32768, bias=False).to(DEV, BF16)
    y = torch.randint(32768, (4096,), device=DEV)

    def loss(h: torch.Tensor) -> torch.Tensor:
        logits = (torch.tanh(head(h) / 30) * 30).float()
        z = logits.logsumexp(-1)
        return (z - logits.gather(1, y[:, None])[:, 0]).mean() + 1e-4 * z.square().mean()

    fast = torch.compile(loss)
    return lambda: loss(hidden).backward(), lambda: fast(hidden).backward()


def fine_recommender() -> Pair:
    bag = nn.EmbeddingBag(1_000_000, 128, mode="sum", sparse=False).to(DEV)
    top = nn.Sequential(nn.Linear(128, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1)).to(DEV, BF16)
    ids = torch.randint(1_000_000, (32768, 40), device=DEV)

    @torch.inference_mode()
    def step() -> None:
        top(bag(ids).to(BF16))

    return step, step


def _stack_of_convs() -> nn.Module:
    w = 96
    return nn.Sequential(
        nn.Conv2d(3, w, 3, padding=1), *[m for _ in range(6) for m in (nn.Conv2d(w, w, 3, padding=1), nn.GELU())]
    ).to(DEV)


def autocast_convs_layout() -> Pair:
    net = _stack_of_convs()
    last = _stack_of_convs().to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 128, 128, device=DEV)
    xl = x.to(memory_format=torch.channels_last)

    def step(net: nn.Module, x: torch.Tensor) -> None:
        with torch.inference_mode(), torch.autocast(DEV, BF16):
            net(x)

    return lambda: step(net, x), lambda: step(last, xl)


def autocast_convs_casts() -> Pair:
    net = nn.Sequential(*[m for _ in range(8) for m in (nn.Conv2d(256, 256, 3, padding=1), nn.ReLU())])
    net = net.to(DEV, memory_format=torch.channels_last)
    half = nn.Sequential(*[m for _ in range(8) for m in (nn.Conv2d(256, 256, 3, padding=1), nn.ReLU())]).to(
        DEV, BF16, memory_format=torch.channels_last
    )
    x = torch.randn(8, 256, 16, 16, device=DEV).to(memory_format=torch.channels_last)
    xh = x.to(BF16)

    def bad() -> None:
        with torch.inference_mode(), torch.autocast(DEV, BF16):
            net(x)

    return bad, torch.inference_mode()(lambda: half(xh))


def frames_as_fifo() -> Pair:
    held = [torch.randn(64, 32, 3, 96, 96, device=DEV)]
    new = torch.randn(64, 1, 3, 96, 96, device=DEV)
    net = nn.Sequential(nn.Conv2d(96, 64, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 23 * 23, 16)).to(DEV)
    place = [0]

    @torch.inference_mode()
    def bad() -> None:
        for _ in range(4):
            held[0] = torch.cat([held[0][:, 1:], new], 1)
        net(held[0].flatten(1, 2))

    @torch.inference_mode()
    def fixed() -> None:
        for _ in range(4):
            place[0] = (place[0] + 1) % 32
            held[0][:, place[0] : place[0] + 1] = new
        net(held[0].flatten(1, 2))

    return bad, fixed


def convs_checkpointed() -> Pair:
    def stage(i: int, o: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(),
        )

    net = nn.Sequential(stage(16, 64), stage(64, 64), stage(64, 128), stage(128, 128)).to(
        DEV, BF16, memory_format=torch.channels_last
    )
    opt = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    x = torch.randn(32, 16, 128, 128, device=DEV, dtype=BF16).to(memory_format=torch.channels_last).requires_grad_()

    def bad() -> None:
        descend(opt, lambda: checkpoint_sequential(net, 4, x, use_reentrant=True).float().mean())

    return bad, lambda: descend(opt, lambda: net(x).float().mean())


def forces_in_double() -> Pair:
    def make(cast: Callable[[np.ndarray], np.ndarray]) -> Step:
        at = torch.from_numpy(cast(np.random.default_rng(0).random((3000, 3)))).to(DEV)
        charge = torch.from_numpy(cast(np.random.default_rng(1).random(3000))).to(DEV)

        @torch.inference_mode()
        def step() -> None:
            d = at[:, None] - at[None]
            r2 = d.square().sum(-1) + 0.01
            (d * (charge[:, None] * charge[None] / r2**1.5)[..., None]).sum(1)

        return step

    return make(lambda a: a), make(lambda a: a.astype(np.float32))


def frozen_backbone() -> Pair:
    def make(dtype: torch.dtype) -> Step:
        torch.manual_seed(0)
        body = relu_net(10, 3072, dtype).requires_grad_(False)
        head = nn.Linear(3072, 512).to(DEV)
        opt = torch.optim.AdamW(head.parameters(), fused=True)
        x = torch.randn(512, 3072, device=DEV, dtype=dtype)

        def loss() -> torch.Tensor:
            with torch.autocast(DEV, BF16):
                return head(body(x)).float().square().mean()

        return lambda: descend(opt, loss)

    return make(torch.float32), make(BF16)


def fine_diffusion() -> Pair:
    net = nn.Sequential(
        nn.Conv2d(4, 320, 3, padding=1),
        *[m for _ in range(4) for m in (nn.GroupNorm(32, 320), nn.SiLU(), nn.Conv2d(320, 320, 3, padding=1))],
        nn.Conv2d(320, 4, 3, padding=1),
    )
    net = torch.compile(net.to(DEV, BF16, memory_format=torch.channels_last))
    opt = torch.optim.AdamW(net.parameters(), fused=True)
    x = torch.randn(64, 4, 64, 64, device=DEV, dtype=BF16).to(memory_format=torch.channels_last)

    def step() -> None:
        noise = torch.randn_like(x)
        descend(opt, lambda: F.mse_loss(net(x + noise), noise))

    return step, step


def fine_graph_sums() -> Pair:
    n, e = 100_000, 1_500_000
    edges = torch.randint(n, (2, e), device=DEV)
    layers = nn.ModuleList([nn.Linear(128, 128) for _ in range(3)]).to(DEV, BF16)
    opt = torch.optim.AdamW(layers.parameters(), fused=True)
    x = torch.randn(n, 128, device=DEV, dtype=BF16)

    def loss() -> torch.Tensor:
        h = x
        for layer in layers:
            h = layer(torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])).relu()
        return h.float().mean()

    return lambda: descend(opt, loss), lambda: descend(opt, loss)
