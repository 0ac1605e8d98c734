"""Work, limits and bounds of GPU ops, by hand-checked arithmetic. Rates of an H200: 4.8 TB/s, bf16 989.4, fp32 66.9 TFLOP/s."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lanewise.analyses.limit_table import KernelLimit, kernel_limits, step_limits, used_ceilings
from lanewise.analyses.limits import BOUNDS, ROLES, Limits, limits
from lanewise.devices import Measurement, save_measurement
from lanewise.model.trace import Trace
from limit_traces import ADD, BF16, FP16, FP32, FULL, FUSED_ADAM, NVJET, SGEMM, TF32, Calls, inputs, mm, shape

MEMORY, BF16_RATE, TF32_RATE, FP32_RATE = 4.8e12, 989.4e12, 494.7e12, 66.9e12
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>"


@pytest.fixture(autouse=True)
def _no_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))


def _limits(trace: Trace) -> Limits:
    return trace.analysis(limits)


def _bounds(found: Limits) -> list[str | None]:
    return [BOUNDS[b] if b >= 0 else None for b in found.bound]


def _roles(found: Limits) -> list[str | None]:
    return [ROLES[r] if r >= 0 else None for r in found.role]


def _row(trace: Trace, name: str) -> KernelLimit:
    return next(row for row in kernel_limits(trace) if row.kernel.name == name)


def test_product_against_tensor_cores() -> None:
    """2 x 4096^3 = 137,438,953,472 operations in 168 us are 818.1 TFLOP/s; at 989.4 TFLOP/s they take 138.9 us."""
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL, 384, 168, 213188)))
    found, row = _limits(t.load()), _row(t.load(), NVJET)
    assert found.flops.tolist() == [137_438_953_472]
    assert found.bytes.tolist() == [3 * 4096 * 4096 * 2]
    assert found.limit_ns[0] == pytest.approx(138_911, abs=1)
    assert found.headroom_ns[0] == pytest.approx(168_000 - 138_911, abs=1)
    assert _bounds(found) == ["compute"]
    assert row.flops_per_s == pytest.approx(818.09e12, rel=1e-4)
    assert row.share_ratio == pytest.approx(0.8269, abs=1e-4)


def test_sum_against_memory() -> None:
    """Three matrices of 33.6 MB in 22.4 us are 4.494 TB/s, 93.6 % of 4.8 TB/s."""
    t = Calls()
    t.add("aten::add", inputs([[4096, 4096], [4096, 4096], []], [BF16, BF16, "Scalar"]), (ADD, 22.4, shape(16384)))
    found, row = _limits(t.load()), _row(t.load(), ADD)
    assert found.bytes.tolist() == [100_663_296]
    assert found.limit_ns[0] == pytest.approx(20_971.5, abs=0.1)
    assert _bounds(found) == ["memory"]
    assert row.bytes_per_s == pytest.approx(4.494e12, rel=1e-3)
    assert row.share_ratio == pytest.approx(0.936, abs=1e-3)


def test_copies_count_their_own_bytes() -> None:
    """Read and written within the device; a link has no ceiling, and its copies no limit."""
    t = Calls()
    copy = inputs([[1 << 20], [1 << 20], []], [FP32, FP32, "Scalar"])
    t.add("aten::copy_", copy, ("Memcpy DtoD (Device -> Device)", 4, {"cat": "gpu_memcpy", "bytes": 4 << 20}))
    t.add("aten::copy_", copy, ("Memcpy HtoD (Pinned -> Device)", 100, {"cat": "gpu_memcpy", "bytes": 4 << 20}))
    t.add("aten::zero_", {}, ("Memset (Device)", 10, {"cat": "gpu_memset", "bytes": 24_000_000}))
    found = _limits(t.load())
    assert _roles(found) == ["own"] * 3
    assert found.bytes.tolist() == [8 << 20, 4 << 20, 24_000_000]
    assert found.limit_ns[0] == pytest.approx((8 << 20) / MEMORY * 1e9)
    assert np.isnan(found.limit_ns[1])
    assert found.limit_ns[2] == pytest.approx(5_000)
    assert _bounds(found) == ["latency", None, "memory"]


def test_helpers_take_no_work() -> None:
    """A split product: its parts do the work, the memset has its own bytes, the sum of the parts helps."""
    t = Calls()
    reduce = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false>"
    t.add(
        "aten::mm",
        mm(1024, 1024, 65536),
        ("Memset (Device)", 1, {"cat": "gpu_memset", "bytes": 4}),
        (NVJET, 200, shape(FULL)),
        (reduce, 5, shape(256)),
    )
    found = _limits(t.load())
    assert _roles(found) == ["own", "op", "helper"]
    assert found.flops[1] == 2 * 1024 * 1024 * 65536
    assert np.isnan(found.flops[2])
    assert found.limit_ns[2] == 0
    assert found.headroom_ns[2] == 5_000
    assert _bounds(found)[2] is None
    helper = _row(t.load(), reduce)
    assert (helper.role, helper.share_ratio, helper.headroom_ns) == ("helper", None, 5_000)


def test_several_kernels_share_in_proportion_to_time() -> None:
    """Both gradients of a convolution, and a change of layout: the products have the rate of the call, together its limit."""
    t = Calls()
    dims = [[64, 256, 28, 28], [64, 128, 28, 28], [256, 128, 3, 3], [], [], [], [], [], [], [], []]
    types = [
        FP16,
        FP16,
        FP16,
        "ScalarList",
        "ScalarList",
        "ScalarList",
        "ScalarList",
        "Scalar",
        "ScalarList",
        "Scalar",
        "ScalarList",
    ]
    concrete = ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]
    dgrad = (
        "sm80_xmma_dgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1"
        "_tensor16x8x16_kernel_cudnn"
    )
    wgrad = dgrad.replace("dgrad", "wgrad")
    layout = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>"
    t.add(
        "aten::convolution_backward",
        inputs(dims, types, concrete),
        (layout, 10, shape(1000)),
        (dgrad, 60, shape(1000)),
        (wgrad, 40, shape(1000)),
    )
    found = _limits(t.load())
    both = 2 * (2 * 64 * 256 * 28 * 28 * 128 * 3 * 3)
    assert _roles(found) == ["helper", "shared", "shared"]
    assert found.flops[1:].tolist() == pytest.approx([0.6 * both, 0.4 * both])
    assert found.flops[1] / 60 == pytest.approx(found.flops[2] / 40)
    assert np.nansum(found.arithmetic_ns) == pytest.approx(both / BF16_RATE * 1e9)


def test_all_kernels_share_where_none_says_so() -> None:
    """Two kernels of a norm's backward, both norms."""
    t = Calls()
    dims = [[8192, 1024], [8192, 1024], [], [8192, 1], [8192, 1], [1024], [1024], []]
    types = [FP32, FP32, "ScalarList", FP32, FP32, FP32, FP32, ""]
    concrete = ["", "", "[1024]", "", "", "", "", "[True, True, True]"]
    names = (NORM.replace("vectorized_layer_norm", "layer_norm_grad_input"), NORM.replace("vectorized", "GammaBetaBackward"))
    t.add("aten::native_layer_norm_backward", inputs(dims, types, concrete), *((n, 30, shape(1000)) for n in names))
    found = _limits(t.load())
    assert _roles(found) == ["shared", "shared"]
    assert found.bytes[0] == found.bytes[1]
    assert found.bytes.sum() == pytest.approx(3 * 8192 * 1024 * 4 + 2 * 8192 * 4 + 3 * 1024 * 4)


