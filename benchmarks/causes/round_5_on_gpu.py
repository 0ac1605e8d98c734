"""Planted causes of round 5 in the GPU's work: shapes, layouts, and work that nobody needs."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Block, Pair, descend
from torch import nn


def vocab_50257() -> Pair:
    """GPT-2's vocabulary of 50257 in the last layer, against 50304."""
    width, tokens = 768, 1024

    def make(vocab: int) -> Any:
        body = nn.Sequential(nn.Embedding(vocab, width), *[Block(width, 12) for _ in range(4)], nn.LayerNorm(width)).to(
            DEV, BF16
        )
        head = nn.Linear(width, vocab, bias=False).to(DEV, BF16)
        opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-4, fused=True)
        ids = torch.randint(0, 50257, (4, tokens + 1), device=DEV)
        return lambda: descend(
            opt, lambda: F.cross_entropy(head(body(ids[:, :-1])).flatten(0, 1).float(), ids[:, 1:].flatten())
        )

    return make(50257), make(50304)


class _Mha(nn.Module):
    def __init__(self, width: int, heads: int, weights: bool) -> None:
        super().__init__()
        self.a, self.b, self.weights = nn.LayerNorm(width), nn.LayerNorm(width), weights
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        x = x + self.attend(h, h, h, need_weights=self.weights)[0]
        return x + self.mlp(self.b(x))


def weights_asked_for() -> Pair:
    """nn.MultiheadAttention returns its weights by default, which nobody reads."""
    width = 768
    x = torch.randn(8, 1024, width, device=DEV, dtype=BF16)

    def make(weights: bool) -> Any:
        model = nn.Sequential(*[_Mha(width, 12, weights) for _ in range(4)]).to(DEV, BF16)
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        return lambda: descend(opt, lambda: model(x).float().square().mean())

    return make(True), make(False)


