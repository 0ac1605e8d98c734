from __future__ import annotations

from pathlib import Path

import pytest

import lanewise
from builder import TraceBuilder
from lanewise.errors import UsageError
from lanewise.expectations.guessing import Guess, guess, guessed_words
from lanewise.expectations.items import Item
from lanewise.expectations.vocabulary import matches, word_of
from lanewise.kernels import decode
from places import DATA, SHARED

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, 3ul>(int)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gemm add", ["gemm", "add"]),
        ("Matmul, softmax; mm", ["gemm", "softmax", "gemm"]),
        ("3 gemm gelu mul", ["gemm", "gemm", "gemm", "gelu", "mul"]),
        ("gemm*2 triton", ["gemm", "gemm", "triton"]),
        ("gemm x2 all_reduce", ["gemm", "gemm", "nccl"]),
        ("aten::mm all-reduce", ["gemm", "nccl"]),
        ("my_kernel", ["my_kernel"]),
    ],
)
def test_words_of_a_guess(text: str, words: list[str]) -> None:
    assert guessed_words(text) == words


@pytest.mark.parametrize(("text", "what"), [(" ,; ", "no word"), ("gemm*99999", "more than"), ("", "no word")])
def test_what_is_no_guess_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        guessed_words(text)


def item(name: str, owner: str = "") -> Item:
    gpu = not name.startswith(("aten::", "c10d::"))
    kernel = decode(name) if gpu else decode("")
    return Item(0, name, kernel, gpu, (), -1, -1, 0, owner or ("" if gpu else name))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", "gemm"),
        (ADD, "add"),
        ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10>", "softmax"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("Memcpy HtoD (Pageable -> Device)", "htod"),
        ("Memset (Device)", "memset"),
        ("triton_poi_fused_gelu_mul_0", "triton"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", "flash"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
        ("aten::addmm", "gemm"),
        ("aten::gelu", "gelu"),
        ("aten::mul_", "mul"),
        ("aten::native_layer_norm", "norm"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nccl"),
    ],
)
def test_word_of_an_op_and_back(name: str, word: str) -> None:
    assert word_of(item(name)) == word
    assert matches(word, item(name))