@pytest.mark.parametrize(
    ("kernel", "rate"),
    [(TF32, TF32_RATE), (SGEMM, FP32_RATE), ("some_unknown_product", None)],
)
def test_only_the_kernel_tells_how_fp32_ran(kernel: str, rate: float | None) -> None:
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096, FP32), (kernel, 4000, shape(512)))
    found = _limits(t.load())
    assert found.flops[0] == 2 * 4096**3
    if rate is None:
        assert np.isnan(found.limit_ns[0])
        assert _bounds(found) == [None]
    else:
        assert found.limit_ns[0] == pytest.approx(2 * 4096**3 / rate * 1e9)


def test_nothing_is_known_without_shapes() -> None:
    t = Calls()
    t.add("aten::mm", {}, (NVJET, 168, shape(FULL)))
    found = _limits(t.load())
    assert _roles(found) == [None]
    assert np.isnan(found.limit_ns).all()
    assert _bounds(found) == [None]
    assert kernel_limits(t.load())[0].limit_ns is None


def test_grid_tells_where_name_and_size_do() -> None:
    """16384 blocks of 128 threads of 8 bf16: three matrices of 4096 x 4096. Small grids and other vectors do not tell."""
    t = Calls()
    compare = ADD.replace("CUDAFunctor_add<c10::BFloat16>", "BinaryFunctor<c10::BFloat16, c10::BFloat16, bool, at::native::Eq>")
    for name, blocks in ((ADD, 16384), (ADD, 99), (ADD.replace("<8,", "<4,"), 16384), (compare, 16384)):
        t.add("aten::add", {}, (name, 22.4, shape(blocks)))
    found = _limits(t.load())
    assert _roles(found) == ["grid", None, None, None]
    assert found.bytes[0] == 3 * 4096 * 4096 * 2