class _Ffn(nn.Module):
    def __init__(self, width: int, conv: bool) -> None:
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(width), conv
        self.a, self.b = (nn.Conv1d(i, o, 1) if conv else nn.Linear(i, o) for i, o in ((width, 4 * width), (4 * width, width)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        if self.conv:
            return x + self.b(F.relu(self.a(h.transpose(1, 2)))).transpose(1, 2)
        return x + self.b(F.relu(self.a(h)))


def pointwise_conv1d() -> Pair:
    """Speech: position-wise layers written as Conv1d of kernel 1 between transposes, against Linear."""
    width = 512
    x = torch.randn(16, 1024, width, device=DEV, dtype=BF16)

    def make(conv: bool) -> Any:
        model = nn.Sequential(*[_Ffn(width, conv) for _ in range(6)]).to(DEV, BF16)
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        return lambda: descend(opt, lambda: model(x).float().square().mean())

    return make(True), make(False)


def weights_dequantised() -> Pair:
    """Decode with int8 weights that become bf16 tensors at every use, against bf16 weights kept."""
    wide, hidden = 4096, 11008
    shapes = [s for _ in range(6) for s in ((hidden, wide), (wide, hidden))]
    kept = [torch.randint(-127, 128, s, dtype=torch.int8, device=DEV) for s in shapes]
    scales = [torch.rand(s[0], 1, device=DEV, dtype=BF16) * 1e-4 for s in shapes]
    full = [q.to(BF16) * s for q, s in zip(kept, scales, strict=True)]
    x = torch.randn(8, wide, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        h = x
        for i in range(0, len(kept), 2):
            up = F.silu(F.linear(h, kept[i].to(BF16) * scales[i]))
            h = h + F.linear(up, kept[i + 1].to(BF16) * scales[i + 1])
        return h

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        h = x
        for i in range(0, len(full), 2):
            h = h + F.linear(F.silu(F.linear(h, full[i])), full[i + 1])
        return h

    return bad, fixed


class _T5(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.a, self.b = heads, nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.a(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        x = x + self.out(h.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.relu(self.up(self.b(x))))


def bias_table_rebuilt() -> Pair:
    """T5 encoder: the relative position bias computed again in each layer and each call, against once."""
    width, heads, n = 768, 12, 1024
    layers = nn.ModuleList([_T5(width, heads) for _ in range(8)]).to(DEV, BF16).eval()
    table = nn.Embedding(32, heads).to(DEV, BF16)
    x = torch.randn(4, n, width, device=DEV, dtype=BF16)

    def bias() -> torch.Tensor:
        at = torch.arange(n, device=DEV)
        relative = at[None, :] - at[:, None]
        bucket = (relative > 0).long() * 16
        relative = relative.abs()
        far = 8 + (torch.log(relative.float() / 8) / math.log(128 / 8) * 8).clamp(min=-8).long()
        far = torch.min(far, torch.full_like(far, 15))
        bucket = bucket + torch.where(relative < 8, relative, far)
        return table(bucket).permute(2, 0, 1).unsqueeze(0).contiguous()

    with torch.inference_mode():
        cached = bias()

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        h = x
        for layer in layers:
            h = layer(h, bias())
        return h

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        h = x
        for layer in layers:
            h = layer(h, cached)
        return h

    return bad, fixed


class _Drop(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.a, self.b, self.drop = heads, nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.a(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
        x = x + self.drop(self.out(h.transpose(1, 2).reshape(b, n, c)))
        return x + self.mlp(self.b(x))


def dropout_in_eval() -> Pair:
    """Inference with a model that nobody put into eval mode: it still drops out."""
    width = 768
    model = nn.Sequential(*[_Drop(width, 12) for _ in range(6)]).to(DEV, BF16)
    quiet = copy.deepcopy(model).eval()
    x = torch.randn(32, 512, width, device=DEV, dtype=BF16)

    def make(net: nn.Module) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            return net(x).mean(1)

        return step

    return make(model), make(quiet)


class _Lora(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 16, bias=False)
        self.up = nn.Linear(16, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def lora_base_trained() -> Pair:
    """LoRA: only the adapters are optimised, but the base weights were not frozen, and get gradients that nobody uses."""
    width = 2048
    x = torch.randn(8, 1024, width, device=DEV, dtype=BF16)

    def make(freeze: bool) -> Any:
        with torch.device(DEV):
            model = nn.Sequential(*[Block(width, 16) for _ in range(3)])
        if freeze:
            model.requires_grad_(False)
        for block in model:
            block.attend.qkv, block.attend.out = _Lora(block.attend.qkv), _Lora(block.attend.out)
            block.mlp[0], block.mlp[2] = _Lora(block.mlp[0]), _Lora(block.mlp[2])
        model.to(DEV, BF16)
        adapters = [p for n, p in model.named_parameters() if ".down." in n or ".up." in n]
        opt = torch.optim.AdamW(adapters, lr=1e-4, fused=True)
        return lambda: descend(opt, lambda: model(x).float().square().mean())

    return make(False), make(True)


def logits_of_all_positions() -> Pair:
    """Prefill: logits of all positions, of which only the last are used."""
    width, vocab = 2048, 65536
    with torch.device(DEV):
        embed = nn.Embedding(vocab, width).to(BF16)
        body = nn.Sequential(*[Block(width, 16) for _ in range(4)], nn.LayerNorm(width)).to(BF16)
        head = nn.Linear(width, vocab, bias=False).to(BF16)
    ids = torch.randint(0, vocab, (2, 1024), device=DEV)

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        logits = head(body(embed(ids))).float()
        return logits[:, -1].argmax(-1)

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        return head(body(embed(ids))[:, -1]).float().argmax(-1)

    return bad, fixed


def _draw(p: torch.Tensor) -> torch.Tensor:
    """One sample of each row, without a wait."""
    return (p / torch.empty_like(p).exponential_(1.0)).argmax(-1, keepdim=True)


def full_sort_for_top_k() -> Pair:
    """Sampling from the 50 best tokens by sorting the whole vocabulary, against topk."""
    width, vocab, batch, k = 2048, 128256, 64, 50
    with torch.device(DEV):
        body = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)]).to(BF16)
        head = nn.Linear(width, vocab, bias=False).to(BF16)
    x = torch.randn(batch, width, device=DEV, dtype=BF16)

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        logits = head(body(x)).float() / 0.8
        ordered, index = torch.sort(logits, dim=-1, descending=True)
        chosen = _draw(ordered[:, :k].softmax(-1))
        return index.gather(1, chosen)

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        logits = head(body(x)).float() / 0.8
        best, index = logits.topk(k, dim=-1)
        chosen = _draw(best.softmax(-1))
        return index.gather(1, chosen)

    return bad, fixed


def one_hot_times_weight() -> Pair:
    """Categories as one-hot rows times a weight, against an embedding."""
    fields, count, batch, width = 16, 1000, 16384, 512
    ids = torch.randint(0, count, (batch, fields), device=DEV)
    label = torch.rand(batch, device=DEV)

    def make(hot: bool) -> Any:
        first = (nn.Linear(fields * count, width, bias=False) if hot else nn.Embedding(fields * count, width)).to(DEV, BF16)
        rest = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).to(DEV, BF16)
        opt = torch.optim.AdamW([*first.parameters(), *rest.parameters()], lr=1e-3, fused=True)
        offsets = torch.arange(fields, device=DEV) * count

        def loss() -> torch.Tensor:
            if hot:
                h = first(torch.cat([F.one_hot(ids[:, i], count).to(BF16) for i in range(fields)], 1))
            else:
                h = first(ids + offsets).sum(1)
            return F.binary_cross_entropy_with_logits(rest(h)[:, 0].float(), label)

        return lambda: descend(opt, loss)

    return make(True), make(False)


def loss_per_sample() -> Pair:
    """The loss of each sample's valid part in a loop: each slice's backward fills a gradient of the whole batch and adds it."""
    batch, n, width, vocab = 32, 256, 512, 8000
    body = nn.Sequential(Block(width, 8), Block(width, 8), nn.Linear(width, vocab)).to(DEV, BF16)
    opt = torch.optim.AdamW(body.parameters(), lr=1e-4, fused=True)
    x = torch.randn(batch, n, width, device=DEV, dtype=BF16)
    y = torch.randint(0, vocab, (batch, n), device=DEV)
    lengths = [n // 2 + (7 * i) % (n // 2) for i in range(batch)]
    on_gpu = torch.tensor(lengths, device=DEV)
    weight = (torch.arange(n, device=DEV)[None] < on_gpu[:, None]) / on_gpu[:, None] / batch

    def loop() -> torch.Tensor:
        logits, loss = body(x).float(), torch.zeros((), device=DEV)
        for i, m in enumerate(lengths):
            loss = loss + F.cross_entropy(logits[i, :m], y[i, :m])
        return loss / batch

    def whole() -> torch.Tensor:
        each = F.cross_entropy(body(x).float().flatten(0, 1), y.flatten(), reduction="none")
        return (each * weight.flatten()).sum()

    assert torch.allclose(loop(), whole(), rtol=1e-2)
    return lambda: descend(opt, loop), lambda: descend(opt, whole)
