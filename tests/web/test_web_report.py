"""The HTML report in a browser: no error, no network, every finding's evidence on the timeline, search and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from places import CASES, ROOT, SHARED
from web.conftest import Browse
from web.pages import parts_of, write

EXAMPLES = ROOT / "examples"
TRACES = {
    "mlp": EXAMPLES / "mlp.json.gz",
    "sins": EXAMPLES / "gpt_train_sins.json.gz",
    "rank": CASES / "dist-rank-from-header-not-rank0.json",
    "damaged": CASES / "parse-truncated.json",
    "cpu": CASES / "coverage-cpu-only.json",
    "stacks": CASES / "coverage-stacks-and-modules.json",
    "overlap": CASES / "numbers-overlap-within-stream.json",
    "empty": CASES / "parse-metadata-only.json",
}
# One rank of two; there only where the shared traces are.
_RANK = SHARED / "traces" / "h200" / "distributed" / "08_ddp" / "rank1.json.gz"
if _RANK.is_file():
    TRACES["ddp"] = _RANK
LOOKS = [("en", "light"), ("ja", "dark")]


@pytest.fixture(scope="module")
def seen(browse: Browse, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """What the browser found, by trace and language; one start for all."""
    folder = tmp_path_factory.mktemp("reports")
    jobs, keys = [], []
    for name, path in TRACES.items():
        file = write(path, folder / f"{name}.html")
        for lang, theme in LOOKS:
            search = "aten::" if name in ("mlp", "sins") else None
            jobs.append({"file": str(file), "lang": lang, "theme": theme, "search": search})
            keys.append((name, lang))
    return dict(zip(keys, browse(jobs), strict=True))


each = pytest.mark.parametrize("lang", ["en", "ja"])
every = pytest.mark.parametrize("name", TRACES)


@each
@every
def test_no_error_and_nothing_loaded(seen: dict[tuple[str, str], dict[str, Any]], name: str, lang: str) -> None:
    result = seen[name, lang]
    assert result["errors"] == []
    assert result["requests"] == []
    assert result["lang"] == lang
    assert result["unnamed"] == 0
    assert result["overflow"] <= 0


@each
@every
def test_shows_the_report(seen: dict[tuple[str, str], dict[str, Any]], name: str, lang: str) -> None:
    report = parts_of(TRACES[name])[0][lang]
    result = seen[name, lang]
    assert result["verdict"].replace("`", "") == report.verdict.text.replace("`", "")
    assert report.trace.path in result["environment"]
    for warning in report.trace.warnings:
        assert warning.text.replace("`", "") in result["environment"]
    assert ("kernels" in result["sections"]) == bool(report.kernels)


@each
@every
def test_each_finding_leads_to_its_evidence(seen: dict[tuple[str, str], dict[str, Any]], name: str, lang: str) -> None:
    report = parts_of(TRACES[name])[0][lang]
    result = seen[name, lang]
    assert [f["id"] for f in result["findings"]] == [f.id for f in report.findings]
    for shown, finding in zip(result["findings"], report.findings, strict=True):
        assert shown["rows"] == len(finding.evidence)
        if finding.evidence:
            assert sorted(shown["highlighted"]) == sorted(e.name for e in finding.evidence)
            assert shown["inView"]
            assert finding.title.replace("`", "") in shown["chip"].replace("`", "")


def test_themes_differ(seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert seen["mlp", "en"]["ground"] != seen["mlp", "ja"]["ground"]


@pytest.mark.parametrize("name", ["mlp", "sins"])
def test_keys_move_the_timeline(seen: dict[tuple[str, str], dict[str, Any]], name: str) -> None:
    keys = seen[name, "en"]["keys"]
    span = {k: v[1] - v[0] for k, v in keys.items() if isinstance(v, list)}
    view, whole = parts_of(TRACES[name])[1].view, parts_of(TRACES[name])[1].span
    assert keys["reset"] == pytest.approx(list(view), abs=1)
    assert span["in"] == pytest.approx(0.7 * span["reset"])
    assert keys["right"][0] == pytest.approx(keys["in"][0] + 0.15 * span["in"])
    assert keys["left"] == pytest.approx(keys["in"])
    assert span["out"] == pytest.approx(span["reset"])
    assert span["all"] == pytest.approx(whole)
    assert keys["help"]
    assert keys["closed"]
    assert keys["focused"] == "search"


@every
def test_drawing_leaves_time_for_30_frames_a_second(seen: dict[tuple[str, str], dict[str, Any]], name: str) -> None:
    frames = seen[name, "en"]["frames"]
    assert max(frames.values()) < 1000 / 30


@each
@pytest.mark.parametrize("name", ["mlp", "sins"])
def test_search_goes_from_hit_to_hit(seen: dict[tuple[str, str], dict[str, Any]], name: str, lang: str) -> None:
    found = seen[name, lang]["search"]
    picture = parts_of(TRACES[name])[1]
    wanted = {i for i, text in enumerate(picture.strings) if "aten::" in text.lower()}
    assert found["hits"] >= sum(n in wanted for lane in picture.lanes for n in lane.name) > 0
    assert found["next"] != found["selected"]
    assert found["panel"] != ""
    assert found["cleared"] == 0


@each
def test_a_narrow_window_leaves_room_for_names(browse: Browse, tmp_path: Path, lang: str) -> None:
    page = write(TRACES["sins"], tmp_path / "report.html")
    first = "[...document.querySelectorAll('#kernels tbody td:first-child')].map((cell) => cell.clientWidth)"
    [result] = browse([{"file": str(page), "lang": lang, "theme": "light", "width": 640, "basic": True, "after": first}])
    assert result["overflow"] <= 0
    assert min(result["after"]) >= 100


def test_a_browser_that_is_too_old_is_told_so_in_the_pages_language(browse: Browse, tmp_path: Path) -> None:
    files = [write(TRACES["empty"], tmp_path / f"{lang}.html", lang) for lang in ("en", "ja")]
    english, japanese = browse([{"file": str(file), "old": True} for file in files])
    assert english["errors"] == japanese["errors"] == []
    assert "DecompressionStream" in english["text"]
    assert "このブラウザは古い" in japanese["text"]


@each
def test_kinds_of_kernels_are_words_of_the_page(seen: dict[tuple[str, str], dict[str, Any]], lang: str) -> None:
    text = seen["sins", lang]["text"]
    assert {"en": "element-wise", "ja": "要素ごと"}[lang] in text
    assert "kind-" not in text
