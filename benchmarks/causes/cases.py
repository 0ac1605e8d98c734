"""Planted causes: name, cause, and a function that makes (the step with the cause, the step without it)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Step = Callable[[], Any]
Pair = tuple[Step, Step]
DEV = "cuda"


def convnet(width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for i in range(4):
        layers += [nn.Conv2d(width << min(i, 2), width << min(i + 1, 2), 3, stride=2 if i < 2 else 1, padding=1)]
        layers += [nn.BatchNorm2d(width << min(i + 1, 2)), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << 2, 10))


def mlp(depth: int, width: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    return nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU())]).to(DEV, dtype)


After = Callable[[torch.Tensor], Any]


def trainer(model: nn.Module, x: torch.Tensor, y: torch.Tensor, opt: torch.optim.Optimizer, after: After) -> Step:
    def step() -> None:
        opt.zero_grad(set_to_none=True)
        with torch.autocast(DEV, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        after(loss)

    return step


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


def sgd_for_loop() -> Pair:
    def make(**how: bool) -> Step:
        torch.manual_seed(0)
        net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(40)]).to(DEV)
        opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, **how)
        x = torch.randn(64, 512, device=DEV)

        def step() -> None:
            opt.zero_grad(set_to_none=True)
            net(x).square().mean().backward()
            opt.step()

        return step

    return make(foreach=False), make(fused=True)


def conv_fp32() -> Pair:
    model = convnet(128).to(DEV).eval()
    x = torch.randn(64, 3, 96, 96, device=DEV)

    def step(tf32: bool) -> Step:
        def one() -> None:
            torch.backends.cudnn.allow_tf32 = tf32
            torch.backends.cuda.matmul.allow_tf32 = tf32
            with torch.inference_mode():
                model(x)
            torch.backends.cudnn.allow_tf32 = True

        return one

    return step(False), step(True)


def sdpa_math_masked() -> Pair:
    q, k, v = (torch.randn(4, 12, 1024, 64, device=DEV, dtype=torch.float16) for _ in range(3))
    w = torch.randn(64, 64, device=DEV, dtype=torch.float16)

    def step(backend: SDPBackend) -> Step:
        @torch.inference_mode()
        def one() -> None:
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q @ w, k, v, is_causal=True)

        return one

    return step(SDPBackend.MATH), step(SDPBackend.FLASH_ATTENTION)


def einsum_attention() -> Pair:
    q, k, v = (torch.randn(4, 512, 16, 64, device=DEV, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    mask = torch.full((512, 512), float("-inf"), device=DEV, dtype=torch.bfloat16).triu(1)

    def bad() -> None:
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) * 0.125 + mask
        torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).sum().backward()

    def fixed() -> None:
        out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        out.transpose(1, 2).sum().backward()

    return bad, fixed


def odd_hidden() -> Pair:
    def make(width: int) -> Step:
        a = torch.randn(8192, width, device=DEV, dtype=torch.float16)
        w = torch.randn(width, width, device=DEV, dtype=torch.float16)

        @torch.inference_mode()
        def step() -> None:
            (a @ w) @ w

        return step

    return make(4095), make(4096)


def mish_by_hand() -> Pair:
    x, b, r = (torch.randn(8192, 4096, device=DEV, dtype=torch.bfloat16) for _ in range(3))

    def mish(x: torch.Tensor) -> torch.Tensor:
        return (x + b) * torch.tanh(torch.log1p(torch.exp(x + b))) * 0.5 + r

    compiled = torch.compile(mish)
    return torch.inference_mode()(lambda: mish(x)), torch.inference_mode()(lambda: compiled(x))


def layer_norm_by_hand() -> Pair:
    x = torch.randn(16384, 2048, device=DEV, dtype=torch.float16)
    g, b = torch.ones(2048, device=DEV), torch.zeros(2048, device=DEV)
    gh, bh = g.half(), b.half()

    @torch.inference_mode()
    def bad() -> None:
        f = x.float()
        d = f - f.mean(-1, keepdim=True)
        (d / torch.sqrt(d.square().mean(-1, keepdim=True) + 1e-5) * g + b).half()

    return bad, torch.inference_mode()(lambda: F.layer_norm(x, (2048,), gh, bh))


def clone_then_add() -> Pair:
    x = torch.randn(4096, 8192, device=DEV)
    idx = torch.arange(0, 4096, 2, device=DEV)
    buf = torch.empty_like(x)

    @torch.inference_mode()
    def bad() -> None:
        buf.copy_(x.relu())
        buf.index_fill(0, idx, 0.0)

    @torch.inference_mode()
    def fixed() -> None:
        buf.copy_(x.relu())
        buf.index_fill_(0, idx, 0.0)

    return bad, fixed


def transposed_twice() -> Pair:
    x = torch.randn(64, 512, 1024, device=DEV, dtype=torch.bfloat16)
    w = torch.randn(1024, 1024, device=DEV, dtype=torch.bfloat16)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for _ in range(3):
            h = F.linear(h.transpose(1, 2).contiguous().transpose(1, 2).contiguous(), w)

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for _ in range(3):
            h = F.linear(h, w)

    return bad, fixed


def casts_between_layers() -> Pair:
    ws = [torch.randn(1024, 1024, device=DEV, dtype=torch.float16) for _ in range(8)]
    x = torch.randn(16384, 1024, device=DEV, dtype=torch.float16)

    @torch.inference_mode()
    def bad() -> None:
        h = x
        for w in ws:
            h = F.linear(h, w).float().half()

    @torch.inference_mode()
    def fixed() -> None:
        h = x
        for w in ws:
            h = F.linear(h, w)

    return bad, fixed


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


def heads_in_a_loop() -> Pair:
    q = torch.randn(48, 128, 64, device=DEV, dtype=torch.float16)
    k = torch.randn(48, 64, 128, device=DEV, dtype=torch.float16)

    @torch.inference_mode()
    def bad() -> None:
        torch.stack([q[i] @ k[i] for i in range(48)])

    return bad, torch.inference_mode()(lambda: torch.bmm(q, k))


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


def fine_convs() -> Pair:
    model = convnet(128).to(DEV, memory_format=torch.channels_last).to(torch.bfloat16)
    x = torch.randn(128, 3, 128, 128, device=DEV, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)
    y = torch.randint(10, (128,), device=DEV)

    def step() -> None:
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        opt.step()

    return step, step


def fine_encoder() -> Pair:
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(DEV, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(16, 1024, 1024, device=DEV, dtype=torch.bfloat16)

    def step() -> None:
        opt.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()
        opt.step()

    return step, step


CASES: dict[str, tuple[str, Callable[[], Pair]]] = {
    "print_loss": ("host_sync", print_loss),
    "branch_on_gpu": ("host_sync", branch_on_gpu),
    "masked_select": ("host_sync", masked_select),
    "topk_on_cpu": ("host_sync", topk_on_cpu),
    "pageable_images": ("pageable_copy", pageable_images),
    "python_before_step": ("data_starvation", python_before_step),
    "loader_in_process": ("data_starvation", loader_in_process),
    "scalars_one_by_one": ("small_copies", scalars_one_by_one),
    "rnn_cell_loop": ("launch_bound", rnn_cell_loop),
    "sgd_for_loop": ("unfused_optimizer", sgd_for_loop),
    "conv_fp32": ("no_tensor_cores", conv_fp32),
    "sdpa_math_masked": ("sdpa_math", sdpa_math_masked),
    "einsum_attention": ("unfused_attention", einsum_attention),
    "odd_hidden": ("misaligned_dims", odd_hidden),
    "mish_by_hand": ("unfused_pointwise", mish_by_hand),
    "layer_norm_by_hand": ("unfused_pointwise", layer_norm_by_hand),
    "clone_then_add": ("hidden_copy", clone_then_add),
    "transposed_twice": ("layout_copy", transposed_twice),
    "casts_between_layers": ("dtype_casts", casts_between_layers),
    "new_python_number": ("recompilation", new_python_number),
    "empty_cache_between": ("allocator", empty_cache_between),
    "eval_with_grad": ("autograd_in_inference", eval_with_grad),
    "heads_in_a_loop": ("unbatched_gemms", heads_in_a_loop),
    "graph_with_copied_inputs": ("graph_input_copies", graph_with_copied_inputs),
    "tiny_compiled_calls": ("compile_overhead", tiny_compiled_calls),
    "results_on_one_stream": ("single_stream_copy", results_on_one_stream),
    "fine_convs": ("none", fine_convs),
    "fine_encoder": ("none", fine_encoder),
}
