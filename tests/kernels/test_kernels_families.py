"""Pieces of the families' grammars, on names that no table has."""

from __future__ import annotations

import pytest

from lanewise.kernels import Kernel, decode
from lanewise.kernels.inductor import fused_operations
from lanewise.kernels.registry import FAMILIES


def told(name: str, *fields: str) -> tuple[object, ...]:
    kernel = decode(name)
    return tuple(getattr(kernel, field) for field in fields)


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<8, at::native::{}, std::array<char*, 2ul> >(int)"
LAMBDA = "(at::TensorIteratorBase&)::{{lambda()#2}}::operator()() const::{{lambda()#4}}::operator()() const::{{lambda({})#1}}"


@pytest.mark.parametrize(
    ("functor", "kind", "dtype", "direction", "op"),
    [
        ("CUDAFunctor_add<c10::Half>", "elementwise", "fp16", None, "add"),
        ("AUnaryFunctor<c10::Half, c10::Half, c10::Half, MulFunctor<float> >", "elementwise", "fp16", None, "mul"),
        ("BinaryFunctor<long, long, bool, CompareEqFunctor<long> >", "elementwise", "int64", None, "compare_eq"),
        ("BUnaryFunctor<at::native::AddFunctor<long> >", "elementwise", "int64", None, "add"),
        ("silu_backward_kernel" + LAMBDA.format("c10::Half, c10::Half"), "elementwise", "fp16", "backward", "silu_backward"),
        ("where_kernel_impl" + LAMBDA.format("bool, float, float"), "elementwise", "fp32", None, "where"),
        ("bitwise_not_kernel_cuda" + LAMBDA.format("bool"), "elementwise", "bool", None, "bitwise_not"),
        ("smooth_l1_kernel_cuda" + LAMBDA.format("float, float"), "loss", "fp32", None, "smooth_l1"),
        ("mse_backward_cuda_kernel" + LAMBDA.format("float, float, float"), "loss", "fp32", "backward", "mse_backward"),
        ("float16_copy_kernel_cuda(x)::{lambda(float)#1}", "cast-copy", "fp32->fp16", None, "float16_copy"),
        ("float8_copy_kernel_cuda" + LAMBDA.format("c10::BFloat16"), "cast-copy", "bf16->fp8", None, "float8_copy"),
        ("bfloat16tofloat32_copy_kernel_cuda(x)::{lambda(c10::BFloat16)#1}", "cast-copy", "bf16->fp32", None, None),
        ("masked_scale_kernel<bool, float, float>(x)", "random", "fp32", None, "masked_scale"),
        ("index_fill_kernel_impl<at::native::OpaqueType<4> >(x)", "index", None, None, "index_fill"),
        ("GroupNormKernelImplInternal<c10::BFloat16>(x)", "norm", "bf16", "forward", None),
        ("quantize_tensor_per_tensor_affine_cuda(x)::{lambda(float)#1}", "quantize", "fp32", None, None),
    ],
)  # fmt: skip
def test_functors_of_aten(functor: str, kind: str, dtype: str | None, direction: str | None, op: str | None) -> None:
    kernel = decode(ELEMENTWISE.format(functor).replace("{{", "{").replace("}}", "}"))
    assert (kernel.library, kernel.kind, kernel.dtype, kernel.direction) == ("aten", kind, dtype, direction)
    assert op is None or kernel.op == op


def test_the_owner_of_a_functor_owns_the_kernel() -> None:
    assert decode(ELEMENTWISE.format("fbgemm_gpu::Float<float>")).library == "fbgemm"


@pytest.mark.parametrize(
    ("number", "dtype"), [(3, "int32"), (4, "int64"), (6, "fp64"), (7, "fp32"), (8, None)]
)  # after AT_DISPATCH_ALL_TYPES come half and bfloat16, in an order that differs
def test_the_type_of_arange_is_the_number_of_its_lambda(number: int, dtype: str | None) -> None:
    index = f"{{lambda()#1}}::operator()() const::{{lambda()#{number}}}::operator()() const::{{lambda(long)#1}}"
    name = f"void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(x)::{index}>(int)"
    assert told(name, "kind", "dtype") == ("fill", dtype)


