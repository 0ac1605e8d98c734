"""Planted causes of round 5 between CPU and GPU, and programs in which nothing is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Block, Pair, descend
from torch import nn


def detections_per_image() -> Pair:
    """Detector: the boxes of each image filtered, ordered and fetched by themselves, against the batch at once."""
    batch, classes, size = 16, 80, 320
    body = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.SiLU(),
        nn.Conv2d(128, 128, 3, 1, 1), nn.SiLU(), nn.Conv2d(128, 4 * (4 + classes), 1),
    )  # fmt: skip
    body = body.to(DEV, BF16).to(memory_format=torch.channels_last).eval()
    images = torch.randn(batch, 3, size, size, device=DEV, dtype=BF16).to(memory_format=torch.channels_last)

    def heads() -> tuple[torch.Tensor, torch.Tensor]:
        out = body(images).permute(0, 2, 3, 1).reshape(batch, -1, 4 + classes).float()
        return out[..., :4], out[..., 4:].sigmoid()

    with torch.inference_mode():
        limit = float(heads()[1].max(-1).values.flatten().kthvalue(int(batch * heads()[1].shape[1] * 0.97)).values)

    @torch.inference_mode()
    def bad() -> list[dict[str, np.ndarray]]:
        boxes, scores = heads()
        results = []
        for i in range(batch):
            best, label = scores[i].max(-1)
            keep = best > limit
            b, s, c = boxes[i][keep], best[keep], label[keep]
            order = s.argsort(descending=True)[:100]
            results.append(
                {"boxes": b[order].cpu().numpy(), "scores": s[order].cpu().numpy(), "labels": c[order].cpu().numpy()}
            )
        return results

    @torch.inference_mode()
    def fixed() -> list[dict[str, np.ndarray]]:
        boxes, scores = heads()
        best, label = scores.max(-1)
        s, at = best.topk(100, dim=1)
        b = boxes.gather(1, at[..., None].expand(-1, -1, 4))
        c = label.gather(1, at)
        packed = torch.cat((b, s[..., None], c[..., None].float()), -1).cpu().numpy()
        kept = (packed[..., 4] > limit).sum(1)
        return [
            {"boxes": p[:n, :4], "scores": p[:n, 4], "labels": p[:n, 5].astype(int)} for p, n in zip(packed, kept, strict=True)
        ]

    return bad, fixed


def advantages_over_time() -> Pair:
    """PPO: advantages by a Python loop over time steps, against one product with a matrix of discounts."""
    steps, envs, wide = 96, 64, 256
    gamma, lam = 0.99, 0.95
    reward, value = torch.randn(steps, envs, device=DEV), torch.randn(steps + 1, envs, device=DEV)
    done = (torch.rand(steps, envs, device=DEV) < 0.05).float()
    obs = torch.randn(steps * envs, 64, device=DEV)
    net = nn.Sequential(nn.Linear(64, wide), nn.Tanh(), nn.Linear(wide, wide), nn.Tanh(), nn.Linear(wide, 1)).to(DEV)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, fused=True)
    distance = torch.arange(steps, device=DEV)[None] - torch.arange(steps, device=DEV)[:, None]
    decay = torch.where(distance >= 0, (gamma * lam) ** distance.clamp(min=0).float(), 0.0)

    def loop() -> torch.Tensor:
        advantage, last = torch.zeros_like(reward), torch.zeros(envs, device=DEV)
        for t in reversed(range(steps)):
            alive = 1.0 - done[t]
            delta = reward[t] + gamma * value[t + 1] * alive - value[t]
            last = delta + gamma * lam * alive * last
            advantage[t] = last
        return advantage

    def matrix() -> torch.Tensor:
        delta = reward + gamma * value[1:] * (1.0 - done) - value[:-1]
        before = done.cumsum(0) - done
        same = before[None] == before[:, None]
        return (decay[..., None] * same * delta[None]).sum(1)

    assert torch.allclose(loop(), matrix(), atol=1e-3)

    def make(how: Any) -> Any:
        def step() -> None:
            with torch.no_grad():
                target = (how() + value[:-1]).flatten()
            descend(opt, lambda: F.mse_loss(net(obs)[:, 0], target))

        return step

    return make(loop), make(matrix)


PARTS = [
    [0, 1, 2, 3, 4],
    [5, 7, 9],
    [6, 8, 10],
    [11, 13, 15],
    [12, 14, 16],
    [5, 6, 11, 12],
    [0, 5, 6],
    [9, 10],
    [15, 16],
    [3, 4, 5, 6],
]


def joints_by_python_lists() -> Pair:
    """Skeletons: joints picked with Python lists, each of which becomes a tensor and goes to the GPU at every use."""
    width, depth = 128, 3
    mix = nn.ModuleList([nn.Linear(len(PARTS) * width, 17 * width) for _ in range(depth)]).to(DEV, BF16)
    out = nn.Linear(17 * width, 60).to(DEV, BF16)
    x = torch.randn(128, 17, width, device=DEV, dtype=BF16)
    on_gpu = [torch.tensor(p, device=DEV) for p in PARTS]

    def make(parts: list[Any]) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            h = x
            for layer in mix:
                pooled = torch.cat([h[:, part].mean(1) for part in parts], -1)
                h = h + F.gelu(layer(pooled)).view_as(h)
            return out(h.flatten(1)).softmax(-1)

        return step

    return make(PARTS), make(on_gpu)


def float_images_sent() -> Pair:
    """Images go to the GPU as normalised float32 (pinned), against bytes normalised there."""
    batch, width = 256, 192
    raw = torch.randint(0, 256, (batch, 3, 224, 224), dtype=torch.uint8).pin_memory()
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) * 255 for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    ready = (raw.float() - mean) / std.pin_memory()
    mean, std = mean.to(DEV), std.to(DEV)
    patch = nn.Conv2d(3, width, 16, 16).to(DEV, BF16)
    body = nn.Sequential(*[Block(width, 3, causal=False) for _ in range(4)], nn.LayerNorm(width)).to(DEV, BF16)
    head = nn.Linear(width, 1000).to(DEV, BF16)
    opt = torch.optim.AdamW([*patch.parameters(), *body.parameters(), *head.parameters()], lr=1e-4, fused=True)
    y = torch.randint(0, 1000, (batch,), device=DEV)

    def train(images: torch.Tensor) -> None:
        descend(opt, lambda: F.cross_entropy(head(body(patch(images.to(BF16)).flatten(2).transpose(1, 2)).mean(1)), y))

    return (
        lambda: train(ready.to(DEV, non_blocking=True)),
        lambda: train((raw.to(DEV, non_blocking=True).float() - mean) / std),
    )


def fine_compiled_encoder() -> Pair:
    """Compiled inference, static shapes, bf16."""
    width = 1024
    model = nn.Sequential(*[Block(width, 16, causal=False) for _ in range(2)]).to(DEV, BF16).eval()
    x = torch.randn(16, 512, width, device=DEV, dtype=BF16)
    net: Any = torch.compile(model)

    @torch.inference_mode()
    def step() -> torch.Tensor:
        return net(x)

    return step, step


def fine_graphed_training() -> Pair:
    """A whole training step as one CUDA graph."""
    width = 512
    model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(width, width), nn.ReLU())], nn.Linear(width, 64)).to(
        DEV, BF16
    )
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    x, y = torch.randn(8192, width, device=DEV, dtype=BF16), torch.randn(8192, 64, device=DEV, dtype=BF16)

    def plain() -> None:
        opt.zero_grad(set_to_none=True)
        F.mse_loss(model(x), y).backward()
        opt.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            plain()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        plain()

    def step() -> None:
        graph.replay()
        _ = model, opt, x, y  # what the graph reads must live

    return step, step


def fine_small_mlp() -> Pair:
    """A small network that the CPU bounds, written as well as eager code can be."""
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 16)).to(DEV, BF16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(512, 256, device=DEV, dtype=BF16), torch.randint(0, 16, (512,), device=DEV)

    def step() -> torch.Tensor:
        return descend(opt, lambda: F.cross_entropy(model(x), y))

    return step, step