def test_grid_of_a_cast() -> None:
    """fp32 read, bf16 written: 6 bytes an element."""
    t = Calls()
    cast = (
        "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda(float)#1}, std::array<char*, 2ul>)"
    )
    t.add("aten::copy_", {}, (cast, 20, shape(1000)))
    assert _limits(t.load()).bytes.tolist() == [1000 * 128 * 8 * 6]


def test_a_graphs_kernels_are_not_the_ops_around_it() -> None:
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL)), call="cudaGraphLaunch")
    found = _limits(t.load())
    assert _roles(found) == [None]


def test_a_lost_record_leaves_the_call_unknown() -> None:
    """A call of two kernels, one of them not recorded: the other would get the work of both."""
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL)))
    t.call("cudaLaunchKernel", 50, 5, correlation=999)
    found = _limits(t.load())
    assert _roles(found) == [None]


def test_unknown_card() -> None:
    t = Calls(header={"deviceProperties": [{"id": 0, "name": "NVIDIA Nonesuch", "numSms": 132}]})
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL)))
    found = _limits(t.load())
    assert found.ceilings == {0: None}
    assert found.flops[0] == 2 * 4096**3
    assert np.isnan(found.limit_ns[0])


def test_work_is_not_attributed_across_devices() -> None:
    """Each device has its own ceilings."""
    properties = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}, {"id": 1, "name": "Tesla V100-SXM2-32GB", "numSms": 80}]
    t = Calls(header={"deviceProperties": properties})
    add = inputs([[4096, 4096], [4096, 4096], []], [BF16, BF16, "Scalar"])
    t.add("aten::add", add, (ADD, 200, {**shape(16384), "device": 0}))
    t.add("aten::add", add, (ADD, 200, {**shape(16384), "device": 1}))
    found = _limits(t.load())
    assert found.limit_ns.tolist() == pytest.approx([100_663_296 / 4.8e12 * 1e9, 100_663_296 / 900e9 * 1e9])


class TestBound:
    """What bounds a kernel."""

    def _bound(self, m: int, us: float, blocks: int) -> str | None:
        t = Calls()
        t.add("aten::mm", mm(m, m, m), (NVJET, us, shape(blocks)))
        return _bounds(_limits(t.load()))[0]

    def test_grid_smaller_than_the_card(self) -> None:
        """113 of 132 SMs are more than 85 %, 112 are less."""
        assert self._bound(4096, 500, 112) == "latency"
        assert self._bound(4096, 500, 113) == "compute"

    def test_near_the_ceiling_it_is_not_latency(self) -> None:
        """Who spends more than half of the time on what the ceiling demands, whatever its grid."""
        assert self._bound(4096, 277, 66) == "compute"
        assert self._bound(4096, 279, 66) == "latency"

    def test_below_the_floor(self) -> None:
        """768^3: 0.92 us at the limit, 1024^3: 2.17 us."""
        assert self._bound(768, 5, 132) == "latency"
        assert self._bound(1024, 5, 132) == "compute"

    def test_small_grid_without_known_work(self) -> None:
        t = Calls()
        t.add("custom::op", {}, ("custom_kernel", 300, shape(8)), ("other_kernel", 300, shape(200)))
        assert _bounds(_limits(t.load())) == ["latency", None]

    def test_communication_waits_for_others(self) -> None:
        t = Calls()
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        t.add("nccl:all_reduce", {}, (name, 300, shape(24)))
        assert _bounds(_limits(t.load())) == [None]

    def test_traffic_of_a_thin_product(self) -> None:
        """4096 x 8 x 4096: 0.27 GFLOP against 33.7 MB."""
        t = Calls()
        t.add("aten::mm", mm(4096, 8, 4096), (NVJET, 10, shape(FULL)))
        assert _bounds(_limits(t.load())) == ["memory"]


def test_headroom_is_never_negative() -> None:
    """Data in the cache: 12.6 MB in 1 us would be 12.6 TB/s."""
    t = Calls()
    t.add("aten::add", inputs([[1 << 21], [1 << 21], []], [BF16, BF16, "Scalar"]), (ADD, 1, shape(2048)))
    found, row = _limits(t.load()), _row(t.load(), ADD)
    assert found.limit_ns[0] == pytest.approx(2621, abs=1)
    assert found.headroom_ns[0] == 0
    assert row.share_ratio == pytest.approx(2.62, abs=0.01)