@pytest.mark.parametrize(
    ("metadata", "functor", "kind", "dtype", "op"),
    [
        ("FusedOptimizerTensorListMetadata<3>", "FusedSgdMathFunctor<c10::BFloat16, 3>", "optimizer", "bf16", "fused_sgd_math"),
        ("TensorListScalarListMetadata<float, 2>", "BinaryOpScalarListFunctor<c10::BFloat16, 2, 1, 1>, std::plus<float>",
         "foreach", "bf16", "add"),
        ("TensorListMetadata<3>", "PointwiseOpScalarFunctor<float, 3, 3, 0>, std::divides<float>",
         "foreach", "fp32", "addcdiv"),
        ("TensorListMetadata<2>", "UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float> ", "foreach", "fp32", "sqrt"),
        ("TensorListMetadata<2>", "UnaryOpFunctor<float, 2, 1, 1>, at::native::Copy<float, c10::BFloat16> ",
         "foreach", "bf16->fp32", "copy"),
    ],
)  # fmt: skip
def test_operations_over_lists(metadata: str, functor: str, kind: str, dtype: str, op: str) -> None:
    name = (
        f"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::{metadata}, at::native::{functor}>(x)"
    )
    assert told(name, "kind", "dtype", "op", "library") == (kind, dtype, op, "aten")


def test_copies_of_multi_tensor_apply_outside_of_aten() -> None:
    apex = "void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>, float>(x)"
    engine = apex.replace("LAMBStage1Functor", "transformer_engine::multi_tensor_adam::AdamFunctor")
    assert told(apex, "kind", "library") == ("optimizer", "apex")
    assert told(engine, "kind", "library") == ("optimizer", "transformer-engine")


@pytest.mark.parametrize(
    ("base", "kind", "direction"),
    [
        ("(anonymous namespace)::upsample_bilinear2d_backward_out_frame<float, float>", "resample", "backward"),
        ("(anonymous namespace)::avg_pool2d_out_cuda_frame<c10::Half, float, int>", "pooling", None),
        ("(anonymous namespace)::cuComputePartGradGammaBeta<float, float, false>", "norm", "backward"),
        ("(anonymous namespace)::ComputeInternalGradientsCUDAKernel<float>", "norm", "backward"),
        ("sbtopk::gatherTopK<float, unsigned int, 2, false>", "sort-scan", None),
        ("(anonymous namespace)::kernel::lstm_cell_forward<float, float, int, 1>", "rnn", "forward"),
        ("(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, unsigned int>", "conv", "backward"),
        ("(anonymous namespace)::im2col_kernel<float>", "conv-aux", None),
        ("(anonymous namespace)::fused_dropout_kernel<float, float, unsigned int, 1, 1>", "random", None),
        ("(anonymous namespace)::reflection_pad2d_out_kernel<float>", "cast-copy", None),
        ("lpnorm_cleanup<float, (at::native::NormType)1, float, float>", "foreach", None),
        ("spin_kernel", "other", None),
    ],
)
def test_kernels_of_aten(base: str, kind: str, direction: str | None) -> None:
    assert told(f"void at::native::{base}(x)", "library", "kind", "direction") == ("aten", kind, direction)


def test_softmax_and_layer_norm_tell_their_variants() -> None:
    softmax = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, {}, false>(x)"
    norm = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float, {}>(x)"
    assert decode(softmax.format("true")).op == "log_softmax"
    assert decode(softmax.format("false")).op == "softmax"
    assert decode(norm.format("true")).op == "rms_norm"
    assert decode(norm.format("false")).op == "layer_norm"


@pytest.mark.parametrize(
    ("name", "epilogue"),
    [
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT", "none"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bx_coopB_TNT", "add"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_badd_coopB_bias_TNT", "add+bias"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_geluaux_TNT", "gelu+aux"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_relubiasaux_TNT", "bias+relu+aux"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_dgelu_bgradb_TNT", "dgelu+bgrad"),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_biasnova_TNT", "none"),
        ("nvjet_sm90_tst_192x128", None),
    ],
)
def test_epilogues_of_nvjet(name: str, epilogue: str | None) -> None:
    assert decode(name).epilogue == epilogue


