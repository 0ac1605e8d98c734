"""Planted causes of round 4: chosen without regard to what the rounds before had shown to be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Pair, relu_net
from torch import nn


def rotary_in_fp32() -> Pair:
    x = torch.randn(8, 2048, 32, 128, device=DEV, dtype=BF16)
    angle = torch.outer(torch.arange(2048, device=DEV).float(), torch.logspace(0, -4, 64, device=DEV))
    cos, sin = (f(angle).repeat(1, 2)[None, :, None] for f in (torch.cos, torch.sin))

    def rotate(x: torch.Tensor) -> torch.Tensor:
        f = x.float()
        half = torch.cat([-f[..., 64:], f[..., :64]], -1)
        return (f * cos + half * sin).to(x.dtype)

    fast = torch.compile(rotate)
    return torch.inference_mode()(lambda: rotate(x)), torch.inference_mode()(lambda: fast(x))


def batch_not_prefetched() -> Pair:
    net = relu_net(6, 4096, BF16)
    batches = [torch.randn(8192, 4096, dtype=BF16).pin_memory() for _ in range(2)]
    side = torch.cuda.Stream()
    ready: list[Any] = []

    @torch.inference_mode()
    def bad() -> None:
        net(batches[0].to(DEV, non_blocking=True))

    @torch.inference_mode()
    def fixed() -> None:
        with torch.cuda.stream(side):
            following = batches[1].to(DEV, non_blocking=True)
        if ready:
            torch.cuda.current_stream().wait_stream(side)
            net(ready.pop())
        ready.append(following)

    return bad, fixed


def residual_norm_by_hand() -> Pair:
    w = torch.ones(4096, device=DEV, dtype=BF16, requires_grad=True)
    x, r = (torch.randn(4096, 4096, device=DEV, dtype=BF16, requires_grad=True) for _ in range(2))

    def block(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        h = (F.dropout(x, 0.1) + r).float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

    fast = torch.compile(block)

    def step(f: Callable[..., torch.Tensor]) -> None:
        f(x, r).sum().backward()

    return lambda: step(block), lambda: step(fast)


def fine_graph_decode() -> Pair:
    layers = nn.ModuleList([nn.Linear(2048, 6144) for _ in range(12)]).to(DEV, BF16)
    k, v = (torch.randn(8, 16, 1024, 128, device=DEV, dtype=BF16) for _ in range(2))
    x = torch.randn(8, 2048, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def token() -> torch.Tensor:
        h = x
        for layer in layers:
            q, new_k, new_v = layer(h).view(8, 3, 16, 1, 128).unbind(1)
            k[:, :, :1], v[:, :, :1] = new_k, new_v
            h = h + F.scaled_dot_product_attention(q, k, v).reshape(8, 2048)
        return h

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        token()
        token()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()
    return graph.replay, graph.replay


def hooks_on_modules() -> Pair:
    net, plain = (relu_net(24, 512, BF16) for _ in range(2))
    seen: dict[str, Any] = {}

    def hook(module: nn.Module, given: Any, out: torch.Tensor) -> None:
        seen[str(module)] = sorted((str(k), str(v)) for k, v in module.__dict__.items() if not k.startswith("_"))

    for m in net:
        m.register_forward_hook(hook)
    x = torch.randn(256, 512, device=DEV, dtype=BF16)
    return torch.inference_mode()(lambda: net(x)), torch.inference_mode()(lambda: plain(x))


def images_by_numpy() -> Pair:
    raw = [np.random.default_rng(i).integers(0, 255, (200, 200, 3), dtype=np.uint8) for i in range(32)]
    ready = torch.from_numpy(np.stack(raw)).pin_memory()
    net = nn.Sequential(
        nn.Conv2d(3, 64, 5, 4),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    net = net.to(DEV, BF16, memory_format=torch.channels_last)

    def bad() -> None:
        images = [
            (np.pad(a, ((12, 12), (12, 12), (0, 0)), "reflect")[:, ::-1].astype(np.float32) / 255 - 0.45) / 0.22 for a in raw
        ]
        x = torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2).copy())
        with torch.inference_mode():
            net(x.to(DEV, BF16))

    @torch.inference_mode()
    def fixed() -> None:
        x = ready.to(DEV, non_blocking=True).permute(0, 3, 1, 2).flip(-1)
        net((F.pad(x.float(), (12, 12, 12, 12), "reflect") / 255 - 0.45).div(0.22).to(BF16))

    return bad, fixed
