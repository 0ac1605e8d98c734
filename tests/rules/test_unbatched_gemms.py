from __future__ import annotations

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import MUL, TENSOR, Call, op, product, tensors, trace


def select(i: int, shape: tuple[int, ...] = (64, 128, 256)) -> Call:
    """Picks the i-th part of a batch; launches nothing."""
    return Call(("aten::select",), [], tensors(shape, scalars=("0", str(i))))


def loop(passes: int, m: int = 128, k: int = 256, n: int = 128, picks: bool = True, us: float = 2.3) -> list[Call]:
    calls: list[Call] = []
    for i in range(passes):
        calls += [select(i)] * picks + [product(m, k, n, us)]
    return calls


def test_a_loop_over_a_batch_is_one_batched_product() -> None:
    """16 passes of 20 us of CPU each; what remains is the first pass and what the step does beside the loop."""
    found = finding(trace(loop(16)), "unbatched-gemms")
    assert found is not None
    step = 16 * 20 + 11
    assert found.saving_us_per_step == pytest.approx(15 * 20, rel=0.03)
    assert found.share_ratio == pytest.approx(15 * 20 / step, rel=0.03)
    assert "torch.bmm(a, b)" in found.fix
    assert "(128, 256) x (256, 128)" in found.text
    assert found.confidence == "high"


def test_gpu_time_is_that_of_one_batched_kernel() -> None:
    found = finding(trace(loop(16, us=100)), "unbatched-gemms")
    assert found is not None
    batched = 16 * (128 * 256 + 256 * 128 + 128 * 128) * 2 / (4.8e12 * 0.88) * 1e6 + 2.5
    # 1600 us of GPU time become `batched`; then the CPU's first pass and the rest of the step bound it.
    assert found.saving_us_per_step == pytest.approx(1600 - max(batched, 31), rel=0.02)


def test_products_that_cannot_feed_each_other_need_no_picking() -> None:
    found = finding(trace(loop(8, picks=False)), "unbatched-gemms")
    assert found is not None
    assert found.confidence == "medium"
    assert "torch.stack" in found.fix


def test_layers_that_may_build_on_each_other_are_clear() -> None:
    """x = x @ w, 16 times over: the result fits as the next operand."""
    assert outcome(trace(loop(16, 128, 256, 256, picks=False)), "unbatched-gemms") == "clear"


def test_layers_with_an_activation_are_clear() -> None:
    calls = [c for _ in range(12) for c in (product(64, 512, 512, 3), op("tanh", MUL, 2, tensors((64, 512))))]
    assert outcome(trace(calls), "unbatched-gemms") == "clear"


def test_picking_the_same_part_each_time_is_no_loop_over_a_batch() -> None:
    calls = [c for _ in range(8) for c in (select(0), product(128, 256, 256, 3))]
    assert outcome(trace(calls), "unbatched-gemms") == "clear"


def test_three_passes_are_too_few_and_four_are_not() -> None:
    rest = [op("mul", MUL, 1, tensors((4,)))]
    assert outcome(trace(loop(3) + rest), "unbatched-gemms") == "clear"
    assert outcome(trace(loop(4) + rest), "unbatched-gemms") == "found"


def test_a_pass_may_hold_several_ops() -> None:
    calls: list[Call] = []
    for i in range(8):
        calls += [
            select(i, (64, 128, 512)),
            product(128, 512, 1024, 4),
            op("gelu", MUL, 2, tensors((128, 1024))),
            product(128, 1024, 512, 4),
        ]
    found = finding(trace(calls), "unbatched-gemms")
    assert found is not None
    assert "16 matmuls a step" in found.title


def test_different_shapes_are_no_loop() -> None:
    calls = [product(128 + 8 * i, 256, 128, 3) for i in range(12)]
    assert outcome(trace(calls), "unbatched-gemms") == "clear"


def test_a_batched_product_is_clear() -> None:
    bmm = Call(("aten::bmm",), [(TENSOR, 3.5)], tensors((64, 128, 256), (64, 256, 128)))
    assert outcome(trace([bmm]), "unbatched-gemms") == "clear"


@pytest.mark.shared
def test_planted() -> None:
    case = "gemms_in_a_loop"
    assert claim(case, "bad", "unbatched-gemms") == pytest.approx(truth()[case]["saving_pct"] / 100, abs=0.15)
    assert claim(case, "fixed", "unbatched-gemms") == 0


def test_a_recurrent_loop_cannot_be_batched() -> None:
    """h = tanh(x[t] @ w + h @ u): each pass takes the state of the one before."""
    calls: list[Call] = []
    for t in range(16):
        calls += [select(t, (16, 8, 256)), product(8, 256, 256, 3), product(8, 256, 256, 3)]
        calls += [op("add", MUL, 1, tensors((8, 256), (8, 256))), op("tanh", MUL, 1, tensors((8, 256)))]
    assert outcome(trace(calls), "unbatched-gemms") == "clear"


def test_heads_with_work_between_products_are_a_loop() -> None:
    """softmax(q[i] @ k[i]) @ v[i]: every operand is picked or made in the pass, though the result is as large as q[i]."""
    calls: list[Call] = []
    for i in range(16):
        calls += [select(i, (16, 64, 32)), select(i, (16, 32, 64)), select(i, (16, 64, 32)), product(64, 32, 64, 3)]
        calls += [op("exp", MUL, 1, tensors((64, 64))), product(64, 64, 32, 3)]
    assert outcome(trace(calls), "unbatched-gemms") == "found"


def test_a_cell_is_recurrent_whatever_it_takes() -> None:
    cell = Call(("aten::gru_cell",), [("void at::native::kernel::gru_cell_forward<float>", 2)], tensors((8, 256), (8, 256)))
    calls = [c for t in range(16) for c in (select(t, (16, 8, 256)), product(8, 256, 768, 3), cell)]
    assert outcome(trace(calls), "unbatched-gemms") == "clear"
