from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from places import ROOT

MLP = ROOT / "examples" / "mlp.json.gz"


def test_guess_sets_words_beside_what_ran(lanewise: Callable[..., Any]) -> None:
    done = lanewise("guess", MLP, "gemm gemm gelu mul gemm")
    assert done.status == 0
    assert "guess: gemm gemm gelu mul gemm" in done.out
    assert "All 5 guessed words found" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_guess_takes_words_without_quotes_and_an_annotation(lanewise: Callable[..., Any]) -> None:
    assert lanewise("guess", MLP, "gemm", "gelu", "--in", "mlp_fwd").status == 0
    done = lanewise("guess", MLP, "gemm", "--in", "mpl_fwd")
    assert done.status == 2
    assert "Did you mean mlp_fwd?" in done.err


def test_guess_asks_on_a_terminal_only(lanewise: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class NoTerminal:
        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdin", NoTerminal())
    done = lanewise("guess", MLP)
    assert done.status == 2
    assert "no terminal to ask on" in done.err
    assert not done.out


def test_guess_asks_for_words(lanewise: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "gemm gelu")
    done = lanewise("guess", MLP)
    assert done.status == 0
    assert "Which GPU ops does a step run" in done.err
    assert "guess: gemm gelu" in done.out


def test_guess_as_json(lanewise: Callable[..., Any]) -> None:
    document = json.loads(lanewise("guess", MLP, "gemm", "--format", "json").out)
    assert document["words"] == ["gemm"]
    assert {r["status"] for r in document["rows"]} == {"matched", "unexpected"}


def test_expect_round_trip(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    assert lanewise("expect", "--write", MLP, "-o", file).status == 0
    done = lanewise("expect", MLP, file)
    assert done.status == 0
    assert "expectations hold" in done.out
    again = lanewise("expect", "--write", MLP, "-o", file)
    assert again.status == 2
    assert "--force" in again.err


def test_expect_fails_with_what_was_wanted_and_found(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text('[step]\nkernels = { gemm = 2 }\npeak_memory = "<=1 GiB"\n')
    done = lanewise("expect", MLP, file)
    assert done.status == 1
    assert "BREACHED step: kernels.gemm" in done.out
    assert "wanted 2, found 3" in done.out
    document = json.loads(lanewise("expect", MLP, file, "--format", "json").out)
    assert document["rows"][0]["status"] == "breached"


def test_what_cannot_be_checked_fails_only_when_strict(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text('[annotation."nowhere"]\nkernels = 1\n')
    done = lanewise("expect", MLP, file)
    assert done.status == 0
    assert "1 not checked" in done.out
    assert lanewise("expect", MLP, file, "--strict").status == 1


def test_expect_wants_a_file_or_write(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    assert lanewise("expect", MLP).status == 2
    assert lanewise("expect", MLP, tmp_path / "none.toml").status == 2
    file = tmp_path / "e.toml"
    file.write_text("[step]\nkernles = 3\n")
    done = lanewise("expect", MLP, file)
    assert done.status == 2
    assert "Did you mean kernels?" in done.err
    assert lanewise("expect", "--write", MLP, file).status == 2


def test_both_speak_japanese(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    assert "予想: gemm" in lanewise("guess", MLP, "gemm", "--lang", "ja").out
    file = tmp_path / "e.toml"
    file.write_text("[step]\nkernels = 999\n")
    assert "期待に反する step: kernels" in lanewise("expect", MLP, file, "--lang", "ja").out


@pytest.mark.parametrize(("word", "near"), [("gem", "gemm"), ("geluu", "gelu"), ("softmaxx", "softmax"), ("matmull", "matmul")])
def test_a_misspelt_word_is_put_right(lanewise: Callable[..., Any], word: str, near: str) -> None:
    assert f"{word}: nothing of this name ran; did you mean {near}?" in lanewise("guess", MLP, word).out


def test_what_was_not_checked_is_named(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text('[trace]\nfindings_absent = ["dtype-casts", "gc-pause", "allocator"]\n')
    out = " ".join(lanewise("expect", ROOT / "examples" / "gpt_train_sins.json.gz", file).out.split())
    assert "trace: findings_absent (dtype-casts) shapes were not recorded" in out
    assert "trace: findings_absent (gc-pause) Python stacks were not recorded" in out


def test_a_trace_in_place_of_expectations_is_told(lanewise: Callable[..., Any]) -> None:
    done = lanewise("expect", MLP, MLP)
    assert done.status == 2
    assert "is not a text file. The trace comes first: lanewise expect TRACE EXPECTATIONS.toml" in done.err


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_a_long_step_names_whole_words(lanewise: Callable[..., Any], lang: str) -> None:
    out = lanewise("guess", ROOT / "examples" / "gpt_train_sins.json.gz", "embedding gemm", "--lang", lang).out
    runs = [line for line in out.splitlines() if line.startswith("  +  ")]
    assert len(runs) >= 2
    assert all(cell_len(line) <= 80 and "…" not in line for line in runs)
    assert "1,250" in out.splitlines()[-1]


def test_japanese_sentences_follow_one_another_without_a_blank(lanewise: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text("[step]\nlaunches = 1\npeak_memory = '<=1 GiB'\n")
    out = lanewise("expect", ROOT / "examples" / "gpt_train_sins.json.gz", file, "--lang", "ja").out
    assert "。" in out
    assert "。 " not in out
