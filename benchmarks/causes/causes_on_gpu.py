"""Planted causes in the GPU's own work, and two steps with nothing wrong."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from steps import DEV, Pair, Step, convnet
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


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


def heads_in_a_loop() -> Pair:
    q = torch.randn(48, 128, 64, device=DEV, dtype=torch.float16)
    k = torch.randn(48, 64, 128, device=DEV, dtype=torch.float16)

    @torch.inference_mode()
    def bad() -> None:
        torch.stack([q[i] @ k[i] for i in range(48)])

    return bad, torch.inference_mode()(lambda: torch.bmm(q, k))


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
