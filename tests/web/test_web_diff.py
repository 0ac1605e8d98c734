"""The page of a comparison in a browser: both timelines move together, and every change stands out on both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from builder import TraceBuilder
from diffing import EAGER, built
from lanewise.cli.diff import command
from places import CASES, ROOT
from web.conftest import Browse
from web.test_web_hostile import NASTY, hostile_trace

LADDER = ROOT / "examples" / "ladder_h200"
_MLP = LADDER / "03_simple_mlp"
_ATTENTION = LADDER / "04_c_sdpa_attention"
FILES: dict[str, list[Path]] = {
    "mlp": sorted(_MLP.glob("*eager.json.gz")) + sorted(_MLP.glob("*compile.json.gz")),
    "sins": [ROOT / "examples" / "gpt_train_sins.json.gz", ROOT / "examples" / "gpt_train_clean.json.gz"],
    "ladder": [next(_ATTENTION.glob(f"*_{name}_*.json.gz")) for name in ("math", "efficient", "flash")],
    "damaged": [CASES / "parse-truncated.json", CASES / "coverage-cpu-only.json"],
    "itself": [ROOT / "examples" / "mlp.json.gz"] * 2,
}
LOOKS = [("en", "light"), ("ja", "dark")]


def steps(cpu: float) -> TraceBuilder:
    """Steps of a CPU-only program."""
    t = TraceBuilder()
    for i in range(5):
        t.span("user_annotation", f"ProfilerStep#{i}", i * 200, 150, t.pid, 1)
        t.op("aten::mm", i * 200 + 5, cpu)
    return t


def written(out: Path, *files: Path, lang: str = "en") -> Path:
    """The page, as the command writes it."""
    result = CliRunner().invoke(command, [*map(str, files), "-o", str(out), "--lang", lang, "--quiet"])
    assert result.exit_code == 0, result.output
    return out


def document(*files: Path, lang: str) -> dict[str, Any]:
    """The comparison of the same files as JSON."""
    result = CliRunner().invoke(command, [*map(str, files), "--format", "json", "--lang", lang, "--quiet"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("traces")
    cpu = [steps(cpu).write(folder / f"cpu_{cpu}.json") for cpu in (40, 90)]
    no_steps = TraceBuilder()
    no_steps.op("aten::mm", 1, 50)
    no_steps.launch(2, 3, gpu=(10, 20), name="gemm")
    lone = [built(EAGER).write(folder / "steps.json"), no_steps.write(folder / "none.json")]
    return {**FILES, "cpu": cpu, "no-steps": lone}


@pytest.fixture(scope="module")
def seen(browse: Browse, files: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """What the browser found, by pair and language; one start for all."""
    folder = tmp_path_factory.mktemp("diffs")
    jobs, keys = [], []
    for name, paths in files.items():
        page = written(folder / f"{name}.html", *paths)
        for lang, theme in LOOKS:
            jobs.append({"file": str(page), "lang": lang, "theme": theme, "diff": True, "basic": True, "search": "aten::"})
            keys.append((name, lang))
    return dict(zip(keys, browse(jobs), strict=True))


each = pytest.mark.parametrize("lang", ["en", "ja"])
every = pytest.mark.parametrize("name", [*FILES, "cpu", "no-steps"])


@each
@every
def test_no_error_and_nothing_loaded(seen: dict[tuple[str, str], Any], name: str, lang: str) -> None:
    result = seen[name, lang]
    assert result["errors"] == []
    assert result["requests"] == []
    assert result["lang"] == lang
    assert result["unnamed"] == 0
    assert result["overflow"] <= 0
    assert max(result["frames"].values()) < 1000 / 30


@each
@every
def test_says_what_the_comparison_says(
    seen: dict[tuple[str, str], Any], files: dict[str, list[Path]], name: str, lang: str
) -> None:
    pair = document(*files[name], lang=lang)["pairs"][0]
    shown = seen[name, lang]["text"].replace("`", "")
    for text in (pair["headline"], *pair["points"], *(c["text"] for c in pair["conditions"]), *pair["needed"]):
        assert text.replace("`", "") in shown
    nothing = ("Nothing differs beyond", "計測のばらつきを超える違いはありません")
    assert any(text in shown for text in nothing) == (not pair["changed"])
    if pair["compile"]:
        assert pair["compile"]["text"].replace("`", "") in shown


@each
@every
def test_each_change_stands_out_on_both_timelines(
    seen: dict[tuple[str, str], Any], files: dict[str, list[Path]], name: str, lang: str
) -> None:
    pair = document(*files[name], lang=lang)["pairs"][0]
    found = seen[name, lang]["changes"]
    assert len(found) == len(pair["kernels"]) + sum(c["certain"] for c in pair["findings"])
    for shown, group in zip(found, pair["kernels"], strict=False):
        for side, key in enumerate(("base", "new")):
            rows = group[f"{key}_evidence"]
            assert sorted(shown["highlighted"][side]) == sorted(row["name"] for row in rows)
            assert len(rows) == group["times"] * sum(part["count"] for part in group[key])
    for shown in found:
        starts = [s for side in shown["starts"] for s in side]
        begin, end = shown["windows"][0]
        assert shown["windows"][0] == pytest.approx(shown["windows"][1], abs=1)
        assert any(begin <= s <= end for s in starts)
        if all(shown["starts"]):
            assert [min(side) for side in shown["starts"]] == [0, 0]
        assert shown["chip"]


@pytest.mark.parametrize("name", ["mlp", "sins", "cpu"])
def test_keys_move_both(seen: dict[tuple[str, str], Any], name: str) -> None:
    keys = seen[name, "en"]["keys"]
    for windows in (found["windows"] for found in keys.values()):
        assert windows[0] == pytest.approx(windows[1], abs=1)
    span = {key: found["windows"][0][1] - found["windows"][0][0] for key, found in keys.items()}
    assert span["in"] == pytest.approx(0.7 * span["reset"])
    assert keys["reset"]["windows"][0][0] < 0 < span["reset"]
    before, after = keys["reset"]["steps"], keys["next"]["steps"]
    assert any(b == a + 1 for a, b in zip(before, after, strict=True)) or keys["previous"]["steps"] != after
    assert span["all"] > span["reset"]


def test_search_looks_in_both(seen: dict[tuple[str, str], Any]) -> None:
    assert all(n > 0 for n in seen["mlp", "en"]["search"]["hits"])
    assert seen["mlp", "en"]["search"]["cleared"] == [0, 0]


def test_a_selected_kernel_is_told_of(seen: dict[tuple[str, str], Any]) -> None:
    panel = seen["mlp", "en"]["panel"]
    assert "Launched by" in panel
    assert "compile" in panel


def test_the_dashed_lines_speak_the_language_of_the_page(seen: dict[tuple[str, str], Any]) -> None:
    # The pages were opened in English, and their language changed.
    assert seen["mlp", "en"]["labels"] == [["end of the step in compile"], ["end of the step in eager"]]
    assert seen["mlp", "ja"]["labels"] == [["compile のステップ終了"], ["eager のステップ終了"]]


def test_several_traces_are_compared_one_by_one(browse: Browse, tmp_path: Path) -> None:
    page = written(tmp_path / "ladder.html", *FILES["ladder"])
    row = "document.querySelectorAll('#many tbody tr')[2].querySelector('button').click()"
    script = f"{row}; document.querySelector('h1').textContent.replaceAll('\\u00a0', ' ')"
    [result] = browse([{"file": str(page), "theme": "light", "basic": True, "diff": True, "after": script}])
    assert result["errors"] == []
    first, second = document(*FILES["ladder"], lang="en")["pairs"]
    assert result["verdict"].replace("`", "") == first["headline"].replace("`", "")
    assert result["after"].replace("`", "") == second["headline"].replace("`", "")


def test_names_are_text(browse: Browse, tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path)
    data = json.loads(trace.read_text())
    for event in data["traceEvents"]:
        if event.get("cat") == "kernel":
            event["name"] += " other"
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / trace.name
    other.write_text(json.dumps(data))
    page = written(tmp_path / "page.html", trace, other)
    text = page.read_text("utf-8")
    assert text.count("<script") == 2
    assert "onerror" not in text.replace("&lt;img src=x onerror=globalThis.pwned=1&gt;", "")
    for result in browse(
        [{"file": str(page), "lang": lang, "theme": "light", "basic": True, "diff": True} for lang in ("en", "ja")]
    ):
        assert result["errors"] == []
        assert result["pwned"] is None
        assert result["images"] == 0
        assert result["scripts"] == 2
        assert f"{NASTY} other" in result["text"]
