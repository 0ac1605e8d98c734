"""What the planted causes share: models, and training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

Step = Callable[[], Any]
Pair = tuple[Step, Step]
DEV = "cuda"
BF16 = torch.bfloat16


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


def relu_net(depth: int, width: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    return nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]).to(DEV, dtype)


class Attend(nn.Module):
    """Self-attention with the library's fused kernel."""

    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.a, self.b, self.attend = nn.LayerNorm(width), nn.LayerNorm(width), Attend(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.a(x))
        return x + self.mlp(self.b(x))


def descend(opt: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
    """One training step."""
    opt.zero_grad(set_to_none=True)
    value = loss()
    value.backward()
    opt.step()
    return value.detach()