@pytest.mark.parametrize(
    ("letters", "dtype"),
    [("tst", "bf16"), ("hsh", "fp16"), ("qqtst", "fp8_e4m3"), ("rqtst", "fp8_e5m2+fp8_e4m3"), ("oohsh", "fp4"), ("xst", None)],
)
def test_types_of_nvjet(letters: str, dtype: str | None) -> None:
    assert decode(f"nvjet_sm100_{letters}_128x64_64x5_1x2_h_bz_TNT").dtype == dtype


CUTLASS_3 = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>,"
    " cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm{arch}TmaGmmaWarpSpecialized<7,"
    " cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, cutlass::gemm::KernelTma>,"
    " cute::tuple<cute::C<64>, cute::C<128>, cute::C<32> >, {a}, cute::tuple<long, cute::C<1>, long>, {b},"
    " cute::tuple<long, cute::C<1>, long> > > >(x)"
)


@pytest.mark.parametrize(
    ("a", "b", "arch", "dtype"),
    [
        ("cutlass::float_e4m3_t", "cutlass::float_e4m3_t", "90", "fp8_e4m3"),
        ("cutlass::float_e4m3_t", "cutlass::float_e5m2_t", "90", "fp8_e4m3+fp8_e5m2"),
        ("cutlass::half_t", "cutlass::half_t", "100", "fp16"),
        ("float", "float", "90", "tf32"),  # the warp-group instruction has no other fp32
    ],
)
def test_collectives_of_cutlass(a: str, b: str, arch: str, dtype: str) -> None:
    kernel = decode(CUTLASS_3.format(a=a, b=b, arch=arch))
    assert (kernel.dtype, kernel.arch, kernel.tile, kernel.stages) == (dtype, f"sm{arch}", "64x128x32", 7)
    assert (kernel.kind, kernel.tensor_cores) == ("gemm", True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 4096u, 1024u, 1u, 256u, 128u, 64u, 128u>(x)",
            ("fp8_e4m3", "sm90", "256x128x64"),
        ),
        ("void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 112u, 128u, 1u, 5u>(x)", ("fp8_e4m3", None, "128x112x128")),
        (
            "void deep_gemm::sm90_bf16_gemm_impl<(cute::UMMA::Major)0, (cute::UMMA::Major)1, 0u, 1u, 2u, 1u, 64u, 96u, 32u>(x)",
            ("bf16", "sm90", "64x96x32"),
        ),
    ],
)
def test_deep_gemm(name: str, expected: tuple[object, ...]) -> None:
    assert told(name, "dtype", "arch", "tile") == expected


def test_scalar_types_of_marlin_are_bit_fields() -> None:
    """Exponent, mantissa, sign, and at bit 50 how NaN is spelled: 8 and 7 bits are bf16, 5 and 10 fp16."""
    for exponent, mantissa, dtype in ((8, 7, "bf16"), (5, 10, "fp16"), (4, 3, "fp8_e4m3")):
        number = exponent | mantissa << 8 | 1 << 16 | 1 << 50
        assert decode(f"void marlin::Marlin<{number}l, 1125899906843648l, 256, 4>(x)").dtype == dtype


def test_flash_attention_3_behind_its_wrappers() -> None:
    name = (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<flash::CollectiveMainloopBwdSm90<2, 2,"
        " 2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<80>, cute::C<128>, cute::C<96> >,"
        " cutlass::bfloat16_t, float, cutlass::arch::Sm90, true> > > >(x)"
    )
    assert told(name, "library", "dtype", "arch", "tile", "direction") == (
        "flash-attention",
        "bf16",
        "sm90",
        "80x128",
        "backward",
    )
    combine = (
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, cutlass::half_t> >(x)"
    )
    assert told(combine, "kind", "tile", "tensor_cores") == ("attention", None, None)


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("", ()),
        ("_to_copy_add_mean_mul_pow_rsqrt", ("_to_copy", "add", "mean", "mul", "pow", "rsqrt")),
        ("_softmax__softmax_backward_data_mul", ("_softmax", "_softmax_backward_data", "mul")),
        ("silu_silu_backward", ("silu", "silu_backward")),
        ("max_pool2d_with_indices_relu", ("max_pool2d_with_indices", "relu")),
        ("add_my_operator_mul", ("add", "my_operator", "mul")),
        ("_my_operator", ("_my_operator",)),
        ("t_view", ("t", "view")),
    ],
)
def test_operations_in_the_names_of_inductor(text: str, operations: tuple[str, ...]) -> None:
    assert fused_operations(text) == operations


