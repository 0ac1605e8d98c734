"""unfused-optimizer, autograd-in-inference, exposed-communication, collective-wait, incomplete-trace, profiler-overhead."""

from __future__ import annotations

import pytest
from diagnosing import finding, outcome

from builder import TraceBuilder

MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def optimizer(ops: tuple[str, ...], tensors: int = 4, name: str = "AdamW", kernel: str = MUL) -> TraceBuilder:
    """Steps whose optimizer runs some ops for each tensor, 10 us of CPU and 2 us of GPU time each; the CPU bounds them."""
    t = TraceBuilder()
    length = 10 * len(ops) * tensors + 20
    for i in range(4):
        s = i * 2000
        t.step(i, s, length + 40)
        t.annotation(f"Optimizer.step#{name}.step", s + 10, length)
        for j in range(tensors):
            for k, op in enumerate(ops):
                at = s + 15 + (j * len(ops) + k) * 10
                t.op(op, at, 9)
                t.launch(
                    at + 2,
                    3,
                    gpu=(at + 8, 2),
                    name=kernel,
                )
    return t


LOOP = ("aten::mul_", "aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt", "aten::div", "aten::add_", "aten::addcdiv_")


def test_optimizer_by_single_ops_is_found() -> None:
    found = finding(optimizer(LOOP), "unfused-optimizer")
    assert found is not None
    assert "32 kernels" in found.title
    assert "4 tensors" in found.title
    assert found.fix == "torch.optim.AdamW(..., fused=True)"
    # 340 us of the optimizer's CPU time go, 4 tensors x 8 us come instead.
    assert found.saving_us_per_step == pytest.approx(340 - 32, rel=0.05)


def test_advice_fits_optimizers_without_a_fused_form() -> None:
    found = finding(optimizer(LOOP, name="RMSprop"), "unfused-optimizer")
    assert found is not None
    assert "foreach=True" in found.fix
    assert "RMSprop(..., fused" not in found.fix


def test_fused_optimizer_is_clear() -> None:
    assert outcome(optimizer(("aten::_fused_adamw_",), tensors=1), "unfused-optimizer") == "clear"


def test_plain_sgd_over_many_tensors_is_found_and_over_few_is_not() -> None:
    """One kernel a tensor: p.add_(grad, alpha=-lr)."""
    found = finding(optimizer(("aten::add_",), tensors=40, name="SGD"), "unfused-optimizer")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(420 - 40 * 8, rel=0.1)
    assert outcome(optimizer(("aten::add_",), tensors=4, name="SGD"), "unfused-optimizer") == "clear"


@pytest.mark.parametrize(
    "kernel",
    [
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float, float>(long)",
        "triton_for_fused_0",
        "triton_poi_fused_add_mul_0",
    ],
)
def test_one_pass_of_another_library_or_compiled_is_clear(kernel: str) -> None:
    assert outcome(optimizer(("triton_::step",), kernel=kernel), "unfused-optimizer") == "clear"


def inference(*, backward: bool, sequence: bool = True) -> TraceBuilder:
    """Steps of 100 forward ops, 2 us each, that record themselves for autograd."""
    t = TraceBuilder()
    number = 0
    for i in range(4):
        s = i * 400
        t.step(i, s, 300)
        for j in range(100):
            args = {"Sequence number": number, "Fwd thread id": 0} if sequence else {}
            t.op("aten::add", s + j * 2, 2, **args)
            number += 1
        t.op("aten::mm", s + 210, 20)
        t.launch(s + 212, 5, gpu=(s + 220, 10))
        if backward:
            t.op("autograd::engine::evaluate_function: AddBackward0", s + 240, 5, **{"Sequence number": i, "Fwd thread id": 1})
    return t


def test_autograd_without_backward_is_found() -> None:
    found = finding(inference(backward=False), "autograd-in-inference")
    assert found is not None
    assert found.cost_us_per_step == pytest.approx(300)  # 100 nodes at 3 us
    assert found.confidence == "medium"
    assert found.saving_low_us_per_step is not None
    assert found.saving_us_per_step is not None
    assert found.saving_low_us_per_step < found.saving_us_per_step


def test_training_and_no_grad_are_clear() -> None:
    assert outcome(inference(backward=True), "autograd-in-inference") == "clear"
    assert outcome(inference(backward=False, sequence=False), "autograd-in-inference") == "clear"


def communicating(begin: int) -> TraceBuilder:
    """Steps of 100 us of compute and a collective of 60 us that begins some us after it; the GPU bounds them."""
    t = TraceBuilder()
    every = max(100, begin + 60)
    for i in range(4):
        t.step(i, i * 20, 20)
        t.launch(i * 20 + 2, 3, gpu=(100 + i * every, 100))
        t.launch(i * 20 + 6, 3, gpu=(100 + i * every + begin, 60), name=RING, stream=20)
    return t


def test_exposed_communication_is_what_no_compute_hides() -> None:
    found = finding(communicating(70), "exposed-communication")
    assert found is not None
    assert found.cost_us_per_step == pytest.approx(30)  # 60 us of which 30 run beside compute
    assert found.saving_us_per_step == pytest.approx(30, abs=1)
    assert finding(communicating(20), "exposed-communication") is None


def test_one_rank_cannot_tell_waiting_from_transfer() -> None:
    assert outcome(communicating(70), "collective-wait") == "not-checked"
    assert outcome(optimizer(("aten::_fused_adamw_",)), "collective-wait") == "clear"


def test_lost_records_are_said() -> None:
    t = TraceBuilder()
    for i in range(10):
        t.op("aten::mm", i * 20, 10)
        if i < 8:
            t.launch(i * 20 + 2, 3, gpu=(i * 20 + 8, 5))
        else:
            t.call("cudaLaunchKernel", i * 20 + 2, 3, 900 + i)
    found = finding(t, "incomplete-trace")
    assert found is not None
    assert found.title.startswith("2 of 10 launches")
    assert found.saving_us_per_step is None


def test_whole_trace_is_clear() -> None:
    assert outcome(communicating(20), "incomplete-trace") == "clear"


@pytest.mark.parametrize(("overhead", "expected"), [(10, "found"), (1, "clear")])
def test_profiler_overhead_from_two_per_cent_of_the_steps(overhead: int, expected: str) -> None:
    t = communicating(20)  # three steps of 100 us count
    t.span("overhead", "Activity Buffer Request", 25, overhead, -1, 0)
    assert outcome(t, "profiler-overhead") == expected
