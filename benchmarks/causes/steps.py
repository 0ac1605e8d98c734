"""What the planted causes share: models, and a training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

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