@pytest.mark.parametrize(
    ("word", "name", "owner", "fits"),
    [
        ("gemm", "Memset (Device)", "aten::mm", False),
        ("mm", "Memset (Device)", "aten::mm", False),
        ("masked_fill", "Memcpy DtoD (Device -> Device)", "aten::copy_", False),
        ("tanh", "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda>", "aten::tanh", True),
        ("cublas", GEMM, "aten::mm", True),
        ("add", GEMM, "aten::mm", False),
        ("nvjet", GEMM, "aten::mm", True),
        ("attention", "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", "", True),
        ("flash", "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "", False),
    ],
)
def test_what_a_word_means(word: str, name: str, owner: str, fits: bool) -> None:
    assert matches(word, item(name, owner)) is fits


def step(*launched: tuple[str, str]) -> TraceBuilder:
    """Two steps that launch some (op, kernel) pairs; an op of the same name as the one before is the same call."""
    t = TraceBuilder()
    for number in range(2):
        at = 1000 * number
        t.step(number, at, 900)
        begin = at + 10
        for i, (op, name) in enumerate(launched):
            last = i + 1 == len(launched) or launched[i + 1][0] != op
            category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            t.launch(at + 12 + 20 * i, 5, gpu=(at + 15 + 20 * i, 10), name=name, cat=category)
            if last:
                t.op(op, begin, at + 12 + 20 * i + 8 - begin)
                begin = at + 12 + 20 * i + 10
    return t


def statuses(found: Guess) -> list[tuple[str, str]]:
    return [(r.status, r.word) for r in found.rows]


def test_a_right_guess() -> None:
    found = guess(step(("aten::mm", GEMM), ("aten::add", ADD)).load(), ["gemm", "add"])
    assert found.right
    assert statuses(found) == [("matched", "gemm"), ("matched", "add")]
    assert [r.op for r in found.rows] == ["aten::mm", "aten::add"]


def test_a_memset_of_the_same_op_as_the_product_is_its_workspace() -> None:
    found = guess(step(("aten::mm", "Memset (Device)"), ("aten::mm", GEMM), ("aten::add", ADD)).load(), ["gemm", "add"])
    (extra,) = found.of("unexpected")
    assert extra.why is not None
    assert "workspace of the GEMM" in extra.why
    assert "aten::mm" in extra.why
    assert not found.right


def test_a_memset_of_another_op_is_no_workspace() -> None:
    found = guess(step(("aten::zero_", "Memset (Device)"), ("aten::mm", GEMM)).load(), ["gemm"])
    (extra,) = found.of("unexpected")
    assert extra.why == "clears memory, for aten::zero_"


def test_what_is_missing_stands_where_it_was_expected() -> None:
    found = guess(step(("aten::mm", GEMM), ("aten::add", ADD)).load(), ["gemm", "tanh", "add"])
    assert statuses(found) == [("matched", "gemm"), ("missing", "tanh"), ("matched", "add")]
    assert found.of("missing")[0].why == "nothing of this kind ran"


def test_fewer_ran_than_guessed() -> None:
    found = guess(step(("aten::mm", GEMM)).load(), ["gemm", "gemm"])
    assert found.of("missing")[0].why == "1 ran, not 2"


def test_another_order_is_told_as_such() -> None:
    found = guess(step(("aten::mm", GEMM), ("aten::add", ADD)).load(), ["add", "gemm"])
    assert sorted(statuses(found))[0][0] == "matched"
    assert len(found.of("moved")) == 1
    assert not found.of("missing", "unexpected")


def test_a_misspelled_word_gets_a_suggestion() -> None:
    found = guess(step(("aten::mm", GEMM)).load(), ["gemm", "sofmax"])
    assert found.of("missing")[0].why == "nothing of this name ran; did you mean softmax?"


def test_steps_and_annotations_that_are_not_there() -> None:
    t = step(("aten::mm", GEMM))
    t.annotation("mlp_fwd", 5, 500)
    trace = t.load()
    with pytest.raises(UsageError, match="Did you mean mlp_fwd"):
        guess(trace, ["gemm"], within="mlp_fwt")
    with pytest.raises(UsageError, match="no step 7"):
        guess(trace, ["gemm"], step=7)
    with pytest.raises(UsageError, match="not called in step 1"):
        guess(trace, ["gemm"], within="mlp_fwd", step=1)
    assert guess(trace, ["gemm"], within="mlp_fwd").right


def test_without_a_gpu_the_innermost_ops_are_compared() -> None:
    t = TraceBuilder(gpus=0)
    t.step(0, 0, 100)
    t.op("aten::linear", 10, 50)
    t.op("aten::t", 11, 5)
    t.op("aten::transpose", 12, 2)
    t.op("aten::addmm", 20, 30)
    t.op("aten::copy_", 25, 10)
    t.op("aten::gelu", 70, 10)
    found = guess(t.load(), ["gemm", "gelu", "t"])
    assert not found.gpu
    assert statuses(found) == [("matched", "gemm"), ("matched", "gelu"), ("missing", "t")]
    assert found.rows[2].why is not None
    assert "another view" in found.rows[2].why


def test_a_very_long_guess_is_compared_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = step(*[("aten::mm", GEMM), ("aten::add", ADD)] * 20).load()
    assert guess(trace, ["gemm", "add"] * 20).right
    monkeypatch.setattr("lanewise.expectations.guessing._MOST_CELLS", 10)
    assert guess(trace, ["gemm", "add"] * 20).right
    assert len(guess(trace, ["gemm"] * 20).of("unexpected")) == 20


# Recorded on an H200.


def h200(name: str) -> Path:
    return SHARED / "traces" / "h200" / name


def test_compiled_mlp_has_gelu_and_mul_in_one_kernel() -> None:
    path = DATA / "03_simple_mlp" / "64_128_768_3072_compile.json.gz"
    found = guess(lanewise.load(path), guessed_words("gemm gemm gelu mul gemm"))
    assert not found.of("missing", "moved")
    names = {r.word: r.name for r in found.rows if r.word in ("gelu", "mul")}
    assert len(set(names.values())) == 1
    assert [r.word for r in found.of("unexpected")] == ["memset", "memset"]
    assert all("workspace" in (r.why or "") for r in found.of("unexpected"))


def test_flash_did_not_run_in_the_math_backend() -> None:
    found = guess(lanewise.load(DATA / "04_c_sdpa_attention" / "8_16_1024_64_math.json.gz"), ["flash"])
    assert found.of("missing")[0].why == "attention ran op by op, in SDPA's math backend"
    assert len(found.of("unexpected")) == 20
    casts = [r.why for r in found.rows if r.word == "copy" and "fp32 GEMM" in (r.why or "")]
    assert len(casts) == 3


def test_copies_into_a_cuda_graph() -> None:
    trace = lanewise.load(DATA / "06_gpt_decode" / "cudagraph_replay.json.gz")
    found = guess(trace, guessed_words("gemm*25"), within="decode")
    assert len(found.of("matched")) == 25


@pytest.mark.shared
def test_naive_attention_copies_for_an_out_of_place_fill() -> None:
    path = h200("04_a_naive_attention/8_16_1024_64_eager.json.gz")
    found = guess(lanewise.load(path), guessed_words("gemm mul mask softmax gemm"))
    assert not found.of("missing", "moved")
    why = {r.word: r.why or "" for r in found.of("unexpected")}
    assert set(why) == {"memset", "copy"}
    assert why["copy"].startswith("aten::masked_fill is out of place")
    again = guess(lanewise.load(h200("04_b_inplace_ops_attention/8_16_1024_64_eager.json.gz")), list(found.words))
    assert [r.word for r in again.of("unexpected")] == ["memset"]


@pytest.mark.shared
def test_an_addition_in_the_epilogue_and_the_copy_that_seeds_it() -> None:
    found = guess(lanewise.load(h200("01_matmul_add/4096_bf16_warm_compile.json.gz")), ["gemm", "add"])
    assert [r.status for r in found.rows if r.word == "add"] == ["inside"]
    why = {r.word: r.why or "" for r in found.of("unexpected")}
    assert "copies what is to be added" in why["copy"]
    graph = guess(lanewise.load(h200("01_matmul_add/4096_bf16_warm_compile_reduce-overhead.json.gz")), ["gemm", "add"])
    reasons = [r.why or "" for r in graph.of("unexpected")]
    assert sum("memory that the CUDA graph reads" in why for why in reasons) == 3


@pytest.mark.shared
def test_a_linear_layer_is_one_kernel() -> None:
    found = guess(lanewise.load(h200("02_linear/1024_32_64_eager.json.gz")), ["view", "gemm", "add"])
    assert [(r.status, r.word) for r in found.rows] == [("missing", "view"), ("matched", "gemm"), ("inside", "add")]
    assert "launches nothing" in (found.rows[0].why or "")
