"""Planted causes between CPU and GPU in programs of other kinds: recommenders, graphs, experts, reinforcement learning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Block, Pair, descend, relu_net
from torch import nn


def tables_sent_one_by_one() -> Pair:
    tables = nn.ModuleList([nn.Embedding(100_000, 64) for _ in range(26)]).to(DEV)
    top = nn.Sequential(nn.Linear(26 * 64, 512), nn.ReLU(), nn.Linear(512, 1)).to(DEV)
    ids = [torch.randint(100_000, (2048,)) for _ in range(26)]
    packed = torch.stack(ids).pin_memory()

    @torch.inference_mode()
    def bad() -> None:
        top(torch.cat([table(i.to(DEV)) for table, i in zip(tables, ids, strict=True)], 1))

    @torch.inference_mode()
    def fixed() -> None:
        rows = packed.to(DEV, non_blocking=True).unbind(0)
        top(torch.cat([table(i) for table, i in zip(tables, rows, strict=True)], 1))

    return bad, fixed


def edges_filtered() -> Pair:
    n, e = 50_000, 600_000
    x, edges = torch.randn(n, 64, device=DEV), torch.randint(n, (2, e), device=DEV)
    age = torch.rand(e, device=DEV)
    layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)]).to(DEV)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for i, layer in enumerate(layers):
            src, dst = edges[:, age > 0.05 * (i + 1)]
            h = layer(torch.zeros_like(h).index_add_(0, dst, h[src])).relu()

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for i, layer in enumerate(layers):
            kept = (age > 0.05 * (i + 1)).to(h.dtype).unsqueeze(1)
            h = layer(torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]] * kept)).relu()

    return bad, fixed


def experts_by_nonzero() -> Pair:
    n, d, experts, room = 4096, 512, 16, 512
    x = torch.randn(n, d, device=DEV, dtype=BF16)
    router = nn.Linear(d, experts).to(DEV, BF16)
    up, down = torch.randn(experts, d, 4 * d, device=DEV, dtype=BF16), torch.randn(experts, 4 * d, d, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def bad() -> None:
        choice, out = router(x).argmax(-1), torch.zeros_like(x)
        for e in range(experts):
            rows = (choice == e).nonzero().squeeze(1)
            if rows.numel():
                out.index_add_(0, rows, F.gelu(x[rows] @ up[e]) @ down[e])

    @torch.inference_mode()
    def fixed() -> None:
        choice = router(x).argmax(-1)
        hot = F.one_hot(choice, experts)
        place = choice * room + ((hot.cumsum(0) * hot).sum(1) - 1).clamp(max=room - 1)
        packed = torch.zeros(experts * room, d, device=DEV, dtype=BF16).index_copy_(0, place, x)
        (F.gelu(packed.view(experts, room, d) @ up) @ down).view(-1, d)[place]

    return bad, fixed


def env_by_env() -> Pair:
    policy = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8)).to(DEV)
    seen = torch.randn(16, 64).pin_memory()

    @torch.inference_mode()
    def bad() -> None:
        obs = seen.to(DEV, non_blocking=True)
        for i in range(16):
            int(policy(obs[i]).argmax())

    @torch.inference_mode()
    def fixed() -> None:
        obs = seen.to(DEV, non_blocking=True)
        torch.stack([policy(obs[i]).argmax() for i in range(16)]).tolist()

    return bad, fixed


def confusion_on_cpu() -> Pair:
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 21, 3, padding=1)).to(
        DEV, BF16, memory_format=torch.channels_last
    )
    x = torch.randn(8, 3, 256, 256, device=DEV, dtype=BF16).to(memory_format=torch.channels_last)
    y = torch.randint(21, (8, 256, 256), device=DEV)
    y_cpu, total = y.cpu().numpy(), np.zeros(441, dtype=np.int64)
    on_gpu = torch.zeros(441, device=DEV)
    one = torch.ones(y.numel(), device=DEV)

    @torch.inference_mode()
    def bad() -> None:
        guess = net(x).argmax(1).cpu().numpy()
        total[:] += np.bincount((y_cpu * 21 + guess).ravel(), minlength=441)

    @torch.inference_mode()
    def fixed() -> None:
        on_gpu.index_add_(0, (y * 21 + net(x).argmax(1)).view(-1), one)

    return bad, fixed


def ids_made_unique() -> Pair:
    table = nn.Embedding(500_000, 128).to(DEV)
    top = relu_net(2, 128)
    ids = torch.randint(20_000, (8192,), device=DEV)

    @torch.inference_mode()
    def bad() -> None:
        some, back = torch.unique(ids, return_inverse=True)
        top(table(some)[back])

    return bad, torch.inference_mode()(lambda: top(table(ids)))


def video_from_pageable() -> Pair:
    clip = torch.randint(0, 255, (8, 3, 16, 192, 192), dtype=torch.uint8).float()
    pinned = clip.pin_memory()
    net = nn.Sequential(
        nn.Conv3d(3, 32, (3, 7, 7), (1, 4, 4)),
        nn.ReLU(),
        nn.Conv3d(32, 64, 3, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).to(DEV, BF16)
    opt = torch.optim.SGD(net.parameters(), 0.01, fused=True)

    def step(source: torch.Tensor) -> None:
        x = source.to(DEV, non_blocking=True).to(BF16)
        descend(opt, lambda: net(x).float().square().mean())

    return lambda: step(clip), lambda: step(pinned)


def bias_sent_every_step() -> Pair:
    bias = torch.randn(1, 8, 1024, 1024)
    ready = bias.to(DEV, BF16)
    q, k, v = (torch.randn(8, 8, 1024, 64, device=DEV, dtype=BF16) for _ in range(3))

    @torch.inference_mode()
    def bad() -> None:
        F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(DEV).to(BF16))

    return bad, torch.inference_mode()(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=ready))


def masks_built_on_cpu() -> Pair:
    layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(6)]).to(DEV, BF16)
    x = torch.randn(4, 8, 1024, 64, device=DEV, dtype=BF16)
    ready = torch.tril(torch.ones(1024, 1024, dtype=torch.bool)).to(DEV)

    def run(mask: Callable[[], torch.Tensor]) -> None:
        h = x
        for layer in layers:
            h = F.scaled_dot_product_attention(h, h, h, attn_mask=mask())
            h = layer(h.transpose(1, 2).reshape(4, 1024, 512)).view(4, 1024, 8, 64).transpose(1, 2)

    bad = torch.inference_mode()(lambda: run(lambda: torch.tril(torch.ones(1024, 1024, dtype=torch.bool)).to(DEV)))
    return bad, torch.inference_mode()(lambda: run(lambda: ready))


class _Slow(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, i: int) -> torch.Tensor:
        x = np.random.default_rng(i).random((3, 96, 96), dtype=np.float32)
        return torch.from_numpy(np.sort(x, axis=1))


def one_slow_worker() -> Pair:
    net = nn.Sequential(
        nn.Conv2d(3, 64, 5, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 22 * 22, 10)
    ).to(DEV)
    opt = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    loaders = [torch.utils.data.DataLoader(_Slow(), 32, num_workers=n, pin_memory=True) for n in (1, 8)]
    batches = [iter(loader) for loader in loaders]

    def step(source: Any) -> None:
        x = next(source).to(DEV, non_blocking=True)
        descend(opt, lambda: net(x).square().mean())

    return lambda: step(batches[0]), lambda: step(batches[1])


_log: list[Any] = []


@torch._dynamo.disable
def _note(x: torch.Tensor) -> None:
    _log.append(x.shape)
    del _log[8:]


def breaks_in_a_row() -> Pair:
    ws = [torch.randn(256, 256, device=DEV, dtype=BF16) / 16 for _ in range(6)]
    x = torch.randn(64, 256, device=DEV, dtype=BF16)

    def part(h: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(h @ w).mul(0.5).add(h)

    def noted(x: torch.Tensor) -> torch.Tensor:
        x = part(x, ws[0])
        _note(x)
        x = part(x, ws[1])
        _note(x)
        x = part(x, ws[2])
        _note(x)
        x = part(x, ws[3])
        _note(x)
        x = part(x, ws[4])
        _note(x)
        return part(x, ws[5])

    def plain(x: torch.Tensor) -> torch.Tensor:
        for w in ws:
            x = part(x, w)
        return x

    bad, fixed = torch.compile(noted), torch.compile(plain)
    return torch.inference_mode()(lambda: bad(x)), torch.inference_mode()(lambda: fixed(x))


def ranking_in_numpy() -> Pair:
    net = relu_net(4, 1024, BF16)
    head = nn.Linear(1024, 1).to(DEV, BF16)
    x = torch.randn(100_000, 1024, device=DEV, dtype=BF16)
    y = torch.randint(2, (100_000,), device=DEV)
    y_cpu = y.cpu().numpy()

    @torch.inference_mode()
    def bad() -> None:
        scores = head(net(x)).float().squeeze(1).cpu().numpy()
        order = np.argsort(scores, kind="stable")
        np.cumsum(y_cpu[order])

    @torch.inference_mode()
    def fixed() -> None:
        order = head(net(x)).float().squeeze(1).argsort()
        y[order].cumsum(0)

    return bad, fixed


def experts_with_gates() -> Pair:
    n, d, e = 2048, 768, 8
    router = nn.Linear(d, e).to(DEV, BF16)
    gates, ups = (torch.randn(e, d, 2 * d, device=DEV, dtype=BF16) / 32 for _ in range(2))
    downs = torch.randn(e, 2 * d, d, device=DEV, dtype=BF16) / 32
    x = torch.randn(n, d, device=DEV, dtype=BF16)
    layers = 3

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for _ in range(layers):
            weight, chosen = router(h).softmax(-1).topk(2, -1)
            out = torch.zeros_like(h)
            for i in range(e):
                token, slot = torch.where(chosen == i)
                part = h[token]
                part = (F.silu(part @ gates[i]) * (part @ ups[i])) @ downs[i]
                out.index_add_(0, token, part * weight[token, slot, None])
            h = h + out

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for _ in range(layers):
            weight, chosen = router(h).softmax(-1).topk(2, -1)
            flat = chosen.flatten()
            order = flat.argsort()
            ends = F.one_hot(flat, e).sum(0).cumsum(0).to(torch.int32)
            part = h[order // 2]
            part = torch._grouped_mm(
                F.silu(torch._grouped_mm(part, gates, ends)) * torch._grouped_mm(part, ups, ends), downs, ends
            )
            h = h + torch.zeros_like(h).index_add_(0, order // 2, part * weight.flatten()[order, None])

    return bad, fixed


def waves_on_cpu() -> Pair:
    net = nn.Sequential(nn.Linear(512 + 128, 1024), nn.SiLU(), nn.Linear(1024, 512)).to(DEV, BF16)
    x0 = torch.randn(4096, 512, device=DEV, dtype=BF16)

    def embedding(t: int, where: str) -> torch.Tensor:
        rate = torch.exp(torch.arange(64, device=where).float() * (-math.log(10_000) / 64))
        angle = torch.full((4096, 1), float(t), device=where) * rate
        return torch.cat([angle.sin(), angle.cos()], 1).to(BF16)

    def run(where: str) -> None:
        x = x0
        for t in range(8):
            x = net(torch.cat([x, embedding(t, where).to(DEV)], 1))

    return torch.inference_mode()(lambda: run("cpu")), torch.inference_mode()(lambda: run(DEV))


def noise_from_cpu() -> Pair:
    net = relu_net(3, 1024, BF16)

    @torch.inference_mode()
    def bad() -> None:
        net(torch.randn(256, 1024).to(DEV).to(BF16))

    @torch.inference_mode()
    def fixed() -> None:
        net(torch.randn(256, 1024, device=DEV).to(BF16))

    return bad, fixed


def masked_tokens_loss() -> Pair:
    net = nn.Sequential(*[Block(512, 8, causal=False) for _ in range(2)]).to(DEV, BF16)
    head = nn.Linear(512, 4096).to(DEV, BF16)
    opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], fused=True)
    x = torch.randn(16, 256, 512, device=DEV, dtype=BF16)
    y = torch.randint(4096, (16, 256), device=DEV)
    mask = torch.rand(16, 256, device=DEV) < 0.15
    target = torch.where(mask, y, -100)

    def some() -> torch.Tensor:
        return F.cross_entropy(head(net(x)[mask]).float(), y[mask])

    def every() -> torch.Tensor:
        return F.cross_entropy(head(net(x)).float().flatten(0, 1), target.flatten())

    return lambda: descend(opt, some), lambda: descend(opt, every)


def finite_checked_behind_gpu() -> Pair:
    net = relu_net(12, 4096, BF16)
    opt = torch.optim.AdamW(net.parameters(), fused=True)
    x = torch.randn(8192, 4096, device=DEV, dtype=BF16)

    def step(check: bool) -> None:
        opt.zero_grad(set_to_none=True)
        loss = net(x).float().square().mean()
        if check and not torch.isfinite(loss):
            return
        loss.backward()
        opt.step()

    return lambda: step(True), lambda: step(False)


def small_convs_graphed() -> Pair:
    w = 32
    net = nn.Sequential(
        nn.Conv2d(3, w, 3, padding=1),
        *[m for _ in range(12) for m in (nn.Conv2d(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU())],
    )
    net = net.to(DEV, BF16, memory_format=torch.channels_last).eval()
    x = torch.randn(8, 3, 64, 64, device=DEV, dtype=BF16).to(memory_format=torch.channels_last)
    run = torch.inference_mode()(lambda: net(x))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        net(x)
    return run, graph.replay
