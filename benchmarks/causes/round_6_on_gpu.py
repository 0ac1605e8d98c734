"""Planted causes of round 6 in the GPU's work: the causes that round 5 had shown to be missing, in other programs."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from steps import BF16, DEV, Pair, descend
from torch import nn

HALF = torch.float16


class _Sound(nn.Module):
    """Sound events from mel spectrograms and their differences; `asks` says whether dropout looks at the mode of the model."""

    def __init__(self, width: int, asks: bool) -> None:
        super().__init__()
        self.asks = asks
        sizes = [3, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
        self.convs = nn.ModuleList([nn.Conv2d(i, o, 3, padding=1, bias=False) for i, o in pairwise(sizes)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(o) for o in sizes[1:]])
        self.head = nn.Linear(4 * width, 527)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = F.relu(norm(conv(x)), inplace=True)
            x = F.dropout(x, 0.2, training=self.training) if self.asks else F.dropout(x, 0.2)
            if i % 2:
                x = F.avg_pool2d(x, 2)
        x = x.mean(3).amax(2)
        return self.head(x).sigmoid()


def functional_dropout() -> Pair:
    """Audio tagging: F.dropout without training=self.training, which drops out in eval mode, too."""
    width = 64
    bad_net = _Sound(width, False).to(DEV, HALF).to(memory_format=torch.channels_last).eval()
    good_net = copy.deepcopy(bad_net)
    good_net.asks = True
    x = torch.randn(32, 3, 500, 64, device=DEV, dtype=HALF).to(memory_format=torch.channels_last)

    def make(net: nn.Module) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            return net(x)

        return step

    return make(bad_net), make(good_net)


class _Scorer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.a, self.b = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.a(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(h.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.b(x))))


def mask_in_every_layer() -> Pair:
    """Likelihoods of padded molecules' strings: causal and padding mask built anew by each layer, against once a step."""
    batch, n, width, vocab = 8, 2048, 512, 1024
    embed = nn.Embedding(vocab, width).to(DEV, HALF)
    layers = nn.ModuleList([_Scorer(width, 8) for _ in range(6)]).to(DEV, HALF).eval()
    head = nn.Linear(width, vocab).to(DEV, HALF)
    ids = torch.randint(0, vocab, (batch, n), device=DEV)
    lengths = torch.randint(n // 2, n + 1, (batch,), device=DEV)
    valid = torch.arange(n, device=DEV)[None] < lengths[:, None]

    def build() -> torch.Tensor:
        allowed = torch.ones(n, n, device=DEV).tril()
        allowed = allowed[None, None] * valid[:, None, None, :]
        return torch.zeros_like(allowed, dtype=HALF).masked_fill(allowed == 0, float("-inf"))

    def score(h: torch.Tensor) -> torch.Tensor:
        each = F.cross_entropy(head(h)[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(batch, n - 1)
        return (each * valid[:, 1:]).sum(1)

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        h = embed(ids)
        for layer in layers:
            h = layer(h, build())
        return score(h)

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        h, mask = embed(ids), build()
        for layer in layers:
            h = layer(h, mask)
        return score(h)

    return bad, fixed


def argsort_of_catalogue() -> Pair:
    """Retrieval: the scores of the whole catalogue argsorted, and the first 20 taken, against topk."""
    items, width, k = 8_000_000, 64, 20
    catalogue = torch.randn(items, width, device=DEV, dtype=HALF)
    popularity = torch.rand(items, device=DEV)
    tower = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width)).to(DEV, HALF).eval()
    user = torch.randn(256, device=DEV, dtype=HALF)

    def scores() -> torch.Tensor:
        return (catalogue @ tower(user)).float() + 0.1 * popularity

    @torch.inference_mode()
    def bad() -> tuple[torch.Tensor, torch.Tensor]:
        s = scores()
        best = torch.argsort(s, descending=True)[:k]
        return best, s[best]

    @torch.inference_mode()
    def fixed() -> tuple[torch.Tensor, torch.Tensor]:
        best = scores().topk(k)
        return best.indices, best.values

    return bad, fixed


class _Res(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(F.relu(self.a(x), inplace=True))


def all_frames_decoded() -> Pair:
    """Video denoising: seven frames decoded, of which only the middle one is kept, against decoding that one."""
    batch, frames, width = 4, 7, 128
    h, w = 256, 448
    encoder = nn.Sequential(
        nn.Conv2d(3, width // 2, 3, 2, 1), nn.ReLU(), nn.Conv2d(width // 2, width, 3, 2, 1), nn.ReLU(), _Res(width)
    )
    mixer = nn.Conv2d(width, width, 1)
    decoder = nn.Sequential(*[_Res(width) for _ in range(4)], nn.Conv2d(width, 48, 3, padding=1), nn.PixelShuffle(4))
    for m in (encoder, mixer, decoder):
        m.to(DEV, HALF).to(memory_format=torch.channels_last).eval()
    clip = torch.randn(batch * frames, 3, h, w, device=DEV, dtype=HALF).to(memory_format=torch.channels_last)

    def features() -> torch.Tensor:
        f = encoder(clip)
        shared = mixer(f.unflatten(0, (batch, frames)).mean(1))
        return f.unflatten(0, (batch, frames)) + shared[:, None]

    @torch.inference_mode()
    def bad() -> torch.Tensor:
        out = decoder(features().flatten(0, 1)).unflatten(0, (batch, frames))
        return out[:, frames // 2].clamp(0, 1)

    @torch.inference_mode()
    def fixed() -> torch.Tensor:
        return decoder(features()[:, frames // 2]).clamp(0, 1)

    return bad, fixed


class _Ecg(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(i, o, 7, stride, 3, bias=False), nn.Conv1d(o, o, 7, 1, 3, bias=False)
        self.m, self.n = nn.BatchNorm1d(o), nn.BatchNorm1d(o)
        self.skip = nn.Conv1d(i, o, 1, stride) if i != o or stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.skip(x) + self.n(self.b(F.relu(self.m(self.a(x))))))


def head_on_unfrozen_backbone() -> Pair:
    """Electrocardiograms: a new head trained on a backbone that the optimizer does not know, but that was not frozen."""
    w, leads = 64, 12
    body = (
        nn.Sequential(
            nn.Conv1d(leads, w, 15, 2, 7),
            nn.ReLU(),
            _Ecg(w, w, 1),
            _Ecg(w, w, 1),
            _Ecg(w, 2 * w, 2),
            _Ecg(2 * w, 2 * w, 1),
            _Ecg(2 * w, 4 * w, 2),
            _Ecg(4 * w, 4 * w, 1),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        )
        .to(DEV)
        .eval()
    )
    x = torch.randn(256, leads, 2048, device=DEV)
    y = torch.randint(0, 2, (256, 71), device=DEV).float()

    def make(freeze: bool) -> Any:
        net = copy.deepcopy(body)
        if freeze:
            net.requires_grad_(False)
        head = nn.Sequential(nn.Linear(4 * w, 256), nn.ReLU(), nn.Linear(256, 71)).to(DEV)
        opt = torch.optim.AdamW(head.parameters(), lr=1e-3, fused=True)
        return lambda: descend(opt, lambda: F.binary_cross_entropy_with_logits(head(net(x)), y))

    return make(False), make(True)


class _Reader(nn.Module):
    """Latents read a long memory: many heads of queries, few of keys and values."""

    def __init__(self, width: int, heads: int, few: int, size: int, native: bool) -> None:
        super().__init__()
        self.heads, self.few, self.size, self.native = heads, few, size, native
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.out = nn.Linear(width, heads * size), nn.Linear(heads * size, width)
        self.kv = nn.Linear(width, 2 * few * size)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        b, m, _ = x.shape
        n = memory.shape[1]
        q = self.q(self.a(x)).view(b, m, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(memory).view(b, n, 2, self.few, self.size).permute(2, 0, 3, 1, 4)
        if self.native:
            h = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        else:
            k, v = (t.repeat_interleave(self.heads // self.few, dim=1) for t in (k, v))
            h = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(h.transpose(1, 2).reshape(b, m, -1))
        return x + self.down(F.gelu(self.up(self.b(x))))


def keys_repeated_for_groups() -> Pair:
    """Document reader: keys and values of 2 heads repeated for 16 heads of queries, against enable_gqa."""
    batch, latents, n, width = 16, 64, 4096, 1024
    heads, few, size = 16, 2, 128
    with torch.device(DEV):
        bad_net = nn.ModuleList([_Reader(width, heads, few, size, False) for _ in range(6)]).to(BF16).eval()
    good_net = copy.deepcopy(bad_net)
    for layer in good_net:
        layer.native = True
    start = torch.randn(batch, latents, width, device=DEV, dtype=BF16)
    memory = torch.randn(batch, n, width, device=DEV, dtype=BF16)

    def make(net: Any) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            h = start
            for layer in net:
                h = layer(h, memory)
            return h.mean(1)

        return step

    bad, fixed = make(bad_net), make(good_net)
    return bad, fixed


def speaker_tiled_over_time() -> Pair:
    """Voice conversion: each layer's scale and shift, one a channel, repeated over all frames before use."""
    batch, width, frames = 32, 256, 4096
    convs = nn.ModuleList([nn.Conv1d(width, width, 3, padding=1) for _ in range(6)]).to(DEV, HALF)
    films = nn.ModuleList([nn.Linear(192, 2 * width) for _ in convs]).to(DEV, HALF)
    mel = torch.randn(batch, width, frames, device=DEV, dtype=HALF)
    speaker = torch.randn(batch, 192, device=DEV, dtype=HALF)

    def make(tile: bool) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            h = mel
            for conv, film in zip(convs, films, strict=True):
                scale, shift = film(speaker)[..., None].chunk(2, 1)
                if tile:
                    scale, shift = scale.repeat(1, 1, frames), shift.repeat(1, 1, frames)
                h = F.leaky_relu(conv(h) * scale + shift, 0.1)
            return h

        return step

    bad, fixed = make(True), make(False)
    return bad, fixed


def catalogue_embedding_dense() -> Pair:
    """News recommender: 4 million articles' embeddings, of which a batch reads few, with dense gradients and Adam."""
    items, width, batch, history = 4_000_000, 64, 2048, 20
    clicked = torch.randint(0, items, (batch, history), device=DEV)
    shown = torch.randint(0, items, (batch,), device=DEV)

    def make(sparse: bool) -> Any:
        table = nn.Embedding(items, width, sparse=sparse, device=DEV)
        user = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)).to(DEV)
        dense = list(user.parameters())
        if sparse:
            opts = [torch.optim.Adam(dense, lr=1e-3, fused=True), torch.optim.SparseAdam(list(table.parameters()), lr=1e-3)]
        else:
            opts = [torch.optim.Adam([*dense, *table.parameters()], lr=1e-3, fused=True)]
        target = torch.arange(batch, device=DEV)

        def step() -> torch.Tensor:
            for o in opts:
                o.zero_grad(set_to_none=True)
            rows = table(torch.cat((clicked, shown[:, None]), 1))
            logits = user(rows[:, :-1].mean(1)) @ rows[:, -1].t()
            loss = F.cross_entropy(logits, target)
            loss.backward()
            for o in opts:
                o.step()
            return loss.detach()

        return step

    return make(False), make(True)


class _Points(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1), nn.Conv1d(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.a(self.norm(x).transpose(1, 2)).transpose(1, 2))
        return x + self.b(h.transpose(1, 2)).transpose(1, 2)


class _PointsLinear(nn.Module):
    def __init__(self, of: _Points) -> None:
        super().__init__()
        self.norm, self.a, self.b = of.norm, *(nn.Linear(c.in_channels, c.out_channels) for c in (of.a, of.b))
        for mine, c in ((self.a, of.a), (self.b, of.b)):
            mine.weight.data, mine.bias.data = c.weight.data[..., 0].clone(), c.bias.data

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(F.silu(self.a(self.norm(x))))


def points_through_conv1d() -> Pair:
    """Lidar points (batch, points, channels) through Conv1d of kernel 1 between transposes, in inference."""
    width = 256
    convs = nn.Sequential(*[_Points(width) for _ in range(8)]).to(DEV, HALF).eval()
    linears = nn.Sequential(*[_PointsLinear(p) for p in convs]).to(DEV, HALF).eval()
    x = torch.randn(16, 4096, width, device=DEV, dtype=HALF)

    def make(net: nn.Module) -> Any:
        @torch.inference_mode()
        def step() -> torch.Tensor:
            return net(x).amax(1)

        return step

    bad, fixed = make(convs), make(linears)
    return bad, fixed