class TestUnrecordedLists:
    """Lists of more than 30 tensors are recorded as empty; the gradients of the step tell where the blocks agree."""

    SIZES = (*([[70000]] * 20), *([[65536]] * 20))

    def _trace(self, blocks: int) -> Trace:
        t = Calls()
        t.step(1, 0, 500_000)
        for size in self.SIZES:
            t.add("torch::autograd::AccumulateGrad", inputs([size], [FP32]))
        lists = ["TensorList"] * 6
        concrete = [""] * 6 + ["0.001", "0.9", "0.999", "0.01", "1e-8", "False", "False", "", ""]
        recorded = inputs([[]] * 15, [*lists, *["Scalar"] * 7, "", ""], concrete)
        split = (blocks // 2, blocks - blocks // 2)
        t.add("aten::_fused_adamw_", recorded, *((FUSED_ADAM, 20, shape(n, 512)) for n in split))
        return t.load()

    def test_blocks_agree(self) -> None:
        """20 tensors of two chunks of 65536 and 20 of one: 60 blocks. Adam moves 7 passes of 4 bytes."""
        found = _limits(self._trace(60))
        assert _roles(found) == ["shared", "shared"]
        assert found.bytes.sum() == pytest.approx(7 * 4 * 20 * (70000 + 65536))

    def test_blocks_of_another_list(self) -> None:
        found = _limits(self._trace(61))
        assert np.isnan(found.bytes).all()


def test_measured_ceilings_come_first() -> None:
    rates = {"bf16": 800e12}
    save_measurement(Measurement("NVIDIA H200", 132, 4.6e12, {}, rates, "2025-01-01T00:00:00Z"))
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 180, shape(FULL)))
    t.add("aten::mm", mm(4096, 4096, 4096, FP32), (TF32, 400, shape(FULL)))
    trace = t.load()
    found = _limits(trace)
    assert found.limit_ns.tolist() == pytest.approx([2 * 4096**3 / 800e12 * 1e9, 2 * 4096**3 / TF32_RATE * 1e9])
    assert {of: (c.rate, c.source) for of, c in used_ceilings(trace)[0].items()} == {
        "memory": (4.6e12, "measured"),
        "bf16": (800e12, "measured"),
        "tf32": (TF32_RATE, "data sheet"),
    }


def _three_steps() -> Trace:
    t = Calls()
    for number, us in enumerate((400.0, 200.0, 300.0)):
        t.step(number, t.now, 900)
        t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, us, shape(FULL)))
    t.step(3, t.now, 900)
    t.add("custom::op", {}, ("custom_kernel", 50, shape(1000)))
    return t.load()


def test_steps() -> None:
    """Means leave out the first step; each op's time is in exactly one part."""
    trace = _three_steps()
    found = step_limits(trace)
    assert found.usual.tolist() == [1, 2, 3]
    assert found.sum_ns.tolist() == [400_000, 200_000, 300_000, 50_000]
    assert found.known_ns.tolist() == [400_000, 200_000, 300_000, 0]
    assert found.limit_ns == pytest.approx([138_911, 138_911, 138_911, 0], abs=1)
    assert found.headroom_ns == pytest.approx([261_089, 61_089, 161_089, 0], abs=1)
    assert sum(found.by_bound_ns.values()).tolist() == found.sum_ns.tolist()
    assert found.by_bound_ns["unknown"].tolist() == [0, 0, 0, 50_000]
    assert found.mean(found.limit_ns) == pytest.approx(2 * 138_911 / 3, abs=1)


def test_kernels_by_name() -> None:
    """Over all steps weighted by time; headroom for a usual step."""
    row = _row(_three_steps(), NVJET)
    assert (row.count, row.total_ns, row.known_ns) == (3, 900_000, 900_000)
    assert row.flops_per_s == pytest.approx(3 * 2 * 4096**3 / 900e-6)
    assert row.share_ratio == pytest.approx(3 * 138_911 / 900_000, rel=1e-5)
    assert row.headroom_ns_per_step == pytest.approx((61_089 + 161_089) / 3, abs=1)
    assert row.bound == "compute"


def test_kernel_known_in_part() -> None:
    """The same kernel with and without recorded inputs: rates of the known ones, no bound by the larger unknown part."""
    t = Calls()
    t.add("aten::mm", mm(4096, 4096, 4096), (NVJET, 168, shape(FULL)))
    t.add("aten::mm", {}, (NVJET, 500, shape(FULL)))
    row = _row(t.load(), NVJET)
    assert (row.total_ns, row.known_ns) == (668_000, 168_000)
    assert row.flops_per_s == pytest.approx(818.09e12, rel=1e-4)
    assert row.bound is None


def test_empty_trace() -> None:
    t = Calls()
    t.op("aten::mm", 0, 10)
    trace = t.load()
    assert kernel_limits(trace) == []
    assert step_limits(trace).sum_ns.tolist() == [0]
    assert used_ceilings(trace) == {}
