"""Names taken apart: spellings of demanglers, mangled names, words."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanewise.kernels import decode, gpu_kind
from lanewise.kernels.dtypes import cast, first_type, type_of
from lanewise.kernels.mangling import demangled
from lanewise.kernels.names import parsed, split_arguments, word_string
from lanewise.kernels.words import convolution_algorithm, direction_of, kind_of


@pytest.mark.parametrize(
    ("raw", "path", "arguments"),
    [
        ("void at::native::f<4, g<int, 2> >(int)", "at::native::f", ["4", "g<int, 2>"]),
        ("void at::native::(anonymous namespace)::f<float>(x)", "at::native::f", ["float"]),
        ("void at::native::<unnamed>::f<(int)4, (bool)1>(T2)", "at::native::f", ["4", "1"]),
        ("std::enable_if<(((8)>(0)))&&_t<c10::BFloat16>::v, void>::type vllm::f<h, 8>(x)", "vllm::f", ["h", "8"]),
        ("f<(at::M)1, (a > b), c>(x)", "f", ["(at::M)1", "(a > b)", "c"]),
        ("f<g()::{lambda(int, bool)#1}, h>(x)", "f", ["g()::{lambda(int, bool)#1}", "h"]),
        ("void f<int=1024, bool=1, bool=0>(int, float const *)", "f", ["1024", "true", "false"]),
        ("void at::f<_INTERNAL_5_Fill_cu_12ab::(anonymous namespace)::g<float> >(x)", "at::f", ["g<float>"]),
        ("my_kernel.kd", "my_kernel", []),
        ("void f<3>(int) [clone .kd]", "f", ["3"]),
        ("_fwd_kernel_0d1d2d3c4de", "_fwd_kernel", []),
        ("void ns::cut_off<float, ns::la", "ns::cut_off", ["float", "ns::la"]),
        ("ampere_fp16_s16816gemm_fp16_128x2...", "ampere_fp16_s16816gemm_fp16", []),
        ("", "", []),
    ],
)
def test_parts(raw: str, path: str, arguments: list[str]) -> None:
    name = parsed(raw)
    assert (name.raw, name.path, name.arguments) == (raw, path, arguments)


def test_lambdas_of_three_demanglers_are_spelled_alike() -> None:
    gcc = "void f<g()::{lambda()#3}::operator()() const::{lambda(float)#1}>(x)"
    nsight = "void f<void a::g()::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)]>(x)"
    llvm = "void f<g()::'lambda1'()::operator()() const::'lambda'(float)>(x)"
    assert parsed(llvm).text == parsed(gcc).text
    assert parsed(nsight).text == parsed(gcc).text.replace("<g", "<void a::g")


def test_no_more_arguments_than_asked_for_are_split() -> None:
    assert split_arguments("<a, b, c, d>", limit=2) == ["a", "b"]
    assert split_arguments("(a, b)") == []


# Mangled by g++ 13 from templates of the same shape as the libraries', read back by c++filt.
MANGLED = [
    (
        "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0ELb1EN7cutlass6half_tE"
        "EJLb0ELb1EEEEv16Flash_fwd_params",
        "pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, true, cutlass::half_t>, false, true>",
    ),
    ("_ZN2at6native4litsILN4cute5MajorE1ELm7ELln9EEEvv", "at::native::lits<(cute::Major)1, 7, -9>"),
    ("_ZN2at6native12_GLOBAL__N_14siluIfEET_RKS3_", "at::native::(anonymous namespace)::silu<float>"),
    ("_ZN2at6native3arrIdEEvRA4_T_OS2_PVKS2_", "at::native::arr<double>"),
    ("_ZN1a1fINS_1tIJNS_1cILi1EEES3_NS2_ILi2EEEEEEEEvT_", "a::f<a::t<a::c<1>, a::c<1>, a::c<2>>>"),
    ("_ZN1a1fIDF16bDF16_DB8_PKfEEvv", "a::f<__bf16, _Float16, _BitInt(8), float const*>"),
    ("_ZN1a1fIZNS_1gEvEUlfE_EEvT_", "a::f<a::g()::{lambda(float)#1}>"),
    ("_ZN1a1fIXadL_ZNS_1gIfEET_RKS1_EEEEvv", "a::f<&a::g<float>>"),
    ("_ZN1a1fIfLi4ENS_3fooIi", "a::f<float, 4, a::foo<int"),  # cut off
    ("_ZN1a11cut_off_he", "a::cut_off_he"),
    ("_Zxyz", "_Zxyz"),
]


@pytest.mark.parametrize(("mangled", "plain"), MANGLED)
def test_mangled_names(mangled: str, plain: str) -> None:
    assert demangled(mangled) == plain


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("cunn_SoftMaxForward", "_cunn_soft_max_forward_"),
        ("FusedAddRMSNormKernel", "_fused_add_rms_norm_kernel_"),
        ("gatherTopK", "_gather_top_k_"),
        ("_fwd_kernel", "_fwd_kernel_"),
        ("", "__"),
    ],
)
def test_words(identifier: str, words: str) -> None:
    assert word_string(identifier) == words


@pytest.mark.parametrize(
    ("identifier", "kind", "direction"),
    [
        ("my_ncclish_gemm", "gemm", None),
        ("reshape_and_cache_flash_kernel", "kv-cache", None),
        ("paged_kv_cache_append_kernel", "kv-cache", None),
        ("BatchPrefillWithPagedKVCacheKernel", "attention", None),
        ("allreduce_rmsnorm_fused", "collective", None),
        ("add_rmsnorm_quant_kernel", "norm", None),
        ("layer_norm_backward_kernel", "norm", "backward"),
        ("softmax_cross_entropy_fwd", "loss", "forward"),
        ("fwd_bwd_softmax", "softmax", None),
        ("Rmsnorm2dFwd", "norm", "forward"),
        ("dgrad2d_kernel", "conv", "backward"),
        ("normal_kernel", "random", None),
        ("converter", None, None),
        ("some_kernel_nobody_has_seen", None, None),
    ],
)
def test_what_words_tell(identifier: str, kind: str | None, direction: str | None) -> None:
    assert (kind_of(word_string(identifier)), direction_of(word_string(identifier))) == (kind, direction)


def test_convolution_algorithms() -> None:
    assert convolution_algorithm("cudnn::winograd_nonfused::winogradForwardData4x4") == "winograd"
    assert convolution_algorithm("implicit_convolve_sgemm") == "implicit_gemm"
    assert convolution_algorithm("conv2d_c1_k1_nhwc_kernel") == "depthwise"
    assert convolution_algorithm("something") is None


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("<c10::BFloat16, float>", "bf16"),
        ("<int, int, __half const*>", "fp16"),
        ("<cutlass::float_e4m3_t, float>", "fp8_e4m3"),
        ("<c10::complex<double>, float>", "complex128"),
        ("<at::native::OpaqueType<4u>, float>", None),
        ("<signed char, float>", "int8"),
        ("<unsigned int, double>", "fp64"),
        ("<FloatThing, floats>", None),
    ],
)
def test_first_number_type(text: str, dtype: str | None) -> None:
    assert type_of(text, integers=False) == dtype


def test_integers_count_where_they_are_the_data() -> None:
    assert first_type("<long, float>", 0, 13) == "int64"
    assert first_type("<unsigned char>", 0, 15) == "uint8"
    assert first_type("<bool, int>", 0, 11) == "bool"


def test_casts() -> None:
    assert cast("fp32", "bf16") == "fp32->bf16"
    assert cast("fp32", "fp32") == "fp32"
    assert cast(None, "bf16") is None


# Pieces of the grammars: names in the wild join them in ways that no table has.
PIECES = [
    "ampere_",
    "volta_",
    "trt_",
    "sm80_xmma_",
    "sm90_xmma_",
    "cutlass_80_",
    "cutlass3x_sm100_",
    "nvjet_sm90_",
    "cudnn_generated_",
    "triton_poi_fused_",
    "Cijk_",
    "igemm_fwd_",
    "ncclDevKernel_",
    "void",
    "at::native::",
    "cutlass::Kernel<",
    "at::native::reduce_kernel<",
    "deep_gemm::",
    "aiter::",
    "multi_tensor_apply_kernel<",
    "gz",
    "gc",
    "s",
    "d",
    "h",
    "i",
    "sgemm_",
    "gemm",
    "cudnn",
    "fprop_",
    "dgrad_",
    "s16816gemm_",
    "i8816",
    "tensorop_",
    "simt_",
    "128x64",
    "64x3",
    "128x128x32",
    "_stages_",
    "_nt",
    "_tn_",
    "f16f16_",
    "cf32cf32_",
    "tilesize",
    "fp16_",
    "bf16",
    "int8_",
    "relu_",
    "addmm_",
    "gelu_",
    "view_",
    "mm_",
    "0",
    "1",
    "_0",
    "float",
    "",
    "c10::Half,",
    ">",
    ">(x)",
    "<",
    ",",
    "(",
    ")",
    "::",
    "kernel",
]


@settings(max_examples=300)
@given(
    st.text(max_size=200)
    | st.text("_ZNIEJLSTXPKRDFilfbv0123456789acd", max_size=200).map("_Z".__add__)
    | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
)
def test_any_text_is_decoded(name: str) -> None:
    kernel = decode(name)
    assert kernel.name == name
    assert gpu_kind(name) in ("compute", "communication", "copy", "memset")
    assert kernel.sentence("en")
    assert kernel.label("ja")


@pytest.mark.parametrize(
    "unit", ["<", "(", "_ZN1aI", "_Z1fIP", "_Z1fIJ", "_ZZ", "_", "a", "::", "triton_poi_fused_zz_", "nvjet_a_", "'lambda'("]
)
def test_long_nonsense_ends_soon(unit: str) -> None:
    """5,000 characters, the length of real names, of something that nests or repeats."""
    name = (unit + unit[-4:] * 5000)[:5000] if unit.startswith("_Z") else (unit * 5000)[:5000]
    begun = time.process_time()
    decode(name)
    assert time.process_time() - begun < 0.5  # some milliseconds where nothing grows with the square


def test_many_names_are_decoded_fast() -> None:
    """The goal is 0.3 s; five times that, on a machine that does other things too, means that something grew."""
    names = [f"nvjet_sm90_tst_{m}x{n}_64x4_1x2_h_bz_coopA_{i}_NNT" for i in range(100) for m in range(10) for n in range(10)]
    begun = time.process_time()
    for name in names:
        decode(name)
    assert time.process_time() - begun < 1.5


def test_importing_stays_light() -> None:
    """`lanewise kernel` and completion load this; numpy and polars take a hundred times as long."""
    code = "import sys, lanewise.kernels as k; k.decode('nvjet'); print([m for m in sys.modules if m in {'numpy', 'polars'}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
