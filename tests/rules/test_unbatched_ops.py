from __future__ import annotations

import pytest
from diagnosing import finding, outcome
from gpu_traces import MUL, Call, op, product, tensors, trace

SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >"
INVERSE = "void getrf_kernel<float>(int, float*)"


def select(i: int, shape: tuple[int, ...] = (64, 32, 32)) -> Call:
    """Picks the i-th part of a batch; launches nothing."""
    return Call(("aten::select",), [], tensors(shape, scalars=("0", str(i))))


def samples(passes: int, us: float = 2.0) -> list[Call]:
    """((x[i] - y[i]) ** 2).mean() in a loop."""
    calls: list[Call] = []
    for i in range(passes):
        calls += [select(i), select(i), op("sub", MUL, us, tensors((32, 32), (32, 32))), op("pow", MUL, us, tensors((32, 32)))]
        calls += [op("mean", SUM, us, tensors((32, 32)))]
    return calls


def test_a_loop_over_samples_costs_what_all_passes_but_one_cost() -> None:
    """16 passes of 5 calls of 10 us of CPU each; the rest of the step takes 11 us."""
    found = finding(trace(samples(16)), "unbatched-ops")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(15 * 50, rel=0.03)
    assert "48 launches a step" in found.title
    assert "16 passes does sub, pow, mean" in found.text
    assert found.confidence == "medium"


def test_the_gpu_takes_no_longer_than_one_pass_over_the_whole() -> None:
    found = finding(trace(samples(16, us=200)), "unbatched-ops")
    assert found is not None
    # 16 x 600 us become three kernels of launch length; the CPU's first pass and the rest of the step remain.
    assert found.saving_us_per_step == pytest.approx(16 * 600 - 61, rel=0.01)


def test_a_sum_over_the_passes_is_no_recurrence() -> None:
    calls: list[Call] = []
    for i in range(12):
        calls += [select(i), op("exp", MUL, 2, tensors((32, 32))), op("sum", SUM, 2, tensors((32, 32)))]
        calls += [op("add_", MUL, 2, tensors((1,), (1,)))]
    assert outcome(trace(calls), "unbatched-ops") == "found"


@pytest.mark.parametrize("state", ["first", "middle"])
def test_a_state_from_pass_to_pass_is_clear(state: str) -> None:
    """h = h * a + x[i], and y = x[i] * h with h updated in place: an operand from outside is as large as what a pass leaves."""
    calls: list[Call] = []
    for i in range(12):
        calls.append(select(i))
        if state == "first":
            calls += [op("mul", MUL, 2, tensors((32, 32))), op("add", MUL, 2, tensors((32, 32), (32, 32)))]
        else:
            calls += [op("mul_", MUL, 2, tensors((32, 32), (32, 32))), op("sum", SUM, 2, tensors((32, 32)))]
            calls += [op("relu", MUL, 2, tensors((32, 32)))]
    assert outcome(trace(calls), "unbatched-ops") == "clear"


def test_parts_that_one_call_handed_out_are_slices_too() -> None:
    apart = Call(("aten::unbind",), [], tensors((12, 32, 32), scalars=("0",)))
    body = [op("exp", MUL, 2, tensors((32, 32))), op("sum", SUM, 2, tensors((32, 32)))]
    rest = [op("cos", MUL, 2, tensors((8,)))]
    assert outcome(trace([apart, *body * 12, *rest]), "unbatched-ops") == "found"
    assert outcome(trace([*body * 12, *rest]), "unbatched-ops") == "clear"


def test_layers_that_take_the_next_weight_each_are_clear() -> None:
    """x = relu(x + bias[i]): x goes from layer to layer."""
    calls: list[Call] = []
    for i in range(12):
        calls += [select(i), op("add", MUL, 2, tensors((32, 32), (32, 32))), op("relu", MUL, 2, tensors((32, 32)))]
    assert outcome(trace(calls), "unbatched-ops") == "clear"


def test_ops_without_known_traffic_run_side_by_side() -> None:
    """A kernel of one block on a card of 132 SMs: 64 of them take as long as the longest, and no longer than they do now."""
    calls: list[Call] = []
    for i in range(64):
        calls += [select(i), Call(("aten::linalg_inv_ex",), [(INVERSE, 50)], tensors((32, 32)), grid=(1, 1, 1))]
    found = finding(trace(calls), "unbatched-ops")
    assert found is not None
    assert found.saving_us_per_step == pytest.approx(63 * 50, rel=0.05)


def test_loops_of_products_are_left_to_their_own_rule() -> None:
    calls = [c for i in range(16) for c in (select(i, (64, 128, 256)), product(128, 256, 128, 2.3))]
    assert outcome(trace(calls), "unbatched-ops") == "clear"
    assert outcome(trace(calls), "unbatched-gemms") == "found"


def test_three_passes_are_too_few() -> None:
    rest = [op("cos", MUL, 1, tensors((4,)))]
    assert outcome(trace(samples(3) + rest), "unbatched-ops") == "clear"


def test_lookups_in_tables_of_their_own_are_clear() -> None:
    gather = "void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, char*, long*, int)"
    calls: list[Call] = []
    for i in range(16):
        calls += [
            select(i, (16, 4096)),
            Call(("aten::embedding", "aten::index_select"), [(gather, 3)], tensors((100000, 64), (4096,))),
        ]
        calls += [op("sum", SUM, 2, tensors((4096, 64)))]
    assert outcome(trace(calls), "unbatched-ops") == "clear"
