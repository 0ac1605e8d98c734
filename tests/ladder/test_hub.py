"""Kernels from the hub: the real loading code on a kernel folder of this machine, and every way in which it fails."""

from __future__ import annotations

import builtins
import json
import types
from pathlib import Path
from typing import Any

import pytest

from lanewise.ladder import hub
from lanewise.ladder.hub import HubKernel, KernelUnavailableError

KERNEL = HubKernel("kernels-community/flash-attn2", version=1, attribute="flash_attn_func")


@pytest.fixture
def kernel_folder(tmp_path: Path) -> Path:
    return write_kernel(tmp_path / "kernel")


def write_kernel(folder: Path) -> Path:
    """A kernel as the hub has them, for every torch on a CPU."""
    build = folder / "build" / "torch-cpu"
    build.mkdir(parents=True)
    (build / "__init__.py").write_text(
        "import torch\n"
        "from types import SimpleNamespace\n"
        "def flash_attn_func(q, k, v, causal=False):\n"
        "    q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
        "    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)\n"
        "    return out.transpose(1, 2)\n"
        "class LigerGEGLUMLP(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        gate = torch.nn.functional.gelu(self.gate_proj(x), approximate='tanh')\n"
        "        return self.down_proj(gate * self.up_proj(x))\n"
        "layers = SimpleNamespace(LigerGEGLUMLP=LigerGEGLUMLP)\n"
    )
    metadata = {"name": "test-kernel", "id": "_test_kernel", "version": 1, "license": "apache-2.0", "python-depends": []}
    (build / "metadata.json").write_text(json.dumps({**metadata, "backend": {"type": "cpu"}}))
    return folder


@pytest.mark.torch
def test_a_kernel_folder_is_loaded_by_the_real_package(kernel_folder: Path) -> None:
    pytest.importorskip("torch")
    if not hasattr(pytest.importorskip("kernels"), "get_local_kernel"):  # tests/kernels is importable by that name too
        pytest.skip("kernels is not installed")
    function = KERNEL.load(str(kernel_folder))
    assert function.__name__ == "flash_attn_func"
    layer = HubKernel("x/y", 1, "layers.LigerGEGLUMLP").load(str(kernel_folder))
    assert layer.__name__ == "LigerGEGLUMLP"
    with pytest.raises(KernelUnavailableError, match=r"has no layers\.Missing"):
        HubKernel("x/y", 1, "layers.Missing").load(str(kernel_folder))


@pytest.mark.torch
def test_a_folder_without_a_kernel(tmp_path: Path) -> None:
    if not hasattr(pytest.importorskip("kernels"), "get_local_kernel"):  # tests/kernels is importable by that name too
        pytest.skip("kernels is not installed")
    with pytest.raises(KernelUnavailableError, match=str(tmp_path)):
        KERNEL.load(str(tmp_path))


class Client:
    """The package `kernels`, with a hub that answers as told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int]] = []

    def get_kernel(self, repository: str, *, version: int) -> Any:
        self.asked.append((repository, version))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_the_version_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(types.SimpleNamespace(flash_attn_func=len))
    monkeypatch.setattr(hub, "import_module", lambda _name: client)
    assert KERNEL.load() is len
    assert client.asked == [("kernels-community/flash-attn2", 1)]


def _wrapped() -> Exception:
    class ConnectError(OSError):
        pass

    outer = ValueError("a long story\nover several lines")
    outer.__cause__ = ConnectError("refused")
    return outer


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (_wrapped(), "out of reach from here"),
        (FileNotFoundError("no build for torch 9.9\nmore"), "no build for torch 9.9"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_failures_become_one_line(monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str) -> None:
    monkeypatch.setattr(hub, "import_module", lambda _name: Client(failure))
    with pytest.raises(KernelUnavailableError, match=said) as caught:
        KERNEL.load()
    assert "\n" not in str(caught.value)
    assert "kernels-community/flash-attn2 (version 1)" in str(caught.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise builtins.ImportError(name)

    monkeypatch.setattr(hub, "import_module", missing)
    with pytest.raises(KernelUnavailableError, match="pip install kernels"):
        KERNEL.load()
