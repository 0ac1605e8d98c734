from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lanewise.errors import UsageError
from lanewise.ladder.guess import compare, family, guessed_words, step_ops
from places import SHARED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gemm add", ["gemm", "add"]),
        ("Matmul, softmax; mm", ["gemm", "softmax", "gemm"]),
        ("3 gemm gelu mul", ["gemm", "gemm", "gemm", "gelu", "mul"]),
        ("gemm*2 triton", ["gemm", "gemm", "triton"]),
        ("my_kernel", ["my_kernel"]),
    ],
)
def test_words_of_a_guess(text: str, words: list[str]) -> None:
    assert guessed_words(text) == words


def test_a_guess_without_words_is_refused() -> None:
    with pytest.raises(UsageError, match="--guess"):
        guessed_words(" ,; ")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", "gemm"),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>>", "add"),
        ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10>", "softmax"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("Memset (Device)", "memset"),
        ("triton_poi_fused_gelu_mul_0", "triton"),
        ("void pytorch_flash::flash_fwd_kernel<...>", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
        ("aten::addmm", "gemm"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nccl"),
        ("something_else", "something_else"),
    ],
)
def test_family_of_a_name(name: str, word: str) -> None:
    assert family(name) == word


def test_a_right_guess() -> None:
    found = compare(["gemm", "add"], ["nvjet_x", "aten::add"])
    assert found.right
    assert found.seen == ("gemm", "add")


def test_what_is_missing_and_what_is_extra() -> None:
    found = compare(["gemm", "add"], ["nvjet_x", "Memset (Device)", "nvjet_y"])
    assert not found.right
    assert found.missing == ["add"]
    assert found.extra == ["gemm", "memset"]


def test_a_word_that_is_no_family_matches_names_that_contain_it() -> None:
    assert compare(["my_kernel", "add"], ["_my_kernel_v2", "aten::add"]).right


def write(tmp_path: Path, events: list[dict[str, Any]]) -> Path:
    path = tmp_path / "x.json"
    for event in events:
        event.setdefault("ph", "X")
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def step(number: int, ts: float, dur: float) -> dict[str, Any]:
    return {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": ts, "dur": dur}


def test_gpu_ops_of_the_last_step_wherever_they_ran(tmp_path: Path) -> None:
    def launch(ts: float, number: int) -> dict[str, Any]:
        return {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts, "dur": 1, "args": {"correlation": number}}

    def kernel(name: str, ts: float, number: int) -> dict[str, Any]:
        return {"cat": "kernel", "name": name, "ts": ts, "dur": 5, "args": {"correlation": number}}

    path = write(
        tmp_path,
        [
            *(step(1, 0, 10), launch(1, 1), step(2, 10, 10), launch(11, 2), launch(12, 3)),
            *(kernel("second", 32, 3), kernel("of step 1", 15, 1), kernel("first", 25, 2)),
        ],
    )
    assert step_ops(path) == ["first", "second"]


def test_on_a_cpu_the_innermost_ops_that_do_work(tmp_path: Path) -> None:
    def op(name: str, ts: float, dur: float) -> dict[str, Any]:
        return {"cat": "cpu_op", "name": name, "ts": ts, "dur": dur}

    path = write(
        tmp_path,
        [
            step(1, 0, 100),
            *(op("aten::matmul", 1, 20), op("aten::expand", 2, 1), op("aten::mm", 4, 10), op("aten::resolve_conj", 5, 1)),
            *(op("aten::linear", 30, 20), op("aten::addmm", 31, 15), op("aten::copy_", 32, 3)),
            *(op("aten::add", 60, 5), op("aten::mul", 200, 5)),
        ],
    )
    assert step_ops(path) == ["aten::mm", "aten::addmm", "aten::add"]


def test_a_trace_without_steps_has_no_ops(tmp_path: Path) -> None:
    assert step_ops(write(tmp_path, [{"cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}])) == []


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("01_matmul_add/64_bf16_warm_eager", "gemm add"),
        ("01_matmul_add/64_bf16_warm_compile", "copy gemm"),
        ("02_linear/1024_32_64_eager", "gemm"),
        ("03_simple_mlp/64_128_768_3072_eager", "3 gemm gelu mul 2 memset"),
        ("03_simple_mlp/64_128_768_3072_compile", "3 gemm triton 2 memset"),
        ("03_kernels_mlp/64_128_768_3072_liger", "3 gemm triton 2 memset"),
        ("04_a_naive_attention/8_16_1024_64_eager", "gemm memset mul copy mask softmax gemm"),
        ("04_b_inplace_ops_attention/8_16_1024_64_eager", "gemm memset mul mask softmax gemm"),
        ("04_c_sdpa_attention/8_16_1024_64_flash", "attention"),
        ("04_c_sdpa_attention/8_16_1024_64_efficient", "attention"),
        ("04_c_sdpa_attention/8_16_1024_64_cudnn", "attention memset"),
    ],
)
def test_guesses_about_real_traces(name: str, guess: str) -> None:
    found = compare(guessed_words(guess), step_ops(SHARED / "traces" / "h200" / f"{name}.json.gz"))
    assert found.right, (found.seen, found.names)
