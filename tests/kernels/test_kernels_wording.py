"""Sentences and labels in both languages, and the command that prints them."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from lanewise.cli.kernel import command
from lanewise.kernels import KINDS, Kernel, decode
from lanewise.kernels.wording import LONGEST_LABEL, TEXTS
from lanewise.translations import slots_of
from places import ROOT

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT"


def test_a_sentence() -> None:
    assert decode(GEMM).sentence() == (
        "Hopper cuBLASLt GEMM in bf16, tile 256x128x64, 4 stages, layout NN, adds a full matrix (beta*C) in its epilogue,"
        " on tensor cores."
    )
    assert decode(GEMM).sentence("ja") == (
        "Hopper 向け cuBLASLt の GEMM（bf16）、タイル 256x128x64、4 ステージ、レイアウト NN、"
        "エピローグで行列全体（beta*C）を加算、Tensor Core を使用。"
    )


@pytest.mark.parametrize(
    ("name", "english", "japanese"),
    [
        (GEMM, "GEMM bf16 256x128 +add", "GEMM bf16 256x128 +add"),
        ("Memcpy HtoD (Pageable -> Device)", "copy HtoD pageable", "コピー HtoD pageable"),
        ("triton_poi_fused_add_gelu_0", "fused add gelu", "融合 add gelu"),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80", "attention fp16 64x64 bwd", "attention fp16 64x64 逆伝播"),
        ("nobody_knows", "unknown", "不明"),
    ],
)
def test_labels(name: str, english: str, japanese: str) -> None:
    assert decode(name).label() == english
    assert decode(name).label("ja") == japanese


def test_operations_are_cut_to_fit_a_label() -> None:
    label = decode("triton_per_fused_" + "add_gelu_mul_native_layer_norm_silu_sub_view_where_" + "0").label()
    assert len(label) <= LONGEST_LABEL
    assert label.endswith("…")


def test_a_sentence_without_a_name_in_front_begins_with_a_capital() -> None:
    assert Kernel("", kind="norm", dtype="fp32->bf16").sentence() == "Norm from fp32 to bf16."
    assert Kernel("", kind="norm", library="vllm").sentence() == "vLLM norm."


def test_matrix_cores_are_amds() -> None:
    assert "matrix cores" in decode("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_WG32_8_1").sentence()


def test_every_kind_has_its_texts() -> None:
    for kind in KINDS:
        assert kind in TEXTS.english
        assert f"short-{kind}" in TEXTS.english


def test_japanese_has_the_same_keys_and_slots() -> None:
    japanese = TEXTS.translated("ja")
    assert list(japanese) == list(TEXTS.english)
    for key, text in TEXTS.english.items():
        assert slots_of(japanese[key]) == slots_of(text), key


def test_japanese_spaces_stand_where_scripts_meet() -> None:
    for name in (GEMM, "triton_tem_fused_mm_t_0", "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_relubias_TNT"):
        text = decode(name).sentence("ja")
        assert re.search(r"[ぁ-んァ-ン一-龥][A-Za-z]", text) is None, text


@pytest.mark.parametrize(("lang", "folder"), [("en", "docs"), ("ja", "docs/ja")])
def test_the_documentation_says_what_the_code_says(lang: str, folder: str) -> None:
    page = (ROOT / folder / "kernels.md").read_text(encoding="utf-8")
    pairs = re.findall(r"^    (.+)\n    -> (.+)$", page, re.MULTILINE)
    assert len(pairs) > 15
    for name, sentence in pairs:
        assert decode(name).sentence(lang) == sentence


def run(*arguments: str, stdin: str = "") -> str:
    result = CliRunner().invoke(command, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


KEYS = [
    *("name", "kind", "library", "dtype", "arch", "tile", "stages", "layout", "epilogue", "tensor_cores", "direction"),
    *("fused_ops", "op", "host_memory", "sentence"),
]


@pytest.mark.parametrize("dash", [(), ("-",)])
def test_names_from_standard_input_are_answered_in_order(dash: tuple[str, ...]) -> None:
    names = [GEMM, "triton_poi_fused_add_mul_0", "what is this"]
    lines = run("--format", "json", *dash, stdin="\n".join(names) + "\n\n").splitlines()
    documents = [json.loads(line) for line in lines]
    assert [document["name"] for document in documents] == names
    assert list(documents[0]) == KEYS
    assert documents[0]["tensor_cores"] is True
    assert documents[1]["fused_ops"] == ["add", "mul"]
    assert documents[2]["kind"] is None


def test_names_on_the_command_line_are_put_into_words() -> None:
    text = run("--lang", "ja", GEMM)
    assert text.splitlines()[0] == "GEMM bf16 256x128 +add"
    assert "Hopper 向け" in text
    assert text.splitlines()[-1].strip() == GEMM


def test_an_unknown_format_is_bad_usage() -> None:
    assert CliRunner().invoke(command, ["--format", "xml", GEMM]).exit_code == 2