@pytest.mark.parametrize(
    ("operations", "category", "kind", "direction"),
    [
        ("add", "poi", "fused-pointwise", None),
        ("clone_permute", "poi", "cast-copy", None),
        ("addmm", "poi", "fused-pointwise", None),
        ("full_like", "poi", "fill", None),
        ("native_dropout", "poi", "random", None),
        ("gather", "poi", "index", None),
        ("sum", "red", "reduction", None),
        ("mul_sum", "red", "fused-reduction", None),
        ("mean_pow_rsqrt", "per", "norm", None),
        ("native_group_norm_backward", "per", "norm", "backward"),
        ("_softmax", "per", "softmax", None),
        ("_log_softmax_nll_loss_forward", "per", "loss", None),
        ("sort", "per", "sort-scan", None),
        ("flex_attention_backward", "tem", "attention", "backward"),
        ("convolution", "tem", "conv", None),
        ("baddbmm", "tem", "gemm", None),
        ("relu_threshold_backward", "poi", "fused-pointwise", None),
        ("all_gather_into_tensor_cat", "poi", "cast-copy", None),
    ],
)
def test_kinds_of_inductor(operations: str, category: str, kind: str, direction: str | None) -> None:
    name = f"triton_{category}_fused_{operations}_3"
    assert told(name, "library", "kind", "direction") == ("inductor", kind, direction)


@pytest.mark.parametrize(
    ("name", "library", "kind"),
    [
        ("void vllm::gptq_marlin_repack<x>(x)", "vllm", "transpose-layout"),
        ("void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<x>(x)", "trtllm", "moe"),
        ("void flashinfer::sampling::TopPRenormProbKernel<1024u, float>(x)", "flashinfer", "random"),
        ("void ck_tile::kentry<1, ck_tile::MoeSortingKernel<x> >(x)", "composable-kernel", "moe"),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::"
         "__uninitialized_fill::functor<thrust::device_ptr<long>, long> > >(x)", "thrust", "fill"),
        ("void cub::detail::for_each::static_kernel<x>(x)", "cub", "elementwise"),
        ("void scal_kernel<float, cublasGemvTensorStridedBatched<float>, cublasScalParams>(x)", "cublas", "elementwise"),
        ("void cusparse::csrmm_alg2_kernel<cusparse::CsrMMPolicy<128u, 32u>, false>(x)", "cusparse", "gemm"),
        ("void regular_fft<512u, EPT<8u>, 16u, unsigned int, float>(x)", "cufft", "fft"),
        ("void transformer_engine::layer_norm::ln_bwd_tuned_kernel<x>(x)", "transformer-engine", "norm"),
        ("void vision::ops::(anonymous namespace)::roi_align_forward_kernel_impl<float>(x)", "torchvision", "resample"),
    ],
)  # fmt: skip
def test_other_libraries(name: str, library: str, kind: str | None) -> None:
    assert told(name, "library", "kind") == (library, kind)


def test_what_is_not_known_stays_empty() -> None:
    assert decode("kernel_nobody_has_seen") == Kernel("kernel_nobody_has_seen")


def test_families_are_named_after_their_modules() -> None:
    from importlib import import_module

    for family in FAMILIES:
        assert hasattr(import_module(f"lanewise.kernels.{family.name}"), "decoded")
        assert family.roots is None or list(family.roots) == list(dict.fromkeys(family.roots))
