"""Operations of whole programs, against `torch.utils.flop_counter` on the same calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from work_recording import innermost_work, recorded_ops

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch]

PRODUCTS = frozenset({"gemm", "conv", "attention"})


def linear_and_bmm() -> None:
    x = torch.randn(3, 5, 16, requires_grad=True)
    layer = torch.nn.Linear(16, 24)
    y = layer(x)
    torch.baddbmm(torch.randn(3, 5, 5), y, y.transpose(1, 2)).sum().backward()


def matmul_of_every_rank() -> None:
    a = torch.randn(2, 3, 4, 8)
    b = torch.randn(3, 8, 6)
    (a @ b).sum()
    (a @ torch.randn(8, 7)).sum()
    torch.einsum("bhqd,bhkd->bhqk", a, a).sum()


def convolutions() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 12, (3, 5), dilation=2, padding=(1, 2), bias=False),
        torch.nn.ConvTranspose2d(12, 6, 3, stride=2, output_padding=1),
        torch.nn.Flatten(2),
        torch.nn.Conv1d(6, 4, 7, stride=3),
    )
    model(torch.randn(2, 3, 20, 22, requires_grad=True)).sum().backward()


def grouped_convolutions_forward() -> None:
    x = torch.randn(2, 8, 9, 10, 11)
    torch.nn.Conv3d(8, 16, 3, groups=4)(x)
    torch.nn.ConvTranspose3d(8, 6, 2, stride=2, groups=2)(x)


def first_layer_without_input_gradient() -> None:
    torch.nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 8, 8)).sum().backward()


def encoder_layer() -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    mask = torch.zeros(10, 10)
    mask[0, 1] = -1.0
    layer(torch.randn(2, 10, 32, requires_grad=True), src_mask=mask).sum().backward()


def lstm() -> None:
    torch.nn.LSTM(8, 12)(torch.randn(4, 2, 8, requires_grad=True))[0].sum().backward()


PROGRAMS = [
    linear_and_bmm,
    matmul_of_every_rank,
    convolutions,
    grouped_convolutions_forward,
    first_layer_without_input_gradient,
    encoder_layer,
    lstm,
]


@contextmanager
def no_warnings() -> Iterator[None]:
    """Switching oneDNN warns of settings that this build lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def counted(call: Callable[[], object]) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[[], object], tmp_path: Path) -> None:
    # oneDNN off: its recurrent layers are one op that neither side takes apart. Math attention: the products
    # one by one.
    backend = torch.nn.attention.SDPBackend.MATH
    with no_warnings(), torch.backends.mkldnn.flags(enabled=False), torch.nn.attention.sdpa_kernel(backend):
        expected = counted(program)
        found = innermost_work(recorded_ops(program, tmp_path), PRODUCTS)
    assert expected > 0
    assert sum(work.flops or 0 for _, work in found) == expected, found


def attention_cases() -> list[tuple[str, Callable[[], object]]]:
    """ATen's attention ops on meta tensors: nothing is computed, everything is recorded. Causal masks stay
    off, since
    torch counts them as if they kept everything."""
    aten = torch.ops.aten
    make = lambda *sizes: torch.empty(*sizes, device="meta", dtype=torch.bfloat16)  # noqa: E731
    q, k, v = make(2, 4, 24, 16), make(2, 4, 40, 16), make(2, 4, 40, 16)
    out, sums = make(2, 4, 24, 16), torch.empty(2, 4, 24, device="meta")
    seed = torch.empty((), device="meta", dtype=torch.int64)
    return [
        ("flash", lambda: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, False)),
        ("efficient", lambda: aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, False)),
        ("cudnn", lambda: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, False)),
        (
            "flash-backward",
            lambda: aten._scaled_dot_product_flash_attention_backward(
                out, q, k, v, out, sums, None, None, 24, 40, 0.0, False, seed, seed
            ),
        ),
        (
            "efficient-backward",
            lambda: aten._scaled_dot_product_efficient_attention_backward(
                out, q, k, v, None, out, sums, seed, seed, 0.0, [True, True, True, False], False
            ),
        ),
        (
            "cudnn-backward",
            lambda: aten._scaled_dot_product_cudnn_attention_backward(
                out, q, k, v, out, sums, seed, seed, None, None, None, 24, 40, 0.0, False
            ),
        ),
    ]


@pytest.mark.parametrize("index", range(6))
def test_attention(index: int, tmp_path: Path) -> None:
    name, call = attention_cases()[index]
    found = innermost_work(recorded_ops(call, tmp_path), PRODUCTS)
    assert [work.flops for _, work in found] == [counted(call)], name
    assert found[0][1].causal is False


def test_attention_kernels_count_as_the_op_around_them(tmp_path: Path) -> None:
    """Their sizes are (batch, length, heads, dim), which flop_counter reads as (batch, heads, length, dim)."""
    q, k = (torch.empty(2, length, 4, 16, device="meta", dtype=torch.float16) for length in (24, 40))
    expected = 2 * 2 * 4 * 24 * 40 * (16 + 16)
    aten = torch.ops.aten
    for call in (
        lambda: aten._flash_attention_forward(q, k, k, None, None, 24, 40, 0.0, False, False),
        lambda: aten._efficient_attention_forward(q, k, k, None, None, None, None, None, 0.0, 0, True),
    ):
        ((_, work),) = innermost_work(recorded_ops(call, tmp_path), PRODUCTS)
        assert work.flops == expected


def test_scaled_mm(tmp_path: Path) -> None:
    a = torch.empty(32, 64, device="meta", dtype=torch.float8_e4m3fn)
    b = torch.empty(48, 64, device="meta", dtype=torch.float8_e4m3fn).t()
    one = torch.empty((), device="meta")

    def call() -> object:
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)

    ((_, work),) = innermost_work(recorded_ops(call, tmp_path), PRODUCTS)
    assert work.flops == counted(call) == 2 * 32 * 64 * 48
    assert work.bytes == 32 * 64 + 64 * 48 + 4 + 4 + 32 * 48 * 2
    assert work.dtype == "fp8_e4m3"


def test_grouped_convolution_backward_against_its_definition(tmp_path: Path) -> None:
    """Not against flop_counter, which counts the weight gradient of a grouped convolution as often as there
    are groups.
    """
    layer = torch.nn.Conv2d(8, 12, 3, groups=4, bias=False)
    x = torch.randn(2, 8, 10, 10, requires_grad=True)
    forward = 2 * 2 * 8 * 8 * 12 * (8 // 4) * 9  # two operations, images, 8 x 8 positions, filters, channels, taps
    ops = recorded_ops(lambda: layer(x).sum().backward(), tmp_path)
    works = [work for name, work in innermost_work(ops, PRODUCTS) if name == "aten::convolution_backward"]
    assert [work.flops for work in works] == [2 * forward]
