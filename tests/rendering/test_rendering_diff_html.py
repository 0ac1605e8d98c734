"""The data of the comparison's page: every change leads to its GPU ops in both pictures, in every language."""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from typing import Any

import msgspec
import pytest

from diffing import COMPILED, EAGER, built, named
from lanewise.comparison import Comparison, TraceSide, compare_sides
from lanewise.comparison.document import Figure
from lanewise.comparison.texts import TEXTS
from lanewise.rendering import diff_html
from lanewise.timeline import timeline

LANGUAGES = ("en", "ja")


@cache
def made(*names: str) -> tuple[dict[str, Comparison], list[diff_html.ShownSide]]:
    builders = {"eager": built(EAGER * 3), "compiled": built(COMPILED * 3, cpu=11), "short": built(EAGER[:2], cpu=12, steps=4)}
    first = [TraceSide(named(builders[name], name), "en") for name in names]
    sides = {lang: [side if lang == "en" else side.spoken(lang) for side in first] for lang in LANGUAGES}
    comparisons = {lang: compare_sides(sides[lang], lang) for lang in LANGUAGES}
    shown = []
    for place, side in enumerate(first):
        reports = {lang: sides[lang][place].report for lang in LANGUAGES}
        picture = timeline(
            side.trace, side.report, more=comparisons["en"].group_evidence(place), step=comparisons["en"].sides[place].step
        )
        shown.append(diff_html.ShownSide(reports, picture))
    return comparisons, shown


def data(*names: str) -> dict[str, Any]:
    text = diff_html.render(*made(*names), "en")
    payload = re.search(r'id="payload">([A-Za-z0-9+/=]*)</script>', text)
    assert payload is not None
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(payload[1])))
    return found


def names_of(side: dict[str, Any], slices: list[int]) -> list[str]:
    names = [side["timeline"]["strings"][name] for lane in side["timeline"]["lanes"] for name in lane["name"]]
    return [names[slice_] for slice_ in slices]


@pytest.mark.parametrize("names", [("eager", "compiled"), ("eager", "compiled", "short"), ("short", "eager")])
def test_each_group_leads_to_its_gpu_ops(names: tuple[str, ...]) -> None:
    found = data(*names)
    comparison = made(*names)[0]["en"]
    assert len(found["proofs"]) == len(comparison.pairs) == len(names) - 1
    for proofs, pair in zip(found["proofs"], comparison.pairs, strict=True):
        assert pair.kernels
        assert len(proofs) == len(pair.kernels) + sum(c.certain for c in pair.findings)
        for (left, right), group in zip(proofs, pair.kernels, strict=False):
            for place, at, rows in ((0, left, group.base_evidence), (pair.new, right, group.new_evidence)):
                side = found["sides"][place]
                shown = [] if at < 0 else side["timeline"]["evidence"][at]
                assert names_of(side, shown) == [row.name for row in rows]


def test_the_step_of_the_evidence_is_shown_first() -> None:
    found = data("eager", "compiled")
    for side in found["sides"]:
        [step] = [s for s in side["timeline"]["steps"] if s["index"] == side["step"]]
        begin, end = side["timeline"]["view"]
        assert begin < step["start"] < step["gpu_end"] < end
        lanes = [lane for lane in side["timeline"]["lanes"] if lane["kind"] == "gpu"]
        assert sum(len(lane["start"]) for lane in lanes) > 0


@pytest.mark.parametrize("lang", LANGUAGES)
def test_words_are_those_of_the_comparison(lang: str) -> None:
    found = data("eager", "compiled", "short")
    comparison = made("eager", "compiled", "short")[0][lang]
    shown = found["diffs"][lang]
    for page, pair in zip(shown["pairs"], comparison.pairs, strict=True):
        assert (page["headline"], page["points"], page["needed"]) == (pair.headline, pair.points, pair.needed)
        assert [text for text, _ in page["conditions"]] == [c.text for c in pair.conditions]
    rows = {row[0]: row[1:] for row in shown["pairs"][0]["tables"][0]["rows"]}
    assert rows[TEXTS("fig-kernels", lang)] == ["12", "9", "-3", "less"]
    assert [row[0] for row in shown["many"]["rows"]] == [side.name for side in comparison.sides]


def test_a_pair_has_no_table_of_several() -> None:
    assert data("eager", "compiled")["diffs"]["en"]["many"] is None


def test_more_compiled_regions_are_neither_good_nor_bad() -> None:
    comparisons, shown = made("eager", "compiled")
    figures = [Figure(name, "structure", 1.0, 2.0, "more") for name in ("regions", "graphs", "kernels")]
    pairs = [msgspec.structs.replace(pair, figures=figures) for pair in comparisons["en"].pairs]
    page = diff_html.page_data({"en": msgspec.structs.replace(comparisons["en"], pairs=pairs)}, shown, "en")
    [table] = [t for t in page["diffs"]["en"]["pairs"][0]["tables"] if t["heads"][0] == TEXTS("col-figure", "en")]
    assert [row[-1] for row in table["rows"]] == ["", "", "more"]
