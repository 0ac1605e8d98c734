"""Planted causes on the CPU's side: waits, copies, loading, launches, compilation, memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from steps import DEV, Pair, Step, convnet, mlp, trainer
from torch import nn


def print_loss() -> Pair:
    model = convnet().to(DEV)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)
    x, y = torch.randn(16, 3, 64, 64, device=DEV), torch.randint(10, (16,), device=DEV)
    log: list[Any] = []
    bad = trainer(model, x, y, opt, lambda loss: log.append(float(loss)))
    return bad, trainer(model, x, y, opt, lambda loss: log.append(loss.detach()))


def branch_on_gpu() -> Pair:
    layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(12)]).to(DEV, torch.float16)
    x = torch.randn(32, 512, device=DEV, dtype=torch.float16)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for layer in layers:
            h = layer(h)
            if h.abs().max() > 1e4:
                h = h / 2

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for layer in layers:
            h = layer(h)
            h = torch.where(h.abs().max() > 1e4, h / 2, h)

    return bad, fixed


def masked_select() -> Pair:
    x = torch.randn(64, 4096, device=DEV)
    w = torch.randn(64, 4096, device=DEV)

    @torch.inference_mode()
    def bad() -> None:
        for _ in range(6):
            torch.masked_select(x * w, x > 0).sum()

    @torch.inference_mode()
    def fixed() -> None:
        for _ in range(6):
            torch.where(x > 0, x * w, 0).sum()

    return bad, fixed


def topk_on_cpu() -> Pair:
    net = mlp(4, 1024, torch.float16)
    x = torch.randn(256, 1024, device=DEV, dtype=torch.float16)

    @torch.inference_mode()
    def bad() -> None:
        scores = net(x).cpu().float().softmax(-1).to(DEV)
        net(scores.half())

    @torch.inference_mode()
    def fixed() -> None:
        net(net(x).float().softmax(-1).half())

    return bad, fixed


def pageable_images() -> Pair:
    model = convnet(32).to(DEV)
    pageable = torch.randn(96, 3, 160, 160)
    pinned = pageable.pin_memory()

    @torch.inference_mode()
    def bad() -> None:
        with torch.autocast(DEV, torch.bfloat16):
            model(pageable.to(DEV))

    @torch.inference_mode()
    def fixed() -> None:
        with torch.autocast(DEV, torch.bfloat16):
            model(pinned.to(DEV, non_blocking=True))

    return bad, fixed


def python_before_step() -> Pair:
    net = mlp(6, 1024)
    opt = torch.optim.AdamW(net.parameters(), fused=True)
    x = torch.randn(128, 1024).pin_memory()

    def step(work_s: float) -> Step:
        def one() -> None:
            end = time.perf_counter() + work_s
            while time.perf_counter() < end:
                np.sort(np.random.rand(2000))
            batch = x.to(DEV, non_blocking=True)
            opt.zero_grad(set_to_none=True)
            net(batch).square().mean().backward()
            opt.step()

        return one

    return step(0.006), step(0.0)


class _Items(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, i: int) -> torch.Tensor:
        g = torch.full((3, 64, 64), float(i % 7))
        return (g - g.mean()) / (g.std() + 1e-3)


def loader_in_process() -> Pair:
    model = convnet(32).to(DEV)
    ready = torch.randn(32, 3, 64, 64).pin_memory()
    batches = iter(torch.utils.data.DataLoader(_Items(), batch_size=32, num_workers=0, pin_memory=False))

    def use(batch: torch.Tensor) -> None:
        with torch.inference_mode(), torch.autocast(DEV, torch.bfloat16):
            model(batch.to(DEV, non_blocking=True))

    return lambda: use(next(batches)), lambda: use(ready)


def scalars_one_by_one() -> Pair:
    net = mlp(3, 512)
    x = torch.randn(64, 512, device=DEV)
    values = [float(i) for i in range(32)]

    @torch.inference_mode()
    def bad() -> None:
        net(x + torch.stack([torch.tensor(v, device=DEV) for v in values]).mean())

    @torch.inference_mode()
    def fixed() -> None:
        net(x + torch.tensor(values).pin_memory().to(DEV, non_blocking=True).mean())

    return bad, fixed


def rnn_cell_loop() -> Pair:
    cell = nn.GRUCell(256, 256).to(DEV)
    x = torch.randn(40, 8, 256, device=DEV)
    h0 = torch.zeros(8, 256, device=DEV)

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        h = h0
        for t in range(40):
            h = cell(x[t], h)
        return h

    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        bad()
    torch.cuda.synchronize()
    with torch.inference_mode(), torch.cuda.graph(graph):
        bad()
    return bad, graph.replay


def new_python_number() -> Pair:
    x = torch.randn(256, 256, device=DEV)
    count = [0]

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x * n).sin() + n

    bad_f, good_f = torch.compile(f, dynamic=False), torch.compile(f)

    def bad() -> None:
        count[0] += 1
        torch._dynamo.config.recompile_limit = 10_000
        bad_f(x, count[0])

    return bad, lambda: good_f(x, 3)


def empty_cache_between() -> Pair:
    net = mlp(4, 2048, torch.bfloat16)
    x = torch.randn(2048, 2048, device=DEV, dtype=torch.bfloat16)

    @torch.inference_mode()
    def bad() -> None:
        net(x)
        torch.cuda.empty_cache()

    return bad, torch.inference_mode()(lambda: net(x))


def eval_with_grad() -> Pair:
    model = mlp(24, 256)
    x = torch.randn(16, 256, device=DEV)

    def bad() -> None:
        model(x)

    return bad, torch.inference_mode()(lambda: model(x))


def graph_with_copied_inputs() -> Pair:
    static = torch.zeros(4096, 4096, device=DEV, dtype=torch.bfloat16)
    w = torch.randn(4096, 4096, device=DEV, dtype=torch.bfloat16)
    new = torch.randn_like(static)
    side = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(side):
        static @ w
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        static @ w

    def bad() -> None:
        static.copy_(new)
        graph.replay()

    return bad, graph.replay


def tiny_compiled_calls() -> Pair:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    compiled = torch.compile(f)
    x = torch.randn(64, 64, device=DEV)

    @torch.inference_mode()
    def bad() -> None:
        for _ in range(12):
            compiled(x)

    @torch.inference_mode()
    def fixed() -> None:
        for _ in range(12):
            f(x)

    return bad, fixed


def results_on_one_stream() -> Pair:
    a = torch.randn(6144, 6144, device=DEV, dtype=torch.bfloat16)
    out = torch.empty(4096, 4096).pin_memory()
    big = torch.randn(4096, 4096, device=DEV)
    side = torch.cuda.Stream()

    @torch.inference_mode()
    def bad() -> None:
        a @ a
        a @ a
        out.copy_(big, non_blocking=True)

    @torch.inference_mode()
    def fixed() -> None:
        with torch.cuda.stream(side):
            out.copy_(big, non_blocking=True)
        a @ a
        a @ a

    return bad, fixed
