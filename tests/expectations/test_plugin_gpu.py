"""What the plugin counts where there is a GPU."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch


def test_kernels_of_a_product_and_an_addition(torch: Any, lanewise_trace: Any) -> None:
    x, y = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    t = lanewise_trace(lambda: torch.add(torch.mm(x, y), y))
    assert t.step.kinds["gemm"] == 1
    assert t.step.kernels - t.step.kinds["gemm-aux"] == 2
    assert t.step.host_syncs == 0
    assert t.step.sequence == ["aten::mm", "aten::add"]
    assert t.uses("gemm")
    assert not t.uses("softmax")


def test_a_value_that_is_read_is_a_synchronisation(torch: Any, lanewise_trace: Any) -> None:
    x = torch.randn(64, device="cuda")
    t = lanewise_trace(lambda: x.sum().item())
    assert t.step.host_syncs == 1
    assert t.step.directions["dtoh"] == 1
    with pytest.raises(pytest.fail.Exception, match="BREACHED step: host_syncs"):
        t.expect({"host_syncs": 0})


def test_flash_attention(torch: Any, lanewise_trace: Any) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 128, 64, device="cuda", dtype=torch.bfloat16)

    def step() -> Any:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    t = lanewise_trace(step, expect={"sdpa": "flash", "kernels": 1, "tensor_cores": True})
    assert t.uses("flash")
