from __future__ import annotations

import pytest

from lanewise.kernels import decode, gpu_kind


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymDevKernel_ReduceScatter_LD_sum_bf16(ncclSymDevArgs)",
        "oneccl_allreduce_large_bf16",
        "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
        "void deep_ep::internode::combine<false, 8, __nv_bfloat16, 9>(int4*, float*)",
        "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8, true>(int)",
        "nvshmemi_barrier_all_kernel()",
        "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li4EEEvPNS_8RankDataE",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void (anonymous namespace)::barrier_kernel(unsigned int**, unsigned long, int, int)",
        "rcclGenericKernel(ncclDevKernelArgsStorage<4096ul>)",
        "std::enable_if<(4)>(0), void>::type vllm::cross_device_reduce_1stage<float, 2>(int)",
    ],
)
def test_communication(name: str) -> None:
    assert gpu_kind(name, "kernel") == "communication"


@pytest.mark.parametrize(
    "name",
    [
        "my_ncclish_gemm",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)",
        "triton_poi_fused_all_gather_into_tensor_cat_0",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
        "void at::native::reduce_kernel<32, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(int)",
        "void at::native::vectorized_elementwise_kernel<4, my::AllReduceFunctor>(int)",
        "",
    ],
)
def test_compute(name: str) -> None:
    assert gpu_kind(name, "kernel") == "compute"


@pytest.mark.parametrize(
    ("cat", "name", "kind"),
    [
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "copy"),
        ("Memcpy", "Memcpy HtoD (Pageable -> Device)", "copy"),
        ("gpu_memset", "Memset (Device)", "memset"),
        ("Memset", "Memset (Device)", "memset"),
        ("kernel", "Memset (Unknown)", "memset"),
    ],
)
def test_copies_and_memsets(cat: str, name: str, kind: str) -> None:
    assert gpu_kind(name, cat) == kind


@pytest.mark.parametrize(
    ("name", "kind", "host_memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "memcpy-htod", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "memcpy-dtoh", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "memcpy-dtod", None),
        ("Memcpy PtoP (Device -> Device)", "memcpy-ptop", None),
        ("Memcpy HtoD (Host -> Device)", "memcpy-htod", None),
        ("[CUDA memcpy Host-to-Device]", "memcpy-htod", None),
        ("[CUDA memset]", "memset", None),
        ("CopyDeviceToHost", "memcpy-dtoh", None),
    ],
)
def test_driver_names(name: str, kind: str, host_memory: str | None) -> None:
    kernel = decode(name)
    assert (kernel.kind, kernel.library, kernel.host_memory) == (kind, "driver", host_memory)
